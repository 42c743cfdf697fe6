#!/usr/bin/env bash
# Hypotheses a second of the rewards, batches of 64 sentences x 8 candidates, beside sacreBLEU's
# sentence_bleu and sentence_chrf, METEOR 1.5 and sentence-transformers' StaticEmbedding on the same
# strings.
#
#     recipes/benchmarks/reward.sh [--batches 4 --rounds 5 ...]
#
# Arguments go to reward.py (see its --help). One thread, CPU time; rounds in turns, each of other
# sentences. METEOR needs a Java runtime; without it its row is left out, and the last line says so.
# Its time is that of its process and of ours, its start and its tables in the first round.
#
# Settings (environment variables, with their defaults):
#   WORK       work/benchmarks in the repository: the peers' environment, the exported encoder
#   SIMILE_VENV, PIP_INDEX_URL, ...: the installation's settings, see recipes/common.sh
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
WORK=${WORK:-$ROOT/work/benchmarks}
mkdir -p "$WORK"

setup_venv
# shellcheck source=recipes/benchmarks/peers.sh
. "$ROOT/recipes/benchmarks/peers.sh"
setup_peers
"$PEERS/bin/python" -c 'import pycocoevalcap' 2>/dev/null ||
    "$PEERS/bin/python" -m pip install -q --disable-pip-version-check --no-deps pycocoevalcap

PYTHONPATH=$ROOT HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1 \
    TOKENIZERS_PARALLELISM=false "$PEERS/bin/python" -m recipes.benchmarks.reward \
    --work "$WORK" "$@"

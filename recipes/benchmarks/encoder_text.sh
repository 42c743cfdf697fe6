#!/usr/bin/env bash
# Speed of text -> vector: ours beside sentence-transformers' StaticEmbedding and model2vec.
#
#     recipes/benchmarks/encoder_text.sh
#
# One encoder (ENCODER, or 30,000 pieces trained on the texts, with random vectors) is exported to
# each library, so that all have the same vocabulary and, checked first, the same vectors. Texts:
# English sides under SIMILE_DATA, or generated ones. Repeats are interleaved; the fastest of each
# counts, which a busy machine disturbs least.
#
# Settings (environment variables, with their defaults):
#   WORK       work/benchmarks in the repository: the peers' environment, exported models
#   ENCODER    an encoder folder to use
#   SENTENCES  20000 texts
#   REPEATS    5
#   THREADS    "1 2" numbers of threads to try
#   SIMILE_VENV, PIP_INDEX_URL, ...: the installation's settings, see recipes/common.sh
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/benchmarks}
mkdir -p "$WORK"

setup_venv
# shellcheck source=recipes/benchmarks/peers.sh
. "$ROOT/recipes/benchmarks/peers.sh"
setup_peers

# Texts and models are the same for all numbers of threads; HF_HUB_OFFLINE: nothing is looked up.
for threads in ${THREADS:-1 2}; do
    say "text -> vector, $threads thread(s)"
    PYTHONPATH=$ROOT HF_HUB_OFFLINE=1 OMP_NUM_THREADS=$threads RAYON_NUM_THREADS=$threads \
        TOKENIZERS_PARALLELISM=true \
        "$PEERS/bin/python" "$ROOT/recipes/benchmarks/encoder_text.py" --work "$WORK" \
        --threads "$threads" --sentences "${SENTENCES:-20000}" --repeats "${REPEATS:-5}" \
        --encoder "${ENCODER:-}"
done

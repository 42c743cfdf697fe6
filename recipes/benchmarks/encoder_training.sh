#!/usr/bin/env bash
# Speed of encoder training: ours beside sentence-transformers' StaticEmbedding with two of its
# losses and, if a clone of it is named, the trainer of "Paraphrastic Representations at Scale".
#
#     recipes/benchmarks/encoder_training.sh [CLONE]
#
# All train 300 dimensions of the same pieces on the same pairs, segmented before, in minibatches of
# 128 pairs; ours and at-scale's look for the hardest negatives among 60 minibatches, which
# sentence-transformers' losses do in one minibatch (mnr) or for one step of 60 (megabatch). The
# sides take turns; medians count.
#
#   CLONE      folder of a clone of github.com/jwieting/paraphrastic-representations-at-scale
#
# Settings (environment variables, with their defaults):
#   WORK       work/benchmarks in the repository: the peers' environment, the pairs
#   PAIRS      a folder of simile binarize-pairs; default: pairs of a made-up language
#   COUNT      200000  such pairs (16770000 as the paper has: what memory our training needs, its JSON says)
#   ROUNDS     3
#   SECONDS_   10     measured of each side in a round
#   THREADS    the number of cores
#   SIMILE_VENV, PIP_INDEX_URL, ...: the installation's settings, see recipes/common.sh
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
CLONE=${1:-}
[ -z "$CLONE" ] || [ -f "$CLONE/pairing.py" ] ||
    die "$CLONE: no pairing.py there; expected a clone of the repository named in --help"
WORK=${WORK:-$ROOT/work/benchmarks}
mkdir -p "$WORK"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
# shellcheck source=recipes/benchmarks/peers.sh
. "$ROOT/recipes/benchmarks/peers.sh"
setup_peers
export PYTHONPATH=$ROOT HF_HUB_OFFLINE=1
THREADS=${THREADS:-$(cores)}
export OMP_NUM_THREADS=$THREADS
side() { # PYTHON SIDE FLAGS...
    local python=$1
    shift
    "$python" "$ROOT/recipes/benchmarks/encoder_training.py" "$1" "$PAIRS" \
        --threads "$THREADS" --seconds "${SECONDS_:-10}" "${@:2}"
}

if [ -z "${PAIRS:-}" ]; then
    PAIRS=$WORK/pairs.${COUNT:=200000}.bin
    [ -e "$PAIRS/manifest.json" ] || {
        say "Making pairs"
        python "$ROOT/recipes/benchmarks/encoder_training.py" make "$PAIRS" --pairs "$COUNT"
    }
fi
say "Training on $PAIRS, $THREADS threads"
: >"$WORK/encoder_training.jsonl"
for round in $(seq "${ROUNDS:-3}"); do
    say "Round $round"
    {
        side python simile
        side "$PEERS/bin/python" sentence-transformers --loss mnr
        side "$PEERS/bin/python" sentence-transformers --loss megabatch
        if [ -n "$CLONE" ]; then side "$PEERS/bin/python" at-scale --clone "$CLONE"; fi
    } | tee -a "$WORK/encoder_training.jsonl"
done
python "$ROOT/recipes/benchmarks/encoder_training.py" table "$WORK/encoder_training.jsonl"

#!/usr/bin/env bash
# Memory of the encoder's training data at the scale of ParaNMT, and speed of binarizing.
#
#     recipes/benchmarks/encoder_memory.sh [PAIRS]
#
# Writes PAIRS synthetic binarized pairs (default 16,770,000: about 1.4 GB in $TMPDIR, removed at the
# end), opens them in fresh processes, and states the anonymous resident memory (RssAnon of
# /proc/self/status: all that is not the mapped file) while it draws random mega-batches of an
# epoch and while it trains 30,000 x 300 embeddings at M = 60. Ends with an error above 2 GB.
# With SIMILE_DATA, also times `simile binarize-pairs` on the pairs that are there.
# Linux; about two minutes.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
setup_venv

say "Memory of training on ${1:-16770000} pairs"
python "$ROOT/recipes/benchmarks/encoder_memory.py" training "${1:-16770000}"

if [ -n "${SIMILE_DATA:-}" ]; then
    say "Speed of binarizing"
    python "$ROOT/recipes/benchmarks/encoder_memory.py" binarize "$SIMILE_DATA"/paraphrases/quora.*.gz \
        "$SIMILE_DATA"/paraphrases/twitter-url.*.gz "$SIMILE_DATA"/paraphrases/paranmt-10k.tsv.gz
fi

#!/usr/bin/env bash
# Memory of the encoder's training data at the scale of ParaNMT.
#
#     recipes/benchmarks/encoder_memory.sh [PAIRS]
#
# Writes PAIRS synthetic binarized pairs (default 16,770,000: about 1.4 GB in $TMPDIR, removed at the
# end), opens them in fresh processes, and states the anonymous resident memory (RssAnon of
# /proc/self/status: all that is not the mapped file) while it draws random mega-batches of an
# epoch and while it trains 30,000 x 300 embeddings at M = 60. Ends with an error above 2 GB.
# Linux; about two minutes.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
setup_venv

say "Memory of training on ${1:-16770000} pairs"
python "$ROOT/recipes/benchmarks/encoder_memory.py" "${1:-16770000}"

#!/usr/bin/env bash
# Speed of every kind of encoder: training pairs a second, and sentences encoded a second on the
# papers' protocol (128,000 sentences, text to vector, in batches of 128).
#
#     recipes/benchmarks/encoder_kinds.sh [KIND...]
#
#   KIND       sp word trigram charagram sp+trigram lstm blstm gran (default: all of these)
#
# Each kind is made for the pairs, trained for some seconds with random weights at first, and timed
# in CPU time of the process, which a busy machine disturbs least.
#
# Settings (environment variables, with their defaults):
#   PAIRS      a TSV of pairs; default: paranmt-10k and twitter-url under SIMILE_DATA
#   SENTENCES  128000 sentences, those of the pairs over and over
#   SECONDS_   20     of training that are timed
#   DIM        300    of embeddings and states
#   MEGABATCH  20     minibatches of 128 pairs that negatives are looked for in
#   THREADS    1
#   WORK       work/benchmarks in the repository
#   SIMILE_VENV, PIP_INDEX_URL, ...: the installation's settings, see recipes/common.sh
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
WORK=${WORK:-$ROOT/work/benchmarks}
mkdir -p "$WORK"

setup_venv
if [ -z "${PAIRS:-}" ]; then
    [ -n "${SIMILE_DATA:-}" ] || die "no pairs: set PAIRS to a TSV, or SIMILE_DATA"
    PAIRS=$WORK/kinds.tsv
    gzip -dc "$SIMILE_DATA"/paraphrases/{paranmt-10k,twitter-url.train}.tsv.gz >"$PAIRS"
fi
PYTHONPATH=$ROOT OMP_NUM_THREADS=${THREADS:-1} python "$ROOT/recipes/benchmarks/encoder_kinds.py" \
    "$PAIRS" --kinds "$@" --threads "${THREADS:-1}" --sentences "${SENTENCES:-128000}" \
    --seconds "${SECONDS_:-20}" --dim "${DIM:-300}" --megabatch "${MEGABATCH:-20}"

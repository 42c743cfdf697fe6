#!/usr/bin/env bash
# All of ParaNMT-50M's way to the trainer, timed on made-up lines: filtering, then binarising.
#
#     SIMILE_DATA=... recipes/benchmarks/paranmt_scale.sh [LINES]
#
# Writes LINES lines (default 51,409,585, as many as the archive has) in the archive's layout,
# reference TAB translation TAB score: the paraphrases under SIMILE_DATA over and over, one of their
# words drawn anew on each side so that pairs differ, with random scores. Then, on one core,
#
#     simile filter-pairs --score-column 3 --min-score 0.5
#     simile binarize-pairs --vocab-size 30000
#
# and says pairs a second, CPU hours and the memory of the largest process of each. With all lines
# two hours and 15 GB on disk in WORK (default: work/paranmt in the repository); what is done is
# not repeated. Linux.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
[ -d "${SIMILE_DATA:-}/paraphrases" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with paraphrases/ in it"
count=${1:-51409585}
[[ $count =~ ^[1-9][0-9]*$ ]] || die "LINES: got '$count', expected a number above 0"
WORK=${WORK:-$ROOT/work/paranmt}
setup_venv
mkdir -p "$WORK"
script=$ROOT/recipes/benchmarks/paranmt_scale.py

once made python "$script" write "$WORK/lines.tsv" "$count" \
    "$SIMILE_DATA"/paraphrases/paranmt-10k.tsv.gz "$SIMILE_DATA"/paraphrases/quora.*.gz
AFTER=made once filter python "$script" time "$WORK/filter.json" simile filter-pairs \
    "$WORK/lines.tsv" --score-column 3 --min-score 0.5 --workers 1 \
    --output "$WORK/pairs.tsv"
AFTER=filter once binarise python "$script" time "$WORK/binarise.json" simile binarize-pairs \
    "$WORK/pairs.tsv" --vocab-size 30000 --workers 1 --output "$WORK/pairs.bin" --overwrite
python "$script" table "$WORK/lines.tsv" "$WORK/filter.json" \
    "$WORK/pairs.tsv" "$WORK/binarise.json"

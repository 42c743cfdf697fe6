#!/usr/bin/env bash
# Time and peak memory of one risk-training update, by phase, beside a plain port and a floor.
#
#   recipes/benchmarks/update.sh                  # the table of README.md
#   recipes/benchmarks/update.sh --candidates 1 2 4 8 16 32 --plot n.svg --sentences 10
#
# Arguments go to update.py (see its --help) and replace the default models.
#
# Settings (environment variables, with their defaults):
#   WORK   work/multi30k in the repository: the folder of recipes/multi30k/run.sh, of which the
#          steps encoder, bin and mle must be done
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/multi30k}

case ${1:-} in
-h | --help)
    sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit
    ;;
esac

setup_venv
for part in bin encoder mle/checkpoint_best.pt; do
    [ -e "$WORK/$part" ] || die "$WORK/$part: not there; run recipes/multi30k/run.sh first (or set WORK)"
done
export PYTHONPATH=$ROOT PYTHONWARNINGS=ignore
data=(--data "$WORK/bin" --encoder "$WORK/encoder")

if [ $# -gt 0 ]; then
    python -m recipes.benchmarks.update "${data[@]}" --checkpoint "$WORK/mle/checkpoint_best.pt" "$@"
    exit
fi
python -m recipes.benchmarks.update "${data[@]}" --checkpoint "$WORK/mle/checkpoint_best.pt"
for model in fconv iwslt; do
    python -m recipes.benchmarks.update "${data[@]}" --model "$model" --max-len 14 --updates 1
done

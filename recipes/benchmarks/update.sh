#!/usr/bin/env bash
# Time and peak memory of one risk-training update, by phase, beside a plain port and a floor.
#
#   recipes/benchmarks/update.sh                  # the table of docs/results/speed.md
#   recipes/benchmarks/update.sh --candidates 1 2 4 8 16 32 64 --sentences 10
#
# Arguments go to update.py (see its --help) and replace the default models.
#
# Settings (environment variables, with their defaults):
#   WORK   work/multi30k in the repository: the folder of recipes/multi30k/run.sh, of which the
#          steps encoder, bin and mle must be done
#   ENCODER   the reward encoder; default: the one that run.sh made
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
WORK=${WORK:-$ROOT/work/multi30k}

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
ENCODER=${ENCODER:-$(multi30k_encoder "$WORK")}
for part in "$ENCODER" "$WORK/bin" "$WORK/mle/checkpoint_best.pt"; do
    [ -e "$part" ] || die "$part: not there; run recipes/multi30k/run.sh first (or set WORK)"
done
export PYTHONPATH=$ROOT PYTHONWARNINGS=ignore
data=(--data "$WORK/bin" --encoder "$ENCODER")

if [ $# -gt 0 ]; then
    python -m recipes.benchmarks.update "${data[@]}" --checkpoint "$WORK/mle/checkpoint_best.pt" "$@"
    exit
fi
python -m recipes.benchmarks.update "${data[@]}" --checkpoint "$WORK/mle/checkpoint_best.pt"
python -m recipes.benchmarks.update "${data[@]}" --model fconv --max-len 14 --updates 1
python -m recipes.benchmarks.update "${data[@]}" --model iwslt --max-len 14 --updates 1 --sentences 10
python -m recipes.benchmarks.update "${data[@]}" --model base --vocabulary 32000 --max-len 14 \
    --updates 1 --sentences 6

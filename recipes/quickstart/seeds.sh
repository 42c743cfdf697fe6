#!/usr/bin/env bash
# The quickstart with several seeds, of data and trainings alike, and one table of all of them.
# What is done is skipped when it is run again.
#
#   recipes/quickstart/seeds.sh
#
# Settings (environment variables, with their defaults):
#   SEEDS   "1 2 3 4 5"
#   WORK    work/quickstart-seeds in the repository; a folder a seed
#   and those of run.sh; REWARDS has to hold bleu and simile
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/quickstart-seeds}
read -ra seeds <<<"${SEEDS:-1 2 3 4 5}"

no_arguments "$@"
for reward in bleu simile; do
    [[ " ${REWARDS:-bleu simile} " = *" $reward "* ]] ||
        die "REWARDS: got '$REWARDS', expected bleu and simile among them, which the table compares"
done

setup_venv
for seed in "${seeds[@]}"; do
    WORK=$WORK/$seed SEED=$seed bash "$ROOT/recipes/quickstart/run.sh"
done

# meaning SEED SYSTEM: share of right meanings, in percent.
meaning() {
    awk '{ sum += $1 } END { printf "%.1f", 100 * sum / NR }' "$WORK/$1/out/$2.meaning"
}

systems=(mle bleu simile)
for system in "${systems[@]}"; do
    for part in txt meaning; do
        (cd "$WORK" && cat "${seeds[@]/%//out/$system.$part}") >"$WORK/$system.$part"
    done
done
(cd "$WORK" && cat "${seeds[@]/%//toy/test.en}") >"$WORK/test.en"

say "Meaning by seed"
{
    echo "| seed | MLE | BLEU | SIMILE |"
    echo "|---:|---:|---:|---:|"
    for seed in "${seeds[@]}"; do
        echo "| $seed | $(meaning "$seed" mle) | $(meaning "$seed" bleu) | $(meaning "$seed" simile) |"
    done
} | tee "$WORK/seeds.md"

say "All test sets together"
arguments=()
for system in "${systems[@]}"; do
    arguments+=(--sys "${system^^}=$WORK/$system.txt")
    arguments+=(--sentence-scores "meaning:${system^^}=$WORK/$system.meaning")
done
simile report --ref "$WORK/test.en" "${arguments[@]}" --out "$WORK/results.md"

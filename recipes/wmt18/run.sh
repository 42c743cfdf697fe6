#!/usr/bin/env bash
# The experiment of "Beyond BLEU" for one language, from nothing to its tables and figures: data, reward
# encoder, MLE model, risk-trained models for every cost, gamma and seed, and for several sizes of
# n-best lists, and WORK/ARCH/report.html, which has the languages that were run before, too.
# Run it again after an interruption: what is done is skipped, trainings resume.
#
#   recipes/wmt18/run.sh cs|de|ru|tr [--arch NAME]
#
#   --arch   fconv    the paper's model, optimiser and schedule, the objective of its code (default)
#            paper    the same with the objective as the paper prints it
#            modern   a Transformer with Adam
#            cpu      stand-in: the paper's model at a size for one core
#            tiny     a minute, to see every step run
#
# Settings (environment variables, with their defaults):
#   COSTS         "bleu half simile"
#   GAMMAS        "0.2 0.3 0.4"    one is chosen on validation, by each measure that is reported
#   SEEDS         "1 2"            of each risk training
#   SIZES         n-best sizes of Figure 13, for bleu and simile; default, as in the paper: of de
#                 "2 4 8 16", of the others none
#   WORK, SIMILE_DATA, ENCODER, SIM, FLAGS    see step.sh --help
#
# All languages at once, on several GPUs or by Slurm: the Snakefile beside this file.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "${@:---help}"
src=$1
shift
case ${1:-} in
'') ;;
--arch) [ $# = 2 ] || die "--arch: expected one name after it" && export ARCH=$2 ;;
*) die "got '$1', see --help" ;;
esac
COSTS=${COSTS:-bleu half simile}
GAMMAS=${GAMMAS:-0.2 0.3 0.4}
SEEDS=${SEEDS:-1 2}
[ "$src" != de ] || SIZES=${SIZES-2 4 8 16}
export SIZES=${SIZES:-}
step=$ROOT/recipes/wmt18/step.sh

say "WMT 2018 $src-en, ${ARCH:-fconv}: data"
"$step" data "$src"
"$step" bin "$src"
say "Reward encoder"
"$step" encoder
say "What this will take"
"$step" estimate "$src" "$COSTS" "$GAMMAS" "$SEEDS"
say "MLE model"
"$step" mle "$src"
for seed in $SEEDS; do
    for gamma in $GAMMAS; do
        for cost in $COSTS; do
            say "Risk training: $cost, gamma $gamma, seed $seed"
            "$step" risk "$src" "$cost" "$gamma" "$seed"
        done
    done
done
for size in $SIZES; do
    for cost in bleu simile; do
        case " $COSTS " in *" $cost "*) ;; *) continue ;; esac
        say "Lists of $size candidates: $cost"
        "$step" size "$src" "$cost" "$size" "$GAMMAS" "$SEEDS"
    done
done
say "Report"
"$step" report "$src" "$COSTS" "$GAMMAS" "$SEEDS"
# The page of the experiment has the languages that were run before, too.
languages=()
for language in cs de ru tr; do
    [ ! -e "${WORK:-$ROOT/work/wmt18}/${ARCH:-fconv}/$language/results/test.flags" ] ||
        languages+=("$language")
done
"$step" table "${languages[*]}"

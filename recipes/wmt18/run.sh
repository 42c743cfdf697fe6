#!/usr/bin/env bash
# The experiment of "Beyond BLEU", from nothing to its tables and figures: data, reward encoder, MLE
# model, risk-trained models for every cost, gamma and seed, and for several sizes of n-best lists, and
# WORK/ARCH/report.html of the languages that are named.
# Run it again after an interruption, or with more languages: what is done is skipped, trainings resume.
#
#   recipes/wmt18/run.sh cs|de|ru|tr... [--arch NAME]
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
# It starts the Snakefile beside it, which also runs by Slurm.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "${@:---help}"
languages=() arch=fconv
while [ $# -gt 0 ]; do
    case $1 in
    --arch) [ $# -gt 1 ] || die "--arch: expected one name after it" && arch=$2 && shift ;;
    -*) die "got '$1', see --help" ;;
    *) languages+=("$1") ;;
    esac
    shift
done
here=$ROOT/recipes/wmt18
[ -d "$here/config/$arch" ] || die "--arch: got '$arch', expected one of: $(cd "$here/config" && echo *)"
WORK=$(realpath -m "${WORK:-$ROOT/work/wmt18}")
settings=(languages="${languages[*]}" arch="$arch" work="$WORK")
[ -z "${SIMILE_DATA:-}" ] || settings+=(data="$(realpath "$SIMILE_DATA")")
[ -z "${ENCODER:-}" ] || settings+=(encoder="$(realpath "$ENCODER")")
for name in COSTS GAMMAS SEEDS SIZES; do
    [ -z "${!name+set}" ] || settings+=("${name,,}=${!name}")
done
[ -z "${SIZES:-}" ] || settings+=(sizes_of="${languages[*]}")

setup_venv grid
gpus=$(python -c 'import torch; print(max(1, torch.cuda.device_count()))') # without any: one at a time
mkdir -p "$WORK"
exec snakemake -s "$here/Snakefile" --directory "$WORK" --cores "$(cores)" --resources gpu="$gpus" \
    --keep-going --rerun-incomplete --nolock --config "${settings[@]}"

#!/usr/bin/env bash
# Everything that has to be learned on a GPU, in one command: does it install and pass its tests
# there, how long does an update take and what is the GPU waiting for, how fast is encoder training,
# a real job, what happens where memory ends. Run it again to go on: what was measured stays.
#
#   SIMILE_DATA=... recipes/gpu/run.sh [--rehearse] [PART...]
#
#   PART         install, tests, data, update, encoder, job, memory; default: all of them in turn
#   --rehearse   everything in miniature on the CPU, in a few minutes; needs no GPU
#
# A part is made of cells. It writes the result of each into WORK/PART.json, begins none that would
# end after its budget, and leaves out those that are there. The end: WORK/results.md, one table.
# A fresh machine without network installs from a folder of recipes/wheelhouse.sh:
#
#   SIMILE_TORCH=keep PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER recipes/gpu/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with newstest/de-en, tatoeba-de-en, europarl20k-de-en and multi30k/task1
#   WORK          work/gpu in the repository (work/gpu-rehearsal): everything that is made
#   BUDGET        420   seconds of each part (job: 720, its four trainings and translations)
#   ENCODER       a reward encoder's folder; default: a small one of the bitext is trained
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
known="install tests data update encoder job memory"
mode=() parts=()
for word in "$@"; do
    case " $known " in
    *" $word "*) parts+=("$word") ;;
    *) [ "$word" = --rehearse ] ||
        die "got '$word'; expected --rehearse or parts of: $known (see --help)"
        mode=(--rehearse) ;;
    esac
done
[ "${#parts[@]}" -gt 0 ] || read -ra parts <<<"$known"
WORK=${WORK:-$ROOT/work/gpu${mode:+-rehearsal}}

begin=$SECONDS
setup_venv
python -c 'import hypothesis, pytest' 2>/dev/null || _pip_install pytest hypothesis # part tests
say "Installed, or found so, in $((SECONDS - begin)) s"
export PYTHONPATH=$ROOT PYTHONWARNINGS=ignore
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} # one: fairseq takes all that it sees
open=()
if [ "${#mode[@]}" -gt 0 ]; then # one process: most of the time would go into starting them
    python -m recipes.gpu.measure "${parts[@]}" page --work "$WORK" --rehearse ||
        die "the rehearsal failed, see above"
    exit
fi
for part in "${parts[@]}"; do
    say "Part $part"
    budget=${BUDGET:-420}
    [ "$part" != job ] || budget=${BUDGET:-720}
    python -m recipes.gpu.measure "$part" --work "$WORK" --budget "$budget" ||
        open+=("$part")
done
python -m recipes.gpu.measure page --work "$WORK"
[ "${#open[@]}" = 0 ] || die "failed or not finished: ${open[*]}; run again to go on from there"

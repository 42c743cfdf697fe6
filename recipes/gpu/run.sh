#!/usr/bin/env bash
# Everything that has to be learned on a GPU, in one command: do the tests pass there, how long does
# an update take and what is the GPU waiting for, how fast is encoder training, what happens
# where memory ends. Run it again to go on: what was measured stays.
#
#   SIMILE_DATA=... recipes/gpu/run.sh [--rehearse] [PART...]
#   recipes/gpu/run.sh --lease [--rehearse] [PART...]
#
#   PART         data, install, tests, update, hugging_face, encoder, memory; default: all of
#                them in turn. data needs no GPU.
#   --lease      of a GPU that is lent for minutes and has no network: without `data`, which was made
#                elsewhere
#   --rehearse   everything in miniature on the CPU, in a few minutes; needs no GPU
#
# A part is made of cells. It writes the result of each into WORK/results.json, begins none that
# would end after BUDGET, and leaves out those that are there.
# A fresh machine without network installs from a folder of recipes/wheelhouse.sh:
#
#   SIMILE_TORCH=keep PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER recipes/gpu/run.sh --lease
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with newstest/de-en, tatoeba-de-en, europarl20k-de-en and multi30k/task1
#   WORK          work/gpu in the repository (work/gpu-rehearsal): everything that is made
#   BUDGET        seconds of all parts and the installation; with --lease 480
#   ENCODER       default   the reward encoder: a folder, or the English one of the package
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
lease="install tests update hugging_face encoder memory"
known="data $lease"
mode=() parts=() default=$known
for word in "$@"; do
    case "$word" in
    --lease) default=$lease ;;
    --rehearse) mode=(--rehearse) ;;
    *) [[ " $known " = *" $word "* ]] ||
        die "got '$word'; expected --lease, --rehearse or parts of: $known (see --help)"
        parts+=("$word") ;;
    esac
done
[ "${#parts[@]}" -gt 0 ] || read -ra parts <<<"$default"
WORK=${WORK:-$ROOT/work/gpu${mode:+-rehearsal}}
if [ "$default" = "$lease" ] && [ "${#mode[@]}" = 0 ]; then
    BUDGET=${BUDGET:-480}
fi

begin=$SECONDS
setup_venv
python -c 'import hypothesis, pytest' 2>/dev/null || _pip_install pytest hypothesis # part tests
say "Installed, or found so, in $((SECONDS - begin)) s"
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} PYTHONWARNINGS=ignore
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} # one: fairseq takes all that it sees
[ -z "${BUDGET:-}" ] || mode+=(--budget $((BUDGET - SECONDS + begin)))
python -m recipes.gpu.measure "${parts[@]}" --work "$WORK" "${mode[@]}" ||
    die "failed or not finished, see above; run again to go on from there"

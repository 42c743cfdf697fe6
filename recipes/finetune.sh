#!/usr/bin/env bash
# Fine-tunes your own fairseq model by minimum risk training with the semantic reward.
#
#   recipes/finetune.sh DATA-BIN MLE-CHECKPOINT ENCODER [SAVE-DIR] [fairseq-train flags...]
#
#   DATA-BIN        the folder that fairseq-preprocess made for the model
#   MLE-CHECKPOINT  a trained encoder-decoder (transformer, fconv, lstm); its flags are read from it
#   ENCODER         a reward encoder of the target language, made by simile train-encoder
#   SAVE-DIR        default: simile_risk; run again to resume there
#
# More flags override those set here, for example:
#   --reward half          --mle-weight 0.4       --risk-cost-scale 3
#   --risk-alpha 0.3       --risk-cost-scale 30   (not with SIMILE; docs/training.md: how sharp a Q?)
#   --max-update 2000      --batch-size 20        --update-freq 4        --fp16
# Every flag of the criterion: fairseq-train --user-dir user_dir --criterion simile_risk --help
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

show_help "${@:---help}"
[ $# -ge 3 ] || die "expected DATA-BIN MLE-CHECKPOINT ENCODER, got $# arguments (see --help)"
data=$1 checkpoint=$2 encoder=$3
shift 3
save_dir=simile_risk
case ${1:-} in
'' | -*) ;;
*) save_dir=$1 && shift ;;
esac
for path in "$data" "$save_dir"; do # in which fairseq would see several
    [[ $path != *:* ]] || die "got '$path', expected a path without ':'"
done
[ -d "$data" ] || die "DATA-BIN: no such folder: $data"
[ -f "$checkpoint" ] || die "MLE-CHECKPOINT: no such file: $checkpoint"
[ -d "$encoder" ] || die "ENCODER: no such folder: $encoder"
case " $*" in
*" --save-dir"*) die "--save-dir: give SAVE-DIR as the fourth argument (see --help)" ;;
esac
best=(--best-checkpoint-metric bleu --maximize-best-checkpoint-metric)
case " $*" in
*" --best-checkpoint-metric"*) best=() ;; # the second flag cannot be taken back
esac

setup_venv
mapfile -t model < <(python "$ROOT/recipes/model_flags.py" "$checkpoint")
[ "${#model[@]}" -gt 0 ] || exit 2
say "Fine-tuning $checkpoint into $save_dir (model: ${model[*]})"
reason=$(mkdir -p "$save_dir" 2>&1) || die "SAVE-DIR: ${reason#mkdir: }"
# fairseq would go on with what is there, and not look at another model.
model_sum=$(sha256sum <"$checkpoint")
[ ! -e "$save_dir/checkpoint_last.pt" ] || [ ! -e "$save_dir/mle.sha256" ] ||
    [ "$(cat "$save_dir/mle.sha256")" = "$model_sum" ] ||
    die "SAVE-DIR: the training in $save_dir began from another model than $checkpoint;" \
        "give another folder, or remove it"
echo "$model_sum" >"$save_dir/mle.sha256"
PYTHONWARNINGS=ignore fairseq-train "$data" --user-dir "$ROOT/user_dir" "${model[@]}" \
    --finetune-from-model "$checkpoint" --save-dir "$save_dir" \
    --criterion simile_risk --reward simile --simile-encoder "$encoder" \
    --optimizer adam --adam-betas "(0.9, 0.98)" --lr 1e-4 --lr-scheduler fixed --clip-norm 5 \
    --batch-size 30 --required-batch-size-multiple 1 --max-epoch 10 \
    --validate-interval-updates 500 --save-interval-updates 500 --keep-interval-updates 3 \
    --no-epoch-checkpoints --patience 10 \
    "${best[@]}" "$@" 2>&1 |
    tee -a "$save_dir/train.log"
say "Best checkpoint on validation: $save_dir/checkpoint_best.pt; log: $save_dir/train.log"
if [ -f "$save_dir/checkpoint_best.pt" ] && python - "$save_dir/checkpoint_best.pt" <<'PY'; then
import sys
from simile_plugin.fairseq_hooks import allow_fairseq_checkpoints, read_checkpoint

allow_fairseq_checkpoints()
sys.exit(read_checkpoint(sys.argv[1])["optimizer_history"][-1]["num_updates"] > 0)
PY
    echo "   (it is the model of $checkpoint: no validation was better; see docs/training.md, \"Why does BLEU fall?\")"
fi
say "Chart of both validation costs: simile report --log SIMILE=$save_dir/train.log --svg curves.svg"

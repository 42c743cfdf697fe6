#!/usr/bin/env bash
# How many candidates does risk training need? Trains with N = 2, 4, 8, ... for both rewards, from
# what run.sh has made, and plots test BLEU and SIM against N.
# Run it again after an interruption: finished systems are skipped, trainings resume.
#
#   recipes/multi30k/nbest.sh
#
# Settings (environment variables, with their defaults):
#   WORK          work/multi30k in the repository: a folder that run.sh has filled
#   SRC, TGT      de, en    languages of run.sh
#   REF           WORK/raw/test.TGT  references of the test set
#   ENCODER       the reward encoder; default: the one that run.sh made
#   SIZES         "2 4 8 16"         values of N
#   REWARDS       "bleu simile"
#   SEEDS         "1"       seeds of each training
#   RISK_UPDATES  200       updates of each training
#   RISK_BATCH    30        sentences an update
#   RISK_LR       1e-4      learning rate
#   MLE_WEIGHT    0.3       gamma
#   COST_SCALE    10        factor on the cost, see README.md
#   JOBS          trainings at once; CPU: the number of cores, GPU: 1
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
#
# Time and memory of a training grow with N.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/multi30k}
SRC=${SRC:-de}
TGT=${TGT:-en}
REF=${REF:-$WORK/raw/test.$TGT}
SIZES=${SIZES:-2 4 8 16}
REWARDS=${REWARDS:-bleu simile}
SEEDS=${SEEDS:-1}
RISK_UPDATES=${RISK_UPDATES:-200}
RISK_BATCH=${RISK_BATCH:-30}
RISK_LR=${RISK_LR:-1e-4}
MLE_WEIGHT=${MLE_WEIGHT:-0.3}
COST_SCALE=${COST_SCALE:-10}

no_arguments "$@"
whole_numbers RISK_UPDATES RISK_BATCH
for size in $SIZES; do
    [[ $size =~ ^[1-9][0-9]*$ ]] || die "SIZES: got '$size', expected whole numbers from 1"
done
for needed in bin mle/checkpoint_best.pt; do
    [ -e "$WORK/$needed" ] || die "WORK: $WORK has no $needed; run recipes/multi30k/run.sh first"
done
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
ENCODER=${ENCODER:-$(multi30k_encoder "$WORK")}
[ -e "$ENCODER" ] || die "ENCODER: no such folder: $ENCODER; run recipes/multi30k/run.sh first"
[ -f "$REF" ] || die "REF: no such file: $REF"

setup_venv
mkdir -p "$WORK/nbest"
choose_jobs "$WORK"
read -ra flags <<<"$FLAGS"

# Everything that decides a system is an argument: `once` repeats one whose arguments have changed.
# train SYSTEM REWARD N SEED UPDATES BATCH LR GAMMA SCALE ENCODER-CONFIG LEARNED-JSON FLAGS...
train() {
    local system=$1 save=$WORK/nbest/$1 model start=$WORK/mle/checkpoint_best.pt
    threads_for "$JOBS"
    begin "$save" "$@" "$start"
    mapfile -t model < <(simile model-flags "$start")
    logged "$WORK/logs/nbest.$system.log" fairseq-train "$WORK/bin" -s "$SRC" -t "$TGT" \
        --user-dir "$ROOT/user_dir" "${model[@]}" --finetune-from-model "$start" --save-dir "$save" \
        --criterion simile_risk --reward "$2" --simile-encoder "$ENCODER" \
        --risk-candidates "$3" --seed "$4" --max-update "$5" --batch-size "$6" \
        --optimizer adam --adam-betas "(0.9, 0.98)" --lr "$7" --lr-scheduler fixed --clip-norm 5 \
        --mle-weight "$8" --risk-cost-scale "$9" --required-batch-size-multiple 1 \
        --validate-interval-updates 500 --save-interval-updates 500 --keep-interval-updates 3 \
        --no-epoch-checkpoints --batch-size-valid 50 --log-format simple --log-interval 10 \
        --best-checkpoint-metric bleu --maximize-best-checkpoint-metric "${@:12}"
    translate_test "$system" "$save/checkpoint_last.pt"
}

translate_test() { # SYSTEM CHECKPOINT
    translate "$WORK/nbest/$1.txt" test "$WORK/bin" -s "$SRC" -t "$TGT" --path "$2" \
        --beam 5 --remove-bpe sentencepiece --batch-size 50 --required-batch-size-multiple 1
}

nbest_system() { # REWARD N SEED
    local reward fitted system
    read_reward "$1"
    system=$(file_name "$1").n$2.$3
    AFTER=mle once "nbest.$system" train "$system" "$reward" "$2" "$3" "$RISK_UPDATES" "$RISK_BATCH" \
        "$RISK_LR" "$MLE_WEIGHT" "$COST_SCALE" "$ENCODER/config.json" "$fitted" "${flags[@]}"
}

check_rewards "$REWARDS"
# Of an earlier MLE model.
[ ! -e "$WORK/.done/mle" ] ||
    find "$WORK/nbest" -maxdepth 1 -name '*.txt' ! -newer "$WORK/.done/mle" -delete
say "Translating the test set with the MLE model"
AFTER=mle once nbest.mle translate_test mle "$WORK/mle/checkpoint_best.pt"
say "Training ${REWARDS// /, } with N = ${SIZES// /, } ($JOBS at once; logs in $WORK/logs)"
for size in $SIZES; do
    for reward in $REWARDS; do
        for seed in $SEEDS; do
            in_background nbest_system "$reward" "$size" "$seed"
        done
    done
done
wait_for_all

say "Test scores against N"
simile report --only nbest --nbest-folder "$WORK/nbest" --ref "$REF" --encoder "$ENCODER" \
    --svg "$WORK/nbest.svg" --out "$WORK/nbest.md"
say "Table: $WORK/nbest.md; chart: $WORK/nbest.svg"

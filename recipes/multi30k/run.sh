#!/usr/bin/env bash
# Multi30k, from raw text to the table: reward encoder, MLE model, risk-trained systems.
# Run it again after an interruption: finished steps are skipped, trainings resume.
#
#   recipes/multi30k/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with multi30k/task1 and multi30k/task2; without it they are downloaded
#   WORK          work/multi30k in the repository: everything that is made
#   ENCODER       a reward encoder's folder, or `default`; else recipes/encoder/run.sh makes one of the
#                 paraphrases under SIMILE_DATA; where there are none, one of the captions is made
#   SRC           de        source language
#   TGT           en        target language; both are of cs, de, en, fr. Another than en needs ENCODER, an
#                           encoder of that language: recipes/encoder/bitext.sh makes one of any
#   MLE_EPOCHS    12        epochs of MLE training
#   RISK_UPDATES  600       updates of each risk training
#   RISK_BATCH    30        sentences an update
#   RISK_LR       2e-4      learning rate of risk training (Adam, falling to 0 in a straight line)
#   MLE_WEIGHT    0.3       gamma
#   RISK_ALPHA    0.3       sharpness of Q (the paper: 1)
#   COST_SCALE    30        factor on the cost; RISK_ALPHA times it is about the size of the gradient
#   REWARDS       "bleu half simile", and "learned learned+bleu" (half of each) where there is one;
#                 more-mle is the control: as many updates of likelihood alone
#   LEARNED       a learned reward's folder (simile fit-reward), fitted with ENCODER; default: where
#                 SIMILE_DATA has judgements/ and ENCODER is not given, recipes/reward/run.sh fits one
#   SEEDS         "1 2"     seeds of each risk training
#   JOBS          trainings at once; CPU: the number of cores, GPU: 1
#   FLAGS         more flags of each risk training (default on a GPU: --fp16)
#   MLE_FLAGS     more flags of the MLE training (default on a GPU: --fp16)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/multi30k}
SRC=${SRC:-de}
TGT=${TGT:-en}
MLE_EPOCHS=${MLE_EPOCHS:-12}
RISK_UPDATES=${RISK_UPDATES:-600}
RISK_BATCH=${RISK_BATCH:-30}
RISK_LR=${RISK_LR:-2e-4}
MLE_WEIGHT=${MLE_WEIGHT:-0.3}
RISK_ALPHA=${RISK_ALPHA:-0.3}
COST_SCALE=${COST_SCALE:-30}
SEEDS=${SEEDS:-1 2}
HERE=$ROOT/recipes/multi30k

no_arguments "$@"
whole_numbers MLE_EPOCHS RISK_UPDATES RISK_BATCH
for name in SRC TGT; do
    grep -q " task1/train\.${!name}\$" "$HERE/SHA256SUMS" ||
        die "$name: got '${!name}', expected cs, de, en or fr"
done
[ "$SRC" != "$TGT" ] || die "TGT: got '$TGT', which is SRC, too"
[ "$TGT" = en ] || [ -n "${ENCODER:-}" ] ||
    die "ENCODER: needed with TGT=$TGT; recipes/encoder/bitext.sh $SRC $TGT makes one"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
mkdir -p "$WORK"/{raw,captions,out}
choose_jobs "$WORK"
read -ra flags <<<"$FLAGS"
read -ra mle_flags <<<"$MLE_FLAGS"

# get FILE OUT: one text file of the corpus, checked against SHA256SUMS (of the unpacked text).
get() {
    local packed=$2.gz
    if [ -n "${SIMILE_DATA:-}" ]; then
        packed=$SIMILE_DATA/multi30k/$1.gz
        [ -f "$packed" ] || die "SIMILE_DATA: no such file: $packed"
    else
        curl -fL --retry 3 -C - -o "$packed" \
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/${1/\//\/raw\/}.gz" ||
            die "cannot download $1; give the corpus by SIMILE_DATA (see recipes/multi30k/README.md)"
    fi
    gzip -dc "$packed" >"$2.new" || die "$packed: damaged; remove it and run again"
    sed -n "s| $1\$|  ${2##*/}.new|p" "$HERE/SHA256SUMS" |
        (cd "$(dirname "$2")" && sha256sum --quiet -c -) ||
        die "$packed: not the expected text (see SHA256SUMS); remove it and run again"
    mv "$2.new" "$2"
}

# Everything that decides a step's result is an argument of its function: `once` repeats a step
# whose arguments have changed.

get_data() { # SRC TGT
    local language number
    for language in "$@"; do
        get "task1/train.$language" "$WORK/raw/train.$language"
        get "task1/val.$language" "$WORK/raw/valid.$language"
        get "task1/test_2016_flickr.$language" "$WORK/raw/test.$language"
    done
    [ "$2" = en ] || return 0 # no captions
    for number in 1 2 3 4 5; do
        get "task2/train.$number.en" "$WORK/captions/train.$number.en"
        gzip -nf "$WORK/captions/train.$number.en"
    done
}

make_encoder() {
    python "$HERE/caption_pairs.py" --captions "$WORK/captions" >"$WORK/captions/pairs.tsv"
    simile train-encoder "$WORK/captions/pairs.tsv" --output "$ENCODER" --vocab-size 8000 --overwrite
}

# Sets ENCODER and LEARNED, and makes what is not there.
reward_encoder() {
    if [ "${ENCODER:-}" = default ]; then
        ENCODER=$(default_encoder)
    fi
    if [ -n "${ENCODER:-}" ]; then
        [ -d "$ENCODER" ] || die "ENCODER: no such folder: $ENCODER"
        say "Reward encoder: $ENCODER"
    elif [ -d "${SIMILE_DATA:-}/paraphrases" ]; then
        say "Training the reward encoder on paraphrases and bitext (recipes/encoder; 10 minutes)"
        WORK=$WORK/reward SEEDS=1 EVALUATE=0 bash "$ROOT/recipes/encoder/run.sh"
        ENCODER=$WORK/reward/encoder.1
        if [ -z "${LEARNED:-}" ] && [ -d "$SIMILE_DATA/judgements" ]; then
            say "Fitting the learned reward to people's judgements (recipes/reward; 5 minutes)"
            OUTPUT=$WORK/learned ENCODER=$ENCODER bash "$ROOT/recipes/reward/run.sh"
            LEARNED=$WORK/learned/reward
        fi
    else
        say "Training the reward encoder on the captions (about 2 minutes)"
        ENCODER=$WORK/encoder
        AFTER=data once encoder make_encoder
    fi
}

model=(--arch transformer --share-all-embeddings --dropout 0.3
    --encoder-layers 2 --encoder-embed-dim 256 --encoder-ffn-embed-dim 512
    --encoder-attention-heads 4 --decoder-layers 2 --decoder-embed-dim 256
    --decoder-ffn-embed-dim 512 --decoder-attention-heads 4)
common=("$WORK/bin" -s "$SRC" -t "$TGT" --user-dir "$ROOT/user_dir" --optimizer adam
    --adam-betas "(0.9, 0.98)" --no-epoch-checkpoints --log-format simple "${model[@]}")

train_mle() { # SRC TGT EPOCHS FLAGS...
    threads_for 1
    begin "$WORK/mle" "$@" "$WORK"/bin/dict.* "$WORK"/bin/train.*
    logged "$WORK/logs/mle.log" fairseq-train "${common[@]}" --save-dir "$WORK/mle" --seed 1 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 2048 \
        --lr 1e-3 --lr-scheduler inverse_sqrt --warmup-updates 600 --clip-norm 5 \
        --max-epoch "$3" --log-interval 50 "${@:4}"
}

# train_risk SYSTEM REWARD SEED UPDATES BATCH LR GAMMA ALPHA SCALE ENCODER-CONFIG LEARNED-JSON FLAGS...
train_risk() {
    local run=$WORK/$1 log=$WORK/logs/$1.log
    threads_for "$JOBS"
    begin "$run" "$@" "$WORK/mle/checkpoint_best.pt"
    [ -e "$run/checkpoint_last.pt" ] || rm -f "$log"
    logged "$log" fairseq-train "${common[@]}" --save-dir "$run" \
        --finetune-from-model "$WORK/mle/checkpoint_best.pt" --seed "$3" \
        --criterion simile_risk --reward "$2" --simile-encoder "$ENCODER" \
        --mle-weight "$7" --risk-alpha "$8" --risk-cost-scale "$9" --label-smoothing 0.1 \
        --lr "$6" --lr-scheduler polynomial_decay --total-num-update "$4" \
        --clip-norm 5 --batch-size "$5" \
        --required-batch-size-multiple 1 --batch-size-valid 50 --max-update "$4" \
        --save-interval-updates 200 --keep-interval-updates 1 --log-interval 10 "${@:12}"
    translate_test "$1" checkpoint_last.pt
}

translate_test() { # SYSTEM CHECKPOINT
    translate_tuned "$WORK/out/$1" "$WORK/bin" -s "$SRC" -t "$TGT" --path "$WORK/$1/$2"
}

list_candidates() { # what risk training starts from: the lists of which the report shows the costs
    generate "valid=$WORK/out/mle.nbest.new" "$WORK/bin" -s "$SRC" -t "$TGT" \
        --path "$WORK/mle/checkpoint_best.pt" --beam 8 --nbest 8 \
        --remove-bpe sentencepiece --batch-size 50
    mv "$WORK/out/mle.nbest.new" "$WORK/out/mle.nbest"
}

risk_system() { # REWARD SEED
    local reward fitted gamma=$MLE_WEIGHT more=("${flags[@]}") system
    read_reward "$1"
    system=$(file_name "$1").$2
    [ "$1" != more-mle ] || gamma=1 more+=(--risk-candidates 1)
    AFTER=mle once "$system" train_risk "$system" "$reward" "$2" "$RISK_UPDATES" "$RISK_BATCH" \
        "$RISK_LR" "$gamma" "$RISK_ALPHA" "$COST_SCALE" "$ENCODER/config.json" "$fitted" "${more[@]}"
}

report() {
    local systems=(--sys "MLE=$WORK/out/mle.txt") logs=() reward name
    for reward in $REWARDS; do
        name=$(file_name "$reward")
        systems+=(--sys "${reward^^}=$(by_seed "$WORK/out/$name" txt "$SEEDS")")
        # Its costs are those of one candidate.
        [ "$reward" = more-mle ] ||
            logs+=(--log "${reward^^}=$(by_seed "$WORK/logs/$name" log "$SEEDS")")
    done
    # Systems of other n-best sizes, if nbest.sh has trained any from this MLE model.
    [ ! "$WORK/.done/nbest.mle" -nt "$WORK/.done/mle" ] || logs+=(--nbest-folder "$WORK/nbest")
    simile report --ref "$WORK/raw/test.$TGT" --src "$WORK/raw/test.$SRC" --encoder "$ENCODER" \
        "${systems[@]}" "${logs[@]}" --nbest-lists "$WORK/out/mle.nbest" \
        --svg "$WORK/curves.svg" --out "$WORK/results.md" \
        --html "$WORK/report.html" --title "Multi30k $SRC-$TGT"
}

say "Multi30k $SRC-$TGT in $WORK"
once data get_data "$SRC" "$TGT"
reward_encoder
REWARDS=${REWARDS:-bleu half simile${LEARNED:+ learned learned+bleu}}
check_rewards "$REWARDS"
say "Segmenting and binarising the bitext"
AFTER=data once bin segment_bitext "$SRC" "$TGT" 5000 "$WORK/raw"
say "Training the MLE model ($MLE_EPOCHS epochs)"
AFTER=bin once mle train_mle "$SRC" "$TGT" "$MLE_EPOCHS" "${mle_flags[@]}"
AFTER=mle once mle-test translate_test mle checkpoint_best.pt
AFTER=mle once mle-nbest list_candidates

say "Training ${REWARDS// /, } with seeds ${SEEDS// /, } ($JOBS at once; logs in $WORK/logs)"
for seed in $SEEDS; do
    for reward in $REWARDS; do
        in_background risk_system "$reward" "$seed"
    done
done
wait_for_all

say "Results on test_2016_flickr"
report
say "Everything, for the browser: $WORK/report.html"
say "Table: $WORK/results.md; chart of both validation costs: $WORK/curves.svg"
say "Your own model: simile finetune DATA-BIN MLE-CHECKPOINT --encoder ENCODER --output RUN"

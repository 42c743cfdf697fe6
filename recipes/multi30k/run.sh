#!/usr/bin/env bash
# Multi30k, from raw text to the table: reward encoder, MLE model, risk-trained systems.
# Run it again after an interruption: finished steps are skipped, trainings resume.
#
#   recipes/multi30k/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with multi30k/task1 and multi30k/task2; without it they are downloaded
#   WORK          work/multi30k in the repository: everything that is made
#   ENCODER       a reward encoder's folder, `default` or `minilm`; else recipes/encoder/run.sh makes one
#                 of the paraphrases under SIMILE_DATA; where there are none, one of the captions is made
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
#   SIZES         sizes of n-best lists, "2 4 8 16" say: one more training each, and a chart; default: none
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
SIZES=${SIZES:-}
HERE=$ROOT/recipes/multi30k

no_arguments "$@"
whole_numbers MLE_EPOCHS RISK_UPDATES RISK_BATCH
for size in $SIZES; do
    [[ $size =~ ^[1-9][0-9]*$ ]] || die "SIZES: got '$size', expected whole numbers from 1"
done
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
        download "https://raw.githubusercontent.com/multi30k/dataset/master/data/${1/\//\/raw\/}.gz" \
            "$packed" -
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
    caption_pairs "$WORK/captions" >"$WORK/captions/pairs.tsv"
    simile train-encoder "$WORK/captions/pairs.tsv" --output "$ENCODER" --vocab-size 8000 --overwrite
}

# Sets ENCODER and LEARNED, and makes what is not there.
reward_encoder() {
    if [ -n "${ENCODER:-}" ]; then
        ENCODER=$(encoder_folder "$ENCODER")
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

train_mle() { # SRC TGT EPOCHS FLAGS...
    begin "$WORK/mle" "$@" "$WORK"/bin/dict.* "$WORK"/bin/train.*
    small_mle mle "$3" 2048 "${@:4}"
}

list_candidates() { # what risk training starts from: the lists of which the report shows the costs
    generate "valid=$WORK/out/mle.nbest.new" "$WORK/bin" -s "$SRC" -t "$TGT" \
        --path "$WORK/mle/checkpoint_best.pt" --beam 8 --nbest 8 \
        --remove-bpe sentencepiece --batch-size 50
    mv "$WORK/out/mle.nbest.new" "$WORK/out/mle.nbest"
}

report() {
    local systems=(--sys "MLE=$WORK/out/mle.txt") logs=() reward name size seed
    for reward in $REWARDS; do
        name=$(file_name "$reward")
        systems+=(--sys "${reward^^}=$(by_seed "$WORK/out/$name" txt "$SEEDS")")
        # Its costs are those of one candidate.
        [ "$reward" = more-mle ] ||
            logs+=(--log "${reward^^}=$(by_seed "$WORK/logs/$name" log "$SEEDS")")
    done
    if [ -n "$SIZES" ]; then # the report finds them by their names
        rm -rf "$WORK/nbest" && mkdir "$WORK/nbest"
        cp "$WORK/out/mle.txt" "$WORK/nbest"
        for reward in ${REWARDS/more-mle/}; do
            for size in $SIZES; do
                for seed in $SEEDS; do
                    cp "$WORK/out/$(file_name "$reward").n$size.$seed.txt" "$WORK/nbest"
                done
            done
        done
        logs+=(--nbest-folder "$WORK/nbest")
    fi
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
AFTER=mle once mle-test small_translate mle checkpoint_best.pt
AFTER=mle once mle-nbest list_candidates

small_systems

say "Results on test_2016_flickr"
report
say "Everything, for the browser: $WORK/report.html"
say "Table: $WORK/results.md; chart of both validation costs: $WORK/curves.svg"
say "Your own model: simile finetune DATA-BIN MLE-CHECKPOINT --encoder ENCODER --output RUN"

#!/usr/bin/env bash
# A reward for a language that has no COMET, and a translation model trained by it, from a few thousand
# sentence pairs. Run it again after an interruption: finished steps are skipped, trainings resume.
#
#   recipes/lowresource/run.sh SRC TGT [DATA]
#
#   SRC TGT   languages, say en hau; of two others than English an encoder of SRC is made first (TEACHER)
#   DATA      folder with {train,dev,test}.{SRC,TGT}, plain or .gz; default: SIMILE_DATA/mafand/SRC-TGT
#
# Settings (environment variables, with their defaults):
#   WORK          work/lowresource.SRC-TGT in the repository: everything that is made
#   TEACHER       a reward encoder of SRC; default: of English that of the package. Of another language it is
#                 made, from PIVOT where there is one, else from the bitext itself, whose two sides are then
#                 each other's paraphrases
#   PIVOT         bitext of English and SRC: pairs of files, the English first; default: DATA/pivot.{en,SRC},
#                 else train of SIMILE_DATA/mafand/en-SRC, of TGT English train of DATA; none: PIVOT=
#   MORE          bitext of SRC and other languages, which helps to train the table: pairs of files, the
#                 source first; default: train of all other SIMILE_DATA/mafand/SRC-*; none: MORE=
#   JUDGEMENTS    judged translations; default: SIMILE_DATA/judgements/afrimte.SRC-TGT.tsv, if it is there
#   OTHER         text of a third language with as many lines as test.TGT, for the probe; default: none
#   MONOLINGUAL   files of sources without translations, plain or .gz; default: the sources of MORE
#   OTHERS        3000  of them, drawn at random; none of them is in the bitext
#   GIVEN         folder with bin/, bpe/ and mle/ of an earlier run, whose model is taken
#   PIECES        4000  of the joint vocabulary of the translation model
#   MLE_EPOCHS    30    epochs of MLE training; with more of them it goes on
#   MLE_LAST      200   updates after them, at a rate that falls from 2e-4 to 0: a model that was not
#                       trained to its end gains from anything
#   MLE_TOKENS    2048  target tokens an update
#   REWARDS       "chrf:0.5,source:0.5@dev more-mle@dev chrf:0.5,source:0.5 more-mle": learns from dev, which
#                 the MLE model has not read (and which then chooses nothing), or from the bitext. more-mle is
#                 the control, as many updates of likelihood alone. Others: bleu, chrf, source, which reads
#                 no reference; source@monolingual learns from OTHERS beside the bitext, and its control,
#                 self-training, by likelihood from both, OTHERS with the translation of an 8-best list
#                 that source likes best. None: only the reward is made
#   LISTS         8     candidates of each sentence of test, of which simile mbr chooses one by
#                       chrf:0.5,source:0.5: the system MBR, which needs no training
#   RISK_UPDATES  200   updates of each risk training
#   RISK_BATCH    30    sentences an update
#   RISK_LR       2e-4  learning rate of risk training (Adam, falling to 0 in a straight line)
#   MLE_WEIGHT    0.3   gamma
#   RISK_ALPHA    0.3   sharpness of Q
#   COST_SCALE    30    factor on the cost
#   SEEDS         "1"   seeds of each risk training
#   JOBS          trainings at once; CPU: the number of cores, GPU: 1
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "${@:---help}"
[ $# -ge 2 ] && [ $# -le 3 ] || die "expected SRC TGT [DATA], got $# arguments (see --help)"
SRC=$1 TGT=$2
[ -n "${3:-${SIMILE_DATA:-}}" ] ||
    die "DATA: not given, and SIMILE_DATA not set; expected a folder with {train,dev,test}.{$SRC,$TGT}"
DATA=${3:-${SIMILE_DATA:-}/mafand/$SRC-$TGT}
WORK=${WORK:-$ROOT/work/lowresource.$SRC-$TGT}
JUDGEMENTS=${JUDGEMENTS:-${SIMILE_DATA:-}/judgements/afrimte.$SRC-$TGT.tsv}
PIECES=${PIECES:-4000}
MLE_EPOCHS=${MLE_EPOCHS:-30}
MLE_LAST=${MLE_LAST:-200}
MLE_TOKENS=${MLE_TOKENS:-2048}
MIX=chrf:0.5,source:0.5
OTHERS=${OTHERS:-3000}
LISTS=${LISTS:-8}
RISK_UPDATES=${RISK_UPDATES:-200}
RISK_BATCH=${RISK_BATCH:-30}
RISK_LR=${RISK_LR:-2e-4}
MLE_WEIGHT=${MLE_WEIGHT:-0.3}
RISK_ALPHA=${RISK_ALPHA:-0.3}
COST_SCALE=${COST_SCALE:-30}
SEEDS=${SEEDS:-1}
whole_numbers PIECES MLE_EPOCHS MLE_LAST MLE_TOKENS LISTS RISK_UPDATES RISK_BATCH OTHERS
files=()
for split in train dev test; do
    for language in "$SRC" "$TGT"; do files+=("$(side DATA "$DATA/$split" "$language")"); done
    paste_sides DATA "${files[@]: -2}" >/dev/null
done

if [ -z "${MORE+given}" ] && [ -n "${SIMILE_DATA:-}" ]; then
    for file in "$SIMILE_DATA/mafand/$SRC"-*/train."$SRC".gz; do
        other=${file%/*} other=${other##*-}
        [ "$other" = "$TGT" ] || [ ! -e "$file" ] || MORE+=" $file ${file%"$SRC".gz}$other.gz"
    done
fi
read -ra more_files <<<"${MORE:-}"
if [ -z "${MONOLINGUAL:-}" ]; then
    for ((i = 0; i < ${#more_files[@]}; i += 2)); do MONOLINGUAL+=" ${more_files[i]}"; done
fi
read -ra others <<<"${MONOLINGUAL:-}"
REWARDS=${REWARDS-$MIX@dev more-mle@dev $MIX more-mle}
plain='' dev='' beside='' # systems of the bitext, of dev, and of OTHERS beside the bitext
for reward in $REWARDS; do
    case $reward in
    *@monolingual | self-training) beside+=" $reward" ;;
    *@dev) dev+=" $reward" ;;
    *) plain+=" $reward" ;;
    esac
done
[ -z "$beside" ] || [ ${#others[@]} -gt 0 ] ||
    die "MONOLINGUAL: none given and no MORE; expected files of sources, or REWARDS without them"

is_english() { # LANGUAGE: en, eng, en_XX, eng_Latn
    [[ $1 =~ ^eng?([_-].*)?$ ]]
}

# find_pivot: set pivot to files of English and SRC, if there are any.
find_pivot() {
    local prefix
    for prefix in "$DATA/pivot" "${SIMILE_DATA:-}/mafand/en-$SRC/train"; do
        if [ -e "$prefix.$SRC" ] || [ -e "$prefix.$SRC.gz" ]; then
            pivot=("$(side PIVOT "$prefix" en)" "$(side PIVOT "$prefix" "$SRC")")
            return
        fi
    done
    if is_english "$TGT"; then pivot=("${files[1]}" "${files[0]}"); fi
}

read -ra pivot <<<"${PIVOT:-}"
if is_english "$SRC"; then TEACHER=${TEACHER:-default}; fi
if [ -n "${TEACHER:-}" ]; then
    [ "$TEACHER" != default ] || is_english "$SRC" ||
        die "TEACHER: default reads English; expected an encoder of '$SRC', or nothing: it is made then"
    [ ${#pivot[@]} = 0 ] || die "PIVOT: TEACHER ($TEACHER) needs none; expected one of the two"
elif [ -z "${PIVOT+given}" ]; then
    find_pivot
fi
[ $((${#pivot[@]} % 2)) = 0 ] ||
    die "PIVOT: got ${#pivot[@]} files, expected pairs of them: English, then $SRC"
for file in "${pivot[@]}"; do [ -e "$file" ] || die "PIVOT: $file is not there"; done
paste_sides PIVOT "${pivot[@]}" >/dev/null

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
words=${beside//@monolingual/}${dev//@dev/}
check_rewards "$plain ${words//self-training/source}"
mkdir -p "$WORK"/{raw,out,logs}
choose_jobs "$WORK"
read -ra flags <<<"$FLAGS"
ENCODER=$WORK/encoder

get_data() { # SRC TGT FILES: train, dev and test, the source of each first
    local split
    for split in train valid test; do
        zcat -f "$3" >"$WORK/raw/$split.$1"
        zcat -f "$4" >"$WORK/raw/$split.$2"
        set -- "$1" "$2" "${@:5}"
    done
}

in_turns() { # FILES...: left and right, of each pair of them
    left=() right=()
    while [ $# -gt 1 ]; do
        left+=("$1") right+=("$2")
        shift 2
    done
}

teacher_by_english() { # FILES...: of English and SRC
    local left right
    in_turns "$@"
    simile distil-encoder default --source "${left[@]}" --target "${right[@]}" \
        --output "$WORK/teacher" --overwrite
}

teacher_by_pairs() { # SRC TGT: of both languages at once, as recipes/encoder/bitext.sh makes it
    paste_sides DATA "$WORK/raw/train.$1" "$WORK/raw/train.$2" >"$WORK/pairs.tsv"
    simile train-encoder "@$ROOT/recipes/encoder/best.flags" "$WORK/pairs.tsv" --steps 1500 \
        --vocab-size 8000 --output "$WORK/teacher" --overwrite
}

make_encoder() { # TEACHER MORE...
    local teacher=$1 left right more=()
    in_turns "${@:2}"
    [ ${#left[@]} = 0 ] || more=(--more-source "${left[@]}" --more-target "${right[@]}" --vocab-size 16000)
    simile distil-encoder "$teacher" --source "$WORK/raw/train.$SRC" --target "$WORK/raw/train.$TGT" \
        "${more[@]}" --output "$ENCODER" --overwrite
}

judge_encoder() { # JUDGEMENTS OTHER: what the reward is worth, in reward.txt
    local other=()
    [ -z "$2" ] || other=(--other-language "$2")
    {
        echo "Translations found among all of dev, percent:"
        python "$ROOT/recipes/papers/artetxe-2019-margin-based-mining/mine_bitext.py" "$ENCODER" \
            --aligned --source "$WORK/raw/valid.$SRC" --target "$WORK/raw/valid.$TGT"
        [ ! -f "$1" ] || simile eval-encoder "$ENCODER" --judgements "$1" --reward source --reward "$MIX"
        simile probe --reward source --reward "$MIX" --encoder "$ENCODER" --search-words 100 \
            --ref "$WORK/raw/test.$TGT" --src "$WORK/raw/test.$SRC" "${other[@]}"
    } >"$WORK/reward.txt"
}

# draw_others NUMBER FILES...: OTHERS, segmented and binarised beside the bitext, in WORK/others.
draw_others() {
    local raw=$WORK/raw
    zcat -f "${@:2}" | awk 'NR == FNR { seen[$0]; next } NF && !($0 in seen) { seen[$0]; print }' \
        <(cat "$raw"/{train,valid,test}."$SRC") - | shuf -n "$1" --random-source=<(yes) >"$raw/others.$SRC"
    [ -s "$raw/others.$SRC" ] || die "MONOLINGUAL: no sentence that is not in the bitext"
    python "$ROOT/recipes/bpe.py" encode --model "$WORK/bpe/nmt.model" \
        <"$raw/others.$SRC" >"$WORK/bpe/others.$SRC"
    rm -rf "${WORK:?}/others"
    logged "$WORK/logs/preprocess.log" fairseq-preprocess -s "$SRC" -t "$TGT" --only-source \
        --srcdict "$WORK/bin/dict.$SRC.txt" --trainpref "$WORK/bpe/others" --destdir "$WORK/others"
}

# choose_translations ENCODER-CONFIG MODEL: the bitext and OTHERS with the model's own translations,
# binarised in WORK/self.
choose_translations() {
    local language bpe=$WORK/bpe
    PYTHONWARNINGS=ignore fairseq-interactive "$WORK/bin" -s "$SRC" -t "$TGT" \
        --user-dir "$ROOT/user_dir" --path "$2" --input "$bpe/others.$SRC" --buffer-size 1000 \
        --batch-size 30 --beam 8 --nbest 8 --max-len-a 1.5 --max-len-b 10 \
        --remove-bpe sentencepiece >"$WORK/others.nbest" 2>"$WORK/logs/others.log" ||
        die "fairseq-interactive failed, see $WORK/logs/others.log"
    simile mbr "$WORK/others.nbest" --utility source --encoder "$ENCODER" \
        --src "$WORK/raw/others.$SRC" --output "$WORK/raw/others.$TGT"
    python "$ROOT/recipes/bpe.py" encode --model "$bpe/nmt.model" \
        <"$WORK/raw/others.$TGT" >"$bpe/others.$TGT"
    for language in "$SRC" "$TGT"; do
        cat "$bpe/train.$language" "$bpe/others.$language" >"$bpe/self.$language"
    done
    rm -rf "${WORK:?}/self"
    logged "$WORK/logs/preprocess.log" fairseq-preprocess -s "$SRC" -t "$TGT" --joined-dictionary \
        --srcdict "$WORK/bin/dict.$SRC.txt" --trainpref "$bpe/self" --validpref "$bpe/valid" \
        --destdir "$WORK/self"
}

take_given() { # GIVEN
    rm -rf "${WORK:?}"/{bin,bpe,mle}
    cp -r "$1"/{bin,bpe,mle} "$WORK"
}

train_mle() { # EPOCHS LAST TOKENS FLAGS...
    begin "$WORK/mle.begun" "$WORK"/bin/dict.* "$WORK"/bin/train.* "${@:3}" # more epochs go on
    small_mle mle.begun "$1" "$3" --num-workers 0 "${@:4}"
    begin "$WORK/mle" "$2" "$WORK/mle.begun/checkpoint_best.pt"
    small_training mle --finetune-from-model "$WORK/mle.begun/checkpoint_best.pt" --seed 1 \
        --criterion label_smoothed_cross_entropy --max-tokens "$3" --lr 2e-4 --lr-scheduler \
        polynomial_decay --total-num-update "$2" --max-update "$2" --num-workers 0 "${@:4}"
}

binarise_dev() {
    rm -rf "${WORK:?}/dev"
    logged "$WORK/logs/preprocess.log" fairseq-preprocess -s "$SRC" -t "$TGT" --joined-dictionary \
        --srcdict "$WORK/bin/dict.$SRC.txt" --trainpref "$WORK/bpe/valid" --destdir "$WORK/dev"
}

dev_system() { # REWARD@dev SEED
    local bin=$WORK/dev tuned_on=$WORK/out/mle.valid.log
    small_system "$@"
}

other_system() { # REWARD SEED: one that learns from OTHERS, too
    local reward=${1%@monolingual} gamma=$MLE_WEIGHT more=("${flags[@]}") after="encoder mle others"
    local bin=$WORK/bin system others bitext
    system=$(file_name "$1").$2
    if [ "$1" = self-training ]; then
        reward=source gamma=1 bin=$WORK/self after+=" self" more+=(--risk-candidates 1)
    else # in an epoch all of both, as in self-training
        others=$(wc -l <"$WORK/raw/others.$SRC") bitext=$(wc -l <"$WORK/raw/train.$SRC")
        more+=(--risk-monolingual "$WORK/others/train" --risk-monolingual-share
            "$(awk "BEGIN { print $others / ($others + $bitext) }")")
    fi
    AFTER=$after once "$system" small_risk "$system" "$reward" "$2" "$RISK_UPDATES" "$RISK_BATCH" \
        "$RISK_LR" "$gamma" "$RISK_ALPHA" "$COST_SCALE" "$ENCODER/config.json" "" "${more[@]}"
}

choose_of_lists() { # CANDIDATES ENCODER-CONFIG MODEL
    local lists=$WORK/out/mbr.log
    generate "test=$lists" "$WORK/bin" -s "$SRC" -t "$TGT" --path "$3" --beam "$1" --nbest "$1" \
        --max-len-a 1.5 --max-len-b 10 --remove-bpe sentencepiece --batch-size 30
    simile mbr "$lists" --utility "$MIX" --encoder "$ENCODER" --src "$WORK/raw/test.$SRC" \
        --output "$WORK/out/mbr.txt"
}

report() {
    local systems=(--sys "MLE=$WORK/out/mle.txt" --sys "MBR=$WORK/out/mbr.txt") reward name
    for reward in $REWARDS; do
        name=$(file_name "$reward")
        systems+=(--sys "${name^^}=$(by_seed "$WORK/out/$name" txt "$SEEDS")")
    done
    simile report --ref "$WORK/raw/test.$TGT" --src "$WORK/raw/test.$SRC" --encoder "$ENCODER" \
        "${systems[@]}" --out "$WORK/results.md"
    for name in "$WORK"/out/{mle,mbr}.txt "$WORK"/out/*.[0-9]*.txt; do
        [[ $name = *.valid.txt ]] || simile score -r "$WORK/raw/test.$TGT" -i "$name" \
            --src "$WORK/raw/test.$SRC" --encoder "$ENCODER"
    done | tee "$WORK/scores.txt"
}

say "$SRC-$TGT in $WORK"
once data get_data "$SRC" "$TGT" "${files[@]}"
if [ -z "${TEACHER:-}" ]; then
    TEACHER=$WORK/teacher
    if [ ${#pivot[@]} -gt 0 ]; then
        say "An encoder of $SRC, taught by that of English (PIVOT: ${pivot[*]})"
        AFTER=data once teacher teacher_by_english "${pivot[@]}"
    else
        say "No bitext of English and $SRC (PIVOT): an encoder of $SRC from the bitext, as paraphrases"
        AFTER=data once teacher teacher_by_pairs "$SRC" "$TGT"
    fi
fi
say "The encoder of both languages (about a minute)"
AFTER="data teacher" once encoder make_encoder "$TEACHER" "${more_files[@]}"
say "What it is worth, as reward, beside the next steps: $WORK/reward.txt"
AFTER=encoder in_background once judged judge_encoder "$JUDGEMENTS" "${OTHER:-}"
own="Your own model, --encoder $ENCODER: simile mbr --utility $MIX, or simile finetune --reward $MIX"
own+=" on pairs that it has not read"
[ -n "$REWARDS" ] || { wait_for_all && cat "$WORK/reward.txt" && say "$own" && exit; }
if [ -n "${GIVEN:-}" ]; then
    once mle take_given "$GIVEN"
else
    say "Segmenting and binarising the bitext"
    AFTER=data once bin segment_bitext "$SRC" "$TGT" "$PIECES" "$WORK/raw"
    say "Training the MLE model ($MLE_EPOCHS epochs, and $MLE_LAST updates)"
    AFTER=bin alone once mle train_mle "$MLE_EPOCHS" "$MLE_LAST" "$MLE_TOKENS" "${flags[@]}"
fi
AFTER=mle once mle-test small_translate mle checkpoint_best.pt
say "Choosing of $LISTS candidates of the MLE model by $MIX"
AFTER="encoder mle" once mbr choose_of_lists "$LISTS" "$ENCODER/config.json" "$WORK/mle/checkpoint_best.pt"
flags=(--num-workers 0 --disable-validation --save-interval-updates 50 "${flags[@]}")
[ -z "$plain" ] || REWARDS=$plain small_systems
if [ -n "$beside" ]; then
    say "Drawing $OTHERS of the sources in ${others[*]}"
    AFTER=mle once others draw_others "$OTHERS" "${others[@]}"
fi
if [[ $beside = *self-training* ]]; then
    AFTER="encoder mle others" once self choose_translations "$ENCODER/config.json" \
        "$WORK/mle/checkpoint_best.pt"
fi
[ -z "$dev" ] || AFTER=mle once dev binarise_dev
[ -z "$dev$beside" ] || say "Training$dev$beside ($JOBS at once; logs in $WORK/logs)"
for seed in $SEEDS; do
    for reward in $dev; do in_background dev_system "$reward" "$seed"; done
    for reward in $beside; do in_background other_system "$reward" "$seed"; done
done
wait_for_all
say "Results on test"
cat "$WORK/reward.txt"
report
say "$own"

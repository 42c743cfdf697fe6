#!/usr/bin/env bash
# One step of the evidence: what six rewards do on three corpora, by judges that nobody trained on.
# The Snakefile runs all of them. A step that is done is skipped, a training that was stopped goes on.
#
#   recipes/evidence/step.sh encoder                        reward encoder
#   recipes/evidence/step.sh learned                        learned reward
#   recipes/evidence/step.sh judge                          encoder of the judge
#   recipes/evidence/step.sh rewards                        all three
#   recipes/evidence/step.sh data CORPUS                    text of each split, BPE, binarised
#   recipes/evidence/step.sh estimate CORPUS REWARDS SEEDS  hours of the trainings, from 120 updates
#   recipes/evidence/step.sh mle CORPUS                     MLE model, and its translations
#   recipes/evidence/step.sh risk CORPUS REWARD SEED        risk-trained model, and its translations
#   recipes/evidence/step.sh average CORPUS REWARD SEEDS    the mean of the seeds' weights, translated
#   recipes/evidence/step.sh report CORPUS REWARDS SEEDS    judges, tests, page
#   recipes/evidence/step.sh table CORPORA                  one table of all corpora, and the goals
#
# and, beside the workflow, the study of settings on validation:
#
#   recipes/evidence/step.sh study CORPUS REWARD SEED           as risk, translated on validation only
#   recipes/evidence/step.sh study-table CORPUS REWARD SEEDS    all variants that all seeds have
#
# CORPUS is one of corpora.tsv; REWARD is what --reward takes, learned, learned+bleu (half each), or
# more-mle, the control: as many updates of likelihood alone. REWARD@VARIANT adds the flags of a
# variant of study.tsv; REWARD@averaged is, for `report`, what `average` has made of the same SEEDS.
# `average` takes several rewards as well: the mean of the models of 'bleu&learned'.
# REWARDS, SEEDS and CORPORA are lists, such as "bleu learned" "1 2 3".
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder of the corpora of corpora.tsv
#   SIZE          cpu       a folder of config/: its files hold all sizes and hyper-parameters
#   WORK          work/evidence in the repository: everything that is made
#   GIVEN         an MLE model: a folder with mle/checkpoint_best.pt, bpe/nmt.model and
#                 bin/dict.en.txt in it, as recipes/multi30k/run.sh makes; default: `mle` trains one
#   ENCODER       reward encoder; default: recipes/encoder/run.sh makes one
#   LEARNED       learned reward, fitted with ENCODER; default: recipes/reward/run.sh fits one
#   JUDGE         encoder whose SIM judges; default: one of Multi30k's English captions, which the
#                 default reward encoder has not seen
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

HERE=$ROOT/recipes/evidence
show_help "${@:---help}"
step=$1 CORPUS=${2:-}
SIZE=${SIZE:-cpu}
for name in WORK SIMILE_DATA GIVEN ENCODER LEARNED JUDGE; do # as the Snakefile has them
    [[ -z ${!name:-} || ${!name} = /* ]] || printf -v "$name" %s "$PWD/${!name}"
done
TOP=${WORK:-$ROOT/work/evidence}
CONFIG=$HERE/config/$SIZE
[ -d "$CONFIG" ] || die "SIZE: got '$SIZE', expected one of: $(cd "$HERE/config" && echo *)"
[ -d "${SIMILE_DATA:-}" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected the folder of the corpora of corpora.tsv"
case $step in
encoder | learned | judge | rewards) wanted 1 "$@" ;;
data | mle | table) wanted 2 "$@" ;;
risk | average | report | estimate | study | study-table) wanted 4 "$@" ;;
*) die "got step '$step', see --help" ;;
esac
# rows: split, text and lines of this corpus in corpora.tsv.
rows() {
    awk -F '\t' -v OFS='\t' -v corpus="$CORPUS" '$1 == corpus { print $3, $4, $5 }' "$HERE/corpora.tsv"
}
case $step in
encoder | learned | judge | rewards | table) WORK=$TOP ;;
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

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
if has_gpu; then FLAGS=${FLAGS---fp16} DEVICE=cuda; else FLAGS=${FLAGS-} DEVICE=cpu; fi
# shellcheck disable=SC2034 # training.sh reads it
read -ra more_flags <<<"$FLAGS"
OWN_ENCODER=$TOP/paraphrases/encoder.1 OWN_LEARNED=$TOP/learned/reward OWN_JUDGE=$TOP/judge.$SIZE
ENCODER=${ENCODER:-$OWN_ENCODER} LEARNED=${LEARNED:-$OWN_LEARNED} JUDGE=${JUDGE:-$OWN_JUDGE}
SPLITS=(valid test heldout)
# Enough to tell p = 0.01, the goals', from 0.02: its standard error is 0.001.
RESAMPLES=(--resamples 10000)
mkdir -p "$WORK"
case $DEVICE:$step in
cuda:encoder | cuda:judge | cuda:rewards | cuda:estimate | cuda:mle | cuda:risk | cuda:average | cuda:study) one_gpu "$TOP" ;;
esac

caption_judge() { # STEPS FILES...
    mkdir -p "$TOP/captions"
    cp "${@:2}" "$TOP/captions"
    python "$ROOT/recipes/multi30k/caption_pairs.py" --captions "$TOP/captions" >"$TOP/captions.tsv"
    simile train-encoder "$TOP/captions.tsv" --vocab-size 8000 --steps "$1" \
        --device "$DEVICE" --overwrite --output "$OWN_JUDGE"
}

make_rewards() { # encoder|learned|judge...: what is not given
    local part name own parts=()
    for part in "$@"; do
        name=${part^^} own=OWN_${part^^}
        if [ "${!name}" = "${!own}" ]; then
            parts+=("$part")
        else
            [ -d "${!name}" ] || die "$name: no such folder: ${!name}"
        fi
    done
    for part in "${parts[@]}"; do
        case $part in
        encoder) WORK=$TOP/paraphrases SEEDS=1 EVALUATE=0 bash "$ROOT/recipes/encoder/run.sh" ;;
        learned) OUTPUT=$TOP/learned ENCODER=$ENCODER bash "$ROOT/recipes/reward/run.sh" ;;
        judge)
            once "judge.$SIZE" caption_judge "$JUDGE_STEPS" "$SIMILE_DATA"/multi30k/task2/train.?.en.gz
            ;;
        esac
    done
}

# only_unseen: of the pairs kept for risk training leave those with neither side in the MLE model's
# training text; what it knows by heart teaches it nothing (docs/training.md).
only_unseen() {
    local raw=$WORK/raw
    paste <(tr '\t' ' ' <"$raw/risk.$SRC") <(tr '\t' ' ' <"$raw/risk.en") |
        awk -F '\t' 'FILENAME != "-" { seen[$0]; next } !($1 in seen) && !($2 in seen)' \
            "$raw/train.$SRC" "$raw/train.en" - >"$raw/unseen.tsv"
    cut -f1 "$raw/unseen.tsv" >"$raw/risk.$SRC"
    cut -f2 "$raw/unseen.tsv" >"$raw/risk.en"
    rm "$raw/unseen.tsv"
}

get_data() { # ROWS SETTINGS SIMILE_DATA GIVEN: what decides the result
    local split text lines language last=\$ raw=$WORK/raw given=$4
    mkdir -p "$raw" "$WORK/bpe"
    while IFS=$'\t' read -r split text lines; do
        [ "$LINES" = 0 ] || last=$LINES
        [ "$split" = train ] || [ "$LINES" = 0 ] || last=24
        for language in "$SRC" en; do
            gzip -dc "$SIMILE_DATA/$text.$language.gz" | sed -n "${lines// /p;}p" | sed -n "1,${last}p" \
                >"$raw/$split.$language" ||
                die "SIMILE_DATA: cannot read $SIMILE_DATA/$text.$language.gz"
        done
    done < <(rows)
    [ ! -e "$raw/risk.en" ] || only_unseen
    if [ -n "$given" ]; then
        cp "$given/bpe/nmt.model" "$WORK/bpe/nmt.model"
    else
        python "$ROOT/recipes/bpe.py" train --model "$WORK/bpe/nmt.model" --vocab-size "$PIECES" \
            "$raw/train.$SRC" "$raw/train.en"
    fi
    for split in $(rows | cut -f1); do
        for language in "$SRC" en; do
            python "$ROOT/recipes/bpe.py" encode --model "$WORK/bpe/nmt.model" \
                <"$raw/$split.$language" >"$WORK/bpe/$split.$language"
        done
    done
    rm -rf "${WORK:?}"/bin{,.risk}
    logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en --joined-dictionary \
        --destdir "$WORK/bin" --workers "$(cores)" --trainpref "$WORK/bpe/train" \
        --validpref "$WORK/bpe/valid" --testpref "$WORK/bpe/test,$WORK/bpe/heldout" \
        ${given:+--srcdict "$given/bin/dict.en.txt"}
    [ ! -e "$raw/risk.en" ] || logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en \
        --joined-dictionary --srcdict "$WORK/bin/dict.en.txt" --destdir "$WORK/bin.risk" \
        --workers "$(cores)" --trainpref "$WORK/bpe/risk" --validpref "$WORK/bpe/valid"
}

train_mle() { # FLAGS-FILE GIVEN-CHECKPOINT MORE-FLAGS...
    if [ -n "$2" ]; then
        begin "$WORK/mle" "$2" # one that was trained here does not go on
        cp "$2" "$WORK/mle/checkpoint_best.pt"
    else
        train mle "$1" "${@:3}"
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

train_risk() { # SYSTEM FLAGS-FILE REWARD SEED ENCODER-CONFIG LEARNED-JSON MORE-FLAGS...
    local bin reward fitted control=() read_files=("$5" "$6") # what others trained is not gone on with
    read_reward "$3"
    [ ! -e "$WORK/bin.risk" ] || bin=$WORK/bin.risk
    [ "$3" != more-mle ] || control=(--mle-weight 1 --risk-candidates 1)
    train "$1" "$2" --finetune-from-model "$WORK/mle/checkpoint_best.pt" --seed "$4" \
        --reward "$reward" --simile-encoder "$ENCODER" "${control[@]}" "${@:7}"
    translate_splits "$1" checkpoint_last.pt
}

# seeds_of REWARD SEEDS: in the names of its outputs; the mean of seeds is one system, of seed "1-2-3".
seeds_of() {
    case $1 in *@averaged) echo "${2// /-}" ;; *) echo "$2" ;; esac
}

average() { # SYSTEM CHECKPOINTS...
    mkdir -p "$WORK/$1"
    python "$ROOT/recipes/average.py" "${@:2}" --output "$WORK/$1/checkpoint_last.pt"
    translate_splits "$1" checkpoint_last.pt
}

estimate() { # REWARDS SEEDS
    local reward variant trainings=()
    for reward in $1; do
        read_variant "$reward"
        for _ in $2; do trainings+=(--more="${variant[*]}"); done
    done
    estimate_trainings "$MLE_FLAGS" "$RISK_FLAGS" "$own_mle" "${trainings[@]}"
}

# current STEP: whether it and the MLE model's are done, it not before that.
current() {
    local done=$WORK/.done
    [[ -e $done/mle && -e $done/$1 && ! $(tail -n 1 "$done/$1") < $(tail -n 1 "$done/mle") ]]
}

study_table() { # REWARD SEEDS
    local variant seed name baseline=MLE systems=(--sys "MLE=$WORK/out/valid/mle.txt")
    for variant in "" $(tail -n +2 "$HERE/study.tsv" | cut -f1); do
        name=$(file_name "$1${variant:+@$variant}")
        for seed in $2; do
            current "$name.$seed" || current "study.$name.$seed" || continue 2
        done
        systems+=(--sys "${variant:-default}=$(by_seed "$WORK/out/valid/$name" txt "$2")")
        [ -n "$variant" ] || baseline=MLE,default
    done
    mkdir -p "$WORK/results"
    simile report --ref "$WORK/raw/valid.en" --src "$WORK/raw/valid.$SRC" --encoder "$JUDGE" \
        "${systems[@]}" --baseline "$baseline" --only results,gaming --out "$WORK/results/study.md"
}

# Each system is translated at its own --lenpen, chosen on validation, and no longer than candidates
# of training may be: one translation that loops would outweigh the repetition of all others.
translate_splits() { # SYSTEM CHECKPOINT
    local split subset out=$WORK/out lists=() texts=()
    for split in "${SPLITS[@]}"; do
        subset=${split/heldout/test1} # fairseq's name of the second test set
        mkdir -p "$(dirname "$out/$split/$1")"
        generate "$out/$split/$1.log" "$WORK/bin" -s "$SRC" -t en --path "$WORK/$1/$2" \
            --gen-subset "$subset" --beam 5 --nbest 5 --max-len-a 1.5 --max-len-b 10 \
            --remove-bpe sentencepiece --batch-size 50
        lists+=("$out/$split/$1.log") texts+=("$out/$split/$1.txt")
    done
    python "$ROOT/recipes/lenpen.py" --valid "$out/valid/$1.log" \
        --test "${lists[@]}" --out "${texts[@]}" >"$out/valid/$1.lenpen"
    sed "s|^|   $1: |" "$out/valid/$1.lenpen"
}

systems() { # SPLIT REWARDS SEEDS: the flags of simile report that name them, a word a line
    local out=$WORK/out/$1 reward seed seeds name meteor_here=yes names=(mle)
    for reward in $2; do
        for seed in $(seeds_of "$reward" "$3"); do names+=("$(file_name "$reward").$seed"); done
    done
    for name in "${names[@]}"; do # scores of an earlier translation say nothing of this one
        [[ -e $out/$name.meteor && ! $out/$name.meteor -ot $out/$name.txt ]] || meteor_here=''
    done
    printf '%s\n' --sys "MLE=$out/mle.txt"
    [ -z "$meteor_here" ] || printf '%s\n' --sentence-scores "METEOR:MLE=$out/mle.meteor"
    for reward in $2; do
        name=$out/$(file_name "$reward") seeds=$(seeds_of "$reward" "$3")
        printf '%s\n' --sys "${reward^^}=$(by_seed "$name" txt "$seeds")"
        [ -z "$meteor_here" ] || printf '%s\n' --sentence-scores \
            "METEOR:${reward^^}=$(by_seed "$name" meteor "$seeds")"
    done
}

report() { # REWARDS SEEDS
    local split reward seed seeds wanted flags logs=() folders=() bleu='' results=$WORK/results
    current mle || die "report: run the step mle $CORPUS first"
    for reward in $1; do
        seeds=$(seeds_of "$reward" "$2")
        for seed in $seeds; do # by hand, nothing else would say that translations are old
            wanted="risk $CORPUS $reward $seed"
            [[ $reward != *@averaged ]] || wanted="average $CORPUS '${reward%@*}' '$2'"
            current "$(file_name "$reward").$seed" ||
                die "report: run the step $wanted first: it is not done, or the MLE model is newer"
        done
    done
    mkdir -p "$results"
    for split in "${SPLITS[@]}"; do folders+=("$WORK/raw/$split.en=$WORK/out/$split"); done
    python "$HERE/meteor.py" "${folders[@]}"
    for reward in $1; do
        [ "${reward%%@*}" != bleu ] || bleu=${bleu:-,${reward^^}}
        # The control's costs are those of one candidate, and a mean has not been trained.
        [[ ${reward%%@*} = more-mle || $reward = *@averaged ]] ||
            logs+=(--log "${reward^^}=$(by_seed "$WORK/logs/$(file_name "$reward")" log "$2")")
    done
    for split in "${SPLITS[@]}"; do
        mapfile -t flags < <(systems "$split" "$1" "$2")
        simile report --ref "$WORK/raw/$split.en" --src "$WORK/raw/$split.$SRC" --encoder "$JUDGE" \
            "${flags[@]}" --baseline "MLE$bleu" "${RESAMPLES[@]}" --only results,gaming --json >"$results/$split.json"
    done
    mapfile -t flags < <(systems "test" "$1" "$2")
    simile report --ref "$WORK/raw/test.en" --src "$WORK/raw/test.$SRC" --encoder "$JUDGE" \
        "${flags[@]}" --baseline "MLE$bleu" "${RESAMPLES[@]}" "${logs[@]}" --svg "$results/curves.svg" --out "$results/report.md" \
        --html "$results/report.html" --title "$CORPUS-en, test ($SIZE)"
}

table() { # CORPORA
    local corpus folders=()
    for corpus in $1; do folders+=("$corpus=$TOP/$SIZE/$corpus"); done
    python "$HERE/results.py" "${folders[@]}" >"$TOP/$SIZE/table.new"
    mv "$TOP/$SIZE/table.new" "$TOP/$SIZE/table.md"
    cat "$TOP/$SIZE/table.md"
}

GIVEN=${GIVEN:-} own_mle=${GIVEN:+$GIVEN/mle/checkpoint_best.pt}
files=(${GIVEN:+"$GIVEN/bpe/nmt.model" "$GIVEN/bin/dict.en.txt"})
case $step in
data | mle | estimate)
    for file in ${GIVEN:+"$own_mle" "${files[@]}"}; do
        [ -f "$file" ] || die "GIVEN: no such file: $file"
    done
    ;;
esac
# Everything that decides a step's result is a word of its command: `once` repeats what has changed.
case $step in
encoder | learned | judge) make_rewards "$step" ;;
rewards) make_rewards encoder learned judge ;;
data)
    for text in $(rows | cut -f2); do
        files+=("$SIMILE_DATA/$text.$SRC.gz" "$SIMILE_DATA/$text.en.gz")
    done
    once data get_data "$(rows)" "$CONFIG/settings.env" "$SIMILE_DATA" "$GIVEN" "${files[@]}"
    ;;
estimate) estimate "$3" "$4" ;;
mle)
    flags=("${more_flags[@]}") more_flags=()
    AFTER=data once mle train_mle "$MLE_FLAGS" "$own_mle" "${flags[@]}"
    ;;
risk | study)
    system=$(file_name "$3").$4 note=$system
    [ "$step" = risk ] || SPLITS=(valid) note=study.$note
    read_variant "$3"
    read_reward "$reward_name" # of another learned reward only what trained on it is repeated
    flags=("${variant[@]}" "${more_flags[@]}") more_flags=()
    AFTER=mle once "$note" train_risk "$system" "$RISK_FLAGS" "$reward_name" "$4" \
        "$ENCODER/config.json" "$fitted" "${flags[@]}"
    ;;
average)
    system=$(file_name "$3")@averaged.${4// /-} files=()
    for reward in ${3//&/ }; do
        for seed in $4; do
            current "$(file_name "$reward").$seed" ||
                die "average: run the step risk $CORPUS $reward $seed first"
            files+=("$WORK/$(file_name "$reward").$seed/checkpoint_last.pt")
        done
    done
    AFTER=mle once "$system" average "$system" "${files[@]}"
    ;;
study-table) study_table "$3" "$4" ;;
report) report "$3" "$4" ;;
table) table "$2" ;;
esac

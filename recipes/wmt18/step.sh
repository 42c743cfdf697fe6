#!/usr/bin/env bash
# One step of the experiment. The Snakefile (run.sh starts it) runs all of them, in order, and again what
# a change makes old. Alone, a step runs whatever was done before; a training that was stopped goes on.
#
#   recipes/wmt18/step.sh encoder                         the reward encoder
#   recipes/wmt18/step.sh data SRC                        corpora, cleaned; their counts in counts.md
#   recipes/wmt18/step.sh bin SRC                         joint BPE, binarised
#   recipes/wmt18/step.sh estimate SRC COSTS GAMMAS SEEDS what training would take, from 100 updates
#   recipes/wmt18/step.sh mle SRC                         MLE model, and its translations
#   recipes/wmt18/step.sh risk SRC COST GAMMA SEED        risk-trained model, and its translations
#   recipes/wmt18/step.sh size SRC COST N GAMMAS SEEDS    the same with lists of N candidates
#   recipes/wmt18/step.sh report SRC COSTS GAMMAS SEEDS   gamma chosen on validation, scores, sheets
#   recipes/wmt18/step.sh table LANGUAGES                 report.html of all of them (reports first)
#
# SRC is cs, de, ru or tr; COST bleu, half or simile. COSTS, GAMMAS, SEEDS and LANGUAGES are lists,
# such as "bleu half simile" "0.2 0.3 0.4" "1 2". size takes the gamma with the best validation BLEU,
# and the first seed.
#
# Settings (environment variables, with their defaults):
#   ARCH          fconv     a folder of config/: its files hold all sizes and hyper-parameters
#   SIMILE_DATA   folder of stand-in data; without it the paper's corpora are downloaded
#   WORK          work/wmt18 in the repository: everything that is made
#   ENCODER       reward encoder; default: `encoder` makes one in WORK/encoder, of the data under
#                 SIMILE_DATA by recipes/encoder, else ParaNMT-50M's 16.77 million pairs as the paper
#                 does; with SIM=published it converts the authors' own
#   SEGMENT       sentencepiece: does without Moses and subword-nmt (--arch fconv and paper)
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
#   SIZES         for estimate: the N of the trainings of step size, if there will be any
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

HERE=$ROOT/recipes/wmt18
show_help "${@:---help}"
step=$1 SRC=${2:-}
ARCH=${ARCH:-fconv}
TOP=${WORK:-$ROOT/work/wmt18}
CONFIG=$HERE/config/$ARCH
[ -d "$CONFIG" ] || die "ARCH: got '$ARCH', expected one of: $(cd "$HERE/config" && echo *)"
[ -z "${SIMILE_DATA:-}" ] || [ -d "$SIMILE_DATA/newstest" ] ||
    die "SIMILE_DATA: got '$SIMILE_DATA', expected a folder with newstest/ in it"
case $step in
encoder) wanted 1 "$@" ;;
data | bin | mle | table) wanted 2 "$@" ;;
risk | report | estimate) wanted 5 "$@" ;;
size) wanted 6 "$@" ;;
*) die "got step '$step', see --help" ;;
esac
case $step:$SRC in
encoder: | table:* | *:cs | *:de | *:ru | *:tr) ;;
*) die "$step: got SRC '$SRC', expected cs, de, ru or tr" ;;
esac
# shellcheck source=recipes/wmt18/config/fconv/settings.env
. "$CONFIG/settings.env"

if [ "$SEGMENT" = moses ] && [ "$step" != encoder ]; then setup_venv moses; else setup_venv; fi
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
DOWNLOADS=$TOP/download
export SACREBLEU=$DOWNLOADS/sacrebleu
OWN_ENCODER=$TOP/encoder
ENCODER=${ENCODER:-$OWN_ENCODER}
case $step in
encoder | table) WORK=$TOP ;;
*) WORK=$TOP/$ARCH/$SRC ;;
esac
mkdir -p "$WORK/.done"

# rows FROM SRC SPLIT: name, where, member and checksum of corpora in sources.tsv.
rows() {
    awk -F '\t' -v OFS='\t' -v from="$1" -v src="$2" -v split_="$3" \
        '$1 == from && $2 == src && $3 == split_ { print $4, $5, $6, $7 }' "$HERE/sources.tsv"
}

# corpus WHERE MEMBER CHECKSUM OUT: OUT.SRC and OUT.en of one corpus.
corpus() {
    local language
    case $1 in
    sacrebleu:*) # which downloads and checks its test sets itself
        sacrebleu -t "${1#*:}" -l "$SRC-en" --echo src >"$4.$SRC"
        sacrebleu -t "${1#*:}" -l "$SRC-en" --echo ref >"$4.en"
        ;;
    *://*)
        download "$1" "$DOWNLOADS/${1##*/}" "$3"
        for language in "$SRC" en; do
            python "$HERE/extract.py" "$DOWNLOADS/${1##*/}" "$2.$language" "$4.$language"
        done
        ;;
    *)
        for language in "$SRC" en; do
            gzip -dc "$SIMILE_DATA/$1.$language.gz" >"$4.$language" ||
                die "SIMILE_DATA: cannot read $SIMILE_DATA/$1.$language.gz"
        done
        ;;
    esac
}

# collect SPLIT: raw/SPLIT.all of all the corpora of a split, LINES lines of each at most.
collect() {
    local name where member checksum language all=$WORK/raw/$1.all one=$WORK/raw/one last=\$
    local from=paper
    [ -z "${SIMILE_DATA:-}" ] || from=stand-in
    [ "$LINES" = 0 ] || last=$LINES
    for language in "$SRC" en; do : >"$all.$language"; done
    while IFS=$'\t' read -r name where member checksum; do
        echo "   $1: $name"
        corpus "$where" "$member" "$checksum" "$one"
        for language in "$SRC" en; do
            sed -n "1,${last}p" "$one.$language" >>"$all.$language"
            rm "$one.$language"
        done
    done < <(rows "$from" "$SRC" "$1")
}

get_data() {
    local split language excluded=() limits=() raw=$WORK/raw
    mkdir -p "$raw"
    for split in valid test train; do
        collect "$split"
    done
    # Evaluation sets stay whole, but for empty lines and what VALID and TEST cut off.
    for split in valid test; do
        python "$HERE/corpus.py" clean --src "$SRC" "$raw/$split.all" "$raw/$split"
        [ -z "${SIMILE_DATA:-}" ] || excluded+=("$raw/$split.$SRC" "$raw/$split.en")
    done
    [ "$WORDS" = 0 ] || limits=(--max-tokens "$WORDS" --max-ratio "$RATIO" --dedup)
    python "$HERE/corpus.py" clean --src "$SRC" "${limits[@]}" --exclude "${excluded[@]}" -- \
        "$raw/train.all" "$raw/train"
    for language in "$SRC" en; do
        [ "$VALID" = 0 ] || sed -i "$((VALID + 1)),\$d" "$raw/valid.$language"
        [ "$TEST" = 0 ] || sed -i "$((TEST + 1)),\$d" "$raw/test.$language"
    done
    rm "$raw"/*.all.*
    python "$HERE/corpus.py" count --src "$SRC" --paper "$HERE/paper.tsv" \
        --title "$(about_data)" "$raw" >"$WORK/counts.md"
    cat "$WORK/counts.md"
}

# about_data: what the text is, for every table.
about_data() {
    if [ -n "${SIMILE_DATA:-}" ]; then
        echo "Stand-in data, not the paper's; sizes of config/$ARCH"
    else
        echo "The paper's corpora; sizes of config/$ARCH"
    fi
}

bpe() { # ACTION LANGUAGE ARGUMENTS...
    case $SEGMENT in
    sentencepiece) python "$ROOT/recipes/bpe.py" "$1" --model "$WORK/bpe/model" "${@:3}" ;;
    moses) python "$HERE/moses.py" "$1" --model "$WORK/bpe/model" --language "$2" "${@:3}" ;;
    *) die "SEGMENT: got '$SEGMENT', expected sentencepiece or moses" ;;
    esac
}

segment() {
    local split language
    mkdir -p "$WORK/bpe"
    bpe train "$SRC" --vocab-size "$PIECES" "$WORK/raw/train.$SRC" "$WORK/raw/train.en"
    for split in train valid test; do
        for language in "$SRC" en; do
            bpe encode "$language" <"$WORK/raw/$split.$language" >"$WORK/bpe/$split.$language"
        done
    done
    rm -rf "${WORK:?}/bin"
    logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en --joined-dictionary \
        --destdir "$WORK/bin" --workers "$(cores)" --trainpref "$WORK/bpe/train" \
        --validpref "$WORK/bpe/valid" --testpref "$WORK/bpe/test"
}

train_mle() {
    local plain
    train mle "$CONFIG/mle.flags"
    translate_split mle test checkpoint_best.pt
    translate_split mle valid checkpoint_best.pt
    plain_text
    # The lists of which the page shows the costs (Figure 11), before any risk training.
    generate "valid=$WORK/out/valid/mle.nbest.new" "$WORK/bin" -s "$SRC" -t en \
        --path "$WORK/mle/checkpoint_best.pt" --beam 8 --nbest 8 --batch-size 50 "${plain[@]}"
    mv "$WORK/out/valid/mle.nbest.new" "$WORK/out/valid/mle.nbest"
}

train_from_mle() { # SYSTEM COST GAMMA SEED FLAGS...
    # shellcheck disable=SC2034 # training.sh reads it; what another encoder trained is not gone on with
    local own=() read_files=("$ENCODER/config.json")
    [ "$SEGMENT" != moses ] || own=(--risk-detok moses)
    train "$1" "$CONFIG/risk.flags" --finetune-from-model "$WORK/mle/checkpoint_best.pt" \
        --reward "$2" --mle-weight "$3" --seed "$4" --simile-encoder "$ENCODER" "${own[@]}" "${@:5}"
}

train_risk() { # COST GAMMA SEED
    local system=$1.$2.$3
    local out=$WORK/out/valid/$system
    first_epoch=$AFTER_EPOCH train_from_mle "$system" "$@"
    translate_split "$system" valid "$RISK_CHECKPOINT"
    simile score -r "$WORK/raw/valid.en" -i "$out.txt" --encoder "$ENCODER" --json >"$out.json"
    translate_split "$system" test "$RISK_CHECKPOINT"
    if [ -n "$AFTER_EPOCH" ]; then
        translate_split "$system" first checkpoint_first.pt
        rm "$WORK/$system/checkpoint_first.pt"
    fi
    [ "$RISK_CHECKPOINT" = checkpoint_last.pt ] || rm "$WORK/$system/checkpoint_last.pt"
}

# Figure 13: a system of N candidates; that of the configuration's own N is there already.
train_size() { # COST N GAMMAS SEEDS
    local gamma seed=${4%% *} system=$1.n$2 out=$WORK/sizes/${1^^}.n$2.${4%% *}.txt
    gamma=$(python "$HERE/results.py" --measure bleu --scores "$WORK/out/valid" \
        --costs "$1" --gammas "$3" --seeds "$4") || die "no gamma could be chosen, see above"
    gamma=${gamma#*=}
    mkdir -p "$WORK/sizes"
    cp "$WORK/out/test/mle.txt" "$WORK/sizes/mle.txt"
    if [ "$2" = "$(own_size)" ]; then
        cp "$WORK/out/test/$1.$gamma.$seed.txt" "$out"
        return
    fi
    train_from_mle "$system" "$1" "$gamma" "$seed" --risk-candidates "$2"
    translate_split "$system" test "$RISK_CHECKPOINT"
    mv "$WORK/out/test/$system.txt" "$out"
    rm "$WORK/$system"/checkpoint_*.pt
}

own_size() { # N of the configuration, whose system step risk trains
    flags_of "$CONFIG/risk.flags" | sed -n '/^--risk-candidates$/{n;p}'
}

plain_text() { # sets plain: flags of fairseq-generate that undo the segmentation
    plain=(--remove-bpe sentencepiece)
    [ "$SEGMENT" != moses ] || plain=(--remove-bpe --tokenizer moses)
}

translate_split() { # SYSTEM SPLIT CHECKPOINT; split first: validation, after one epoch
    local out=$WORK/out/$2/$1 subset=$2 plain
    plain_text
    [ "$2" != first ] || subset="valid"
    mkdir -p "$WORK/out/$2"
    translate "$out.txt" "$subset" "$WORK/bin" -s "$SRC" -t en --path "$WORK/$1/$3" \
        --beam 5 --batch-size 50 "${plain[@]}"
}

make_encoder() {
    local where member checksum _
    if [ "${SIM:-}" = published ]; then
        IFS=$'\t' read -r _ where member checksum < <(rows paper - encoder | grep '^published')
        download "$where" "$DOWNLOADS/beyond_bleu.zip" "$checksum"
        for member in sim.pt sim.sp.30k.model; do
            python "$HERE/extract.py" "$DOWNLOADS/beyond_bleu.zip" "$member" "$TOP/$member"
        done
        simile convert-encoder --from "$TOP/sim.pt" --sentencepiece "$TOP/sim.sp.30k.model" \
            --overwrite --output "$OWN_ENCODER"
    elif [ -n "${SIMILE_DATA:-}" ]; then
        WORK=$TOP/paraphrases SEEDS=1 EVALUATE=0 bash "$ROOT/recipes/encoder/run.sh"
        rm -rf "$OWN_ENCODER"
        cp -r "$TOP/paraphrases/encoder.1" "$OWN_ENCODER"
    else
        IFS=$'\t' read -r _ where member checksum < <(rows paper - encoder | grep '^paranmt')
        download "$where" "$DOWNLOADS/para-nmt-50m.zip" "$checksum"
        python "$HERE/extract.py" "$DOWNLOADS/para-nmt-50m.zip" "$member" "$TOP/paranmt.txt"
        simile filter-pairs "$TOP/paranmt.txt" --score-column 3 --min-score 0.5 --max-overlap 0.2 \
            --output "$TOP/paranmt.tsv.gz"
        rm "$TOP/paranmt.txt"
        simile binarize-pairs "$TOP/paranmt.tsv.gz" --vocab-size 30000 --overwrite \
            --output "$TOP/paranmt.bin"
        simile train-encoder "@$ROOT/recipes/encoder/beyond-bleu.flags" "$TOP/paranmt.bin" \
            --device "$DEVICE" --output "$OWN_ENCODER"
    fi
}

estimate() { # COSTS GAMMAS SEEDS
    local runs cost size
    runs=$(($(wc -w <<<"$1") * $(wc -w <<<"$2") * $(wc -w <<<"$3")))
    for cost in $1; do
        for size in ${SIZES:-}; do
            [ "$cost" = half ] || [ "$size" = "$(own_size)" ] || runs=$((runs + 1))
        done
    done
    estimate_trainings "$CONFIG/mle.flags" "$CONFIG/risk.flags" '' --trainings "$runs"
}

# systems SPLIT GAMMA-OF-COST...: flags of simile report, a word a line, say bleu=0.3 as BLEU.
systems() {
    local choice files split=$1
    [ "$split" != first ] || split=valid # after one epoch: compared with the MLE model on validation
    printf '%s\n' --sys "MLE=$WORK/out/$split/mle.txt"
    for choice in "${@:2}"; do
        files=$(by_seed "$WORK/out/$1/${choice/=/.}" txt "$SEEDS") choice=${choice%%=*}
        printf '%s\n' --sys "${choice^^}=$files"
    done
}

logs() { # GAMMA-OF-COST...
    local choice files
    for choice in "$@"; do
        files=$(by_seed "$WORK/logs/${choice/=/.}" log "$SEEDS") choice=${choice%%=*}
        printf '%s\n' --log "${choice^^}=$files"
    done
}

# texts SPLIT: the references, sources and the encoder.
texts() {
    printf '%s\n' --ref "$WORK/raw/$1.en" --src "$WORK/raw/$1.$SRC" --encoder "$ENCODER"
}

report() { # COSTS GAMMAS SEEDS
    local SEEDS=$3 measure split chosen flags by_bleu=() results=$WORK/results answers=()
    local -A subset=([test]="test")
    [ -z "$AFTER_EPOCH" ] || subset[first]="valid"
    mkdir -p "$results" "$WORK/human/answers"
    for measure in bleu sim simile; do
        mapfile -t chosen < <(python "$HERE/results.py" --measure "$measure" \
            --scores "$WORK/out/valid" --costs "$1" --gammas "$2" --seeds "$3")
        [ "${#chosen[@]}" -gt 0 ] || die "no gamma could be chosen, see above"
        say "Chosen on validation by $measure: ${chosen[*]}"
        # The analysis is of the systems that BLEU chose, as in the paper (7.5.2, 7.7).
        [ "$measure" != bleu ] || by_bleu=("${chosen[@]}")
        for split in "${!subset[@]}"; do
            mapfile -t flags < <(texts "${subset[$split]}" && systems "$split" "${chosen[@]}")
            if [ "$measure" != bleu ] && [ "${chosen[*]}" = "${by_bleu[*]}" ]; then
                cp "$results/$split.bleu.json" "$results/$split.$measure.json"
            else
                simile report "${flags[@]}" --only results --json >"$results/$split.$measure.json"
            fi
        done
    done
    local compare='' # which words and examples are compared, whatever the order of COSTS
    if [[ " $1 " = *" bleu "* && " $1 " = *" simile "* ]]; then
        compare=--compare=BLEU,SIMILE
        rating_sheets "${by_bleu[@]}"
    else
        say "No rating sheets: they compare MLE, bleu and simile"
    fi
    mapfile -t answers < <(find "$WORK/human/answers" -name '*.tsv' -o -name '*.csv' | sort)
    {
        texts "test"
        systems "test" "${by_bleu[@]}"
        logs "${by_bleu[@]}"
        printf '%s\n' --nbest-lists "$WORK/out/valid/mle.nbest" ${compare:+"$compare"}
        [ ! -d "$WORK/sizes" ] || printf '%s\n' --nbest-folder "$WORK/sizes"
        [ ${#answers[@]} = 0 ] ||
            printf '%s\n' --human "$WORK/human/key.json=$(IFS=, && echo "${answers[*]}")"
    } >"$results/test.flags"
    { texts valid && systems valid "${by_bleu[@]}" &&
        printf '%s\n' --only examples ${compare:+"$compare"}; } \
        >"$results/valid.flags"
}

# Table 69: blinded sheets of 200 sentences. They are drawn anew where the translations have changed,
# but not once people have answered.
rating_sheets() { # GAMMA-OF-COST...
    local flags=() choice name human=$WORK/human seed=${SEEDS%% *}
    for choice in "$@"; do
        case $choice in
        bleu=* | simile=*)
            name=${choice%%=*}
            flags+=(--sys "${name^^}=$WORK/out/test/${choice/=/.}.$seed.txt")
            ;;
        esac
    done
    [ -z "$(ls "$human/answers")" ] || return 0
    rm -rf "$human/sheets" "$human/key.json"
    simile human-eval sheet --ref "$WORK/raw/test.en" --sys "MLE=$WORK/out/test/mle.txt" \
        "${flags[@]}" --differ BLEU,SIMILE --sentences "$RATED" --out "$human/sheets" \
        --key "$human/key.json" || say "No rating sheets, see above (RATED in $CONFIG/settings.env)"
}

table() { # LANGUAGES
    local language title folders=() here=$TOP/$ARCH
    for language in $1; do folders+=("$language=$here/$language"); done
    # What the text is, as the step data has written it down: a stand-in stays one.
    title=$(for language in $1; do sed -n '1s/\.$//p' "$here/$language/counts.md"; done |
        sort -u | paste -sd '|' | sed 's/|/; /g')
    PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} python -m recipes.wmt18.page \
        --title "$title" --output "$here/report.html" "${folders[@]}"
    say "Every table and figure, for the browser: $here/report.html"
}

case $step in
encoder | estimate | mle | risk | size) on_device "$TOP" ;;
esac
note=$step
case $step in
encoder) make_encoder ;;
data) get_data ;;
bin) segment ;;
estimate) estimate "${@:3}" ;;
mle) train_mle ;;
risk)
    train_risk "${@:3}"
    note=$3.$4.$5
    ;;
size)
    train_size "${@:3}"
    note=size.$3.$4
    ;;
report) report "${@:3}" ;;
table) table "$2" ;;
esac
: >"$WORK/.done/$note"

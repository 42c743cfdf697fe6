#!/usr/bin/env bash
# One step of the experiment; run.sh runs those of a language in order, the Snakefile all of them.
# A step that is done is skipped, a training that was interrupted goes on.
#
#   recipes/wmt18/step.sh encoder                         the reward encoder
#   recipes/wmt18/step.sh data SRC                        corpora, cleaned; their counts in counts.md
#   recipes/wmt18/step.sh bin SRC                         joint BPE, binarised
#   recipes/wmt18/step.sh estimate SRC COSTS GAMMAS SEEDS what training would take, from 100 updates
#   recipes/wmt18/step.sh mle SRC                         MLE model, and its translations
#   recipes/wmt18/step.sh risk SRC COST GAMMA SEED        risk-trained model, and its translations
#   recipes/wmt18/step.sh report SRC COSTS GAMMAS SEEDS   gamma chosen on validation, tables, page
#   recipes/wmt18/step.sh table LANGUAGES                 one table of all languages (reports first)
#
# SRC is cs, de, ru or tr; COST bleu, half or simile. COSTS, GAMMAS, SEEDS and LANGUAGES are lists,
# such as "bleu half simile" "0.2 0.3 0.4" "1 2".
#
# Settings (environment variables, with their defaults):
#   ARCH          fconv     a folder of config/: its files hold all sizes and hyper-parameters
#   SIMILE_DATA   folder of stand-in data; without it the paper's corpora are downloaded
#   WORK          work/wmt18 in the repository: everything that is made
#   ENCODER       reward encoder; default: `encoder` makes one in WORK/encoder, of the data under
#                 SIMILE_DATA by recipes/encoder, else ParaNMT-50M's 16.77 million pairs as the paper
#                 does; with SIM=published it converts the authors' own
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
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
# wanted N WORDS...: the step's own arguments
wanted() {
    [ $(($# - 1)) = "$1" ] || die "$step: got $(($# - 2)) arguments, expected $(($1 - 1)) (see --help)"
}
case $step in
encoder) wanted 1 "$@" ;;
table) wanted 2 "$@" ;;
data | bin | mle) wanted 2 "$@" ;;
risk | report | estimate) wanted 5 "$@" ;;
*) die "got step '$step', see --help" ;;
esac
case $step:$SRC in
encoder: | table:* | *:cs | *:de | *:ru | *:tr) ;;
*) die "$step: got SRC '$SRC', expected cs, de, ru or tr" ;;
esac
# shellcheck source=recipes/wmt18/config/fconv/settings.env
. "$CONFIG/settings.env"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
# shellcheck source=recipes/wmt18/download.sh
. "$HERE/download.sh"
DOWNLOADS=$TOP/download
export SACREBLEU=$DOWNLOADS/sacrebleu
if has_gpu; then FLAGS=${FLAGS---fp16} DEVICE=cuda; else FLAGS=${FLAGS-} DEVICE=cpu; fi
read -ra more_flags <<<"$FLAGS"
OWN_ENCODER=$TOP/encoder
ENCODER=${ENCODER:-$OWN_ENCODER}
LOCK=$TOP/sources.lock
case $step in
encoder | table) WORK=$TOP ;;
*) WORK=$TOP/$ARCH/$SRC ;;
esac
mkdir -p "$WORK"
case $DEVICE:$step in
cuda:encoder | cuda:estimate | cuda:mle | cuda:risk) one_gpu "$TOP" ;;
esac

# rows FROM SRC SPLIT: name, where, member and checksum of corpora in sources.tsv.
rows() {
    awk -F '\t' -v OFS='\t' -v from="$1" -v src="$2" -v split_="$3" \
        '$1 == from && $2 == src && $3 == split_ { print $4, $5, $6, $7 }' "$HERE/sources.tsv"
}

# corpus WHERE MEMBER CHECKSUM OUT: OUT.SRC and OUT.en of one corpus.
corpus() {
    local file language address
    case $1 in
    sacrebleu:*)
        mapfile -t address < <(python "$HERE/archives.py" address "${1#*:}")
        [ ${#address[@]} = 3 ] || die "sources.tsv: $1 is no test set of this sacreBLEU"
        download "${address[0]}" "${address[2]}" "${address[1]}" "$LOCK"
        python "$HERE/archives.py" testset "${1#*:}" "$SRC" "$4"
        ;;
    *://*)
        file=$DOWNLOADS/${1##*/}
        download "$1" "$file" "$3" "$LOCK"
        python "$HERE/archives.py" extract "$file" "$2" "$SRC" "$4"
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

get_data() { # SOURCES SETTINGS SIMILE_DATA: what decides the result
    local split excluded=() limits=() raw=$WORK/raw
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
    python "$HERE/corpus.py" take --src "$SRC" --lines "$VALID" "$raw/valid" "$raw/valid"
    python "$HERE/corpus.py" take --src "$SRC" --lines "$TEST" "$raw/test" "$raw/test"
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

segment() { # SETTINGS SEGMENT
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

train_mle() { # FLAGS-FILE
    train mle "$1"
    translate_split mle test checkpoint_best.pt
}

train_risk() { # FLAGS-FILE COST GAMMA SEED ENCODER-CONFIG
    local system=$2.$3.$4 own=()
    [ "$SEGMENT" != moses ] || own=(--risk-detok moses)
    # What another encoder trained is not gone on with.
    cmp -s "$5" "$WORK/$system/encoder.json" || {
        rm -rf "${WORK:?}/$system"
        mkdir -p "$WORK/$system"
        cp "$5" "$WORK/$system/encoder.json"
    }
    first_epoch=$AFTER_EPOCH train "$system" "$1" --finetune-from-model "$WORK/mle/checkpoint_best.pt" \
        --reward "$2" --mle-weight "$3" --seed "$4" --simile-encoder "$ENCODER" "${own[@]}"
    translate_split "$system" valid "$RISK_CHECKPOINT"
    translate_split "$system" test "$RISK_CHECKPOINT"
    if [ -n "$AFTER_EPOCH" ]; then
        translate_split "$system" first checkpoint_first.pt
        rm "$WORK/$system/checkpoint_first.pt"
    fi
    [ "$RISK_CHECKPOINT" = checkpoint_last.pt ] || rm "$WORK/$system/checkpoint_last.pt"
}

translate_split() { # SYSTEM SPLIT CHECKPOINT; split first: test, after one epoch
    local out=$WORK/out/$2/$1 subset=$2 plain=(--remove-bpe sentencepiece)
    [ "$SEGMENT" != moses ] || plain=(--remove-bpe --tokenizer moses)
    [ "$2" != first ] || subset="test"
    mkdir -p "$WORK/out/$2"
    translate "$out.txt" "$WORK/bin" -s "$SRC" -t en --path "$WORK/$1/$3" --gen-subset "$subset" \
        --beam 5 --batch-size 50 "${plain[@]}"
    [ "$2" != valid ] || simile score -r "$WORK/raw/valid.en" -i "$out.txt" \
        --encoder "$ENCODER" --json >"$out.json"
}

paranmt_encoder() { # FLAGS-FILE
    local where member checksum _
    IFS=$'\t' read -r _ where member checksum < <(rows paper - encoder | grep '^paranmt')
    download "$where" "$DOWNLOADS/para-nmt-50m.zip" "$checksum" "$LOCK"
    python "$HERE/archives.py" member "$DOWNLOADS/para-nmt-50m.zip" "$member" "$TOP/paranmt.txt"
    simile filter-pairs "$TOP/paranmt.txt" --score-column 3 --min-score 0.5 --max-overlap 0.2 \
        --output "$TOP/paranmt.tsv.gz"
    rm "$TOP/paranmt.txt"
    simile binarize-pairs "$TOP/paranmt.tsv.gz" --vocab-size 30000 --overwrite \
        --output "$TOP/paranmt.bin"
    simile train-encoder "@$1" "$TOP/paranmt.bin" --device "$DEVICE" --output "$OWN_ENCODER"
}

published_encoder() {
    local where member checksum _
    IFS=$'\t' read -r _ where member checksum < <(rows paper - encoder | grep '^published')
    download "$where" "$DOWNLOADS/beyond_bleu.zip" "$checksum" "$LOCK"
    for member in sim.pt sim.sp.30k.model; do
        python "$HERE/archives.py" member "$DOWNLOADS/beyond_bleu.zip" "$member" "$TOP/$member"
    done
    simile convert-encoder --from "$TOP/sim.pt" --sentencepiece "$TOP/sim.sp.30k.model" \
        --output "$OWN_ENCODER"
}

stand_in_encoder() {
    WORK=$TOP/paraphrases SEEDS=1 EVALUATE=0 bash "$ROOT/recipes/encoder/run.sh"
    rm -rf "$OWN_ENCODER"
    cp -r "$TOP/paraphrases/encoder.1" "$OWN_ENCODER"
}

make_encoder() {
    if [ "$ENCODER" != "$OWN_ENCODER" ]; then
        say "Reward encoder: $ENCODER"
    elif [ "${SIM:-}" = published ]; then
        once encoder published_encoder
    elif [ -n "${SIMILE_DATA:-}" ]; then
        once encoder stand_in_encoder
    else
        once encoder paranmt_encoder "$ROOT/recipes/encoder/beyond-bleu.flags"
    fi
}

estimate() { # COSTS GAMMAS SEEDS
    estimate_trainings "$CONFIG/mle.flags" "$CONFIG/risk.flags" \
        $(($(wc -w <<<"$1") * $(wc -w <<<"$2") * $(wc -w <<<"$3")))
}

# systems SPLIT MEASURE: the --sys and --log flags of the systems chosen by a measure.
systems() { # SPLIT GAMMA-OF-COST... (as bleu=0.3)
    local choice seed files logs
    echo "--sys MLE=$WORK/out/test/mle.txt"
    for choice in "${@:2}"; do
        files='' logs=''
        for seed in $SEEDS; do
            files+=,$WORK/out/$1/${choice/=/.}.$seed.txt
            logs+=,$WORK/logs/${choice/=/.}.$seed.log
        done
        choice=${choice%%=*}
        echo "--sys ${choice^^}=${files#,} --log ${choice^^}=${logs#,}"
    done
}

report() { # COSTS GAMMAS SEEDS
    local SEEDS=$3 measure split chosen known before='' flags splits=(test) results=$WORK/results
    local common=(--ref "$WORK/raw/test.en" --src "$WORK/raw/test.$SRC" --encoder "$ENCODER")
    [ -z "$AFTER_EPOCH" ] || splits+=(first)
    mkdir -p "$results"
    for measure in bleu sim simile; do
        mapfile -t chosen < <(python "$HERE/results.py" choose --measure "$measure" \
            --scores "$WORK/out/valid" --costs "$1" --gammas "$2" --seeds "$3")
        [ "${#chosen[@]}" -gt 0 ] || die "no gamma could be chosen, see above"
        say "Chosen on validation by $measure: ${chosen[*]}"
        for split in "${splits[@]}"; do
            if [ "${chosen[*]}" = "$before" ]; then
                cp "$results/$split.$known.json" "$results/$split.$measure.json"
                continue
            fi
            read -ra flags < <(systems "$split" "${chosen[@]}" | xargs)
            simile report "${common[@]}" "${flags[@]}" --only results --json \
                >"$results/$split.$measure.json"
        done
        [ "${chosen[*]}" = "$before" ] || known=$measure before=${chosen[*]}
    done
    read -ra flags < <(systems test "${chosen[@]}" | xargs)
    simile report "${common[@]}" "${flags[@]}" --svg "$results/curves.svg" \
        --out "$results/report.md" --html "$results/report.html" \
        --title "WMT 2018 $SRC-en. $(about_data)"
}

table() { # LANGUAGES
    local language folders=()
    for language in $1; do folders+=("$language=$TOP/$ARCH/$language"); done
    python "$HERE/results.py" table --title "$(about_data)" "${folders[@]}" >"$TOP/$ARCH/table.md.new"
    mv "$TOP/$ARCH/table.md.new" "$TOP/$ARCH/table.md"
    cat "$TOP/$ARCH/table.md"
}

case $step in
encoder) make_encoder ;;
data) once data get_data "$HERE/sources.tsv" "$CONFIG/settings.env" "${SIMILE_DATA:-}" ;;
bin) AFTER=data once bin segment "$CONFIG/settings.env" "$SEGMENT" ;;
estimate) AFTER=bin once estimate estimate "$3" "$4" "$5" ;;
mle) AFTER=bin once mle train_mle "$CONFIG/mle.flags" ;;
risk) AFTER=mle once "$3.$4.$5" train_risk "$CONFIG/risk.flags" "${@:3:3}" "$ENCODER/config.json" ;;
report) report "$3" "$4" "$5" ;;
table) table "$2" ;;
esac

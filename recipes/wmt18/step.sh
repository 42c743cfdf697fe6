#!/usr/bin/env bash
# One step of the experiment, for one language; run.sh runs them in order, the Snakefile all of them.
# A step that is done is skipped; a training that was interrupted goes on.
#
#   recipes/wmt18/step.sh data SRC                      corpora, cleaned, and their counts
#   recipes/wmt18/step.sh bin SRC                       joint BPE, binarised
#   recipes/wmt18/step.sh encoder                       the reward encoder
#   recipes/wmt18/step.sh mle SRC                       MLE model
#   recipes/wmt18/step.sh risk SRC COST GAMMA SEED      risk-trained model; COST: bleu, half, simile
#   recipes/wmt18/step.sh translate SRC SYSTEM SPLIT [CHECKPOINT]
#                                                       SYSTEM: mle or COST.GAMMA.SEED; SPLIT: valid,
#                                                       test; CHECKPOINT: of the folder, see below
#
# Settings (environment variables, with their defaults):
#   ARCH          fconv     a folder of config/: its files say all sizes and hyper-parameters
#   SIMILE_DATA   folder of the stand-in data; without it the paper's corpora are downloaded
#   WORK          work/wmt18 in the repository: everything that is made
#   ENCODER       WORK/encoder         reward encoder
#   FLAGS         more flags of every fairseq-train (default on a GPU: --fp16)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

HERE=$ROOT/recipes/wmt18
show_help "${@:---help}"
ARCH=${ARCH:-fconv}
TOP=${WORK:-$ROOT/work/wmt18}
CONFIG=$HERE/config/$ARCH
[ -d "$CONFIG" ] || die "ARCH: got '$ARCH', expected one of: $(ls "$HERE/config" | xargs)"
step=$1 SRC=${2:-}
case $SRC in
cs | de | ru | tr) ;;
*) die "SRC: got '$SRC', expected cs, de, ru or tr" ;;
esac
# shellcheck source=recipes/wmt18/config/cpu/data.env
. "$CONFIG/data.env"
ENCODER=${ENCODER:-$TOP/encoder}
WORK=$TOP/$ARCH/$SRC

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
mkdir -p "$WORK"/{raw,bpe,out,logs}
if has_gpu; then FLAGS=${FLAGS---fp16}; else FLAGS=${FLAGS-}; fi
read -ra more_flags <<<"$FLAGS"

# flags_of FILE: what a file of flags holds, one word a line.
flags_of() {
    sed 's/^#.*//' "$1" | xargs printf '%s\n'
}

# corpora SPLIT: append the stand-in's corpora of a split to raw/SPLIT.all.
stand_in() {
    local split=$1 from src part name where language
    for language in "$SRC" en; do : >"$WORK/raw/$split.all.$language"; done
    while IFS=$'\t' read -r from src part name where; do
        [ "$from $src $part" = "stand-in $SRC $split" ] || continue
        echo "   $split: $name"
        for language in "$SRC" en; do
            gzip -dc "$SIMILE_DATA/$where.$language.gz" >"$WORK/raw/one.$language" ||
                die "SIMILE_DATA: cannot read $SIMILE_DATA/$where.$language.gz"
            sed -n "1,${LINES}p" "$WORK/raw/one.$language" >>"$WORK/raw/$split.all.$language"
        done
    done <"$HERE/sources.tsv"
}

get_data() { # SOURCES CONFIG: what decides the result
    local split excluded=() raw=$WORK/raw
    for split in valid test train; do
        stand_in "$split"
    done
    # Evaluation sets stay whole, but for empty lines; validation may be shortened.
    for split in valid test; do
        python "$HERE/corpus.py" clean --src "$SRC" "$raw/$split.all" "$raw/$split"
        excluded+=("$raw/$split.$SRC" "$raw/$split.en")
    done
    python "$HERE/corpus.py" clean --src "$SRC" --max-tokens "$WORDS" --max-ratio "$RATIO" \
        --dedup --exclude "${excluded[@]}" -- "$raw/train.all" "$raw/train"
    python "$HERE/corpus.py" take --src "$SRC" --lines "$VALID" "$raw/valid" "$raw/valid"
    python "$HERE/corpus.py" take --src "$SRC" --lines "$TEST" "$raw/test" "$raw/test"
    python "$HERE/corpus.py" count --src "$SRC" --paper "$HERE/paper.tsv" "$raw" |
        tee "$WORK/counts.md"
}

segment() {
    local split language model=$WORK/bpe/model
    python "$ROOT/recipes/bpe.py" train --model "$model" --vocab-size "$PIECES" \
        "$WORK/raw/train.$SRC" "$WORK/raw/train.en"
    for split in train valid test; do
        for language in "$SRC" en; do
            python "$ROOT/recipes/bpe.py" encode --model "$model" \
                <"$WORK/raw/$split.$language" >"$WORK/bpe/$split.$language"
        done
    done
    rm -rf "${WORK:?}/bin"
    logged "$WORK/logs/bin.log" fairseq-preprocess -s "$SRC" -t en --joined-dictionary \
        --destdir "$WORK/bin" --workers "$(cores)" --trainpref "$WORK/bpe/train" \
        --validpref "$WORK/bpe/valid" --testpref "$WORK/bpe/test"
}

# train RUN FLAGS-FILE FLAGS...: the run's whole command line is kept as RUN/command.
train() {
    local run=$WORK/$1 file=$2 command
    mapfile -t command < <(flags_of "$file")
    command=(fairseq-train "$WORK/bin" -s "$SRC" -t en --user-dir "$ROOT/user_dir"
        --save-dir "$run" --log-format simple "${command[@]}" "${@:3}" "${more_flags[@]}")
    mkdir -p "$run"
    printf '%q ' "${command[@]}" >"$run/command.new"
    if [ -e "$run/command" ] && ! cmp -s "$run/command" "$run/command.new"; then
        die "$run was begun with another command (command, command.new); remove it to start over"
    fi
    mv "$run/command.new" "$run/command"
    threads_for 1
    logged "$WORK/logs/$1.log" "${command[@]}"
}

train_risk() { # FLAGS-FILE COST GAMMA SEED ENCODER-CONFIG
    train "$2.$3.$4" "$1" --finetune-from-model "$WORK/mle/checkpoint_best.pt" --reward "$2" \
        --mle-weight "$3" --seed "$4" --simile-encoder "$ENCODER"
}

translate_split() { # SYSTEM SPLIT CHECKPOINT
    local out=$WORK/out/$2/$1
    mkdir -p "$WORK/out/$2"
    translate "$out.txt" "$WORK/bin" -s "$SRC" -t en --path "$WORK/$1/$3" --gen-subset "$2" \
        --beam 5 --remove-bpe sentencepiece --batch-size 50
}

case $step in
data) once data get_data "$HERE/sources.tsv" "$CONFIG/data.env" ;;
bin) AFTER=data once bin segment ;;
mle) AFTER=bin once mle train mle "$CONFIG/mle.flags" ;;
risk)
    AFTER=mle once "$3.$4.$5" train_risk "$CONFIG/risk.flags" "$3" "$4" "$5" "$ENCODER/config.json"
    ;;
translate)
    checkpoint=checkpoint_last.pt
    [ "$3" != mle ] || checkpoint=checkpoint_best.pt
    AFTER=$3 once "$4-$3" translate_split "$3" "$4" "${5:-$checkpoint}"
    ;;
*) die "got step '$step'; expected data, bin, encoder, mle, risk or translate" ;;
esac

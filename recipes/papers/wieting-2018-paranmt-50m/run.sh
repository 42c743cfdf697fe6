#!/usr/bin/env bash
# Paraphrases from bitext, the way ParaNMT was made (Wieting and Gimpel 2018): the foreign side is
# translated by a fairseq model, and each translation stands beside the reference that it should be.
#
#   recipes/papers/wieting-2018-paranmt-50m/run.sh CHECKPOINT DATA-BIN BPE FOREIGN REFERENCE [fairseq flags...]
#
#   CHECKPOINT   a fairseq model that translates the foreign language into that of the paraphrases
#   DATA-BIN     the folder with its dictionaries
#   BPE          its sentencepiece model, which segments FOREIGN; - if FOREIGN is segmented already, or
#                where fairseq is to do it: for a model of Moses and subword-nmt give plain FOREIGN, - and
#                the flags -s de -t en --tokenizer moses --bpe subword_nmt --bpe-codes CODES
#   FOREIGN      sentences of the foreign language, one a line, plain or .gz
#   REFERENCE    their translations, line by line
#
# More flags go to fairseq-interactive, for example: -s de -t en --fp16
# Run it again after an interruption: parts that are done are skipped.
#
# Settings (environment variables, with their defaults):
#   WORK         work/backtranslation in the repository: everything that is made
#   OUTPUT       $WORK/paraphrases.tsv: reference TAB translation TAB its score by the model (mean
#                log-probability of its tokens, base 2)
#   PART         20000     sentences translated at a time
#   BEAM         12        the paper's
#   MAX_TOKENS   4000      of a batch
#   REMOVE_BPE   sentencepiece; subword_nmt for models of subword-nmt
#   FILTERS      flags of simile filter-pairs; the default are those of ParaNMT that need no encoder:
#                "--max-overlap 0.2 --min-tokens 3 --max-tokens 30 --near-duplicates"; with one, say of
#                recipes/encoder/bitext.sh, also: --encoder DIR --min-score 0.5
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

show_help "${@:---help}"
[ $# -ge 5 ] || die "expected CHECKPOINT DATA-BIN BPE FOREIGN REFERENCE, got $# arguments (see --help)"
checkpoint=$1 data=$2 bpe=$3 foreign=$4 reference=$5
shift 5
extra=("$@")
[ -f "$checkpoint" ] || die "CHECKPOINT: no such file: $checkpoint"
[ -d "$data" ] || die "DATA-BIN: no such folder: $data"
[ "$bpe" = - ] || [ -f "$bpe" ] || die "BPE: no such file: $bpe"
[ -f "$foreign" ] || die "FOREIGN: no such file: $foreign"
[ -f "$reference" ] || die "REFERENCE: no such file: $reference"

WORK=${WORK:-$ROOT/work/backtranslation}
OUTPUT=${OUTPUT:-$WORK/paraphrases.tsv}
PART=${PART:-20000}
BEAM=${BEAM:-12}
MAX_TOKENS=${MAX_TOKENS:-4000}
REMOVE_BPE=${REMOVE_BPE:-sentencepiece}
FILTERS=${FILTERS---max-overlap 0.2 --min-tokens 3 --max-tokens 30 --near-duplicates}
read -ra filters <<<"$FILTERS"
whole_numbers PART BEAM MAX_TOKENS

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
threads_for 1
mkdir -p "$WORK"

# unpacked FILE: its text; tabs, which separate columns here, become spaces, and the last line ends too.
unpacked() {
    case $1 in
    *.gz) gzip -dc "$1" ;;
    *) cat "$1" ;;
    esac | tr -d '\r' | tr '\t' ' ' | awk 1
}

check_lines() { # FOREIGN REFERENCE
    local lines other
    lines=$(unpacked "$1" | wc -l) other=$(unpacked "$2" | wc -l)
    [ "$lines" -gt 0 ] || die "FOREIGN: $1 is empty"
    [ "$lines" = "$other" ] ||
        die "FOREIGN has $lines lines and REFERENCE $other; they must be parallel ($1, $2)"
}

split_into_parts() {
    rm -rf "$WORK/parts"
    mkdir "$WORK/parts"
    unpacked "$foreign" >"$WORK/parts/all.foreign"
    unpacked "$reference" >"$WORK/parts/all.reference"
    local side
    for side in foreign reference; do
        split -l "$PART" -d -a 5 --additional-suffix ".$side" "$WORK/parts/all.$side" "$WORK/parts/"
        rm "$WORK/parts/all.$side"
    done
}

translate_part() { # PART
    local part=$1
    if [ "$bpe" = - ]; then
        cp "$part.foreign" "$part.segmented"
    else
        python "$ROOT/recipes/bpe.py" encode --model "$bpe" <"$part.foreign" >"$part.segmented"
    fi
    PYTHONWARNINGS=ignore fairseq-interactive "$data" --path "$checkpoint" \
        --user-dir "$ROOT/user_dir" --input "$part.segmented" --buffer-size 10000 \
        --max-tokens "$MAX_TOKENS" --beam "$BEAM" --remove-bpe "$REMOVE_BPE" \
        --skip-invalid-size-inputs-valid-test "${extra[@]}" >"$part.log" 2>&1 || {
        tail -n 5 "$part.log" >&2
        die "fairseq-interactive failed, see above (all of it: $part.log)"
    }
    # D-12 TAB score TAB translation, where 12 is the line from 0; a sentence that is too long has none.
    awk -F '\t' 'NR == FNR { if ($1 ~ /^D-[0-9]+$/ && $3 != "") of[substr($1, 3)] = $3 "\t" $2; next }
        FNR - 1 in of { print $0 "\t" of[FNR - 1] }' "$part.log" "$part.reference" >"$part.new"
    [ -s "$part.new" ] || die "no translation came out of $part.segmented (see $part.log)"
    mv "$part.new" "$part.tsv"
}

filter_all() {
    simile filter-pairs "$WORK"/parts/*.tsv --output "$OUTPUT" "${filters[@]}"
}

say "Back-translating $foreign in $WORK"
# Before what has been translated is split anew.
once lines check_lines "$foreign" "$reference"
once split split_into_parts "$foreign" "$reference" "$PART"
parts=("$WORK"/parts/*.foreign)
for path in "${parts[@]}"; do
    part=${path%.foreign}
    AFTER="split" once "part-${part##*/}" translate_part "$part" "$checkpoint" "$data" "$bpe" \
        "$BEAM" "$REMOVE_BPE" "${extra[@]}"
    steps=${steps:-}${steps:+ }part-${part##*/}
done
say "Filtering $(cat "$WORK"/parts/*.tsv | wc -l) pairs: $FILTERS"
AFTER=$steps once filter filter_all "$OUTPUT" "${filters[@]}"
say "Paraphrases: $OUTPUT ($(zcat -f "$OUTPUT" | wc -l) pairs)"
say "An encoder of them: simile train-encoder $OUTPUT --output encoder"

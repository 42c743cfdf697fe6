#!/usr/bin/env bash
# An encoder of any language from parallel text alone, without paraphrases (Wieting et al. 2019, "Simple
# and Effective Paraphrastic Similarity from Parallel Translations"): one sentencepiece model of both
# sides, negatives from the other side only. Run it again after an interruption: finished steps are
# skipped, trainings resume.
#
#   recipes/encoder/bitext.sh SRC TGT [PREFIX...]
#
#   SRC      the other language of the bitext, say en
#   TGT      the language of the encoder, that which a model is to translate into, say de
#   PREFIX   bitext: PREFIX.SRC and PREFIX.TGT, plain or .gz; default: what SIMILE_DATA has of the two
#            languages (news to 2014, for Turkish 2016; German also Tatoeba and Europarl)
#
# Settings (environment variables, with their defaults):
#   WORK        work/bitext.SRC-TGT in the repository: everything that is made
#   PIECES      20000     of the joint vocabulary, the paper's; less where the text has not so many
#   STEPS       10000     minibatches of 128
#   TEST        prefix of held-out bitext for cross-lingual retrieval; default: newstest2018 of SIMILE_DATA
#   STS         folders with human similarity in TGT; default: those of SIMILE_DATA where TGT is en
#   JUDGEMENTS  files of judged translations into TGT; default: those of SIMILE_DATA where TGT is en
#   EXCLUDE     files with more sentences that no training pair may have
#   FLAGS_FILE  best.flags    settings of the training; acl19.flags are the paper's, for a million pairs
#   DEVICE      cuda where there is one, else cpu
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "${@:---help}"
[ $# -ge 2 ] || die "expected SRC TGT, got $# arguments (see --help)"
SRC=$1 TGT=$2
shift 2
HERE=$ROOT/recipes/encoder
WORK=${WORK:-$ROOT/work/bitext.$SRC-$TGT}
STEPS=${STEPS:-10000}
FLAGS_FILE=${FLAGS_FILE:-$HERE/best.flags}
data=${SIMILE_DATA:-}
[ "$TGT" = en ] && pair=$SRC-en || pair=$TGT-en
TEST=${TEST:-$data/newstest/$pair/newstest2018}
shopt -s nullglob

prefixes=("$@")
if [ $# = 0 ]; then
    [ "$SRC" = en ] || [ "$TGT" = en ] || die "PREFIX: SIMILE_DATA has bitext with English only; name yours"
    for file in "$data/newstest/$pair"/*.en.gz "$data/tatoeba-$pair/train.en.gz" \
        "$data/europarl20k-$pair/train.en.gz"; do
        case $file in
        *newstest201[5-8]*) continue ;; # of judgements, development and test sets
        esac
        [ ! -e "$file" ] || prefixes+=("${file%.en.gz}")
    done
    [ ${#prefixes[@]} -gt 0 ] || die "SIMILE_DATA: got '$data', which has no bitext of $SRC and $TGT; name PREFIX"
fi
read -ra sts <<<"${STS:-}"
read -ra judgements <<<"${JUDGEMENTS:-}"
if [ "$TGT" = en ] && [ -n "$data" ]; then
    [ -n "${STS+given}" ] || sts=("$data"/sts/STS20{12,13,14,17}-en-test)
    [ -n "${JUDGEMENTS+given}" ] || judgements=("$data"/judgements/wmt15.*.tsv)
fi
read -ra more <<<"${EXCLUDE:-}"
test_src=$(side TEST "$TEST" "$SRC") test_tgt=$(side TEST "$TEST" "$TGT")
files=()
for prefix in "${prefixes[@]}"; do
    for language in "$TGT" "$SRC"; do files+=("$(side PREFIX "$prefix" "$language")"); done
done

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
if has_gpu; then DEVICE=${DEVICE:-cuda}; else DEVICE=${DEVICE:-cpu}; fi
mkdir -p "$WORK"
excluded=("$test_src" "$test_tgt" "${more[@]}" "${judgements[@]}" "$data"/sts/*/STS.input.*.txt
    "$data"/newstest/"$pair"/newstest201[578].*.gz "$data/tatoeba-$pair"/test.*.gz)
for folder in "${sts[@]}"; do # of 2016: STS2016.input.X.txt; STS-B is a file
    if [ -d "$folder" ]; then excluded+=("$folder"/STS*.input.*.txt); else excluded+=("$folder"); fi
done

collect() { # PIECES EXCLUDE STS JUDGEMENTS TEST-FILES FILES...
    local pieces=$1
    shift 6
    paste_sides PREFIX "$@" >"$WORK/raw.tsv"
    # Two languages share few trigrams: what does share them was not translated.
    simile filter-pairs "$WORK/raw.tsv" --max-overlap 0.5 --exclude "${excluded[@]}" \
        --output "$WORK/pairs.tsv"
    rm "$WORK/raw.tsv"
    simile binarize-pairs "$WORK/pairs.tsv" --vocab-size "$pieces" --overwrite \
        --output "$WORK/pairs.bin"
}

train() { # FLAGS-FILE STEPS
    simile train-encoder "@$1" "$WORK/pairs.bin" --pool other --steps "$2" --seed 1 \
        --device "$DEVICE" --overwrite --output "$WORK/encoder"
}

say "Bitext of $TGT and $SRC, in $WORK: ${#prefixes[@]} corpora"
once collect collect "${PIECES:-20000}" "${EXCLUDE:-}" "${sts[*]}" "${judgements[*]}" "$test_src" "$test_tgt" \
    "${files[@]}"
say "Training the encoder ($STEPS minibatches)"
AFTER=collect once train train "$FLAGS_FILE" "$STEPS"
say "Translations found among all of $TEST, both ways"
python "$ROOT/recipes/papers/artetxe-2019-margin-based-mining/mine_bitext.py" "$WORK/encoder" --source "$test_src" --target "$test_tgt" --aligned
ask=()
[ ${#sts[@]} = 0 ] || ask+=(--sts "${sts[@]}")
[ ${#judgements[@]} = 0 ] || ask+=(--judgements "${judgements[@]}")
if [ ${#ask[@]} = 0 ]; then
    say "No human similarity or judgements in $TGT (STS, JUDGEMENTS)"
else
    simile eval-encoder "$WORK/encoder" "${ask[@]}"
fi
say "For --simile-encoder and simile score: $WORK/encoder"

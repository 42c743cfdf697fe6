#!/usr/bin/env bash
# Hard STS, and STS in bins of length and unknown words, of encoders: one that averages words and one
# that averages character trigrams, both trained here on the same pairs, and any that you give. What is
# done is skipped when it is run again.
#
#   SIMILE_DATA=... ENCODERS="sp=FOLDER" recipes/papers/wieting-2016-hard-sts/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with sts/ and paraphrases/; needed
#   ENCODERS      further encoders, NAME=FOLDER with spaces between them
#   WORK          work/hard-sts in the repository: pairs, encoders, tables
#   STEPS         4000  minibatches of each encoder that is trained
#   WORDS         20000  words that the encoder of words knows
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/hard-sts} STEPS=${STEPS:-4000} WORDS=${WORDS:-20000}
whole_numbers STEPS WORDS
[ -d "${SIMILE_DATA:-}/sts" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with sts/ and paraphrases/ in it"
HERE=$ROOT/recipes/papers/wieting-2016-hard-sts
setup_venv
mkdir -p "$WORK"
read -ra more <<<"${ENCODERS:-}"
folders=("$SIMILE_DATA"/sts/STS20{12,13,14}-en-test)

collect() { # FILES...: pairs without any sentence of STS
    simile filter-pairs "$@" --max-overlap 1 --exclude "$SIMILE_DATA"/sts/*/STS.input.*.txt \
        --output "$WORK/pairs.tsv"
}

train() { # KIND STEPS FLAGS...
    simile train-encoder "$WORK/pairs.tsv" --kind "$1" --steps "$2" --pool all --init-std 0.1 \
        --overwrite --output "$WORK/$1" "${@:3}"
}

compare() { # ENCODERS...
    python "$HERE/hard_sts.py" "$@" --vocabulary "$WORK/word" --sts "${folders[@]}" >"$WORK/tables.new"
    mv "$WORK/tables.new" "$WORK/tables.md"
}

say "Pairs without the sentences of STS, in $WORK"
once pairs collect "$SIMILE_DATA"/paraphrases/{quora.rawcase,quora.lowercased,paranmt-10k,twitter-url.train}.tsv.gz
for kind in word trigram; do
    flags=()
    [ "$kind" != word ] || flags=(--vocab-size "$WORDS")
    say "Training an encoder of kind $kind, $STEPS minibatches"
    AFTER=pairs once "$kind" train "$kind" "$STEPS" "${flags[@]}"
done
say "Pearson x 100 on STS 2012 to 2014, in parts"
AFTER="word trigram" once tables compare word="$WORK/word" trigram="$WORK/trigram" "${more[@]}"
cat "$WORK/tables.md"

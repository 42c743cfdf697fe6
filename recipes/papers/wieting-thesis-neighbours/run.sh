#!/usr/bin/env bash
# Nearest words of the thesis's words (tables 8 and 23) and "not" bigrams (table 22), by an encoder of
# words and one of character trigrams, trained here on the same pairs, and the default encoder. What is
# done is skipped when it is run again.
#
#   SIMILE_DATA=... recipes/papers/wieting-thesis-neighbours/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with paraphrases/ and sts/; needed
#   WORK          work/neighbours in the repository: pairs, encoders, tables
#   STEPS         4000   minibatches of each encoder that is trained
#   WORDS         20000  words that the encoder of words knows, as most; neighbours are of 10000
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/neighbours} STEPS=${STEPS:-4000} WORDS=${WORDS:-20000}
whole_numbers STEPS WORDS
[ -d "${SIMILE_DATA:-}/paraphrases" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with paraphrases/ and sts/ in it"
HERE=$ROOT/recipes/papers/wieting-thesis-neighbours
setup_venv
mkdir -p "$WORK"

collect() { # FILES...: pairs without any sentence of STS
    simile filter-pairs "$@" --max-overlap 1 --exclude "$SIMILE_DATA"/sts/*/STS.input.*.txt \
        --output "$WORK/pairs.tsv"
    tr '\t' '\n' <"$WORK/pairs.tsv" >"$WORK/text"
}

train() { # KIND STEPS FLAGS...
    simile train-encoder "$WORK/pairs.tsv" --kind "$1" --steps "$2" --pool all --init-std 0.1 \
        --overwrite --output "$WORK/$1" "${@:3}"
}

compare() { # NAME QUERIES...
    printf '%s\n' "${@:2}" >"$WORK/$1.queries"
    python "$HERE/neighbours.py" word="$WORK/word" trigram="$WORK/trigram" default=default --words 10000 \
        --text "$WORK/text" --queries "$WORK/$1.queries" -k 3 >"$WORK/$1.new"
    mv "$WORK/$1.new" "$WORK/$1.md"
}

once pairs collect "$SIMILE_DATA"/paraphrases/{quora.rawcase,quora.lowercased,paranmt-10k,twitter-url.train}.tsv.gz
AFTER=pairs once word train word "$STEPS" --vocab-size "$WORDS"
AFTER=pairs once trigram train trigram "$STEPS"
say "Words of tables 8 and 23, bigrams of table 22"
AFTER="word trigram" once words compare words unlike 2 ladies lookin disagree vehicals growths journeying \
    babyyyyyy refunding professors huge
AFTER="word trigram" once bigrams compare bigrams "not capable" "not able" "not possible" "not sufficient" "not easy"
cat "$WORK"/{words,bigrams}.md

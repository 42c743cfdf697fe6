#!/usr/bin/env bash
# Which language teaches English similarity best (Wieting et al. 2019, section 4.2)? Encoders of as many
# news pairs of each language, and how many pieces the language shares with English. What is done is
# skipped when it is run again.
#
#   SIMILE_DATA=... recipes/papers/wieting-2019-language-choice/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with newstest/, mafand/ and sts/; needed
#   WORK          work/language-choice in the repository: everything that is made
#   PAIRS         4500  pairs of each language
#   PIECES        4000  of the joint vocabulary of an encoder, and of each language's own model
#   STEPS         1000  minibatches of an encoder
#   SEEDS         "1 2 3"
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/language-choice}
PAIRS=${PAIRS:-4500} PIECES=${PIECES:-4000} STEPS=${STEPS:-1000}
whole_numbers PAIRS PIECES STEPS
[ -d "${SIMILE_DATA:-}/mafand" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with newstest/, mafand/ and sts/ in it"
HERE=$ROOT/recipes/papers/wieting-2019-language-choice
setup_venv
mkdir -p "$WORK"
read -ra seeds <<<"${SEEDS:-1 2 3}"

# The English of Turkish's newstest2016 is half that of the references of judgements: it is left out,
# and so is that year of all languages.
collect() { # LANGUAGE PAIRS PIECES
    local files=() year
    case $1 in
    cs | de | ru | tr) for year in 2017 2018; do files+=("$SIMILE_DATA/newstest/$1-en/newstest$year".{en,"$1"}.gz); done ;;
    *) files=("$SIMILE_DATA/mafand/en-$1/train".{en,"$1"}.gz) ;;
    esac
    paste_sides PAIRS "${files[@]}" >"$WORK/$1.raw"
    simile filter-pairs "$WORK/$1.raw" --max-overlap 1 --exclude "$SIMILE_DATA"/sts/*/STS.input.*.txt \
        --output "$WORK/$1.all"
    shuf -n "$2" --random-source=<(yes) "$WORK/$1.all" >"$WORK/$1.tsv"
    [ "$(wc -l <"$WORK/$1.tsv")" = "$2" ] || die "PAIRS: $1 has only $(wc -l <"$WORK/$1.tsv"), got $2"
    rm "$WORK/$1.raw" "$WORK/$1.all"
    simile binarize-pairs "$WORK/$1.tsv" --vocab-size "$3" --overwrite --output "$WORK/$1.bin"
}

train() { # LANGUAGE SEED STEPS
    simile train-encoder "@$ROOT/recipes/encoder/best.flags" "$WORK/$1.bin" --steps "$3" --seed "$2" \
        --overwrite --output "$WORK/$1.$2"
}

compare() { # PIECES LANGUAGE=PAIRS=ENCODERS...
    python "$HERE/language_choice.py" "${@:2}" --pieces "$1" --sts "$SIMILE_DATA"/sts/STS20{12,13,14}-en-test \
        >"$WORK/table.new"
    mv "$WORK/table.new" "$WORK/table.md"
}

specs=() steps=()
for language in cs de ru tr hau ibo pcm yor; do
    say "$language: pairs, and ${#seeds[@]} encoders"
    once "pairs.$language" collect "$language" "$PAIRS" "$PIECES"
    encoders=()
    for seed in "${seeds[@]}"; do
        AFTER=pairs.$language once "$language.$seed" train "$language" "$seed" "$STEPS"
        encoders+=("$WORK/$language.$seed") steps+=("$language.$seed")
    done
    specs+=("$language=$WORK/$language.tsv=$(IFS=,; echo "${encoders[*]}")")
done
say "Pearson x 100, mean of STS 2012 to 2014, and shared pieces"
AFTER="${steps[*]}" once table compare "$PIECES" "${specs[@]}"
cat "$WORK/table.md"

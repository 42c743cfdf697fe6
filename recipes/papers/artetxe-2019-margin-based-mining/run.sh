#!/usr/bin/env bash
# Bitext mining: an encoder of German and English; pairs hidden among other sentences, found by the
# three margins, the threshold tuned on other texts; retrieval on Tatoeba. What is done is skipped when
# it is run again.
#
#   SIMILE_DATA=... recipes/papers/artetxe-2019-margin-based-mining/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with tatoeba-de-en/ and newstest/de-en/; needed
#   ENCODER       an encoder's folder of both languages; default: one is trained
#   WORK          work/mining in the repository: pairs, encoder, texts, table.md
#   STEPS         3000   minibatches of the encoder
#   PAIRS         600    hidden pairs of a set
#   DISTRACTORS   5000   other sentences of a side
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/mining} STEPS=${STEPS:-3000} PAIRS=${PAIRS:-600} DISTRACTORS=${DISTRACTORS:-5000}
ENCODER=${ENCODER:-$WORK/encoder}
whole_numbers STEPS PAIRS DISTRACTORS
tatoeba=${SIMILE_DATA:-}/tatoeba-de-en news=${SIMILE_DATA:-}/newstest/de-en
[ -d "$tatoeba" ] && [ -d "$news" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with tatoeba-de-en/ and newstest/de-en/ in it"
HERE=$ROOT/recipes/papers/artetxe-2019-margin-based-mining
setup_venv
mkdir -p "$WORK"

halves() { # the odd and the even lines of Tatoeba's test part: to tune, to test
    local side
    for side in de en; do
        zcat "$tatoeba/test.$side.gz" | awk -v tune="$WORK/tune.$side" -v test="$WORK/test.$side" \
            '{ print > (NR % 2 ? tune : test) }'
    done
}

hide() { # NAME YEAR PAIRS DISTRACTORS
    python "$HERE/plant_bitext.py" --source "$WORK/$1.de" "$news/newstest$2.de.gz" \
        --target "$WORK/$1.en" "$news/newstest$2.en.gz" --pairs "$3" --distractors "$4" --output "$WORK/$1"
}

train() { # STEPS
    local file
    for file in "$tatoeba/train.en.gz" "$news"/news*20{08,09,10,11,12,13,14}.en.gz; do
        paste_sides SIMILE_DATA "$file" "${file%.en.gz}.de.gz"
    done >"$WORK/pairs.tsv"
    simile train-encoder "$WORK/pairs.tsv" --pool other --steps "$1" --seed 1 --overwrite --output "$WORK/encoder"
}

mine() { # MARGIN ENCODER: tuned on one set, tested on the other
    local threshold set=("$2" --margin "$1" --json)
    threshold=$(python "$HERE/mine_bitext.py" "${set[@]}" --source "$WORK/tune.source" \
        --target "$WORK/tune.target" --gold "$WORK/tune.gold" |
        python -c 'import json, sys; print(json.load(sys.stdin)["threshold"])')
    python "$HERE/mine_bitext.py" "${set[@]}" --source "$WORK/test.source" --target "$WORK/test.target" \
        --gold "$WORK/test.gold" --threshold "$threshold" |
        python -c 'import json, sys; of = json.load(sys.stdin)
print("|", of["margin"], *(f"| {of[name]:.1f}" for name in ("precision", "recall", "f1")), "|")' >"$WORK/$1.row"
}

retrieve() { # ENCODER
    python "$HERE/mine_bitext.py" "$1" --source "$tatoeba/test.de.gz" --target "$tatoeba/test.en.gz" --aligned \
        >"$WORK/retrieval.txt"
}

once halves halves "$tatoeba"/test.*.gz
AFTER=halves once tune hide tune 2017 "$PAIRS" "$DISTRACTORS"
AFTER=halves once test hide test 2018 "$PAIRS" "$DISTRACTORS"
[ "$ENCODER" != "$WORK/encoder" ] || once encoder train "$STEPS"
for margin in ratio distance absolute; do
    AFTER="tune test encoder" once "$margin" mine "$margin" "$ENCODER"
done
AFTER=encoder once retrieval retrieve "$ENCODER"
{
    printf '| margin | precision | recall | F1 |\n|---|---:|---:|---:|\n'
    cat "$WORK"/{ratio,distance,absolute}.row
} | tee "$WORK/table.md"
cat "$WORK/retrieval.txt"

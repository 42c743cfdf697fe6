#!/usr/bin/env bash
# Finding the paraphrase of a query in a document (find.py): spans, sentences by vector
# and by tf-idf, on verses of the Bible in two versions and on sentences that people rewrote. What is
# done is skipped when it is run again.
#
#   ENCODER=FOLDER recipes/papers/kanerva-2021-paraphrase-span-detection/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with paraphrases/bible-en.tsv.gz and multiref/asset.valid.tsv.gz; needed
#   ENCODER       an encoder's folder; needed
#   WORK          work/find in the repository: questions, figures
#   METHODS       "span sentence tfidf"
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

WORK=${WORK:-$ROOT/work/find}
bible=${SIMILE_DATA:-}/paraphrases/bible-en.tsv.gz asset=${SIMILE_DATA:-}/multiref/asset.valid.tsv.gz

no_arguments "$@"
for file in "$bible" "$asset"; do
    [ -f "$file" ] || die "SIMILE_DATA: expected a folder with ${file#"${SIMILE_DATA:-}/"}"
done
[ -d "${ENCODER:-}" ] || die "ENCODER: expected an encoder's folder (recipes/encoder)"

HERE=$ROOT/recipes/papers/kanerva-2021-paraphrase-span-detection
setup_venv papers
mkdir -p "$WORK"

plant() { # NAME KIND FILE: setup 1, where the answer is always there, and setup 2
    python "$HERE/plant.py" "$2" "$3" --present --output "$WORK/$1.1"
    python "$HERE/plant.py" "$2" "$3" --output "$WORK/$1.2"
}

search() { # NAME SETUP METHODS ENCODER FILES...
    local questions=$WORK/$1.$2 flags=(--squad "$WORK/$1.$2.test.json")
    [ "$2" = 1 ] || flags+=(--tune "$questions.dev.json")
    for method in $3; do
        say "$method"
        python "$HERE/find.py" "$4" "${flags[@]}" --method "$method"
    done >"$questions.new"
    mv "$questions.new" "$questions.txt"
}

once bible plant bible chapters "$bible"
once asset plant asset rewrites "$asset"
titles=("" "the answer is there" "it may be missing; the threshold is tuned on other questions")
for name in bible asset; do
    for setup in 1 2; do
        say "$name, setup $setup: ${titles[setup]}"
        AFTER=$name once "$name.$setup" search "$name" "$setup" "${METHODS:-span sentence tfidf}" \
            "$ENCODER" "$ENCODER"/*
        cat "$WORK/$name.$setup.txt"
    done
done

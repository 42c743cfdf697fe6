#!/usr/bin/env bash
# Finding the paraphrase of a query in a document (simile find): spans, sentences by vector and by
# tf-idf, on verses of the Bible in two versions and on sentences that people rewrote.
#
#   ENCODER=FOLDER recipes/find/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with paraphrases/bible-en.tsv.gz and multiref/asset.valid.tsv.gz; needed
#   ENCODER       an encoder's folder; needed
#   WORK          work/find in the repository: questions, figures
#   METHODS       "span sentence tfidf"
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/find}
read -ra methods <<<"${METHODS:-span sentence tfidf}"
bible=${SIMILE_DATA:-}/paraphrases/bible-en.tsv.gz asset=${SIMILE_DATA:-}/multiref/asset.valid.tsv.gz

no_arguments "$@"
for file in "$bible" "$asset"; do
    [ -f "$file" ] || die "SIMILE_DATA: expected a folder with ${file#"${SIMILE_DATA:-}/"}"
done
[ -d "${ENCODER:-}" ] || die "ENCODER: expected an encoder's folder (recipes/encoder)"

setup_venv
mkdir -p "$WORK"

plant() { # NAME KIND FILE: setup 1, where the answer is always there, and setup 2
    python "$ROOT/recipes/find/plant.py" "$2" "$3" --present --output "$WORK/$1.1"
    python "$ROOT/recipes/find/plant.py" "$2" "$3" --output "$WORK/$1.2"
}

once bible plant bible chapters "$bible"
once asset plant asset rewrites "$asset"
for name in bible asset; do
    say "$name, setup 1: the answer is there"
    simile find "$ENCODER" --squad "$WORK/$name.1.test.json" --method "${methods[@]}" |
        tee "$WORK/$name.1.txt"
    say "$name, setup 2: it may be missing; the threshold is tuned on other questions"
    simile find "$ENCODER" --squad "$WORK/$name.2.test.json" --tune "$WORK/$name.2.dev.json" \
        --method "${methods[@]}" | tee "$WORK/$name.2.txt"
done

#!/usr/bin/env bash
# Paraphrase detection: encoders of words, of pieces and with gates (WA-M, WA, GRAN), a classifier on
# top, graded labels (Finnish, English), and noise in the training. What is done is skipped when it is
# run again.
#
#   SIMILE_DATA=... recipes/papers/sjoblom-2018-paraphrase-detection/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with detection/ and paraphrases/; needed
#   WORK          work/detection in the repository: data, tables
#   COUNT         4000  pairs of questions that encoders are trained on
#   ASKED         1000   other pairs of questions, labelled
#   EPOCHS        4      passes over the questions; three times as many over the few Finnish pairs
#   SEEDS         "1"    of encoders and classifiers
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/detection} COUNT=${COUNT:-4000} ASKED=${ASKED:-1000} EPOCHS=${EPOCHS:-4}
whole_numbers COUNT ASKED EPOCHS
read -ra seeds <<<"${SEEDS:-1}"
[ -d "${SIMILE_DATA:-}/detection" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with detection/ and paraphrases/ in it"
HERE=$ROOT/recipes/papers/sjoblom-2018-paraphrase-detection
setup_venv papers
mkdir -p "$WORK"

split() { # NAME LABELLED
    python "$HERE/detection_data.py" split "$2" --output "$WORK/$1"
}

questions() { # COUNT ASKED TRAINED-ON OTHERS
    python "$HERE/detection_data.py" nearest "$4" --count "$2" --output "$WORK/questions"
    for share in 100 80 60; do
        python "$HERE/detection_data.py" noise "$3" --percent "$share" --count "$1" --output "$WORK/$share.tsv"
    done
}

detect() { # TABLE FLAGS...
    python "$HERE/detect.py" "${@:2}" >"$WORK/$1.new"
    mv "$WORK/$1.new" "$WORK/$1.md"
}

once finnish.data split finnish "$SIMILE_DATA/detection/opusparcus-style-fi.dev.tsv.gz"
once paws.data split paws "$SIMILE_DATA/detection/paws-wiki.dev.tsv.gz"
once questions.data questions "$COUNT" "$ASKED" "$SIMILE_DATA"/paraphrases/quora.{rawcase,lowercased}.tsv.gz
say "Finnish, graded by people; encoders are trained on the paraphrases of the training half"
AFTER=finnish.data once finnish detect finnish --sets finnish="$WORK/finnish" \
    --pairs "finnish=$WORK/finnish.pairs.tsv" \
    --epochs $((3 * EPOCHS)) --seeds "${seeds[@]}"
cat "$WORK/finnish.md"
say "Questions: duplicates against the most similar other question; PAWS: the words in another order"
AFTER="paws.data questions.data" once noise detect noise --kinds wa gran --vocab-size 4000 \
    --sets questions="$WORK/questions" paws="$WORK/paws" --epochs "$EPOCHS" --seeds "${seeds[@]}" \
    --pairs "100 % right=$WORK/100.tsv" "80 % right=$WORK/80.tsv" "60 % right=$WORK/60.tsv"
cat "$WORK/noise.md"

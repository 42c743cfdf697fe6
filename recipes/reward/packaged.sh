#!/usr/bin/env bash
# The learned reward that comes with the package, `--reward learned`: fitted with `--encoder default` to the
# judgements of WMT 2015 and to harm made of English text that may be given away, and what it is worth
# on MLQE-PE, which nothing of it was fitted to.
#
#   SIMILE_DATA=... recipes/reward/packaged.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with judgements/, tatoeba-de-en/ and paraphrases/indic/
#   WORK          work/reward.packaged in the repository: everything that is made; reward.json and
#                 vocabulary.txt of $WORK/reward are those of simile_plugin/reward/english
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/reward.packaged}
[ -d "${SIMILE_DATA:-}/judgements" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with judgements/ in it"

setup_venv
mkdir -p "$WORK"

# Every seventh sentence of Tatoeba, and the first translation of every fourth cluster. Neither corpus has
# a sentence of the judgements; Tatoeba's training set is disjoint from its test set.
get_text() { # FILES...
    gzip -dc "$1" | awk 'NR % 7 == 1' >"$WORK/tatoeba.en"
    gzip -dc "${@:2}" | cut -f1 | awk 'NR % 4 == 1' >"$WORK/indic.en"
}

fit() { # FILES...: what decides the result
    simile fit-reward --judgements "$@" --encoder default --text "$WORK/tatoeba.en" "$WORK/indic.en" \
        --output "$WORK/reward" --overwrite >"$WORK/wmt15.txt"
}

evaluate() { # FILES...
    simile eval-encoder default --learned "$WORK/reward" --judgements "$@" >"$WORK/mlqe-pe.txt"
}

say "English text that may be given away, in $WORK"
once text get_text "$SIMILE_DATA/tatoeba-de-en/train.en.gz" "$SIMILE_DATA"/paraphrases/indic/*.tsv.gz
say "Fitting a learned reward to the encoder of the package"
AFTER=text once fit fit "$SIMILE_DATA"/judgements/wmt15.*-en.tsv
cat "$WORK/wmt15.txt"
say "The reward on MLQE-PE, whose references were made from the hypotheses"
AFTER=fit once evaluate evaluate "$SIMILE_DATA"/judgements/mlqe-pe.*.dev.tsv.gz
cat "$WORK/mlqe-pe.txt"

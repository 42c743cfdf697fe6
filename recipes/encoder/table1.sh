#!/usr/bin/env bash
# Paraphrases or bitext? Table 1 of "Simple and Effective Paraphrastic Similarity from Parallel
# Translations" (Wieting et al. 2019) on other data: encoders of four kinds from as many English
# paraphrases, as much German-English bitext, and twice as much (as many English sentences), with the
# same training; mean Pearson on STS 2012 to 2014.
#
#   SIMILE_DATA=... recipes/encoder/table1.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with paraphrases/, tatoeba-de-en/, europarl20k-de-en/, newstest/ and sts/
#   WORK          work/table1 in the repository: everything that is made
#   KINDS         "sp trigram word lstm"    of simile contrib train-encoder --kind
#   PAIRS         60000
#   STEPS         1000                      minibatches of 128
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/table1}
KINDS=${KINDS:-sp trigram word lstm}
PAIRS=${PAIRS:-60000}
STEPS=${STEPS:-1000}
[ -d "${SIMILE_DATA:-}/paraphrases" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with paraphrases/ in it"
setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
threads_for 1
mkdir -p "$WORK"/{pairs,results}

collect() { # PAIRS FILES...
    local prefix news=() drop=(--exclude "$SIMILE_DATA"/sts/*/STS.input.*.txt)
    for prefix in "$SIMILE_DATA"/newstest/de-en/*.en.gz; do
        [[ $prefix = *newstest201[5-8]* ]] || news+=("${prefix%.en.gz}")
    done
    for prefix in "${news[@]}" "$SIMILE_DATA"/{tatoeba,europarl20k}-de-en/train; do
        paste_sides SIMILE_DATA "$prefix.en.gz" "$prefix.de.gz"
    done >"$WORK/bitext.raw"
    simile filter-pairs "$WORK/bitext.raw" --max-overlap 0.5 "${drop[@]}" --output "$WORK/bitext.all"
    # Translations of one sentence by several people: the nearest to back-translated pairs.
    simile filter-pairs "$SIMILE_DATA"/paraphrases/indic/*.tsv.gz --columns 1- --max-overlap 0.5 \
        "${drop[@]}" --output "$WORK/paraphrases.all"
    drawn "$1" "$WORK/paraphrases.all" >"$WORK/pairs/paraphrases.tsv"
    drawn "$1" "$WORK/bitext.all" >"$WORK/pairs/bitext.tsv"
    drawn $((2 * $1)) "$WORK/bitext.all" >"$WORK/pairs/bitext2.tsv"
}

drawn() { # LINES FILE: the same ones each time
    local there
    there=$(wc -l <"$2")
    [ "$1" -le "$there" ] || die "PAIRS: $2 has only $there pairs; ask for fewer"
    shuf -n "$1" --random-source=<(yes) "$2"
}

encoder() { # KIND DATA STEPS FILES...
    local out=$WORK/encoder.$1.$2 settings=(--vocab-size 20000 --pool other)
    # Of paraphrases, both sides are English: negatives from both, as in the paper.
    [ "$2" != paraphrases ] || settings=(--vocab-size 20000 --pool all)
    case $1 in
    word | trigram | charagram) settings[1]=200000 ;;
    lstm | blstm) settings+=(--scramble 0.3) ;;
    esac
    simile contrib train-encoder "$WORK/pairs/$2.tsv" --kind "$1" "${settings[@]}" --dim 300 --steps "$3" \
        --batch-size 128 --margin 0.4 --megabatch 60 --megabatch-anneal 150 --seed 1 --overwrite \
        --output "$out"
    simile eval-encoder "$out" --sts "$SIMILE_DATA"/sts/STS201{2,3,4}-en-test --json \
        >"$WORK/results/$1.$2.json"
}

tests=("$SIMILE_DATA"/sts/*/STS.*.txt)
once collect collect "$PAIRS" "$SIMILE_DATA"/{paraphrases/indic,newstest/de-en}/*.gz \
    "$SIMILE_DATA"/{tatoeba,europarl20k}-de-en/train.*.gz "${tests[@]}"
for kind in $KINDS; do
    for data in paraphrases bitext bitext2; do
        AFTER=collect once "$kind.$data" encoder "$kind" "$data" "$STEPS" "${tests[@]}"
    done
done
python - "$WORK/results" "$PAIRS" "$KINDS" <<'PY'
import json
import sys
from pathlib import Path
from statistics import fmean

from simile_plugin.significance import markdown_table

folder, pairs, kinds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split()
names = {"paraphrases": f"paraphrases, {pairs:,}", "bitext": f"bitext, {pairs:,}",
         "bitext2": f"bitext, {2 * pairs:,}"}
rows = [["kind", *names.values()]]
for kind in kinds:
    found = (json.loads((folder / f"{kind}.{data}.json").read_text())["sts"] for data in names)
    rows.append([kind, *(f"{fmean(year['mean_pearson'] for year in sets):.1f}" for sets in found)])
print(markdown_table(rows))
PY

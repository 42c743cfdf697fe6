#!/usr/bin/env bash
# The default reward encoder, from the paraphrases and bitext under SIMILE_DATA, and how good it is:
# STS 2012 to 2014 and 2017, and the segment-level judgements of WMT 2015. Run it again after an
# interruption: finished steps are skipped, trainings resume.
#
#   SIMILE_DATA=... recipes/encoder/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   folder with paraphrases/, tatoeba-de-en/, europarl20k-de-en/, newstest/, sts/ and
#                 judgements/
#   WORK          work/encoder in the repository: everything that is made
#   SEEDS         "1 2 3"   encoders are trained in $WORK/encoder.SEED
#   STEPS         40000     minibatches of each
#   FREE          0         1: only data whose licences let the encoder be given away, paraphrases/indic,
#                           the Bibles and Tatoeba: the encoder in the package (PIECES=12000, pack.py)
#   PIECES        30000     sentencepiece vocabulary
#   DEVICE        cuda where there is one, else cpu
#   EVALUATE      1         0: train only
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/encoder}
SEEDS=${SEEDS:-1 2 3}
STEPS=${STEPS:-40000}
FREE=${FREE:-0}
PIECES=${PIECES:-30000}
HERE=$ROOT/recipes/encoder
[ -d "${SIMILE_DATA:-}/paraphrases" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with paraphrases/ in it"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
mkdir -p "$WORK"/{raw,pairs,results}
if has_gpu; then DEVICE=${DEVICE:-cuda}; else DEVICE=${DEVICE:-cpu}; fi

# Sentences that the encoder is evaluated on, here or by others, as far as they are there: no pair with
# one of them is used.
shopt -s nullglob
evaluation=("$SIMILE_DATA"/sts/*/STS.input.*.txt "$SIMILE_DATA"/judgements/*.tsv*
    "$SIMILE_DATA"/detection/*.tsv.gz "$SIMILE_DATA"/multi30k/task*/*.en.gz
    "$SIMILE_DATA"/tatoeba-de-en/test.en.gz "$SIMILE_DATA"/newstest/*/newstest201[5-8].en.gz)
shopt -u nullglob
# Overlap is not limited: with less than a million pairs, easy ones help (docs/results/encoders.md).
keep=(--max-overlap 1 --exclude "${evaluation[@]}")

bitext() { # PREFIX OUT: English TAB German of PREFIX.en.gz and PREFIX.de.gz
    paste_sides SIMILE_DATA "$1.en.gz" "$1.de.gz" >"$2"
}

collect() { # FREE FILES...: what decides the result
    local part year
    local paraphrases=$SIMILE_DATA/paraphrases
    rm -f "$WORK"/raw/* # of other data
    rm -f "$WORK"/pairs/*
    bitext "$SIMILE_DATA/tatoeba-de-en/train" "$WORK/raw/tatoeba.tsv"
    simile filter-pairs "$paraphrases"/indic/*.tsv.gz --columns 1- "${keep[@]}" \
        --output "$WORK/pairs/clusters.tsv"
    simile filter-pairs "$paraphrases/bible-en.tsv.gz" --columns 2-7 --header "${keep[@]}" \
        --output "$WORK/pairs/bible.tsv"
    if [ "$1" = 1 ]; then
        python "$HERE/shared_translations.py" "$WORK/raw/tatoeba.tsv" >"$WORK/raw/shared.tsv"
        simile filter-pairs "$WORK/raw/shared.tsv" "${keep[@]}" --output "$WORK/pairs/shared.tsv"
        return
    fi
    bitext "$SIMILE_DATA/europarl20k-de-en/train" "$WORK/raw/europarl.tsv"
    for part in "$SIMILE_DATA"/newstest/de-en/*.en.gz; do
        part=${part%.en.gz} year=${part: -4}
        # 2015 and later: references of judgements, development and test sets.
        [ "$year" -ge 2015 ] || bitext "$part" "$WORK/raw/${part##*/}.tsv"
    done
    python "$HERE/shared_translations.py" "$WORK"/raw/{tatoeba,europarl,news*}.tsv \
        >"$WORK/raw/shared.tsv"
    simile filter-pairs "$paraphrases"/{paranmt-10k,quora.*,twitter-url.*}.tsv.gz \
        "$WORK"/raw/*.tsv "${keep[@]}" --output "$WORK/pairs/others.tsv"
}

# A quick first encoder finds the pairs whose sides have nothing to do with each other.
first_encoder() { # PIECES
    simile binarize-pairs "$WORK"/pairs/*.tsv --vocab-size "$1" --sample-sentences 400000 \
        --output "$WORK/first.bin" --overwrite
    simile train-encoder "@$HERE/best.flags" "$WORK/first.bin" --steps 4000 --overwrite \
        --device "$DEVICE" --output "$WORK/first"
}

remove_noise() {
    simile filter-pairs "$WORK"/pairs/*.tsv --max-overlap 1 --encoder "$WORK/first" \
        --min-score 0.35 --output "$WORK/train.tsv"
    simile binarize-pairs "$WORK/train.tsv" --sentencepiece "$WORK/first/sentencepiece.model" \
        --output "$WORK/train.bin" --overwrite
}

train() { # SEED STEPS
    simile train-encoder "@$HERE/best.flags" "$WORK/train.bin" --steps "$2" --seed "$1" \
        --device "$DEVICE" --overwrite --output "$WORK/encoder.$1"
}

evaluate() { # SEED FILES...
    simile eval-encoder "$WORK/encoder.$1" --sts "$SIMILE_DATA"/sts/STS20{12,13,14,17}-en-test \
        --judgements "$SIMILE_DATA"/judgements/wmt15.*.tsv --json >"$WORK/results/$1.json"
}

say "Paraphrases and bitext without the evaluation sets' sentences, in $WORK"
once collect collect "$FREE" "${evaluation[@]}" "$SIMILE_DATA"/{paraphrases{,/indic},newstest/de-en}/*.gz \
    "$SIMILE_DATA"/{tatoeba,europarl20k}-de-en/train.*.gz
say "A first encoder, to find noise"
AFTER=collect once first first_encoder "$PIECES"
AFTER=first once noise remove_noise
results=() # of these seeds: what an earlier run left may be of other data
for seed in $SEEDS; do
    results+=("$WORK/results/$seed.json")
    say "Training encoder.$seed ($STEPS minibatches)"
    AFTER=noise once "train.$seed" train "$seed" "$STEPS"
    [ "${EVALUATE:-1}" = 0 ] || AFTER="train.$seed" once "evaluate.$seed" evaluate "$seed" \
        "$SIMILE_DATA"/{sts/*,judgements}/*
done
[ "${EVALUATE:-1}" = 0 ] || python "$HERE/table.py" "${results[@]}"
say "Encoders for --simile-encoder and simile score: $WORK/encoder.SEED"

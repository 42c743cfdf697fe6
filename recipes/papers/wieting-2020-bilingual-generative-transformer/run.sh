#!/usr/bin/env bash
# The Bilingual Generative Transformer, MGT and the four ablations (Wieting et al. 2020), beside the mean
# of embeddings (sp), all trained on the same pairs: STS and retrieval of translations. What is done is
# skipped when it is run again.
#
#   SIMILE_DATA=... recipes/papers/wieting-2020-bilingual-generative-transformer/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with tatoeba-de-en/ and sts/; needed
#   WORK          work/bgt in the repository: everything that is made
#   SYSTEMS       "bgt multilingual-translation variational-translation no-prior mgt english-translation"
#   PAIRS         40000   pairs that are trained on
#   UPDATES       400     of each system (paper: 20 epochs of a million pairs)
#   TOKENS        1500    of a side in an update (paper: 25000, without prior 50000)
#   PIECES        1000    of the joint vocabulary (paper: 20000)
#   DIM           64      of embeddings, states and variables (paper: 1024)
#   SP_STEPS      1000    minibatches of sp
#   SEED          1
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/bgt} PAIRS=${PAIRS:-40000} UPDATES=${UPDATES:-400} TOKENS=${TOKENS:-1500} PIECES=${PIECES:-1000}
DIM=${DIM:-64} SP_STEPS=${SP_STEPS:-1000} SEED=${SEED:-1}
whole_numbers PAIRS UPDATES TOKENS PIECES DIM SP_STEPS SEED
all="bgt multilingual-translation variational-translation no-prior mgt english-translation"
read -ra systems <<<"${SYSTEMS:-$all}"
for system in "${systems[@]}"; do
    [[ " $all " = *" $system "* ]] || die "SYSTEMS: got '$system', expected some of $all"
done
[ -d "${SIMILE_DATA:-}/tatoeba-de-en" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with tatoeba-de-en/ and sts/ in it"
HERE=$ROOT/recipes/papers/wieting-2020-bilingual-generative-transformer
bitext=$SIMILE_DATA/tatoeba-de-en
setup_venv
mkdir -p "$WORK"
folders=("$SIMILE_DATA"/sts/STS20{12,13,14,17}-en-test)

collect() { # PAIRS PIECES
    paste_sides PREFIX "$bitext"/train.{en,de}.gz >"$WORK/raw.tsv"
    simile filter-pairs "$WORK/raw.tsv" --max-overlap 0.5 --max-tokens 100 --exclude \
        "$SIMILE_DATA"/sts/*/STS.input.*.txt "$bitext"/test.{en,de}.gz --output "$WORK/all.tsv"
    shuf -n "$1" --random-source=<(yes) "$WORK/all.tsv" >"$WORK/pairs.tsv"
    rm "$WORK/raw.tsv" "$WORK/all.tsv"
    simile binarize-pairs "$WORK/pairs.tsv" --vocab-size "$2" --overwrite --output "$WORK/pairs.bin"
}

train_sp() { # STEPS DIM SEED
    simile train-encoder "@$ROOT/recipes/encoder/best.flags" "$WORK/pairs.bin" --steps "$1" \
        --dim "$2" --seed "$3" --overwrite --output "$WORK/sp"
}

# Training ends when the weight of the KL term is 0.25. (The paper's 20 epochs of a million pairs are
# 16,000 updates of 25,000 tokens at 20 tokens a side; it anneals for 65,536.)
train() { # NAME VARIANT UPDATES FLAGS...
    python "$HERE/train_bgt.py" "$WORK/pairs.tsv" --sentencepiece "$WORK/pairs.bin/sentencepiece.model" \
        --variant "$2" --updates "$3" --anneal $((4 * UPDATES)) --output "$WORK/$1" "${@:4}"
}

compare() { # NAME=ENCODER...
    python "$HERE/table_bgt.py" "$@" --sts "${folders[@]}" --test "$bitext"/test.{en,de}.gz >"$WORK/table.new"
    mv "$WORK/table.new" "$WORK/table.md"
}

say "Pairs of English and German without the sentences of STS, in $WORK"
once pairs collect "$PAIRS" "$PIECES"
say "Training sp, $SP_STEPS minibatches"
AFTER=pairs once sp train_sp "$SP_STEPS" "$DIM" "$SEED"
flags=(--tokens "$TOKENS" --dim "$DIM" --seed "$SEED")
AFTER=pairs once untrained train untrained bgt 0 "${flags[@]}"
names=(sp="$WORK/sp" untrained="$WORK/untrained/semantic")
for system in "${systems[@]}"; do
    say "Training $system, $UPDATES updates"
    AFTER=pairs once "$system" train "$system" "$system" "$UPDATES" "${flags[@]}"
    names+=("$system=$WORK/$system/semantic")
    [ "$system" != bgt ] || names+=("bgt, z_en=$WORK/bgt/language-0")
done
say "Pearson x 100 of STS; retrieval among 2,000 translations, in percent"
AFTER="sp untrained ${systems[*]}" once table compare "${names[@]}"
cat "$WORK/table.md"

#!/usr/bin/env bash
# Encoders of every kind on the same English paraphrases, and every objective: averages of words,
# trigrams and pieces, CHARAGRAM, LSTM-AVG, BLSTM, GRAN; mean Pearson on STS 2012 to 2014. What is done
# is skipped when it is run again.
#
#   SIMILE_DATA=... recipes/papers/wieting-2019-encoder-kinds/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   a folder with paraphrases/ and sts/; needed
#   WORK          work/encoder-kinds in the repository: pairs, encoders, table.md
#   KINDS         "word trigram sp charagram lstm blstm gran"
#   OBJECTIVES    "contrastive ranking paragram" of the kind word, beside the margin
#   PAIRS         20000  pairs of paraphrases
#   STEPS         200    minibatches of each encoder
#   BATCH         64     pairs of a minibatch (the paper: 128)
#   DIM           100    length of the embeddings (the paper: 300)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

no_arguments "$@"
WORK=${WORK:-$ROOT/work/encoder-kinds} PAIRS=${PAIRS:-20000} STEPS=${STEPS:-200}
BATCH=${BATCH:-64} DIM=${DIM:-100}
whole_numbers PAIRS STEPS BATCH DIM
read -ra kinds <<<"${KINDS:-word trigram sp charagram lstm blstm gran}"
read -ra objectives <<<"${OBJECTIVES-contrastive ranking paragram}"
[ -d "${SIMILE_DATA:-}/paraphrases" ] ||
    die "SIMILE_DATA: got '${SIMILE_DATA:-}', expected a folder with paraphrases/ and sts/ in it"
HERE=$ROOT/recipes/papers/wieting-2019-encoder-kinds
setup_venv
mkdir -p "$WORK"

collect() { # PAIRS FILES...: pairs without any sentence of STS, the same ones each time
    simile filter-pairs "${@:2}" --max-overlap 0.7 --exclude "$SIMILE_DATA"/sts/*/STS.input.*.txt \
        --output "$WORK/all.tsv"
    [ "$1" -le "$(wc -l <"$WORK/all.tsv")" ] ||
        die "PAIRS: got $1, but there are only $(wc -l <"$WORK/all.tsv") pairs"
    shuf -n "$1" --random-source=<(yes) "$WORK/all.tsv" >"$WORK/pairs.tsv"
}

encoder() { # NAME KIND FLAGS...
    python "$HERE/train.py" "$WORK/pairs.tsv" --kind "$2" --pool all --megabatch 20 --anneal 10 \
        "${@:3}" --output "$WORK/$1"
}

compare() { # ENCODERS...
    python "$HERE/sts_table.py" "$@" --sts "$SIMILE_DATA"/sts/STS20{12,13,14}-en-test >"$WORK/table.new"
    mv "$WORK/table.new" "$WORK/table.md"
}

train() { # NAME KIND FLAGS...
    say "$1"
    AFTER=pairs once "$1" encoder "${@:1:2}" --dim "$DIM" --batch-size "$BATCH" --steps "$STEPS" "${@:3}"
    folders+=("$WORK/$1") AFTER_ALL+=" $1"
}

folders=() AFTER_ALL=pairs
once pairs collect "$PAIRS" "$SIMILE_DATA"/paraphrases/{quora.rawcase,paranmt-10k,twitter-url.train}.tsv.gz
train untrained word --lr 0 --steps 1
for kind in "${kinds[@]}"; do
    flags=()
    [[ ! $kind =~ lstm|gran ]] || flags=(--scramble 0.3)
    train "$kind" "$kind" "${flags[@]}"
    [ "$kind" != word ] || for objective in "${objectives[@]}"; do
        flags=(--objective "$objective")
        [ "$objective" != paragram ] || flags+=(--optimizer adagrad --lr 0.05)
        train "word-$objective" word "${flags[@]}"
    done
done
AFTER=$AFTER_ALL once table compare "${folders[@]}"
cat "$WORK/table.md"

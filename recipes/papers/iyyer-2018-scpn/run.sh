#!/usr/bin/env bash
# Syntactically controlled paraphrases (SCPN) over fairseq: parse generator, paraphrase generator,
# the filter by SIM, a model without control; on the quickstart's English, whose grammar knows parse and
# meaning, or on your own pairs and trees. What is done is skipped when it is run again.
#
#   recipes/papers/iyyer-2018-scpn/run.sh
#
# Settings (environment variables, with their defaults):
#   WORK          work/scpn in the repository: everything that is made
#   PAIRS, TREES  your own: sentence TAB paraphrase; a tree in Penn brackets of each, TAB between them.
#                 Nothing is counted then. Default: generated
#   SEED          1     of the data and the trainings
#   SIZE          10000  generated pairs
#   WORDS         3     of each kind that they are made of
#   VALID, TEST   50, 100  pairs to validate on; to ask for paraphrases of
#   TEMPLATES     4     wanted of each sentence (the thesis: 20)
#   VOCABULARY    500   pieces
#   UPDATES       1500  of each model
#   MAX_TOKENS    1500  of an update
#   BEAM          3
#   MIN_SIM       0.7   in the filter (the thesis)
#   SIM_STEPS     300  of the encoder of the filter
#   JOBS          trainings at once; CPU: the number of cores, GPU: 1
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

WORK=${WORK:-$ROOT/work/scpn} SEED=${SEED:-1} SIZE=${SIZE:-10000} WORDS=${WORDS:-3}
VALID=${VALID:-50} TEST=${TEST:-100} TEMPLATES=${TEMPLATES:-4}
VOCABULARY=${VOCABULARY:-500} UPDATES=${UPDATES:-1500} MAX_TOKENS=${MAX_TOKENS:-1500} BEAM=${BEAM:-3}
MIN_SIM=${MIN_SIM:-0.7} SIM_STEPS=${SIM_STEPS:-300}

no_arguments "$@"
whole_numbers UPDATES
[ -n "${PAIRS:-}" ] || [ -z "${TREES:-}" ] || die "TREES: expected PAIRS with it"
for file in ${PAIRS:+"$PAIRS" "${TREES:-}"}; do
    [ -f "$file" ] || die "PAIRS, TREES: expected two files, found '$file'"
done

setup_venv
# shellcheck source=recipes/training.sh
HERE=$ROOT/recipes/papers/iyyer-2018-scpn
. "$ROOT/recipes/training.sh"
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$WORK/logs"
choose_jobs "$WORK"
threads_for "$JOBS"
pairs=${PAIRS:-$WORK/toy/paraphrases.tsv} trees=${TREES:-$WORK/toy/trees.tsv}

generate_pairs() { # SEED SIZE WORDS
    python "$ROOT/recipes/quickstart/toy.py" generate --out "$WORK/toy" --seed "$1" --pairs "$2" \
        --words "$3" --train 1 --valid 1 --test 1
    python "$HERE/toy_counts.py" trees "$WORK"
}

prepare() { # PAIRS TREES TEST VALID TEMPLATES VOCABULARY
    python "$HERE/scpn.py" prepare "$WORK" "$1" "$2" --test "$3" --valid "$4" --templates "$5" \
        --vocab-size "$6"
    zcat -f "$1" | tail -n +$(($3 + $4 + 1)) | cut -f 1,2 >"$WORK/train.pairs"
}

train_encoder() { # STEPS SEED
    simile train-encoder "$WORK/train.pairs" --overwrite --output "$WORK/encoder" --vocab-size 500 \
        --steps "$1" --seed "$2" 2>&1 | sed -u "s/^/   encoder: /"
}

train_model() { # MODEL UPDATES MAX-TOKENS SEED
    local run=$WORK/$1/model
    begin "$run" "$@" "$WORK/$1"/{dict,train}.*
    logged "$WORK/logs/$1.log" fairseq-train "$WORK/$1" -s src -t tgt --dataset-impl raw \
        --user-dir "$ROOT/user_dir" --save-dir "$run" --required-batch-size-multiple 1 \
        --arch transformer --share-all-embeddings --dropout 0.1 \
        --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 \
        --encoder-attention-heads 4 --decoder-layers 2 --decoder-embed-dim 128 \
        --decoder-ffn-embed-dim 256 --decoder-attention-heads 4 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1 --lr 4e-3 \
        --lr-scheduler inverse_sqrt --warmup-updates 100 --max-tokens "$3" --max-update "$2" \
        --no-epoch-checkpoints --validate-interval 9999 --save-interval 9999 \
        --save-interval-updates 100 --keep-interval-updates 1 --num-workers 0 \
        --log-format simple --log-interval 50 --seed "$4"
}

answer() { # MODEL BEAM NBEST FLAGS...
    PYTHONWARNINGS=ignore fairseq-interactive "$WORK/$1" -s src -t tgt --user-dir "$ROOT/user_dir" \
        --path "$WORK/$1/model/checkpoint_best.pt" --input "$WORK/$1/ask" --buffer-size 100000 \
        --max-tokens 4000 --required-batch-size-multiple 1 --beam "$2" --nbest "$3" "${@:4}" \
        >"$WORK/$1/out.new" 2>"$WORK/logs/$1.out.log" || {
        tail -n 5 "$WORK/logs/$1.out.log" >&2
        die "fairseq-interactive failed, see above"
    }
    mv "$WORK/$1/out.new" "$WORK/$1/out"
}

follow_parses() { # BEAM
    python "$HERE/scpn.py" control "$WORK"
    answer paraphrase "$1" 1 --remove-bpe sentencepiece
}

filter() { # MIN-SIM
    python "$HERE/scpn.py" collect "$WORK"
    simile filter-pairs "$WORK/results.tsv" --encoder "$WORK/encoder" --keep-duplicates --workers 1 \
        --max-overlap 1 --min-score "$1" --output "$WORK/kept.tsv"
}

count_outputs() {
    python "$HERE/toy_counts.py" table "$WORK" >"$WORK/table.new"
    mv "$WORK/table.new" "$WORK/table.md"
}

if [ -z "${PAIRS:-}" ]; then
    say "Generating $SIZE pairs and their trees, in $WORK"
    once toy generate_pairs "$SEED" "$SIZE" "$WORDS"
fi
say "What the models read, and what they are asked"
AFTER=toy once data prepare "$pairs" "$trees" "$TEST" "$VALID" "$TEMPLATES" "$VOCABULARY"
say "Training the models ($UPDATES updates) and the encoder of SIM, $JOBS at once"
for model in parse paraphrase plain; do
    AFTER=data in_background once "$model" train_model "$model" "$UPDATES" "$MAX_TOKENS" "$SEED"
done
AFTER=data in_background once encoder train_encoder "$SIM_STEPS" "$SEED"
wait_for_all
say "Parses, paraphrases that follow them, paraphrases without"
AFTER=plain in_background once uncontrolled answer plain "$BEAM" 1 --remove-bpe sentencepiece
AFTER=parse once parses answer parse "$BEAM" 1
AFTER="paraphrase parses" once followed follow_parses "$BEAM"
wait_for_all
say "The filter: SIM $MIN_SIM"
AFTER="encoder followed uncontrolled" once filter filter "$MIN_SIM"
say "Kept: $WORK/kept.tsv (sentence, paraphrase, kind, own and wanted template)"
[ -z "${PAIRS:-}" ] || exit 0
say "What has the wanted template, what keeps the meaning"
AFTER=filter once table count_outputs
cat "$WORK/table.md"

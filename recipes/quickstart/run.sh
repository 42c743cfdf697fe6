#!/usr/bin/env bash
# The whole job on generated data, in minutes: paraphrases -> reward encoder, bitext -> MLE model,
# minimum risk training with two rewards, a table with significance tests, a chart.
# Run it again after an interruption, or with other settings: what is done is skipped.
#
#   recipes/quickstart/run.sh
#
# Settings (environment variables, with their defaults):
#   WORK          work/quickstart in the repository: everything that is made
#   SEED          1     of the generated data and of all trainings
#   TRAIN         20000 sentences of the bitext to train on
#   VALID         304   to validate on
#   TEST          1000  to compare on
#   PAIRS         20000 paraphrase pairs for the reward encoder
#   WORDS         99    of each kind of the language, at most
#   MLE_UPDATES   900   updates of MLE training, of about 1,000 target tokens
#   RISK_UPDATES  100   updates of each risk training
#   RISK_BATCH    64    sentences an update, 8 candidates each
#   RISK_LR       2e-4  learning rate of risk training (Adam, constant)
#   MLE_WEIGHT    0.3   gamma, the weight of the token loss in risk training
#   COST_SCALE    10    factor on the cost 1 - reward
#   REWARDS       "bleu simile"; half, the paper's mix of both, other mixes, chrf and sim work too
#   JOBS          risk trainings at once; default: the number of cores (with a GPU: 1)
#   SIMILE_VENV, PIP_INDEX_URL, ...: the installation's settings, see recipes/common.sh
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

HERE=$ROOT/recipes/quickstart
WORK=${WORK:-$ROOT/work/quickstart}
SEED=${SEED:-1}
TRAIN=${TRAIN:-20000}
VALID=${VALID:-304}
TEST=${TEST:-1000}
PAIRS=${PAIRS:-20000}
WORDS=${WORDS:-99}
MLE_UPDATES=${MLE_UPDATES:-900}
RISK_UPDATES=${RISK_UPDATES:-100}
RISK_BATCH=${RISK_BATCH:-64}
RISK_LR=${RISK_LR:-2e-4}
MLE_WEIGHT=${MLE_WEIGHT:-0.3}
COST_SCALE=${COST_SCALE:-10}
REWARDS=${REWARDS:-bleu simile}

no_arguments "$@"
whole_numbers TRAIN VALID TEST PAIRS WORDS MLE_UPDATES RISK_UPDATES RISK_BATCH

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
check_rewards "$REWARDS"
mkdir -p "$WORK"/{logs,out}
# Models as small as these gain nothing from a second thread, and lose much on a busy machine.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
choose_jobs "$WORK"

# Everything that decides a step's result is an argument of its function: `once` repeats a step
# whose arguments have changed.

# Without --required-batch-size-multiple 1 fairseq drops up to 7 sentences of valid and test.
common=("$WORK/bin" -s xx -t en --user-dir "$ROOT/user_dir" --required-batch-size-multiple 1)
training=(--arch transformer --share-all-embeddings --dropout 0.2
    --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256
    --encoder-attention-heads 4 --decoder-layers 2 --decoder-embed-dim 128
    --decoder-ffn-embed-dim 256 --decoder-attention-heads 4
    --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 1
    --no-epoch-checkpoints --validate-interval 9999 --save-interval 9999
    --keep-interval-updates 1 --num-workers 0 --log-format simple)

train_encoder() { # SEED
    simile train-encoder "$WORK/toy/paraphrases.tsv" --overwrite --output "$WORK/encoder" \
        --vocab-size 1000 --seed "$1" 2>&1 | sed -u "s/^/   encoder: /"
}

# An interrupted training starts over: it is short, and its numbers stay those of one run.
train_mle() { # UPDATES SEED
    rm -rf "$WORK/mle" "$WORK/logs/mle.log"
    logged "$WORK/logs/mle.log" fairseq-train "${common[@]}" "${training[@]}" \
        --save-dir "$WORK/mle" --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --lr 4e-3 --lr-scheduler inverse_sqrt --warmup-updates 200 --max-tokens 1000 \
        --max-update "$1" --save-interval-updates 100 --log-interval 100 --seed "$2"
}

train_risk() { # REWARD UPDATES BATCH LR GAMMA SCALE SEED
    local name
    name=$(file_name "$1")
    rm -rf "${WORK:?}/$name" "$WORK/logs/$name.log"
    logged "$WORK/logs/$name.log" fairseq-train "${common[@]}" "${training[@]}" \
        --finetune-from-model "$WORK/mle/checkpoint_best.pt" --save-dir "$WORK/$name" \
        --criterion simile_risk --reward "$1" --simile-encoder "$WORK/encoder" \
        --mle-weight "$5" --risk-cost-scale "$6" --best-checkpoint-metric cost \
        --lr "$4" --lr-scheduler fixed --batch-size "$3" --batch-size-valid 64 \
        --max-update "$2" --save-interval-updates 20 --log-interval 20 --seed "$7" |
        sed -u "s|^ *|   $name |"
}

translate_test() { # SYSTEM
    translate "$WORK/out/$1.txt" test "${common[@]}" --path "$WORK/$1/checkpoint_best.pt" \
        --beam 8 --remove-bpe sentencepiece --batch-size 64
    python "$HERE/toy.py" meaning --source "$WORK/toy/test.xx" --hyp "$WORK/out/$1.txt" \
        --out "$WORK/out/$1.meaning" | sed "s/^/   $1: /"
}

risk_system() { # REWARD
    local name
    name=$(file_name "$1")
    AFTER="encoder mle" once "$name" train_risk "$1" "$RISK_UPDATES" "$RISK_BATCH" "$RISK_LR" \
        "$MLE_WEIGHT" "$COST_SCALE" "$SEED"
    AFTER=$name once "test-$name" translate_test "$name"
}

report() {
    local systems=() logs=() reward name
    for reward in mle $REWARDS; do
        name=$(file_name "$reward")
        systems+=(--sys "${reward^^}=$WORK/out/$name.txt")
        systems+=(--sentence-scores "meaning:${reward^^}=$WORK/out/$name.meaning")
        [ "$reward" = mle ] || logs+=(--log "${reward^^}=$WORK/logs/$name.log")
    done
    simile report --ref "$WORK/toy/test.en" --encoder "$WORK/encoder" "${systems[@]}" \
        "${logs[@]}" --svg "$WORK/curves.svg" --out "$WORK/results.md"
}

say "1/7 Generating a bitext and paraphrases with known meaning, in $WORK"
once toy python "$HERE/toy.py" generate --out "$WORK/toy" --seed "$SEED" --train "$TRAIN" \
    --valid "$VALID" --test "$TEST" --pairs "$PAIRS" --words "$WORDS"
say "2/7 Training the reward encoder on $PAIRS paraphrase pairs, beside the next two steps"
AFTER=toy in_background once encoder train_encoder "$SEED"
say "3/7 Segmenting and binarising the bitext"
AFTER=toy once bin segment_bitext xx en 800 "$WORK/toy"
say "4/7 Training the MLE model on $TRAIN sentences ($MLE_UPDATES updates)"
AFTER=bin once mle train_mle "$MLE_UPDATES" "$SEED"
wait_for_all
say "5/7 Translating the test set with it"
AFTER=mle once test-mle translate_test mle

say "6/7 Minimum risk training and translation: ${REWARDS// /, } ($JOBS at once)"
for reward in $REWARDS; do
    in_background risk_system "$reward"
done
wait_for_all

say "7/7 Results on $TEST test sentences"
report
cat <<END

meaning   share of outputs that say what the source says, counted by parsing them; no training saw it
table     $WORK/results.md
chart     $WORK/curves.svg
faults    $WORK/out/*.meaning: what is wrong with each output
your own  simile finetune DATA-BIN MLE-CHECKPOINT --encoder ENCODER --output RUN fine-tunes a fairseq model of yours;
          simile train-encoder PAIRS.tsv --output ENCODER makes the encoder from your paraphrases;
          recipes/multi30k/run.sh does all of this on real text
END

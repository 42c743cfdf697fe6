#!/usr/bin/env bash
# MBR fine-tuning: the Multi30k model learns from its own lists, without references, beside MRT.
# recipes/multi30k/run.sh comes first: it makes the model, the reward encoder and the MRT systems.
#
#   recipes/mbr/run.sh
#
# Settings (environment variables, with their defaults):
#   BASE       work/multi30k in the repository: the WORK of recipes/multi30k/run.sh
#   WORK       work/mbr in the repository: everything that is made here
#   ENCODER    the reward encoder that BASE has
#   SRC        de      source language (target: en)
#   SENTENCES  6000    training sources that lists are made of: as many as MRT's 200 updates see
#   N          64      candidates a source, by beam search
#   UPDATES    200     of MBR fine-tuning, of 30 sentences
#   LR         1e-4    its learning rate (Adam, constant)
#   SYSTEMS    the --sys of other systems; default: MRT=BASE/out/simile.*.txt, as far as there are any
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

BASE=${BASE:-$ROOT/work/multi30k}
WORK=${WORK:-$ROOT/work/mbr}
SRC=${SRC:-de}
SENTENCES=${SENTENCES:-6000}
N=${N:-64}
UPDATES=${UPDATES:-200}
LR=${LR:-1e-4}

no_arguments "$@"
[ -f "$BASE/mle/checkpoint_best.pt" ] ||
    die "BASE: no $BASE/mle/checkpoint_best.pt; run recipes/multi30k/run.sh first"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
ENCODER=${ENCODER:-$(multi30k_encoder "$BASE")}
mkdir -p "$WORK"/{bpe,out}
threads_for 1

list_candidates() { # SENTENCES N
    head -n "$1" "$BASE/bpe/train.$SRC" >"$WORK/bpe/train.$SRC"
    PYTHONWARNINGS=ignore fairseq-interactive "$BASE/bin" -s "$SRC" -t en \
        --user-dir "$ROOT/user_dir" --path "$BASE/mle/checkpoint_best.pt" \
        --input "$WORK/bpe/train.$SRC" --buffer-size 1000 --batch-size 4 --beam "$2" --nbest "$2" \
        --max-len-a 1.5 --max-len-b 10 --remove-bpe sentencepiece \
        2>"$WORK/lists.log" | gzip >"$WORK/train.nbest.gz" ||
        die "fairseq-interactive failed, see $WORK/lists.log"
}

choose() {
    simile mbr "$WORK/train.nbest.gz" --utility simile --encoder "$ENCODER" \
        --output "$WORK/train.mbr" --write-pairs "$WORK/train.pairs"
    python "$ROOT/recipes/bpe.py" encode --model "$BASE/bpe/nmt.model" \
        <"$WORK/train.mbr" >"$WORK/bpe/train.en"
    rm -rf "${WORK:?}/bin"
    fairseq-preprocess -s "$SRC" -t en --joined-dictionary --srcdict "$BASE/bin/dict.$SRC.txt" \
        --destdir "$WORK/bin" --trainpref "$WORK/bpe/train" --validpref "$BASE/bpe/valid" \
        --testpref "$BASE/bpe/test" >"$WORK/preprocess.log"
}

finetune() { # UPDATES LR
    local model
    mapfile -t model < <(python "$ROOT/recipes/model_flags.py" "$BASE/mle/checkpoint_best.pt")
    logged "$WORK/train.log" fairseq-train "$WORK/bin" -s "$SRC" -t en \
        --user-dir "$ROOT/user_dir" "${model[@]}" \
        --finetune-from-model "$BASE/mle/checkpoint_best.pt" --save-dir "$WORK/mbr-ft" --seed 1 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --optimizer adam --adam-betas "(0.9, 0.98)" --lr "$2" --lr-scheduler fixed --clip-norm 5 \
        --batch-size 30 --required-batch-size-multiple 1 --max-update "$1" \
        --no-epoch-checkpoints --log-format simple --log-interval 50
    translate "$WORK/out/mbr-ft.txt" "$WORK/bin" -s "$SRC" -t en \
        --path "$WORK/mbr-ft/checkpoint_last.pt" --gen-subset test --beam 5 \
        --remove-bpe sentencepiece --batch-size 50
}

say "Lists of $N candidates of $SENTENCES training sources"
once lists list_candidates "$SENTENCES" "$N"
say "MBR choices become training data"
AFTER=lists once choose choose
say "MBR fine-tuning, $UPDATES updates"
AFTER=choose once finetune finetune "$UPDATES" "$LR"

say "Test set: before, MBR fine-tuning, and what else there is"
systems=()
if [ -n "${SYSTEMS:-}" ]; then
    read -ra systems <<<"$SYSTEMS"
else
    files=$(compgen -G "$BASE/out/simile.*.txt" | paste -sd, || true)
    [ -z "$files" ] || systems=(--sys "MRT=$files")
fi
simile report --ref "$BASE/raw/test.en" --encoder "$ENCODER" --sys "MLE=$BASE/out/mle.txt" \
    --sys "MBR-FT=$WORK/out/mbr-ft.txt" "${systems[@]}" --only results --out "$WORK/results.md"

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
#   SRC, TGT   de, en  languages of recipes/multi30k/run.sh
#   SENTENCES  3000    training sources that lists are made of; 200 updates see each twice
#   N          64      candidates a source, by beam search
#   UTILITY    half    of MBR decoding, as simile mbr takes it (learned:DIR of simile fit-reward)
#   UPDATES    200     of MBR fine-tuning, of 30 sentences
#   LR         2e-4    its learning rate (Adam, falling to 0), as in MRT
#   SEEDS      "1 2 3"
#   SYSTEMS    the --sys of other systems; default: MRT=BASE/out/simile.N.txt, as far as there are any
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

BASE=${BASE:-$ROOT/work/multi30k}
WORK=${WORK:-$ROOT/work/mbr}
SRC=${SRC:-de}
TGT=${TGT:-en}
SENTENCES=${SENTENCES:-3000}
N=${N:-64}
UPDATES=${UPDATES:-200}
UTILITY=${UTILITY:-half}
LR=${LR:-2e-4}
SEEDS=${SEEDS:-1 2 3}
NAME=${UTILITY%%:*} # of what depends on the utility

no_arguments "$@"
whole_numbers SENTENCES N UPDATES
[ -f "$BASE/mle/checkpoint_best.pt" ] ||
    die "BASE: no $BASE/mle/checkpoint_best.pt; run recipes/multi30k/run.sh first"

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
ENCODER=${ENCODER:-$(multi30k_encoder "$BASE")}
mkdir -p "$WORK"/{bpe,out}
threads_for 1
if has_gpu; then one_gpu "$WORK"; fi

list_candidates() { # SENTENCES N MODEL TEXT
    head -n "$1" "$4" >"$WORK/bpe/train.$SRC"
    PYTHONWARNINGS=ignore fairseq-interactive "$BASE/bin" -s "$SRC" -t "$TGT" \
        --user-dir "$ROOT/user_dir" --path "$3" \
        --input "$WORK/bpe/train.$SRC" --buffer-size 1000 --batch-size 4 --beam "$2" --nbest "$2" \
        --max-len-a 1.5 --max-len-b 10 --remove-bpe sentencepiece \
        2>"$WORK/lists.log" | gzip >"$WORK/train.nbest.gz" ||
        die "fairseq-interactive failed, see $WORK/lists.log"
}

choose() { # UTILITY ENCODER-CONFIG LEARNED-JSON
    local work=$WORK/$NAME
    mkdir -p "$work/bpe"
    simile mbr "$WORK/train.nbest.gz" --utility "$1" --encoder "$ENCODER" \
        --output "$work/train.mbr" --write-pairs "$work/train.pairs"
    python "$ROOT/recipes/bpe.py" encode --model "$BASE/bpe/nmt.model" \
        <"$work/train.mbr" >"$work/bpe/train.$TGT"
    cp "$WORK/bpe/train.$SRC" "$work/bpe"
    rm -rf "${work:?}/bin"
    fairseq-preprocess -s "$SRC" -t "$TGT" --joined-dictionary --srcdict "$BASE/bin/dict.$SRC.txt" \
        --destdir "$work/bin" --trainpref "$work/bpe/train" --validpref "$BASE/bpe/valid" \
        --testpref "$BASE/bpe/test" >"$work/preprocess.log"
}

finetune() { # SEED UPDATES LR
    local model work=$WORK/$NAME
    begin "$work/mbr-ft.$1" "$@" "$BASE/mle/checkpoint_best.pt" "$work"/bin/{dict,train}.*
    mapfile -t model < <(simile model-flags "$BASE/mle/checkpoint_best.pt")
    logged "$work/train.$1.log" fairseq-train "$work/bin" -s "$SRC" -t "$TGT" \
        --user-dir "$ROOT/user_dir" "${model[@]}" \
        --finetune-from-model "$BASE/mle/checkpoint_best.pt" --save-dir "$work/mbr-ft.$1" \
        --seed "$1" --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --optimizer adam --adam-betas "(0.9, 0.98)" --lr "$3" --lr-scheduler polynomial_decay \
        --total-num-update "$2" --max-update "$2" --clip-norm 5 \
        --batch-size 30 --required-batch-size-multiple 1 \
        --no-epoch-checkpoints --log-format simple --log-interval 50
    translate_tuned "$WORK/out/$NAME.$1" "$work/bin" -s "$SRC" -t "$TGT" \
        --path "$work/mbr-ft.$1/checkpoint_last.pt"
}

say "Lists of $N candidates of $SENTENCES training sources"
once lists list_candidates "$SENTENCES" "$N" "$BASE/mle/checkpoint_best.pt" "$BASE/bpe/train.$SRC"
say "MBR choices by $UTILITY become training data"
read_reward "$UTILITY"
AFTER=lists once "choose.$NAME" choose "$UTILITY" "$ENCODER/config.json" "$fitted"
for seed in $SEEDS; do
    say "MBR fine-tuning, $UPDATES updates, seed $seed"
    AFTER=choose.$NAME once "finetune.$NAME.$seed" finetune "$seed" "$UPDATES" "$LR"
done

say "Test set: before, MBR fine-tuning, and what else there is"
systems=()
if [ -n "${SYSTEMS:-}" ]; then
    read -ra systems <<<"$SYSTEMS"
else
    files=$(compgen -G "$BASE/out/simile.[0-9].txt" | sort | paste -sd, || true)
    [ -z "$files" ] || systems=(--sys "MRT=$files")
fi
simile report --ref "$BASE/raw/test.$TGT" --encoder "$ENCODER" --sys "MLE=$BASE/out/mle.txt" \
    --sys "MBR-FT=$(by_seed "$WORK/out/$NAME" txt "$SEEDS")" "${systems[@]}" --only results --out "$WORK/results.$NAME.md"

#!/usr/bin/env bash
# The Bilingual Generative Transformer and its ablations (Wieting's thesis, 5.4 to 5.9) beside the
# averaging encoder SP, all trained on the same pairs: STS, its hard pairs, retrieval of translations.
# Run it again after an interruption: finished steps are skipped, trainings go on.
#
#   recipes/papers/wieting-2020-bilingual-generative-transformer/run.sh [SRC TGT PREFIX...]
#
#   SRC, TGT   languages of the bitext; default: en de. --bgt-ablation english-translation is from SRC
#   PREFIX     bitext: PREFIX.SRC and PREFIX.TGT, plain or .gz; default: Tatoeba and Europarl of SIMILE_DATA
#
# Settings (environment variables, with their defaults):
#   WORK       work/bgt in the repository: everything that is made
#   SYSTEMS    "sp bgt no-prior variational multilingual-translation english-translation untrained"; also
#              mgt. untrained is a BGT at random, as in the paper's Table 51
#   SEEDS      "1 2 3"
#   PAIRS      60000    pairs that are trained on, at most
#   PIECES     4000     of the joint vocabulary (paper: 20000)
#   UPDATES    1500     of each model (paper: 20 epochs of a million pairs); with more a training goes on
#   ANNEAL     4500     updates in which the KL term's weight would grow to 1: as in the paper (65536),
#                       training ends before
#   TOKENS     2000     of a side in an update, in steps of 2000 (paper: 25000, without prior 50000)
#   LR         1e-3     after WARMUP updates, then as 1 / sqrt(update) (paper: 5e-4)
#   WARMUP     400      (paper: 4000)
#   SIZE       "--bgt-dim 128 --bgt-latent 128 --bgt-encoder-layers 2 --bgt-ffn 256 --bgt-heads 4"
#   SP_STEPS   10000    minibatches of SP
#   TEST       prefix of held-out bitext for retrieval; default: tatoeba-de-en/test of SIMILE_DATA
#   STS        folders with human similarity; default: English tests of SIMILE_DATA, if SRC or TGT is en
#   JOBS       1        trainings side by side
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../common.sh"

show_help "$@"
SRC=${1:-en} TGT=${2:-de}
[ $# = 0 ] || [ $# -ge 3 ] || die "expected SRC TGT PREFIX..., or nothing (see --help)"
[ $# = 0 ] || shift 2
HERE=$ROOT/recipes/papers/wieting-2020-bilingual-generative-transformer
WORK=${WORK:-$ROOT/work/bgt}
JOBS=${JOBS:-1} UPDATES=${UPDATES:-1500}
whole_numbers JOBS UPDATES
data=${SIMILE_DATA:-}
TEST=${TEST:-$data/tatoeba-de-en/test}
read -ra systems <<<"${SYSTEMS:-sp bgt no-prior variational multilingual-translation english-translation untrained}"
read -ra seeds <<<"${SEEDS:-1 2 3}"
read -ra size <<<"${SIZE:---bgt-dim 128 --bgt-latent 128 --bgt-encoder-layers 2 --bgt-ffn 256 --bgt-heads 4}"
read -ra sts <<<"${STS:-}"
case ${STS+given}:$SRC-$TGT in
:en-* | :*-en) [ -z "$data" ] || sts=("$data"/sts/STS20{12,13,14,17}-en-test) ;;
esac
prefixes=("$@")
[ $# -gt 0 ] || prefixes=("$data/tatoeba-de-en/train" "$data/europarl20k-de-en/train")

files=()
for prefix in "${prefixes[@]}"; do
    for language in "$SRC" "$TGT"; do
        file=$(side PREFIX "$prefix" "$language")
        files+=("$file")
    done
done
test_src=$(side TEST "$TEST" "$SRC")
test_tgt=$(side TEST "$TEST" "$TGT")
for folder in "${sts[@]}"; do
    [ -d "$folder" ] || die "STS: no such folder: $folder"
done
for system in "${systems[@]}"; do
    case $system in
    sp | bgt | mgt | untrained | no-prior | variational | multilingual-translation | english-translation) ;;
    *) die "SYSTEMS: got '$system', expected some of sp, bgt, mgt, untrained and the ablations (see --help)" ;;
    esac
done

setup_venv
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
mkdir -p "$WORK/results" "$WORK/encoder"
if has_gpu; then one_gpu "$WORK"; fi
shopt -s nullglob
excluded=("$test_src" "$test_tgt")
for folder in "${sts[@]}"; do excluded+=("$folder"/STS*.input.*.txt); done # of 2016: STS2016.input.X.txt

collect() { # PAIRS PIECES STS TEST-FILES FILES...
    local pairs=$1 pieces=$2
    shift 5
    paste_sides PREFIX "$@" >"$WORK/raw.tsv"
    simile filter-pairs "$WORK/raw.tsv" --max-overlap 0.5 --max-tokens 100 \
        --exclude "${excluded[@]}" --output "$WORK/all.tsv"
    python "$HERE/pieces.py" split "$WORK/all.tsv" --pairs "$pairs" \
        --train "$WORK/train.tsv" --held-out "$WORK/valid.tsv"
    rm -f "$WORK/raw.tsv" "$WORK/all.tsv"
    simile binarize-pairs "$WORK/train.tsv" --vocab-size "$pieces" --overwrite \
        --output "$WORK/pairs.bin"
    python "$HERE/pieces.py" segment --train "$WORK/train.tsv" --held-out "$WORK/valid.tsv" \
        --sentencepiece "$WORK/pairs.bin/sentencepiece.model" -s "$SRC" -t "$TGT" --output "$WORK/pieces"
    rm -rf "${WORK:?}/bin"
    logged "$WORK/logs/preprocess.log" fairseq-preprocess -s "$SRC" -t "$TGT" --joined-dictionary \
        --srcdict "$WORK/pieces/dict.txt" --trainpref "$WORK/pieces/train" \
        --validpref "$WORK/pieces/valid" --destdir "$WORK/bin"
}

train_sp() { # SEED STEPS
    simile train-encoder "@$ROOT/recipes/encoder/best.flags" "$WORK/pairs.bin" --pool other \
        --steps "$2" --seed "$1" --overwrite --output "$WORK/encoder/sp.$1"
}

train_bgt() { # SYSTEM SEED UPDATES ANNEAL TOKENS LR WARMUP SIZE...
    local run=$WORK/$1.$2 flags=(--bgt-ablation "$1")
    case $1 in
    bgt) flags=() ;;
    mgt) flags=(--bgt-one-decoder --bgt-places logit) ;;
    untrained) # one update that moves nothing
        flags=()
        set -- "${@:1:2}" 1 "${@:4:2}" 1e-30 "${@:7}"
        ;;
    esac
    threads_for "$JOBS"
    begin "$run" "$SRC" "$TGT" "${@:1:2}" "${@:4}" "$WORK"/bin/dict.* "$WORK"/bin/train.*
    # No schedule depends on UPDATES: with more a training goes on, with fewer it starts over.
    [ "$(cat "$run/updates" 2>/dev/null || echo 0)" -le "$3" ] || rm -f "$run"/checkpoint*
    echo "$3" >"$run/updates"
    [ -e "$run/checkpoint_last.pt" ] || rm -f "$WORK/logs/$1.$2.log"
    logged "$WORK/logs/$1.$2.log" fairseq-train "$WORK/bin" -s "$SRC" -t "$TGT" \
        --user-dir "$ROOT/user_dir" --task bgt --arch bgt --criterion bgt "${flags[@]}" "${@:8}" \
        --kl-anneal-updates "$4" --optimizer adam --adam-betas "(0.9, 0.98)" --lr "$6" \
        --lr-scheduler inverse_sqrt --warmup-updates "$7" --clip-norm 5 --seed "$2" \
        --max-tokens 2000 --update-freq "$((($5 + 1999) / 2000))" --max-update "$3" \
        --num-workers 0 --save-dir "$run" --no-epoch-checkpoints --save-interval-updates 200 \
        --keep-interval-updates 1 --log-format simple --log-interval 100
    python "$HERE/export.py" "$run/checkpoint_last.pt" --data "$WORK/bin" \
        --sentencepiece "$WORK/pairs.bin/sentencepiece.model" --output "$WORK/encoder/$1.$2" --overwrite
}

evaluate() { # SYSTEM.SEED CONFIG TEST-FILES STS...
    local encoder=$WORK/encoder/$1 result=$WORK/results/$1
    rm -f "$result.sts.json" # of folders that STS had before
    if [ $# -gt 4 ]; then
        simile contrib hard-sts "$encoder" --sts "${@:5}" --json >"$result.hard.json"
        simile eval-encoder "$encoder" --sts "${@:5}" --resamples 100 --json >"$result.sts.new"
        mv "$result.sts.new" "$result.sts.json"
    fi
    simile contrib mine-bitext "$encoder" --source "$3" --target "$4" --aligned --json \
        >"$result.mine.new"
    mv "$result.mine.new" "$result.mine.json"
}

say "Bitext of $SRC and $TGT, in $WORK"
once collect collect "${PAIRS:-60000}" "${PIECES:-4000}" "${sts[*]}" "$test_src" "$test_tgt" "${files[@]}"
for seed in "${seeds[@]}"; do
    for system in "${systems[@]}"; do
        say "Training $system, seed $seed"
        step=(train_bgt "$system" "$seed" "$UPDATES" "${ANNEAL:-4500}" "${TOKENS:-2000}"
            "${LR:-1e-3}" "${WARMUP:-400}" "${size[@]}")
        [ "$system" != sp ] || step=(train_sp "$seed" "${SP_STEPS:-10000}")
        AFTER=collect in_background once "$system.$seed" "${step[@]}"
    done
done
wait_for_all
names=()
for system in "${systems[@]}"; do
    for seed in "${seeds[@]}"; do
        names+=("$system.$seed")
        AFTER=$system.$seed once "evaluate.$system.$seed" evaluate "$system.$seed" \
            "$WORK/encoder/$system.$seed/config.json" "$test_src" "$test_tgt" "${sts[@]}"
    done
done
say "Pearson's r x 100 of STS and its hard pairs; retrieval: accuracy, mean of both ways"
python "$HERE/table.py" "$WORK/results" "${names[@]}" | tee "$WORK/results.md"

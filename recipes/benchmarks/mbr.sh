#!/usr/bin/env bash
# CPU time of MBR decoding, ours beside the library mbrs (in an environment of its own).
#
#   recipes/benchmarks/mbr.sh LISTS ENCODER
#
#   LISTS    at least 1,024 candidates in lists of any format of simile mbr --help
#   ENCODER  a reward encoder's folder
#
# Settings (environment variables, with their defaults):
#   WORK     work/benchmarks/mbr in the repository
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

WORK=${WORK:-$ROOT/work/benchmarks/mbr}
show_help "${@:---help}"
[ $# = 2 ] || die "expected LISTS ENCODER, got $# arguments (see --help)"

setup_venv
mkdir -p "$WORK"

# mbrs around the torch that is there; what else it needs in other versions than ours, it gets. Its
# torchmetrics needs the pkg_resources of older setuptools.
install_mbrs() {
    python -m venv --clear "$WORK/mbrs"
    VENV=$WORK/mbrs _inherit python
    python -c 'import torch; print(f"torch=={torch.__version__}")' >"$WORK/constraints.txt"
    "$WORK/mbrs/bin/python" -m pip install -q --disable-pip-version-check \
        -c "$WORK/constraints.txt" mbrs==0.1.8 "setuptools<81"
}

say "Installing mbrs into $WORK/mbrs"
once mbrs install_mbrs
say "CPU seconds a list, one thread"
OMP_NUM_THREADS=1 PYTHONPATH=$ROOT "$WORK/mbrs/bin/python" "$ROOT/recipes/benchmarks/mbr.py" "$@"

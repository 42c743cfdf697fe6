#!/usr/bin/env bash
# recipes/reliability/coverage.sh [pytest arguments]: lines and branches of the package that the
# tests execute, in processes that they start too (what a SIGKILL ends is not counted). Ends with the
# table by file.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
setup_venv test
python -m pip install -q -c "$ROOT/constraints.txt" coverage
cd "$ROOT"
export COVERAGE_FILE="$ROOT/.coverage"
python -m coverage erase
python -m coverage run -m pytest "$@" ||
    die "the tests fail; coverage is counted for tests that pass"
python -m coverage combine -q
python -m coverage report --skip-covered

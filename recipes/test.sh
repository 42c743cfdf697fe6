#!/usr/bin/env bash
# Installs what the tests need (a virtual environment in .venv), checks style, types and shell
# scripts, and runs the tests. Arguments go to pytest: recipes/test.sh -k risk
# SIMILE_DATA names a folder of real data; tests that need it and lack it say so.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

setup_venv test
cd "$ROOT"
if [ -z "${SIMILE_DATA:-}" ] && [ -d ../shared/data ]; then
    SIMILE_DATA=$(cd ../shared/data && pwd)
    export SIMILE_DATA
fi

say "Style (ruff)"
ruff check .
ruff format --check .

say "Types (mypy; a minute or two the first time)"
mypy

say "Shell scripts (shellcheck)"
find recipes tests -name work -prune -o -name '*.sh' -print0 | xargs -0 shellcheck -x .ci/run

say "Tests (pytest)"
# exec: pytest's status is ours.
exec python -m pytest "$@"

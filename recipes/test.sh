#!/usr/bin/env bash
# Installs what the tests need (a virtual environment in .venv), checks style, types and shell
# scripts, and runs tests:
#
#     recipes/test.sh                  the fast tests (-m "not slow"): for people
#     recipes/test.sh all              every test, on two cores if there are: for CI, and before a
#                                      merge (CI=true does the same)
#     recipes/test.sh lowest           tests of precision, gradients, search and the trainers, by the
#                                      lowest torch and transformers that setup.py allows
#     recipes/test.sh site             the site of docs/ in work/site, a warning is an error; its
#                                      packages (170 MB) go into .venv-site
#     recipes/test.sh -k risk          other arguments go to pytest as they are
#
# SIMILE_DATA names a folder of real data; without it the tests that need it are skipped, and the
# last line of the run says so.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

show_help "$@"
# all: every test; none: the fast ones, and in CI every one.
[ "$#" != 0 ] || set -- "${CI:+all}"
case $1 in
all) shift ;;
'') set -- -m 'not slow' ;;
*) one=1 ;; # what somebody asks for is run as it is
esac
if [ "${1:-}" = site ]; then
    setup_site
    cd "$ROOT"
    say "Building the site in work/site (mkdocs)"
    NO_MKDOCS_2_WARNING=1 exec mkdocs build --strict
fi
if [ "${1:-}" = lowest ]; then
    setup_venv test
    setup_lowest
    cd "$ROOT"
    say "Tests by torch $(python -c 'import torch; print(torch.__version__)')"
    exec python -m pytest tests/risk tests/search tests/fairseq_training/test_half_precision.py \
        tests/fairseq_training/test_criterion.py tests/fairseq_training/test_scoring.py \
        tests/fairseq_training/test_steps.py tests/fairseq_training/test_beam.py \
        tests/hugging_face/test_search.py tests/hugging_face/test_scoring.py \
        tests/hugging_face/test_trainer.py
fi
if [ -z "${one:-}" ] && [ "$(cores)" -gt 1 ]; then
    # Two processes, each its own files, so that what a file's tests share is made once; in the
    # order of tests/conftest.py. Threads that share a core with the other's wait for each other.
    set -- --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@"
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
fi

setup_venv test
cd "$ROOT"
if [ -z "${SIMILE_DATA:-}" ] && [ -d ../shared/data ]; then
    SIMILE_DATA=$(cd ../shared/data && pwd)
    export SIMILE_DATA
fi

say "Style (ruff)"
ruff check .
ruff format --check .

say "Shell scripts (shellcheck)"
find recipes tests -name work -prune -o -name '*.sh' -print0 | xargs -0 shellcheck -x .ci/run

say "Types (mypy; a minute or two the first time)"
mypy

say "Tests (pytest $*)"
# exec: pytest's status is ours.
exec python -m pytest "$@"

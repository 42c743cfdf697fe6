#!/usr/bin/env bash
# recipes/audit.sh: ask the advisory database about every version in constraints.txt.
# Needs a network: pip-audit (put into .venv-audit) asks the PyPI and OSV services, which have no
# copy that could be shipped. Status: 0 nothing known of any, 1 advisories found (they are listed), the
# services cannot be reached or do not know a package (pip-audit says so). Further arguments go to
# pip-audit: --fix, --format. SIMILE_PYTHON (default: python3) makes .venv-audit.
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

show_help "$@"
venv=$ROOT/.venv-audit
python=${SIMILE_PYTHON:-python3}
if ! [ -x "$venv/bin/pip-audit" ]; then
    say "Installing pip-audit into $venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -q pip-audit || die "pip-audit could not be installed"
fi
say "Auditing $(grep -c '==' "$ROOT/constraints.txt") versions of constraints.txt"
# --no-deps: the list is complete. Nothing of it is installed. --strict: without it a package that the
# service knows nothing of (any, at a mirror without that service) counts as one without advisories.
"$venv/bin/pip-audit" --strict --no-deps --disable-pip -r "$ROOT/constraints.txt" "$@"

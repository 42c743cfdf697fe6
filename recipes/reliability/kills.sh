#!/usr/bin/env bash
# Kills tiny risk trainings at random moments, starts them again by the same command, and compares
# what they end with to a training that nobody killed, bit for bit. Two minutes on 2 CPU cores.
#
#   recipes/reliability/kills.sh                  # 40 kills
#   recipes/reliability/kills.sh --kills 200 --seed 2
#
# Arguments go to kills.py (see its --help).
#
# Settings (environment variables, with their defaults):
#   WORK   work/reliability in the repository: made anew
# shellcheck source=recipes/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

show_help "$@"
WORK=$(realpath -m "${WORK:-$ROOT/work/reliability}")
setup_venv
mkdir -p "$(dirname "$WORK")"
cd "$ROOT"
export PYTHONPATH=$ROOT PYTHONWARNINGS=ignore
exec python -m recipes.reliability.kills --work "$WORK" "$@"

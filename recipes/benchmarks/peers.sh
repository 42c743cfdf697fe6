# shellcheck shell=bash
# The libraries that ours is timed against, in an environment of their own; sourced after common.sh.

# setup_peers: sentence-transformers and model2vec in $WORK/peers, around the torch that is there.
# Sets PEERS to the folder; its Python sees our packages too.
setup_peers() {
    PEERS=$WORK/peers
    [ ! -e "$PEERS/.installed" ] || return 0
    say "Installing the peers into $PEERS, around the torch that is there"
    python -m venv --clear "$PEERS"
    python - "$PEERS" "$WORK/constraints.txt" <<'PYTHON'
import importlib.metadata
import sys
import sysconfig
from pathlib import Path

ours = sysconfig.get_path("purelib")
theirs = sysconfig.get_path("purelib", vars={"base": sys.argv[1], "platbase": sys.argv[1]})
Path(theirs, "ours.pth").write_text(ours + "\n")
kept = sorted(
    {
        f"{part.name}=={part.version}"
        for part in importlib.metadata.distributions()
        if part.name not in ("pip", "simile-plugin")
    }
)
Path(sys.argv[2]).write_text("\n".join(kept) + "\n")
PYTHON
    "$PEERS/bin/python" -m pip install -q --disable-pip-version-check -c "$WORK/constraints.txt" \
        sentence-transformers model2vec sacremoses
    touch "$PEERS/.installed"
}

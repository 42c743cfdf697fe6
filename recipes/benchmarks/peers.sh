# shellcheck shell=bash
# The libraries that ours is timed against, in an environment of their own; sourced after common.sh.

# setup_peers: sentence-transformers and model2vec in $WORK/peers, around the torch that is there.
# Sets PEERS to the folder; its Python sees our packages too.
setup_peers() {
    PEERS=$WORK/peers
    [ ! -e "$PEERS/.installed" ] || return 0
    say "Installing the peers into $PEERS, around the torch that is there"
    python -m venv --clear "$PEERS"
    VENV=$PEERS _inherit python
    python -m pip list --disable-pip-version-check --format freeze --exclude pip \
        --exclude simile-plugin >"$WORK/constraints.txt"
    "$PEERS/bin/python" -m pip install -q --disable-pip-version-check -c "$WORK/constraints.txt" \
        sentence-transformers model2vec sacremoses
    touch "$PEERS/.installed"
}

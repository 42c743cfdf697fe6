"""Put on PYTHONPATH: Python refuses to reach another computer, and notes who tried."""

import os
import sys
import traceback

WATCHED = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
           "socket.gethostbyname", "urllib.Request")  # fmt: skip


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook; addresses of Unix sockets are strings or bytes and stay on this computer."""
    if event not in WATCHED:
        return
    if event.startswith(("socket.connect", "socket.send")) and isinstance(
        arguments[-1], str | bytes
    ):
        return
    with open(os.environ["NO_NETWORK_LOG"], "a", encoding="utf-8") as log:
        log.write(f"{event} {arguments[1:]}\n{''.join(traceback.format_stack(limit=8))}\n")
    raise OSError(f"no network here: {event}")


if "NO_NETWORK_LOG" in os.environ:
    sys.addaudithook(refuse)

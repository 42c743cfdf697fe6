"""fairseq-generate of several sets in one process, which starts once.

generate.py valid=valid.log test=test.log -- DATA-BIN --path model.pt --beam 5
"""

from __future__ import annotations

import contextlib
import sys

from fairseq_cli import generate


def main() -> None:
    """Write to each log what fairseq-generate prints for its set."""
    words, flags = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    for word in words:
        subset, _, log = word.partition("=")
        sys.argv = ["fairseq-generate", *flags, "--gen-subset", subset]
        with open(log, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
            generate.cli_main()


if __name__ == "__main__":
    main()

"""Speaks METEOR's protocol for exact matches of words that no side repeats; what it reads goes to
the file questions beside it.
"""

import sys
from itertools import pairwise
from pathlib import Path

FUNCTION = {"a", "the"}


def statistics(hyp: list[str], ref: list[str]) -> list[float]:
    common = [word for word in hyp if word in ref]
    function = len(FUNCTION.intersection(common))
    content = len(common) - function
    runs = [pair for pair in pairwise(common) if ref.index(pair[1]) != ref.index(pair[0]) + 1]
    return [
        *(len(hyp), len(ref), len(FUNCTION.intersection(hyp)), len(FUNCTION.intersection(ref))),
        *(content, content, function, function, *[0] * 12),
        *(len(runs) + bool(common), len(common), len(common)),
    ]


def main() -> None:
    Path(__file__).with_name("arguments").write_text("\n".join(sys.argv[1:]))
    with Path(__file__).with_name("questions").open("w", encoding="utf-8") as questions:
        for line in sys.stdin.buffer:
            text = line.decode("utf-8")
            print(text, end="", file=questions, flush=True)
            _, ref, hyp = text.split("|||")
            if "boom" in hyp:
                sys.exit("Exception: out of tables")
            numbers = " ".join(f"{x:.1f}" for x in statistics(hyp.split(), ref.split()))
            print("Error: specify SCORE" if "garbled" in hyp else numbers, flush=True)


if __name__ == "__main__":
    main()

"""The code blocks of a page: commands, their output, Python, and what is none of these."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/tutorial/*.md")),
    *sorted(ROOT.glob("docs/how-to/*.md")),
]
PROGRAMS = ("simile ", "python", "pip ", "fairseq-", "recipes/", "snakemake ", "grep ")
# By their beginnings, on the page named: neither commands, nor Python that can run, nor an output.
OTHERS = {
    "@inproceedings": "README.md",
    "score(hyps, refs, srcs)": "docs/how-to/own-reward.md",
    "import ctranslate2": "docs/how-to/translate-and-compare.md",
    "--default-resources": "docs/how-to/cluster.md",
}
NUMBER = r"[+-]?\d[\d,.]*(?:e-?\d+)?"


@dataclass(frozen=True)
class Block:
    """A block of code, without its indentation.

    Attributes:
        page: path below the repository.
        line: of the page, from 1, where it begins.
        kind: "commands", "output", "python" or "other".
        text: its lines.
        file: the file that the sentence before a block of Python names, or "".
    """

    page: str
    line: int
    kind: str
    text: str
    file: str = ""

    def commands(self) -> list[str]:
        """Return its commands, each with its continued lines."""
        return re.sub(r"\\\n\s*", "", self.text).splitlines()


def kind_of(text: str, page: str) -> str:
    """Return what a block is."""
    if any(text.startswith(begin) and page == where for begin, where in OTHERS.items()):
        return "other"
    if re.match(r"(def|from|import|class) ", text):
        return "python"
    first = re.sub(r"^(\w+=\S* )+", "", text)
    return "commands" if first.startswith(PROGRAMS) else "output"


def blocks_of(path: Path) -> Iterator[Block]:
    """Yield the indented blocks of a page, in its order."""
    page, before = path.relative_to(ROOT).as_posix(), ""
    for match in re.finditer(r"(?m)^(?:.+\n?)+", path.read_text("utf-8")):
        if not match[0].startswith("    "):
            before = match[0].strip()
            continue
        lines = "\n".join(line[4:] for line in match[0].splitlines())
        number = match.string.count("\n", 0, match.start()) + 1
        named = re.search(r"in `([\w.]+\.py)`:$", before)
        yield Block(page, number, kind_of(lines, page), lines, named[1] if named else "")


def pattern_of(line: str) -> str:
    """Return the regular expression of a line that a page shows.

    Any number and any space will do, "..." is anything; a rule may be longer, a time in other
    units, and a difference significant or not.
    """
    line = re.sub(r"\s[‡†]+", "", line.strip())
    pattern = re.escape(re.sub(NUMBER, "0", line)).replace("0", NUMBER)
    pattern = re.sub(r"(?:\\ )+", r"\\s+", pattern)  # re.escape puts a backslash before spaces
    pattern = pattern.replace(r"\.\.\.", ".*").replace("<" + NUMBER, NUMBER)
    pattern = re.sub(r"(?:\\-){4,}", "-+", pattern).replace(r"min\s+left", r"\w+\s+left")
    return pattern


def missing_lines(shown: str, printed: str) -> list[str]:
    """Return the lines of a page's output that a command did not print in this order.

    Numbers, significance marks and spaces may differ; "..." stands for anything.
    """
    plain = re.sub(r" [‡†]+", "", printed).replace("<", "")
    rest, missing = plain.splitlines(), []
    for line in filter(None, (line.strip() for line in shown.splitlines())):
        if line == "...":
            continue
        pattern = re.compile(rf"\s*{pattern_of(line)}\s*")
        at = next((i for i, other in enumerate(rest) if pattern.fullmatch(other)), None)
        if at is None:
            missing.append(line)
        else:
            rest = rest[at + 1 :]
    return missing

"""SCPN on the quickstart's English, whose grammar knows template and meaning of an output.

python toy_counts.py trees DIR     # DIR/toy/paraphrases.tsv -> DIR/toy/trees.tsv
python toy_counts.py table DIR     # what results.tsv is worth, and what kept.tsv
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from brackets import read_tree
from scpn import write
from toy_trees import tree

from recipes.quickstart import toy
from simile_plugin.files import as_script, read_lines


@dataclass(frozen=True)
class Output:
    """A line of results.tsv; `parse` is the template of the parse that was followed."""

    source: str
    text: str
    system: str
    own: str
    wanted: str
    parse: str

    def counts(self) -> tuple[bool, ...]:
        """Has the wanted template, keeps the meaning, both, has the source's template."""
        meaning, brackets = toy.parse(self.source), tree(self.text)
        assert meaning, self.source
        template = read_tree(brackets).template if brackets else None
        follows, right = template == self.wanted, toy.verdict(meaning, self.text) == toy.RIGHT
        return follows, right, follows and right, template == self.own

    def suits(self) -> bool:
        """True where the meaning can have the wanted template: the same times and places."""
        own, wanted = (
            sorted(label for label in template.split() if label.startswith("(PP"))
            for template in (self.own.replace(")", ""), self.wanted.replace(")", ""))
        )
        return own == wanted


SYSTEMS: tuple[tuple[str, str, Callable[[Output], bool]], ...] = (
    ("its paraphrase's template", "gold", lambda output: True),
    ("its paraphrase's whole parse", "gold parse", lambda output: True),
    ("no control", "plain", lambda output: True),
    ("frequent templates", "frequent", lambda output: True),
    ("... that the meaning can have", "frequent", Output.suits),
    ("... that it cannot have", "frequent", lambda output: not output.suits()),
)


def read_outputs(path: Path) -> list[Output]:
    """The lines of results.tsv or kept.tsv."""
    return [Output(*line.split("\t")) for line in read_lines(path, path.name)]


def table(args: argparse.Namespace) -> Iterator[str]:
    """Markdown: all outputs of each system, and those of them that the filter keeps."""
    found, kept = (read_outputs(args.folder / name) for name in ("results.tsv", "kept.tsv"))
    yield "| asked for | outputs | wanted template | same meaning | both | source's template |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, system, chosen in SYSTEMS:
        for when, outputs in ((name, found), (f"{name}, kept", kept)):
            rows = [o.counts() for o in outputs if o.system == system and chosen(o)]
            shares = (f"{100 * mean(column):.1f} %" for column in zip(*rows, strict=True))
            yield f"| {when} | {len(rows)} | {' | '.join(shares)} |"
    for kind in ("gold", "frequent"):
        right = [output.parse == output.wanted for output in found if output.system == kind]
        yield f"\nGenerated parses of the wanted template, {kind}: {100 * mean(right):.1f} %"


def trees(args: argparse.Namespace) -> Iterator[str]:
    """Brackets of every generated sentence."""
    pairs = read_lines(args.folder / "toy/paraphrases.tsv", "pairs")
    lines = ["\t".join(tree(cell) or "-" for cell in pair.split("\t")) for pair in pairs]
    write(args.folder / "toy/trees.tsv", lines)
    yield from ()


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, print; bad input is one line and status 2."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("trees", "table"))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args(argv)
    for line in {"trees": trees, "table": table}[args.command](args):
        print(line)


if __name__ == "__main__":
    sys.exit(main())

"""SCPN on the quickstart's English, whose grammar knows template and meaning of an output.

python toy_counts.py trees DIR     # DIR/toy/paraphrases.tsv -> DIR/toy/trees.tsv
python toy_counts.py table DIR     # what results.tsv is worth, and what kept.tsv
python toy_counts.py judge DIR     # encoders, with and without generated pairs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean

from brackets import read_tree
from scpn import write
from toy_trees import tree

from recipes.quickstart import toy
from simile_plugin.files import InputError, as_script, read_lines

WRONG = 5  # wrong sentences for each right one
Question = tuple[list[str], str, list[str]]  # references, right, wrong


@dataclass(frozen=True)
class Output:
    """A line of results.tsv; `parse` is the template of the parse that was followed."""

    source: str
    text: str
    system: str
    row: str
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
    ("nearest neighbour", "nearest", lambda output: True),
    ("frequent templates", "frequent", lambda output: True),
    ("... that the meaning can have", "frequent", Output.suits),
    ("... that it cannot have", "frequent", lambda output: not output.suits()),
    ("templates beside its own", "paired", lambda output: True),
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
    for kind in ("gold", "frequent", "paired"):
        right = [output.parse == output.wanted for output in found if output.system == kind]
        if right:
            yield f"\nGenerated parses of the wanted template, {kind}: {100 * mean(right):.1f} %"


def questions(pairs: Sequence[str], seed: int) -> Iterator[Question]:
    """Reference, a paraphrase of it, and sentences whose meaning differs in one slot."""
    rows, rng = [line.split("\t") for line in pairs], Random(f"{seed} wrong")
    meanings = [meaning.slots() for row in rows if (meaning := toy.parse(row[0]))]
    values = {slot: sorted({slots[slot] for slots in meanings}) for slot in toy.SLOTS}
    for (reference, right, *_), slots in zip(rows, meanings, strict=True):
        wrong = []
        for _ in range(WRONG):
            slot = rng.choice([name for name in toy.SLOTS if len(values[name]) > 1])
            value = rng.choice([value for value in values[slot] if value != slots[slot]])
            wrong.append(toy.english(toy.Meaning.from_slots(slots | {slot: value}), rng))
        yield [reference], right, wrong


def judged(encoder: Path, asked: Sequence[Question]) -> float:
    """Percent of the wrong sentences that are less similar to the references than the right one.

    Similarity to several references is the mean of their cosines.
    """
    from simile_plugin.encoder import cosine, load_encoder

    embed, told = load_encoder(str(encoder)).embed_counted, []
    for references, right, wrong in asked:
        vectors = embed([*references, right, *wrong]).vectors
        count = len(references)
        rows = [cosine(vector, vectors[count:]).tolist() for vector in vectors[:count]]
        sims = [sum(column) for column in zip(*rows, strict=True)]
        told += [float(sims[0] > sim) for sim in sims[1:]]
    return 100 * mean(told)


def judge(args: argparse.Namespace) -> Iterator[str]:
    """Markdown: encoders of a few pairs, of those and generated ones; and more references."""
    from simile_plugin.cli import main as simile

    kept = [o for o in read_outputs(args.folder / "kept.tsv") if o.source != o.text]
    pairs = read_lines(args.folder / "train.pairs", "pairs")[: args.more]
    references: dict[str, list[str]] = {}
    for output in kept:
        if output.system == "paired":
            references.setdefault(output.source, [output.source]).append(output.text)
    tested = read_lines(args.folder / "toy/paraphrases.tsv", "pairs")[: args.test]
    one = list(questions(tested, 1))
    several = [(references.get(first, [first]), right, wrong) for (first,), right, wrong in one]
    yield "| encoder of | pairs | references | told, mean | by seed |"
    yield "|---|---:|---|---:|---|"
    added = {"pairs": "", "and uncontrolled": "plain more", "and controlled": "more"}
    for name, system in added.items():
        lines = [*pairs, *(f"{o.source}\t{o.text}" for o in kept if o.system == system)]
        write(args.folder / "pairs.tsv", lines)
        shares = []
        for seed in args.seeds:
            encoder = args.folder / f"encoders/{system.replace(' ', '.') or 'alone'}.{seed}"
            flags = f"--vocab-size 500 --steps {args.steps} --seed {seed} --overwrite --restart"
            command = ["train-encoder", str(args.folder / "pairs.tsv"), "--output", str(encoder)]
            with redirect_stdout(sys.stderr):
                status = simile([*command, *flags.split()])
            if status:
                raise InputError("simile train-encoder failed, see above")
            shares.append([judged(encoder, asked) for asked in (one, several)])
        for which, column in zip(("one", "and generated"), zip(*shares, strict=True), strict=True):
            each = ", ".join(f"{share:.1f}" for share in column)
            yield f"| {name} | {len(lines)} | {which} | {mean(column):.1f} % | {each} |"


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
    parser.add_argument("command", choices=("trees", "table", "judge"))
    parser.add_argument("folder", type=Path)
    for flag, default in (("test", 200), ("more", 500), ("steps", 300)):
        parser.add_argument(f"--{flag}", type=int, default=default, help="(%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of encoders")
    args = parser.parse_args(argv)
    for line in {"trees": trees, "table": table, "judge": judge}[args.command](args):
        print(line)


if __name__ == "__main__":
    sys.exit(main())

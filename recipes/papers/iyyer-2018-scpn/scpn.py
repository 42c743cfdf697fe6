"""Write what SCPN's models read, and gather what they wrote.

python scpn.py prepare DIR pairs.tsv trees.tsv   # training data, requests
python scpn.py control DIR                       # generated parses -> paraphrase generator
python scpn.py collect DIR                       # all outputs -> results.tsv

pairs.tsv has sentence TAB paraphrase, trees.tsv a tree of each. The first --test pairs are asked
about, the next --valid validate, the others train. A request is a sentence and the template that
its paraphrase shall have: that of the paraphrase beside it (gold), or one of the --templates most
frequent ones other than the sentence's (frequent).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import sentencepiece
from brackets import Tree, frequent, read_tree

from recipes import bpe
from simile_plugin.files import InputError, as_script, atomic_write, read_lines, read_parallel

MODELS = ("parse", "paraphrase", "plain")
BETWEEN = "<and>"  # between the two things that a model reads as one
Side = tuple[str, Tree]


@dataclass(frozen=True)
class Request:
    """A paraphrase that is wanted; `own` and `wanted` are templates, `target` a whole parse."""

    kind: str
    source: str
    parse: str
    own: str
    wanted: str
    target: str = "-"


def read_pairs(pairs: str, trees: str) -> list[tuple[Side, Side]]:
    """Sentences with their trees; InputError names file:line of what is no pair or no tree."""
    found = []
    files = ((pairs, "pairs"), (trees, "trees"))
    for number, lines in enumerate(zip(*read_parallel(files), strict=True), start=1):
        rows = [line.split("\t") for line in lines]
        for (path, what), row in zip(files, rows, strict=True):
            if len(row) < 2:
                raise InputError(f"{what} {path}:{number}: found one column, expected two by a TAB")
        sides = []
        for i, which in enumerate(("first", "second")):
            try:
                sides.append((rows[0][i], read_tree(rows[1][i])))
            except InputError as error:
                raise InputError(f"trees {trees}:{number}: {which} tree, {error}") from None
        found.append((sides[0], sides[1]))
    return found


def requests(
    tested: Sequence[tuple[Side, Side]], train: Sequence[tuple[Side, Side]], count: int
) -> Iterator[Request]:
    """Ask for each tested pair's second template, then for the most frequent ones of training."""
    common = frequent((tree.template for pair in train for _, tree in pair), count + 1)
    for (text, tree), (_, target) in tested:
        ask = partial(Request, source=text, parse=str(tree), own=tree.template)
        yield ask("gold", wanted=target.template, target=str(target))
        others = [template for template in common if template != tree.template]
        yield from (ask("frequent", wanted=template) for template in others[:count])


def prepare(args: argparse.Namespace) -> None:
    """Training data of three models as fairseq's raw format has it, and the requests."""
    for name in ("test", "valid", "templates"):
        if (number := getattr(args, name)) < 1:
            raise InputError(f"--{name}: got {number}, expected at least 1")
    pairs, held_out = read_pairs(args.pairs, args.trees), args.test + args.valid
    if len(pairs) <= held_out:
        raise InputError(
            f"pairs {args.pairs} has {len(pairs)} lines, expected more than --test and --valid "
            f"together ({held_out})"
        )
    tested, valid, train = pairs[: args.test], pairs[args.test : held_out], pairs[held_out:]
    write(args.folder / "train.txt", [text for pair in train for text, _ in pair])
    bpe.train([str(args.folder / "train.txt")], str(args.folder / "bpe"), args.vocab_size)
    pieces = segmenter(args.folder)
    for model in MODELS:
        write_data(args.folder / model, model, {"valid": valid, "train": train}, pieces)
    asked = list(requests(tested, train, args.templates))
    write(args.folder / "requests.tsv", ["\t".join(astuple(r)) for r in asked])
    write(args.folder / "parse/ask", [f"{r.wanted} {BETWEEN} {r.parse}" for r in asked])
    sources = dict.fromkeys(r.source for r in asked)
    write(args.folder / "plain/ask", [pieces(source) for source in sources])


def write_data(
    folder: Path,
    model: str,
    parts: Mapping[str, Sequence[tuple[Side, Side]]],
    pieces: Callable[[str], str],
) -> None:
    """Write a model's examples, each pair both ways, and one dictionary for both sides."""
    counts: Counter[str] = Counter()
    for part, rows in parts.items():
        lines = [example(model, *sides, pieces) for pair in rows for sides in (pair, pair[::-1])]
        counts.update(word for line in lines for text in line for word in text.split(" "))
        for side, texts in zip(("src", "tgt"), zip(*lines, strict=True), strict=True):
            write(folder / f"{part}.src-tgt.{side}", texts)
    for side in ("src", "tgt"):
        dictionary = [f"{word} {count}" for word, count in counts.most_common()]
        write(folder / f"dict.{side}.txt", dictionary)


def example(
    model: str, source: Side, target: Side, pieces: Callable[[str], str]
) -> tuple[str, str]:
    """Return what a model reads and writes: t2 and p1 -> p2, s1 and p2 -> s2, s1 -> s2."""
    if model == "parse":
        return f"{target[1].template} {BETWEEN} {source[1]}", str(target[1])
    parse = f" {BETWEEN} {target[1]}" if model == "paraphrase" else ""
    return pieces(source[0]) + parse, pieces(target[0])


def segmenter(folder: Path) -> Callable[[str], str]:
    """Sentence -> its pieces with spaces between them."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe"))
    return lambda text: " ".join(model.encode(text, out_type=str))


def write(path: Path, lines: Sequence[str]) -> None:
    """A whole file of these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


def asked_in(folder: Path) -> list[Request]:
    """The requests that `prepare` wrote."""
    return [Request(*line.split("\t")) for line in read_lines(folder / "requests.tsv", "requests")]


def answers(folder: Path, model: str) -> list[list[str]]:
    """Read what fairseq-interactive wrote for each of its lines, best first."""
    from simile_plugin.nbest import read_lists

    return [list(found.hyps) for found in read_lists(str(folder / model / "out"), model)]


def control(args: argparse.Namespace) -> None:
    """Each request's sentence with the parse that was generated; then gold ones with theirs."""
    asked, pieces = asked_in(args.folder), segmenter(args.folder)
    parses = [best for best, *_ in answers(args.folder, "parse")]
    rows = [*zip(asked, parses, strict=True), *((r, r.target) for r in asked if r.kind == "gold")]
    lines = [f"{pieces(request.source)} {BETWEEN} {parse}" for request, parse in rows]
    write(args.folder / "paraphrase/ask", lines)


def collect(args: argparse.Namespace) -> None:
    """results.tsv: source, output, system, own and wanted template, that of the parse."""
    asked = asked_in(args.folder)
    gold = [request for request in asked if request.kind == "gold"]
    parses = [template(best) for best, *_ in answers(args.folder, "parse")]
    outputs = [best for best, *_ in answers(args.folder, "paraphrase")]
    sources = dict.fromkeys(request.source for request in asked)
    plain = dict(zip(sources, (best for best, *_ in answers(args.folder, "plain")), strict=True))
    from_templates, from_parses = outputs[: len(asked)], outputs[len(asked) :]
    rows = [
        *((r, o, r.kind, parse) for r, o, parse in zip(asked, from_templates, parses, strict=True)),
        *((r, o, "gold parse", r.wanted) for r, o in zip(gold, from_parses, strict=True)),
        *((r, plain[r.source], "plain", "-") for r in gold),
    ]
    lines = ["\t".join((r.source, o, kind, r.own, r.wanted, parse)) for r, o, kind, parse in rows]
    write(args.folder / "results.tsv", lines)


def template(parse: str) -> str:
    """Of what a model wrote, which may be no tree."""
    try:
        return read_tree(parse).template
    except InputError:
        return "-"


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags, run; bad input is one line and status 2."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("prepare", "control", "collect"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", nargs="?", default="-")
    parser.add_argument("trees", nargs="?", default="-")
    for flag, default in (("test", 100), ("valid", 100), ("templates", 20)):
        parser.add_argument(f"--{flag}", type=int, default=default, help="(%(default)s)")
    parser.add_argument("--vocab-size", type=int, default=500, help="pieces (%(default)s)")
    args = parser.parse_args(argv)
    {"prepare": prepare, "control": control, "collect": collect}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())

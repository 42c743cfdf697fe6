"""What SCPN's models read, and what came out of them.

python scpn.py prepare DIR pairs.tsv trees.tsv   # training data, requests
python scpn.py control DIR                       # parses found -> paraphrase generator
python scpn.py collect DIR                       # outputs and controls -> results.tsv

pairs.tsv has sentence TAB paraphrase, trees.tsv a tree of each. The first --test pairs are asked
about, the next --valid validate, the others train. A request is a sentence and the template that
its paraphrase shall have: that of the paraphrase beside it (gold), the --templates most frequent
ones (frequent), or those most frequent beside its own template in training pairs (paired), never
its own; of the first --more training pairs, paired ones too (more).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import sentencepiece
from brackets import Tree, frequent, read_tree

from recipes import bpe
from simile_plugin.files import InputError, as_script, atomic_write, read_lines, read_parallel

BETWEEN = "<and>"  # between the two things that a model reads as one
Side = tuple[str, Tree]


@dataclass(frozen=True)
class Request:
    """A paraphrase that is wanted; `own` and `wanted` are templates, `target` a whole parse."""

    kind: str
    row: str
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
    pairs: Sequence[tuple[Side, Side]], test: int, valid: int, more: int, count: int
) -> Iterator[Request]:
    """All that is asked for, in order."""
    train = [side for pair in pairs[test + valid :] for side in (pair, pair[::-1])]
    common = frequent((tree.template for _, (_, tree) in train), count + 1)
    beside: dict[str, list[str]] = {}
    for (_, one), (_, other) in train:
        beside.setdefault(one.template, []).append(other.template)
    for number, ((text, tree), (_, target)) in enumerate(pairs):
        own = tree.template
        ask = partial(Request, row=str(number), source=text, parse=str(tree), own=own)
        paired = frequent((t for t in beside.get(own, ()) if t != own), count)
        if number < test:
            yield ask("gold", wanted=target.template, target=str(target))
            yield from (ask("frequent", wanted=t) for t in [t for t in common if t != own][:count])
            yield from (ask("paired", wanted=template) for template in paired)
        elif test + valid <= number < test + valid + more:
            yield from (ask("more", wanted=template) for template in paired)


def prepare(args: argparse.Namespace) -> None:
    """Training data of three models as fairseq's raw format has it, and the requests."""
    for name, least in (("test", 1), ("valid", 1), ("more", 0), ("templates", 1)):
        if (number := getattr(args, name)) < least:
            raise InputError(f"--{name}: got {number}, expected at least {least}")
    pairs, held_out = read_pairs(args.pairs, args.trees), args.test + args.valid
    if len(pairs) <= held_out + args.more:
        raise InputError(
            f"pairs {args.pairs} has {len(pairs)} lines, expected more than --test, --valid and "
            f"--more together ({held_out + args.more})"
        )
    train = [side for pair in pairs[held_out:] for side in pair]
    write(args.folder / "train.tsv", [f"{text}\t{tree.template}" for text, tree in train])
    write(args.folder / "train.txt", [text for text, _ in train])
    bpe.train([str(args.folder / "train.txt")], str(args.folder / "bpe"), args.vocab_size)
    pieces = segmenter(args.folder)
    for model in ("parse", "paraphrase", "plain"):
        counts: Counter[str] = Counter()
        for part, rows in (("valid", pairs[args.test : held_out]), ("train", pairs[held_out:])):
            lines = [
                example(model, *sides, pieces) for pair in rows for sides in (pair, pair[::-1])
            ]
            counts.update(word for line in lines for text in line for word in text.split(" "))
            for side, texts in zip(("src", "tgt"), zip(*lines, strict=True), strict=True):
                write(args.folder / model / f"{part}.src-tgt.{side}", texts)
        for side in ("src", "tgt"):
            dictionary = [f"{word} {count}" for word, count in counts.most_common()]
            write(args.folder / model / f"dict.{side}.txt", dictionary)
    asked = list(requests(pairs, args.test, args.valid, args.more, args.templates))
    write(args.folder / "requests.tsv", ["\t".join(astuple(r)) for r in asked])
    write(args.folder / "parse/ask", [f"{r.wanted} {BETWEEN} {r.parse}" for r in asked])
    sources = dict.fromkeys(r.source for r in asked)
    write(args.folder / "plain/ask", [pieces(source) for source in sources])


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


def nearest(asked: Sequence[Request], train: Sequence[str], encoder: Path) -> Iterator[str]:
    """For each request the training sentence of the wanted template with the highest SIM."""
    from simile_plugin.encoder import cosine, load_encoder

    embed = load_encoder(str(encoder)).embed_counted
    texts, templates = zip(*(line.split("\t") for line in train), strict=True)
    vectors, sources = embed(texts).vectors, embed([r.source for r in asked]).vectors
    for request, vector in zip(asked, sources, strict=True):
        places = [i for i, template in enumerate(templates) if template == request.wanted]
        yield texts[places[int(cosine(vector, vectors[places]).argmax())]] if places else "-"


def collect(args: argparse.Namespace) -> None:
    """results.tsv: source, output, system, row, own and wanted template, that of the parse."""
    asked = asked_in(args.folder)
    gold = [request for request in asked if request.kind == "gold"]
    parses = [template(best) for best, *_ in answers(args.folder, "parse")]
    outputs = [best for best, *_ in answers(args.folder, "paraphrase")]
    sources = dict.fromkeys(request.source for request in asked)
    plain = dict(zip(sources, answers(args.folder, "plain"), strict=True))
    train = read_lines(args.folder / "train.tsv", "train")
    neighbours = nearest(gold, train, args.folder / "encoder")
    more = {request.row: request for request in asked if request.kind == "more"}
    rows = [
        *((r, text, r.kind, parse) for r, text, parse in zip(asked, outputs, parses, strict=False)),
        *((r, o, "gold parse", r.wanted) for r, o in zip(gold, outputs[len(asked) :], strict=True)),
        *((r, plain[r.source][0], "plain", "-") for r in gold),
        *((r, text, "nearest", "-") for r, text in zip(gold, neighbours, strict=True)),
        *((r, text, "plain more", "-") for r in more.values() for text in plain[r.source]),
    ]
    lines = ["\t".join((r.source, o, kind, r.row, r.own, r.wanted, p)) for r, o, kind, p in rows]
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
    for flag, default in (("test", 100), ("valid", 100), ("more", 0), ("templates", 20)):
        parser.add_argument(f"--{flag}", type=int, default=default, help="(%(default)s)")
    parser.add_argument("--vocab-size", type=int, default=500, help="pieces (%(default)s)")
    args = parser.parse_args(argv)
    {"prepare": prepare, "control": control, "collect": collect}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())

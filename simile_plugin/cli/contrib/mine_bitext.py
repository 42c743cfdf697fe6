"""`simile contrib mine-bitext`: find translations in two texts, and measure how well that goes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._lists import one_line
from simile_plugin.cli._types import add_device, file_name, real_number, whole_number
from simile_plugin.files import InputError, check_outputs, check_standard_input

if TYPE_CHECKING:
    from simile_plugin.contrib.bitext import Candidates, Corpus, Neighbours

HELP = "find translations in two texts by an encoder of both languages; F1 against gold pairs"

DESCRIPTION = """\
Find sentences that are translations of each other, by an encoder trained on both languages
(Artetxe and Schwenk 2019). A pair's score is its cosine a against the neighbourhood b, the mean
cosine of each side with its k nearest sentences of the other language: ratio a / b, distance
a - b, or absolute a. Best pairs first, each sentence used once. The search is exact and needs
memory for the vectors and one small block.

Texts are in the layout of the BUCC shared task, id TAB sentence; identical sentences of one text
count as one. What scores at least the threshold is mined.

  --gold: the pairs (source id TAB target id) that should be found. Without --threshold the one with
      the best F1 on them is taken, and that F1 is optimistic: give the threshold, and other texts,
      for an honest one.
  --aligned: plain texts of sentences, where line i translates line i: how often the nearest
      sentence of the other language is the right one (the Tatoeba protocol), both ways.
"""

EPILOG = """\
examples:
  simile contrib mine-bitext ENCODER --source de-en.training.de --target de-en.training.en \\
      --gold de-en.training.gold --margin distance
  simile contrib mine-bitext ENCODER --source de.tsv --target en.tsv --threshold 1.06 \\
      --output pairs.tsv
  simile contrib mine-bitext ENCODER --source test.de --target test.en --aligned
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile contrib mine-bitext`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add = parser.add_argument
    add("encoder", type=file_name, metavar="ENCODER", help="encoder folder")
    add("--source", required=True, metavar="FILE", help="id TAB sentence, one language")
    add("--target", required=True, metavar="FILE", help="the other language")
    add("--gold", metavar="FILE", help="source id TAB target id; tunes the threshold")
    add("--threshold", type=real_number(), metavar="SCORE", help="lowest score of a mined pair")
    add("--aligned", action="store_true", help="line i translates line i; no ids")
    text = "nearest sentences that make the neighbourhood (default and paper: 4)"
    add("-k", "--neighbours", type=whole_number(1), default=4, metavar="K", help=text)
    margins = ("ratio", "distance", "absolute")
    add("--margin", choices=margins, default="ratio", help="how a and b make the score")
    text = "write the mined pairs, best first: score, ids and sentences, by TABs"
    add("--output", type=file_name, metavar="FILE", help=text)
    add_device(parser)
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Mine or measure; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.significance import without_nan

    _check(args)
    report = _retrieve(args) if args.aligned else _mine(args)
    if args.json:
        print(json.dumps(without_nan(report), indent=2))
    else:
        for name, value in report.items():
            print(f"{name:<20}{value:.4f}" if isinstance(value, float) else f"{name:<20}{value}")
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant."""
    files = [(getattr(args, name), f"--{name}") for name in ("source", "target", "gold")]
    check_standard_input(files)
    check_outputs({"--output": args.output}, [args.encoder, *(path for path, _ in files)])
    threshold = args.threshold is not None
    if args.aligned and (args.gold or threshold or args.output):
        raise InputError("--aligned: only measures; leave out --gold, --threshold and --output")
    if not args.aligned and not args.gold and not (threshold and args.output):
        raise InputError("--source: expected --gold, --aligned, or --threshold with --output")


def _mine(args: argparse.Namespace) -> dict[str, Any]:
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import (
        evaluate_mining,
        propose,
        read_corpus,
        read_gold,
        tune_threshold,
    )

    source, target = read_corpus(args.source, "--source"), read_corpus(args.target, "--target")
    gold = read_gold(args.gold, "--gold", source, target) if args.gold else set()
    fingerprint, forward, backward = _search(args, source.sentences, target.sentences)
    pairs = propose(forward, backward, args.margin)
    threshold = tune_threshold(pairs, gold) if args.threshold is None else args.threshold
    report = {"encoder": fingerprint, "neighbours": args.neighbours, "margin": args.margin}
    report |= {"source": len(source.sentences), "target": len(target.sentences)}
    if gold:
        report |= {"tuned": args.threshold is None}
        report |= asdict(evaluate_mining(pairs, gold, threshold))
    if args.output:
        report["written"] = _write(args.output, source, target, pairs, threshold)
    return report


def _search(
    args: argparse.Namespace, source: list[str], target: list[str]
) -> tuple[str, Neighbours, Neighbours]:
    """The encoder's fingerprint; nearest neighbours of the distinct sentences, both ways."""
    from simile_plugin.contrib.bitext import embed_all, nearest
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import Progress

    encoder = load_encoder(args.encoder, usable_device(args.device))
    with Progress(len(source) + len(target), " sentences") as bar:
        x, y = (embed_all(encoder.embed_text, text, bar.update) for text in (source, target))
    for vectors, name in ((x, "source"), (y, "target")):
        if not bool(vectors.any()):
            raise InputError(
                f"--{name}: {getattr(args, name)}: the encoder knows no piece of any sentence; was "
                "it trained on this language and script?"
            )
    with Progress(len(x) * len(y), " pairs", scale=True) as bar:
        found = nearest(x, y, args.neighbours, device=args.device, progress=bar.update)
    return encoder.fingerprint, *found


def _write(path: str, source: Corpus, target: Corpus, pairs: Candidates, threshold: float) -> int:
    """Write the pairs from the threshold on; return how many."""
    from simile_plugin.files import atomic_write

    written = int((pairs.scores >= threshold).sum())
    rows = list(zip(pairs.source, pairs.target, pairs.scores, strict=True))[:written]
    with atomic_write(path) as stream:
        for i, j, score in rows:
            cells = [f"{score:.6f}", source.ids[i], target.ids[j]]
            cells += [one_line(source.sentences[i]), one_line(target.sentences[j])]
            stream.write("\t".join(cells) + "\n")
    return written


def _retrieve(args: argparse.Namespace) -> dict[str, Any]:
    """Accuracy of the nearest sentence in aligned texts, in percent."""
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import retrieval_accuracy
    from simile_plugin.files import read_parallel

    source, target = read_parallel([(args.source, "--source"), (args.target, "--target")])
    if not source:
        raise InputError(f"--source: {args.source} is empty, expected a sentence a line")
    fingerprint, forward, backward = _search(args, source, target)
    accuracy = retrieval_accuracy(source, target, forward, backward)
    return {"encoder": fingerprint, **asdict(accuracy), "mean": accuracy.mean}

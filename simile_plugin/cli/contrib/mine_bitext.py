"""`simile contrib mine-bitext`: find translations in two texts, and measure how well that goes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._flags import add_flags, file_option, read_flags
from simile_plugin.cli._lists import one_line
from simile_plugin.cli.contrib import EncoderFlags
from simile_plugin.files import InputError, Range, check_outputs, check_standard_input, option

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


@dataclass
class Options(EncoderFlags):
    """Flags of `simile contrib mine-bitext`."""

    source: str = file_option("id TAB sentence, one language")
    target: str = file_option("the other language")
    gold: str | None = file_option("source id TAB target id; tunes the threshold", None)
    threshold: float | None = option("lowest score of a mined pair", None, metavar="SCORE")
    aligned: bool = option("line i translates line i; no ids", False)
    neighbours: int = option(
        "nearest sentences that make the neighbourhood (paper: 4)",
        4,
        names=("-k", "--neighbours"),
        range=Range.at_least(1),
    )
    margin: str = option(
        "how a and b make the score", "ratio", choices=("ratio", "distance", "absolute")
    )
    output: str | None = file_option(
        "write the mined pairs, best first: score, ids and sentences, by TABs", None
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile contrib mine-bitext`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Mine or measure; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.significance import without_nan

    options = read_flags(args, Options)
    _check(options)
    report = _retrieve(options) if options.aligned else _mine(options)
    if options.json:
        print(json.dumps(without_nan(report), indent=2))
    else:
        for name, value in report.items():
            print(f"{name:<20}{value:.4f}" if isinstance(value, float) else f"{name:<20}{value}")
    return 0


def _check(options: Options) -> None:
    """Raise InputError for flags that cannot be meant."""
    files = [(getattr(options, name), f"--{name}") for name in ("source", "target", "gold")]
    check_standard_input(files)
    check_outputs({"--output": options.output}, [options.encoder, *(path for path, _ in files)])
    threshold = options.threshold is not None
    if options.aligned and (options.gold or threshold or options.output):
        raise InputError("--aligned: only measures; leave out --gold, --threshold and --output")
    if not options.aligned and not options.gold and not (threshold and options.output):
        raise InputError("--source: expected --gold, --aligned, or --threshold with --output")


def _mine(options: Options) -> dict[str, Any]:
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import (
        evaluate_mining,
        propose,
        read_corpus,
        read_gold,
        tune_threshold,
    )

    source = read_corpus(options.source, "--source")
    target = read_corpus(options.target, "--target")
    gold = read_gold(options.gold, "--gold", source, target) if options.gold else set()
    fingerprint, forward, backward = _search(options, source.sentences, target.sentences)
    pairs = propose(forward, backward, options.margin)
    threshold = tune_threshold(pairs, gold) if options.threshold is None else options.threshold
    report = {"encoder": fingerprint, "neighbours": options.neighbours, "margin": options.margin}
    report |= {"source": len(source.sentences), "target": len(target.sentences)}
    if gold:
        report |= {"tuned": options.threshold is None}
        report |= asdict(evaluate_mining(pairs, gold, threshold))
    if options.output:
        report["written"] = _write(options.output, source, target, pairs, threshold)
    return report


def _search(
    options: Options, source: list[str], target: list[str]
) -> tuple[str, Neighbours, Neighbours]:
    """The encoder's fingerprint; nearest neighbours of the distinct sentences, both ways."""
    from simile_plugin.contrib.bitext import embed_all, nearest
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import Progress

    encoder = load_encoder(options.encoder, usable_device(options.device))
    with Progress(len(source) + len(target), " sentences") as bar:
        x = embed_all(encoder.embed_sources, source, bar.update)
        y = embed_all(encoder.embed_text, target, bar.update)
    for vectors, name in ((x, "source"), (y, "target")):
        if not bool(vectors.any()):
            raise InputError(
                f"--{name}: {getattr(options, name)}: the encoder knows no piece of any sentence; "
                "was it trained on this language and script?"
            )
    with Progress(len(x) * len(y), " pairs", scale=True) as bar:
        found = nearest(x, y, options.neighbours, device=options.device, progress=bar.update)
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


def _retrieve(options: Options) -> dict[str, Any]:
    """Accuracy of the nearest sentence in aligned texts, in percent."""
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import retrieval_accuracy
    from simile_plugin.files import read_parallel

    source, target = read_parallel([(options.source, "--source"), (options.target, "--target")])
    if not source:
        raise InputError(f"--source: {options.source} is empty, expected a sentence a line")
    fingerprint, forward, backward = _search(options, source, target)
    accuracy = retrieval_accuracy(source, target, forward, backward)
    return {"encoder": fingerprint, **asdict(accuracy), "mean": accuracy.mean}

"""Find sentences that are translations of each other, by an encoder trained on both languages
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

  python mine_bitext.py ENCODER --source de-en.training.de --target de-en.training.en \\
      --gold de-en.training.gold --margin distance
  python mine_bitext.py ENCODER --source de.tsv --target en.tsv --threshold 1.06 --output pairs.tsv
  python mine_bitext.py ENCODER --source test.de --target test.en --aligned
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bitext import (
    NEIGHBOURS,
    Candidates,
    Corpus,
    Neighbours,
    embed_all,
    evaluate_mining,
    nearest,
    propose,
    read_corpus,
    read_gold,
    retrieval_accuracy,
    tune_threshold,
)

from simile_plugin.encoder import load_encoder, usable_device
from simile_plugin.files import (
    InputError,
    Progress,
    as_script,
    atomic_write,
    check_outputs,
    check_standard_input,
    mark_warning,
    read_parallel,
)
from simile_plugin.significance import without_nan

MARGINS = ("ratio", "distance", "absolute")


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags; mine, or measure retrieval; print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("encoder", metavar="ENCODER", help="encoder folder of both languages")
    add("--source", required=True, metavar="FILE", help="id TAB sentence, one language")
    add("--target", required=True, metavar="FILE", help="the other language")
    add("--gold", metavar="FILE", help="source id TAB target id; tunes the threshold")
    add("--threshold", type=float, metavar="SCORE", help="lowest score of a mined pair")
    add("--aligned", action="store_true", help="line i translates line i; no ids")
    add("-k", "--neighbours", type=int, default=NEIGHBOURS, help="default 4, the paper's")
    add("--margin", default="ratio", choices=MARGINS, help="how a and b make the score")
    add("--output", metavar="FILE", help="mined pairs, best first: score, ids, sentences by TABs")
    add("--device", default="cpu", help="where the encoder runs: cpu, cuda, cuda:1")
    add("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    check(options)
    report = retrieve(options) if options.aligned else mine(options)
    if options.json:
        print(json.dumps(without_nan(report), indent=2))
        return
    for name, value in report.items():
        print(f"{name:<20}{value:.4f}" if isinstance(value, float) else f"{name:<20}{value}")


def check(options: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant."""
    if options.neighbours < 1:
        raise InputError(f"--neighbours: got {options.neighbours}, expected 1 or more")
    files = [(getattr(options, name), f"--{name}") for name in ("source", "target", "gold")]
    check_standard_input(files)
    check_outputs({"--output": options.output}, [options.encoder, *(path for path, _ in files)])
    threshold = options.threshold is not None
    if options.aligned and (options.gold or threshold or options.output):
        raise InputError("--aligned: only measures; leave out --gold, --threshold and --output")
    if not options.aligned and not options.gold and not (threshold and options.output):
        raise InputError("--source: expected --gold, --aligned, or --threshold with --output")


def mine(options: argparse.Namespace) -> dict[str, Any]:
    """Mine pairs; measure them against --gold, and write them to --output."""
    source = read_corpus(options.source, "--source")
    target = read_corpus(options.target, "--target")
    gold = read_gold(options.gold, "--gold", source, target) if options.gold else set()
    fingerprint, forward, backward = search(options, source.sentences, target.sentences)
    pairs = propose(forward, backward, options.margin)
    threshold = tune_threshold(pairs, gold) if options.threshold is None else options.threshold
    report = {"encoder": fingerprint, "neighbours": options.neighbours, "margin": options.margin}
    report |= {"source": len(source.sentences), "target": len(target.sentences)}
    if gold:
        report |= {"tuned": options.threshold is None}
        report |= asdict(evaluate_mining(pairs, gold, threshold))
    if options.output:
        report["written"] = write(options.output, source, target, pairs, threshold)
    return report


def search(
    options: argparse.Namespace, source: list[str], target: list[str]
) -> tuple[str, Neighbours, Neighbours]:
    """The encoder's fingerprint; nearest neighbours of the distinct sentences, both ways."""
    encoder = load_encoder(options.encoder, usable_device(options.device))
    for name, lines in (("source", source), ("target", target)):
        if text := mark_warning(f"--{name} {getattr(options, name)}", lines):
            print(f"warning: {text}", file=sys.stderr)
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


def write(path: str, source: Corpus, target: Corpus, pairs: Candidates, threshold: float) -> int:
    """Write the pairs from the threshold on; return how many."""
    written = int((pairs.scores >= threshold).sum())
    rows = list(zip(pairs.source, pairs.target, pairs.scores, strict=True))[:written]
    with atomic_write(path) as stream:
        for i, j, score in rows:
            cells = [f"{score:.6f}", source.ids[i], target.ids[j]]
            cells += [one_cell(source.sentences[i]), one_cell(target.sentences[j])]
            stream.write("\t".join(cells) + "\n")
    return written


def one_cell(text: str) -> str:
    """Return the text without the marks that end lines and columns."""
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")


def retrieve(options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy of the nearest sentence in aligned texts, in percent."""
    source, target = read_parallel([(options.source, "--source"), (options.target, "--target")])
    if not source:
        raise InputError(f"--source: {options.source} is empty, expected a sentence a line")
    fingerprint, forward, backward = search(options, source, target)
    accuracy = retrieval_accuracy(source, target, forward, backward)
    return {"encoder": fingerprint, **asdict(accuracy), "mean": accuracy.mean}


if __name__ == "__main__":
    sys.exit(main())

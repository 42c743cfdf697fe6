"""`simile contrib mine-bitext`: find translations in two texts, and measure how well that goes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._lists import one_line
from simile_plugin.cli._types import add_device, file_name, real_number, whole_number
from simile_plugin.files import InputError, check_outputs, check_standard_input

if TYPE_CHECKING:
    from simile_plugin.contrib.bitext import Corpus, Embed, Neighbours

HELP = "find translations in two texts by an encoder of both languages; F1 against gold pairs"

DESCRIPTION = """\
Find sentences that are translations of each other, by an encoder trained on both languages
(Artetxe and Schwenk 2019). A pair's score is its cosine a against the neighbourhood b, the mean
cosine of each side with its k nearest sentences of the other language: ratio a / b, distance
a - b, or absolute a. The search is exact and needs memory for the vectors and one small block.

Texts are in the layout of the BUCC shared task, id TAB sentence; identical sentences of one text
count as one. Three uses:

  --gold: the pairs (source id TAB target id) that should be found; the threshold with the best F1
      on them is printed, as is that F1, which is optimistic: it was tuned on these very pairs.
      With --test-source, --test-target and --test-gold that threshold is applied to a second set.
  --threshold: no gold pairs; what scores at least this much is written to --output.
  --aligned: plain texts of sentences, where line i translates line i: how often the nearest
      sentence of the other language is the right one (the Tatoeba protocol), both ways.
"""

EPILOG = """\
examples:
  simile contrib mine-bitext ENCODER --source de-en.training.de --target de-en.training.en \\
      --gold de-en.training.gold --margin ratio distance absolute
  simile contrib mine-bitext ENCODER --source de.tsv --target en.tsv --threshold 1.06 \\
      --output pairs.tsv
  simile contrib mine-bitext ENCODER --source test.de --target test.en --aligned
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile contrib mine-bitext`."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument("encoder", type=file_name, metavar="ENCODER", help="encoder folder")
    for flag, text in (("source", "id TAB sentence, one language"), ("target", "the other")):
        parser.add_argument(f"--{flag}", required=True, metavar="FILE", help=text)
    use = parser.add_mutually_exclusive_group(required=True)
    use.add_argument("--gold", metavar="FILE", help="source id TAB target id; tunes the threshold")
    use.add_argument(
        "--threshold", type=real_number(), metavar="SCORE", help="mine without gold pairs"
    )
    use.add_argument("--aligned", action="store_true", help="line i translates line i; no ids")
    for name in ("source", "target", "gold"):
        parser.add_argument(
            f"--test-{name}", metavar="FILE", help=f"--{name} of the set to test on"
        )
    parser.add_argument(
        "-k",
        "--neighbours",
        type=whole_number(1),
        metavar="K",
        help="nearest sentences that make the neighbourhood (default and paper: 4)",
    )
    parser.add_argument(
        "--margin",
        nargs="+",
        choices=("ratio", "distance", "absolute"),
        metavar="MARGIN",
        help="ratio (default), distance, absolute; several are compared",
    )
    parser.add_argument(
        "--strategy",
        choices=("max", "intersection", "forward", "backward"),
        help="max (default): best pairs first, each sentence used once; forward, backward: the "
        "best partner of each source or target sentence; intersection: both agree",
    )
    parser.add_argument(
        "--output",
        type=file_name,
        metavar="FILE",
        help="write the mined pairs, best first: score (of the first --margin), ids and sentences, "
        "by TABs (those of the test set if there is one)",
    )
    add_device(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Mine or measure; exit status 0. Errors are raised as InputError or OSError."""
    import json

    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.significance import without_nan

    _check(args)
    if args.aligned:
        return _retrieve(args)
    sets = _read_sets(args)
    encoder = load_encoder(args.encoder, usable_device(args.device))
    report: dict[str, Any] = {
        "encoder": encoder.fingerprint,
        "neighbours": args.neighbours,
        "strategy": args.strategy,
    }
    pairs = [
        _search(args, encoder.embed_text, one.sentences, other.sentences, prefix)
        for (one, other, _), prefix in zip(sets, ("", "test_"), strict=False)
    ]
    if args.gold:
        report |= _evaluate(args, sets, pairs)
    if args.output:
        report["written"] = _write(args, sets[-1], pairs[-1], report)
    if args.json:
        print(json.dumps(without_nan(report), indent=2))
    else:
        _print(args, sets, report)
    return 0


Set = tuple["Corpus", "Corpus", "set[tuple[int, int]]"]
Found = tuple["Neighbours", "Neighbours"]


def _read_sets(args: argparse.Namespace) -> list[Set]:
    """The texts to mine, then those to test on: source, target, gold pairs."""
    from simile_plugin.contrib.bitext import read_corpus, read_gold

    source, target = read_corpus(args.source, "--source"), read_corpus(args.target, "--target")
    gold = read_gold(args.gold, "--gold", source, target) if args.gold else set()
    sets = [(source, target, gold)]
    if args.test_gold:
        one = read_corpus(args.test_source, "--test-source")
        other = read_corpus(args.test_target, "--test-target")
        sets.append((one, other, read_gold(args.test_gold, "--test-gold", one, other)))
    return sets


def _search(
    args: argparse.Namespace, embed: Embed, source: list[str], target: list[str], prefix: str = ""
) -> Found:
    """Embed both texts and find the nearest neighbours both ways; prefix: of their flags."""
    from simile_plugin.contrib.bitext import embed_all, nearest
    from simile_plugin.files import Progress

    with Progress(len(source) + len(target), " sentences") as bar:
        x = embed_all(embed, source, bar.update)
        y = embed_all(embed, target, bar.update)
    for vectors, name in ((x, f"{prefix}source"), (y, f"{prefix}target")):
        if not bool(vectors.any()):
            raise InputError(
                f"--{name.replace('_', '-')}: {getattr(args, name)}: the encoder knows no piece of "
                "any sentence; was it trained on this language and script?"
            )
    with Progress(len(x) * len(y), " pairs", scale=True) as bar:
        return nearest(x, y, args.neighbours, device=args.device, progress=bar.update)


def _evaluate(args: argparse.Namespace, sets: list[Set], pairs: list[Found]) -> dict[str, Any]:
    """Margin -> threshold and F1 on the gold pairs it was tuned on, and on the test set."""
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import evaluate_mining, propose, tune_threshold

    tuned, tested = {}, {}
    for margin in args.margin:
        proposed = [propose(*found, margin, args.strategy) for found in pairs]
        threshold = tune_threshold(proposed[0], sets[0][2])
        tuned[margin] = asdict(evaluate_mining(proposed[0], sets[0][2], threshold))
        if len(sets) > 1:
            tested[margin] = asdict(evaluate_mining(proposed[1], sets[1][2], threshold))
    return {"tuned_on_these_gold_pairs": tuned, **({"test": tested} if tested else {})}


def _write(args: argparse.Namespace, texts: Set, found: Found, report: dict[str, Any]) -> int:
    """Write the pairs from the threshold on; how many they are."""
    from simile_plugin.contrib.bitext import propose
    from simile_plugin.files import atomic_write

    margin = args.margin[0]
    threshold = args.threshold
    if args.gold:
        threshold = report["tuned_on_these_gold_pairs"][margin]["threshold"]
    source, target, _ = texts
    pairs = propose(*found, margin, args.strategy)
    written = 0
    with atomic_write(args.output) as stream:
        for i, j, score in zip(pairs.source, pairs.target, pairs.scores, strict=True):
            if score < threshold:
                break
            ids = f"{source.ids[i]}\t{target.ids[j]}"
            both = source.sentences[i], target.sentences[j]
            stream.write("\t".join([f"{score:.6f}", ids, *map(one_line, both)]) + "\n")
            written += 1
    return written


def _retrieve(args: argparse.Namespace) -> int:
    """Accuracy of the nearest sentence in aligned texts."""
    import json
    from dataclasses import asdict

    from simile_plugin.contrib.bitext import retrieval_accuracy
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import read_parallel

    source, target = read_parallel([(args.source, "--source"), (args.target, "--target")])
    if not source:
        raise InputError(f"--source: {args.source} is empty, expected a sentence a line")
    encoder = load_encoder(args.encoder, usable_device(args.device))
    found = retrieval_accuracy(source, target, *_search(args, encoder.embed_text, source, target))
    if args.json:
        report = {"encoder": encoder.fingerprint, **asdict(found), "mean": found.mean}
        print(json.dumps(report, indent=2))
        return 0
    print(f"encoder {encoder.fingerprint}")
    print(f"the nearest of {found.sentences} sentences by cosine is the translation, or a copy of")
    print("it, in percent of the sentences:\n")
    print(f"source to target  {found.forward:5.1f}")
    print(f"target to source  {found.backward:5.1f}")
    print(f"mean              {found.mean:5.1f}")
    return 0


def _print(args: argparse.Namespace, sets: list[Set], report: dict[str, Any]) -> None:
    print(f"encoder {report['encoder']}; k = {args.neighbours}, strategy {args.strategy}")
    for name, (source, target, gold) in zip(("training", "test"), sets, strict=False):
        counts = f"{len(source)} x {len(target)} distinct sentences"
        print(f"{name}: {counts}, {len(gold)} gold pairs" if gold else f"texts: {counts}")
    for key, title in (
        ("tuned_on_these_gold_pairs", "training (threshold tuned on these gold pairs: optimistic)"),
        ("test", "test (threshold of the training set)"),
    ):
        if key not in report:
            continue
        print(f"\n{title}\n{'margin':<10}{'threshold':>10}{'precision':>11}{'recall':>8}{'F1':>7}")
        for margin, row in report[key].items():
            numbers = f"{row['precision']:11.1f}{row['recall']:8.1f}{row['f1']:7.1f}"
            print(f"{margin:<10}{row['threshold']:10.4f}{numbers}")
    if args.output:
        print(f"\n{report['written']} pairs written to {args.output}")


def _check(args: argparse.Namespace) -> None:
    """Raise InputError for flags that cannot be meant; fill in the defaults."""
    for name, value in (("margin", ["ratio"]), ("neighbours", 4), ("strategy", "max")):
        if getattr(args, name) is None:
            setattr(args, name, value)
        elif args.aligned:
            raise InputError(f"--{name}: does nothing with --aligned, which takes the nearest")
    if len(set(args.margin)) < len(args.margin):
        raise InputError(f"--margin: got {' '.join(args.margin)}, expected each margin once")
    if args.threshold is not None:
        if not args.output:
            raise InputError("--threshold: needs --output FILE for the mined pairs")
        if len(args.margin) > 1:
            raise InputError("--threshold: is of one margin; give --margin one name")
    names = ("source", "target", "gold", "test_source", "test_target", "test_gold")
    files = [(getattr(args, name), f"--{name.replace('_', '-')}") for name in names]
    check_standard_input(files)
    check_outputs({"--output": args.output}, [args.encoder, *(path for path, _ in files)])
    given = [name for name in ("source", "target", "gold") if getattr(args, f"test_{name}")]
    if given and (len(given) < 3 or not args.gold):
        raise InputError(
            f"--test-{given[0]}: a test set needs --test-source, --test-target and --test-gold, "
            "and --gold to tune the threshold"
        )
    if args.aligned and args.output:
        raise InputError("--aligned: only measures and writes no --output")

"""Let people compare systems: blinded sheets out, ratings back in.

`sheet` draws sentences whose outputs differ, mixes the outputs of all systems, and writes a sheet
for each annotator in two forms, of which one is to be filled in: TSV for a spreadsheet, and HTML,
which works in any browser without a network and saves its answers as a file. Which output is whose
stands in the key alone. `score` reads the answers, unblinds them by the key, and prints the mean
ratings, significance tests, and how far the annotators agree.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from simile_plugin.files import InputError, check_outputs, check_standard_input

HELP = "blinded rating sheets for people, and what their answers say"

EXAMPLES = """\
examples:
  Sheets for three annotators in the folder sheets (give them away), the key beside it (keep it):

    simile human-eval sheet --ref test.en --src test.de --out sheets --key key.json \\
        --sys BLEU=bleu.txt --sys SIMILE=simile.txt

  What they said; the files may be filled-in TSV sheets or what the HTML form saved:

    simile human-eval score --key key.json --answers anna.tsv ben.tsv carla.tsv

  The same in the report of all results:

    simile report ... --human key.json=anna.tsv,ben.tsv,carla.tsv --html report.html
"""
SHEET = "draw sentences and write blinded sheets with their key"
SCORE = "read answers, unblind them, test the difference"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile human-eval sheet` and `score`."""
    parser.description = __doc__
    parser.epilog = EXAMPLES
    parts = parser.add_subparsers(dest="part", required=True, metavar="{sheet,score}")
    _add_sheet(parts.add_parser("sheet", help=SHEET, description=SHEET, allow_abbrev=False))
    _add_score(parts.add_parser("score", help=SCORE, description=SCORE, allow_abbrev=False))


def _add_sheet(parser: argparse.ArgumentParser) -> None:
    text = "a system and its translations; two or more. Equal outputs are rated once"
    parser.add_argument("--ref", required=True, metavar="FILE", help="reference translations")
    parser.add_argument("--src", metavar="FILE", help="show the sources, too (default: hidden)")
    parser.add_argument("--sys", action="append", required=True, metavar="NAME=FILE", help=text)
    text = "draw where the outputs of these two differ (default: the last two systems)"
    parser.add_argument("--differ", metavar="NAME,NAME", help=text)
    paper = "(default and paper: %(default)s)"
    _add_numbers(
        parser,
        ("--sentences", 200, f"sentences to draw {paper}"),
        ("--min-tokens", 3, f"shortest reference, in words {paper}"),
        ("--max-tokens", 25, f"longest reference, in words {paper}"),
        (
            "--annotators",
            3,
            "sheets to make; each has every item, in its own order (default: %(default)s)",
        ),
        ("--seed", 1, "of draw and orders (default: %(default)s)"),
    )
    text = "folder for the sheets; made if missing"
    parser.add_argument("--out", required=True, metavar="DIR", help=text)
    text = "key to write, outside of --out; not shared"
    parser.add_argument("--key", required=True, metavar="FILE", help=text)


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", required=True, metavar="FILE", help="key of the sheets")
    text = "answers, one file an annotator"
    parser.add_argument(
        "--answers", required=True, action="extend", nargs="+", metavar="FILE", help=text
    )
    _add_numbers(
        parser,
        ("--resamples", 1000, "bootstrap resamples of the sentences (default: %(default)s)"),
        ("--seed", 12345, "of the test (default: %(default)s)"),
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_numbers(parser: argparse.ArgumentParser, *flags: tuple[str, int, str]) -> None:
    for flag, default, text in flags:
        parser.add_argument(flag, type=int, default=default, metavar="N", help=text)


def run(args: argparse.Namespace) -> int:
    """Write sheets, or score answers."""
    return _sheet(args) if args.part == "sheet" else _score(args)


def _sheet(args: argparse.Namespace) -> int:
    from simile_plugin import report
    from simile_plugin.files import atomic_write

    settings = report.DrawSettings(
        args.sentences, args.min_tokens, args.max_tokens, args.annotators, args.seed
    )
    _check_targets(args.out, args.key)
    named = report.parse_named_files("--sys", args.sys)
    outputs = ((path, "--sys") for paths in named.values() for path in paths)
    check_standard_input([(args.ref, "--ref"), (args.src, "--src"), *outputs])
    names = list(named)
    first, second = report.choose_pair("--differ", names, args.differ, names[-2:])
    refs = report.read_sentences(args.ref, "--ref")
    compared = report.read_systems("--sys", named, report.PLAIN, refs, f"--ref {args.ref}")
    sources = report.read_sources(args.src, refs, args.ref) if args.src else None
    study = report.draw_study(compared, refs, sources, settings, (first, second))
    goes_on = _goes_on(args, report.key_text(study))
    os.makedirs(args.out, exist_ok=True)
    if not goes_on:
        # The key comes first: sheets without a key would be lost work.
        with atomic_write(args.key) as stream:
            stream.write(report.key_text(study))
    report.write_sheets(study, args.out)
    print(
        f"study {study.fingerprint}: {settings.sentences} sentences, {len(study.items)} items; "
        f"{settings.annotators} sheets (.tsv and .html) in {args.out}, key {args.key}"
    )
    return 0


def _check_targets(out: str, key: str) -> None:
    if os.path.exists(out) and not os.path.isdir(out):
        raise InputError(f"--out: {out} is a file, expected a folder; name another")
    if Path(out).resolve() in Path(key).resolve().parents:
        raise InputError(
            f"--key: {key} lies in the folder of the sheets, {out}, which annotators get; "
            "name a place outside of it"
        )
    check_outputs({"--key": key}, [])


def _goes_on(args: argparse.Namespace, key: str) -> bool:
    """Whether an interrupted call left this very key, and perhaps some sheets, which stay."""
    # A new draw would make answers to the old sheets unreadable for ever.
    if os.path.exists(args.key):
        if Path(args.key).read_bytes() == key.encode("utf-8"):
            return True
        raise InputError(
            f"--key: {args.key} exists; answers to its sheets need it: name another file, or "
            "remove it"
        )
    if os.path.isdir(args.out) and any(n.startswith("sheet.") for n in os.listdir(args.out)):
        raise InputError(f"--out: {args.out} holds sheets already; name another folder")
    return False


def _score(args: argparse.Namespace) -> int:
    from simile_plugin import report

    test = report.PairedTest(resamples=args.resamples, seed=args.seed)
    study = report.read_key(args.key)
    answers = [report.read_answers(path, study) for path in args.answers]
    found = report.analyse_ratings(study, answers, test.resamples, test.seed)
    answer = report.answer_ratings(found)
    if args.json:
        print(json.dumps(answer.data, indent=2, ensure_ascii=False))
        return 0
    print(report.render_text(answer), end="")
    return 0

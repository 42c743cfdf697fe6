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
from dataclasses import dataclass
from pathlib import Path

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import (
    FILE,
    SEED,
    InputError,
    Range,
    atomic_write,
    check_outputs,
    option,
)

HELP = "write blinded rating sheets for people, and read their answers"

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


@dataclass(frozen=True)
class SheetOptions:
    """Flags of the sheets: the systems that are drawn from, the folder that is written."""

    ref: str = option("reference translations", metavar="FILE", range=FILE)
    src: str | None = option(
        "show the sources, too (default: hidden)", None, metavar="FILE", range=FILE
    )
    sys: list[str] = option(
        "a system and its translations; two or more. Equal outputs are rated once",
        metavar="NAME=FILE",
    )
    differ: str | None = option(
        "draw where the outputs of these two differ (default: the last two systems)",
        None,
        metavar="NAME,NAME",
    )
    out: str = option("folder for the sheets; made if missing", metavar="DIR", range=FILE)
    key: str = option("key to write, outside of --out; not shared", metavar="FILE", range=FILE)


@dataclass(frozen=True)
class ScoreOptions:
    """Flags of the scores: the key, the answers, the test."""

    key: str = option("key of the sheets", metavar="FILE", range=FILE)
    answers: list[str] = option(
        "answers, one file an annotator", metavar="FILE", nargs="+", range=FILE
    )
    partial: bool = option("take unfinished sheets: the sentences that all have rated", False)
    # A 95% interval leaves out one of 40.
    resamples: int = option(
        "bootstrap resamples of the sentences", 1000, range=Range.within(40, 1_000_000)
    )
    seed: int = option("of the test", 12345, range=SEED)
    json: bool = option("print one JSON object", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile human-eval sheet` and `score`."""
    from simile_plugin.report import DrawSettings

    parser.description = __doc__
    parser.epilog = EXAMPLES
    parts = parser.add_subparsers(dest="part", required=True, metavar="{sheet,score}")
    sheet = parts.add_parser("sheet", help=SHEET, description=SHEET, allow_abbrev=False)
    add_flags(sheet, SheetOptions)
    add_flags(sheet, DrawSettings)
    score = parts.add_parser("score", help=SCORE, description=SCORE, allow_abbrev=False)
    add_flags(score, ScoreOptions)


def run(args: argparse.Namespace) -> int:
    """Write sheets, or score answers."""
    return _sheet(args) if args.part == "sheet" else _score(args)


def _sheet(args: argparse.Namespace) -> int:
    from simile_plugin import report

    options, settings = read_flags(args, SheetOptions), read_flags(args, report.DrawSettings)
    _check_targets(options)
    inputs = report.Inputs(report.ReportOptions(ref=options.ref, src=options.src, sys=options.sys))
    names = list(inputs.named_systems)
    differ = report.choose_pair("--differ", names, options.differ, names[-2:])
    study = report.draw_study(inputs.systems, inputs.refs, inputs.sources, settings, differ)
    os.makedirs(options.out, exist_ok=True)
    # The key comes first: sheets without a key would be lost work.
    with atomic_write(options.key) as stream:
        stream.write(report.key_text(study))
    report.write_sheets(study, options.out)
    print(
        f"study {study.fingerprint}: {settings.sentences} sentences, {len(study.items)} items; "
        f"{settings.annotators} sheets (.tsv and .html) in {options.out}, key {options.key}\n"
        f"{_power(settings.sentences)}"
    )
    return 0


def _power(sentences: int) -> str:
    """Tell which difference so many sentences show, and how many a smaller one takes.

    A one-sided test with p < 0.05 finds d in 4 of 5 studies where d = (1.645 + 0.842) s / sqrt(n);
    s, of the sentences' differences (means of the annotators), is 1 point or so.
    """
    seen = 2.487 / sentences**0.5
    return (
        f"{sentences} sentences show a difference of {seen:.2f} of 5 points in 4 of 5 studies, "
        f"{seen / 2:.2f} takes {4 * sentences:,} (if the sentences' differences scatter by 1 point)"
    )


def _check_targets(options: SheetOptions) -> None:
    """Find out before the work whether key and sheets can be written, and hurt no older ones."""
    out, key = options.out, options.key
    if os.path.exists(out) and not os.path.isdir(out):
        raise InputError(f"--out: {out} is a file, expected a folder; name another")
    if Path(out).resolve() in Path(key).resolve().parents:
        raise InputError(
            f"--key: {key} lies in the folder of the sheets, {out}, which annotators get; "
            "name a place outside of it"
        )
    check_outputs({"--key": key}, [])
    # A new draw would make answers to the old sheets unreadable for ever.
    if os.path.exists(key):
        raise InputError(
            f"--key: {key} exists; answers to its sheets need it: name another file, or remove it"
        )
    if os.path.isdir(out) and any(name.startswith("sheet.") for name in os.listdir(out)):
        raise InputError(f"--out: {out} holds sheets already; name another folder")


def _score(args: argparse.Namespace) -> int:
    from simile_plugin import report

    options = read_flags(args, ScoreOptions)
    study = report.read_key(options.key)
    answers = [
        report.read_answers(path, study, partial=options.partial) for path in options.answers
    ]
    answer = report.answer_ratings(
        report.compare_ratings(study, answers, options.resamples, options.seed)
    )
    if options.json:
        print(json.dumps(answer.data, indent=2, ensure_ascii=False))
    else:
        print(report.render_text(answer), end="")
    return 0

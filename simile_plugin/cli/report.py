"""Compare finished systems: scores with tests, what stands behind them, a page with all of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import InputError, atomic_write, check_outputs

if TYPE_CHECKING:
    from simile_plugin.report import Answer, Inputs

HELP = "compare systems: scores with significance tests, what changed, one HTML page of it all"

EXAMPLES = """\
examples:
  Will training pay? From n-best lists and references alone:

    simile report --nbest-lists mle.nbest --encoder encoder --only headroom --svg headroom.svg

  Four systems, the last with two seeds, tested against MLE and against BLEU:

    simile report --ref test.en --encoder encoder \\
        --sys MLE=mle.txt --sys BLEU=bleu.txt --sys HALF=half.txt \\
        --sys SIMILE=seed1.txt,seed2.txt --out results.md --html report.html

  What fairseq-generate printed, as sentences in the order of the test set:

    grep ^D- gen-test.txt | sort -t- -k2n | cut -f3 >mle.txt

  Both validation costs of two trainings, from their logs:

    simile report --log BLEU=bleu.log --log SIMILE=simile1.log,simile2.log --svg curves.svg

how to read the table:
  Scores are percent. A score of several seeds is their mean, and each seed has its own line.
  With ± comes half of the 95% interval over resampled test sentences. ‡ and † mark scores above
  the first and the second --baseline with p < 0.05, after Holm where several are compared; p is
  the share of the resamples that lie on the other side. The tests ask whether the same models
  would differ on other sentences, not whether training again would give the same: for that,
  compare the seeds. All scores come from the function that training and `simile score` use.
  The table after it says what of a difference is length.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile report`."""
    from simile_plugin.report import ReportOptions

    parser.epilog = EXAMPLES
    add_flags(parser, ReportOptions)


def read_inputs(args: argparse.Namespace, command_line: str) -> Inputs:
    """Return what the flags name; command_line is for the reader."""
    from simile_plugin.report import Inputs, ReportOptions

    return Inputs(read_flags(args, ReportOptions), command_line)


def run(args: argparse.Namespace) -> int:
    """Answer the questions, print and write the report."""
    from simile_plugin.report import ask, ask_for_page, choose_questions, render_text, report_page

    inputs = read_inputs(args, args.command_line)
    options = inputs.options
    chosen = choose_questions(inputs)
    _check_targets(inputs, chosen)
    answers = ask(inputs, chosen)
    drawn = _write_picture(options.svg, answers) if options.svg else None
    if options.out:
        _write_markdown(options.out, answers, drawn, options.svg)
    if options.html:
        page = report_page(inputs, ask_for_page(inputs, answers))
        with atomic_write(options.html) as stream:
            stream.write(_without_bytes(page))
    if options.json:
        content = {answer.name: answer.data for answer in answers}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    print("\n".join(map(render_text, answers)), end="")
    for path in filter(None, (options.svg, options.out, options.html)):
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _check_targets(inputs: Inputs, chosen: Sequence[str]) -> None:
    """Find out before the work whether its result can be written."""
    options = inputs.options
    for flag, path, endings in (
        ("--svg", options.svg, (".svg", ".png")),
        ("--out", options.out, (".md",)),
        ("--html", options.html, (".html", ".htm")),
    ):
        if path and not path.lower().endswith(endings):
            raise InputError(
                f"{flag}: got {path}; expected a name that ends in {' or '.join(endings)}"
            )
    outputs = {"--svg": options.svg, "--out": options.out, "--html": options.html}
    check_outputs(outputs, inputs.paths())


def _write_picture(path: str, answers: list[Answer]) -> str:
    """Draw the curves, or the first chart there is; return the question's name."""
    first = sorted(answers, key=lambda answer: answer.name != "curves")
    answer = next((answer for answer in first if answer.chart is not None), first[0])
    if answer.chart is None:
        raise InputError(f"--svg: {answer.name} has no picture; give --log NAME=FILE for curves")
    with atomic_write(path, "wb") as stream:
        answer.chart.write(stream, path.rpartition(".")[2].lower())
    return answer.name


def _write_markdown(
    path: str, answers: list[Answer], drawn: str | None, picture: str | None
) -> None:
    """Write all answers, with a link to the picture at the one that is drawn there."""
    from simile_plugin.report import render_markdown

    folder = os.path.dirname(path) or "."
    link = os.path.relpath(picture, folder).replace(os.sep, "/") if picture else None
    content = "\n".join(
        render_markdown(answer, link if answer.name == drawn else None) for answer in answers
    )
    with atomic_write(path) as stream:
        stream.write(_without_bytes(content))


def _without_bytes(text: str) -> str:
    """Return the text with ? for what is not UTF-8 in the names of files."""
    return text.encode("utf-8", "replace").decode()

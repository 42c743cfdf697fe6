"""Compare finished systems: scores with tests, what stands behind them, a page with all of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from simile_plugin.files import InputError, atomic_write, check_outputs

if TYPE_CHECKING:
    from simile_plugin.report import Answer, Inputs

HELP = "compare systems: scores with significance tests, what changed; one HTML page of it all"

EXAMPLES = """\
examples:
  Will training pay? From n-best lists and references alone:

    simile report --nbest-lists mle.nbest --encoder encoder --only headroom --svg headroom.svg

  Everything in a folder (layout below) as one HTML page for the browser:

    simile report FOLDER --html report.html

  Four systems, the last with two seeds, tested against MLE and against BLEU:

    simile report --ref test.en --encoder encoder \\
        --sys MLE=mle.txt --sys BLEU=bleu.txt --sys HALF=half.txt \\
        --sys SIMILE=seed1.txt,seed2.txt --out results.md

  Straight from what fairseq-generate printed (detokenised hypotheses, references):

    simile report --ref gen-test.txt --ref-lines T --sys MLE=gen-test.txt --sys-lines D

  Both validation costs of two trainings, from their logs:

    simile report --log BLEU=bleu.log --log SIMILE=simile1.log,simile2.log --svg curves.svg

the layout of FOLDER, of which systems with ref.txt, or logs, are enough:
{layout}

how to read the table:
  Scores are percent. A score of several seeds is their mean, and each seed has its own line.
  With ± comes half of the 95% interval over resampled test sentences. ‡ and † mark scores above
  the first and the second --baseline with p < 0.05. The tests ask whether the same models would
  differ on other sentences, not whether training again would give the same: for that, compare
  the seeds. All scores come from the function that training and `simile score` use.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile report`."""
    from simile_plugin.report import LAYOUT, NAMES

    parser.epilog = EXAMPLES.format(layout=LAYOUT)
    text = "take what is not given by flags from this folder (layout below)"
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help=text)
    _add_results(parser.add_argument_group("results: scores and significance tests"))
    _add_curves(parser.add_argument_group("curves: both validation costs by update"))
    group = parser.add_argument_group("costs, headroom, nbest: n-best lists, and what they hold")
    _add_lists(group)
    title = "quality: how well --encoder and other metrics rank"
    _add_quality(parser.add_argument_group(title))
    text = (
        "probe: a reward to be asked how it can be gamed, as simile probe does: simile, bleu, "
        "chrf, learned:DIR, a mix, module:function, meteor; repeat. Harm is done to the output of "
        "the first --baseline, or to --ref"
    )
    _add(parser.add_argument_group("probe"), "--reward", "SPEC", text, default=[])
    title = "lexical, examples and gaming: what changed (by --only)"
    _add_details(parser.add_argument_group(title))
    people = parser.add_argument_group("human: ratings by people")
    text = "key and answers of simile human-eval, a file for each annotator"
    _add(people, "--human", "KEY=FILE[,FILE]", text)
    output = parser.add_argument_group("output")
    text = (
        "also write one page with all of it, and without --only with lexical, examples and "
        "gaming too: no network needed, tables sort, pictures inside"
    )
    _add(output, "--html", "FILE", text)
    _add(output, "--title", "TEXT", "title of the page")
    text = "date to show on the page (default: none, so that equal input gives an equal file)"
    _add(output, "--date", "TEXT", text)
    text = (
        f"of {', '.join(NAMES)} (default: those whose files are given; lexical, examples and "
        "gaming only by name)"
    )
    _add(output, "--only", "NAME[,NAME]", text)
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    _add(output, "--out", "FILE", "also write the report (.md) or the numbers (.tsv)")


def _add(group: argparse._ArgumentGroup, flag: str, metavar: Any, text: str, **more: Any) -> None:
    """A flag with a value; one whose default is a list can be repeated."""
    more |= {"action": "append"} if more.get("default") == [] and "nargs" not in more else {}
    group.add_argument(flag, metavar=metavar, help=text, **more)


def _add_results(group: argparse._ArgumentGroup) -> None:
    from simile_plugin.report import LINE_KINDS, PLAIN

    _add(group, "--ref", "FILE", "reference translations")
    text = "a system and its translations of the same test set, a file for each seed; repeat"
    _add(group, "--sys", "NAME=FILE[,FILE]", text, default=[])
    text = "reward encoder folder, for SIM and SIMILE (without it: BLEU and chrF)"
    _add(group, "--encoder", "DIR", text)
    text = "one or two systems to test against (default: those named MLE and BLEU, or the first)"
    _add(group, "--baseline", "NAME[,NAME]", text)
    group.add_argument(
        "--test",
        choices=("bootstrap", "randomisation", "both"),
        default="bootstrap",
        help="paired bootstrap as in sacreBLEU, or paired approximate randomisation, which is "
        "two-sided and stricter; or both (default: %(default)s)",
    )
    for flag, what in (("--sys-lines", "--sys"), ("--ref-lines", "--ref")):
        group.add_argument(
            flag,
            choices=LINE_KINDS,
            default=PLAIN,
            help=f"how to read {what}: one sentence a line, or these lines of a "
            "fairseq-generate log, sorted by id (default: %(default)s)",
        )
    text = (
        'one more column, not tested: JSON {"SYSTEM": number or [number per seed]}, '
        "or lines SYSTEM<TAB>number; repeat"
    )
    _add(group, "--column", "TITLE=FILE", text, default=[])
    text = (
        "one more metric, tested like the others: files with a number from -1 to 1 for each "
        "sentence, shown in percent; for every system, a file for each of its files; repeat"
    )
    _add(group, "--sentence-scores", "TITLE:NAME=FILE[,FILE]", text, default=[])
    for flag, number, text in (
        ("--resamples", 1000, "bootstrap resamples (default: %(default)s)"),
        ("--trials", 10000, "randomisation trials (default: %(default)s)"),
        ("--seed", 12345, "of the tests (default: %(default)s, sacreBLEU's)"),
    ):
        _add(group, flag, "N", text, type=int, default=number)
    text = "exponent of SIMILE's length penalty (default: 0.25, the paper's)"
    _add(group, "--simile-alpha", "A", text, type=float)
    text = "where the encoder runs: cpu, cuda, cuda:1 (default: cpu)"
    _add(group, "--device", "DEV", text)
    text = "sacreBLEU tokeniser of BLEU (default: %(default)s)"
    _add(group, "--tokenize", "NAME", text, default="13a")


def _add_curves(group: argparse._ArgumentGroup) -> None:
    text = (
        "a system and its training logs, one for each seed: fairseq's --log-file, or stderr "
        "(json, simple or tqdm format), or its --tensorboard-logdir; repeat"
    )
    _add(group, "--log", "NAME=FILE[,FILE]", text, default=[])
    text = "validation set to show (default: %(default)s)"
    _add(group, "--valid-subset", "NAME", text, default="valid")
    text = (
        "draw the curves into FILE (.svg or .png); without them, the first other question that "
        "has a picture"
    )
    _add(group, "--svg", "FILE", text)


def _add_lists(group: argparse._ArgumentGroup) -> None:
    text = (
        "costs, headroom: lists of the model before fine-tuning: what fairseq-generate --nbest 8 "
        "printed, a file of the criterion's --risk-dump, or as simile mbr --help describes them; "
        "lists without references take those of --ref"
    )
    _add(group, "--nbest-lists", "FILE", text)
    text = "headroom: a learned reward (made by simile fit-reward with this --encoder)"
    _add(group, "--learned", "DIR", text)
    text = (
        "nbest: outputs of systems trained with N candidates: NAME.nN.txt or NAME.nN.SEED.txt, "
        "and perhaps mle.txt (recipes/multi30k/nbest.sh makes it)"
    )
    _add(group, "--nbest-folder", "DIR", text)


def _add_quality(group: argparse._ArgumentGroup) -> None:
    text = "pairs with human similarity: STS.input.X.txt and STS.gs.X.txt, a folder a year"
    _add(group, "--sts", "DIR", text, action="extend", nargs="+", default=[])
    text = (
        "judged translations: a TSV of hypothesis, reference and human score a language pair "
        "(simile eval-encoder --help says more, and compares several encoders)"
    )
    _add(group, "--judgements", "FILE", text, action="extend", nargs="+", default=[])
    text = "its columns, by name or number from 1, where they have other names"
    _add(group, "--judgement-columns", ("HYP", "REF", "SCORE"), text, nargs=3)


def _add_details(group: argparse._ArgumentGroup) -> None:
    text = "lexical, examples: the two systems (default: the last --baseline and the last --sys)"
    _add(group, "--compare", "FIRST,SECOND", text)
    _add(group, "--src", "FILE", "examples, gaming: source sentences of the test set")
    text = "examples: sentences at either end (default: %(default)s)"
    _add(group, "--examples", "K", text, type=int, default=10)
    text = (
        "lexical: files of one language pair, say de-en=ref.en,bleu.en,simile.en; repeat "
        "(default: --ref and --sys)"
    )
    _add(group, "--lexical", "PAIR=REF,FIRST,SECOND", text, default=[])
    text = (
        "lexical: coarse parts of speech in files beside the texts, with this ending added to "
        "their names: a tag for each token of --tokenize"
    )
    _add(group, "--tags", "SUFFIX", text)
    text = "lexical: coarse parts of speech by this spaCy model, say en_core_web_sm"
    _add(group, "--spacy-model", "NAME", text)
    text = "lexical: write compare-mt's own HTML report into DIR/PAIR"
    _add(group, "--compare-mt", "DIR", text)


def run(args: argparse.Namespace) -> int:
    """Answer the questions, print and write the report."""
    from simile_plugin.report import (
        Inputs,
        ask,
        ask_for_page,
        choose_questions,
        render_text,
        report_page,
    )

    inputs = Inputs(args)
    chosen = choose_questions(inputs)
    _check_targets(inputs, chosen)
    answers = ask(inputs, chosen)
    drawn = _write_picture(args.svg, answers) if args.svg else None
    if args.out:
        _write(args.out, answers, drawn, args.svg)
    if args.html:
        page = report_page(inputs, ask_for_page(inputs, answers))
        with atomic_write(args.html) as stream:
            stream.write(_without_bytes(page))
    if args.json:
        content = {answer.name: answer.data for answer in answers}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    print("\n".join(map(render_text, answers)), end="")
    for path in filter(None, (args.svg, args.out, args.html)):
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _check_targets(inputs: Inputs, chosen: list[str]) -> None:
    """Find out before the work whether its result can be written."""
    from simile_plugin.report import find_question

    args = inputs.args
    if args.svg and not any(find_question(name).PICTURED for name in chosen):
        raise InputError("--svg draws curves; give --log NAME=FILE for them")
    for flag, path, endings in (
        ("--svg", args.svg, (".svg", ".png")),
        ("--out", args.out, (".md", ".tsv")),
        ("--html", args.html, (".html", ".htm")),
    ):
        if path and not path.lower().endswith(endings):
            raise InputError(
                f"{flag}: got {path}; expected a name that ends in {' or '.join(endings)}"
            )
    check_outputs({"--svg": args.svg, "--out": args.out, "--html": args.html}, inputs.paths())
    for flag in ("compare_mt", "tags", "spacy_model"):
        if getattr(args, flag) and "lexical" not in chosen and (args.only or not args.html):
            name = flag.replace("_", "-")
            raise InputError(f"--{name}: is for lexical, which is not asked for; --only lexical")
    if args.out and _is_tsv(args.out) and "results" not in chosen:
        raise InputError("--out: .tsv holds results; give --ref and --sys, or a name in .md")


def _is_tsv(path: str) -> bool:
    return path.lower().endswith(".tsv")


def _write_picture(path: str, answers: list[Answer]) -> str:
    """Draw the first chart of the questions that have one; returns the question's name."""
    from simile_plugin.report import find_question

    pictured = [answer for answer in answers if find_question(answer.name).PICTURED]
    answer = next((answer for answer in pictured if answer.chart is not None), pictured[0])
    if answer.chart is None:
        raise InputError(f"--svg: {answer.name} draws validations; give --log NAME=FILE for them")
    with atomic_write(path, "wb") as stream:
        answer.chart.write(stream, path.rpartition(".")[2].lower())
    return answer.name


def _write(path: str, answers: list[Answer], drawn: str | None, picture: str | None) -> None:
    from simile_plugin.report import render_markdown, render_tsv

    if _is_tsv(path):
        content = "".join(render_tsv(answer) for answer in answers if answer.numbers)
    else:
        folder = os.path.dirname(path) or "."
        link = os.path.relpath(picture, folder).replace(os.sep, "/") if picture else None
        content = "\n".join(
            render_markdown(answer, link if answer.name == drawn else None) for answer in answers
        )
    with atomic_write(path) as stream:
        stream.write(_without_bytes(content))


def _without_bytes(text: str) -> str:
    """The text with ? for what is not UTF-8 in the names of files."""
    return text.encode("utf-8", "replace").decode()

"""Compare finished systems: scores with tests, what stands behind them, a page with all of it."""

from __future__ import annotations

import argparse
import json
import os
import sys

from simile_plugin.files import InputError
from simile_plugin.report import Inputs, Section, folder, report_sections

HELP = "compare systems: scores with significance tests, what changed; one HTML page of it all"

EXAMPLES = """\
examples:
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
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES.format(layout=folder.LAYOUT)
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="take what is not given by flags from this folder (layout below)",
    )
    results = parser.add_argument_group("results: scores and significance tests")
    results.add_argument("--ref", metavar="FILE", help="reference translations")
    results.add_argument(
        "--sys",
        action="append",
        default=[],
        metavar="NAME=FILE[,FILE]",
        help="a system and its translations of the same test set, a file for each seed; repeat",
    )
    results.add_argument(
        "--encoder",
        metavar="DIR",
        help="reward encoder folder, for SIM and SIMILE (without it: BLEU and chrF)",
    )
    results.add_argument(
        "--baseline",
        default="",
        metavar="NAME[,NAME]",
        help="one or two systems to test against (default: those named MLE and BLEU, or the first)",
    )
    results.add_argument(
        "--test",
        choices=("bootstrap", "randomisation", "both"),
        default="bootstrap",
        help="paired bootstrap as in sacreBLEU, or paired approximate randomisation, which is "
        "two-sided and stricter; or both (default: %(default)s)",
    )
    _add_details(results)
    curves = parser.add_argument_group("curves: both validation costs by update")
    curves.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="NAME=FILE[,FILE]",
        help="a system and its training logs, one for each seed: fairseq's --log-file, or stderr "
        "(json, simple or tqdm format), or its --tensorboard-logdir; repeat",
    )
    curves.add_argument(
        "--valid-subset",
        default="valid",
        metavar="NAME",
        help="validation set to show (default: %(default)s)",
    )
    curves.add_argument(
        "--svg",
        metavar="FILE",
        help="draw the curves into FILE (.svg or .png); without them, the first other question "
        "that has a picture (.svg)",
    )
    _add_analyses(parser)
    people = parser.add_argument_group("human: ratings by people")
    people.add_argument(
        "--human",
        metavar="KEY=FILE[,FILE]",
        help="key and answers of simile human-eval, a file for each annotator",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--html",
        metavar="FILE",
        help="also write one page with all of it, and without --only with lexical, examples and "
        "gaming too: no network needed, tables sort, pictures inside",
    )
    output.add_argument("--title", metavar="TEXT", help="title of the page")
    output.add_argument(
        "--date",
        metavar="TEXT",
        help="date to show on the page (default: none, so that equal input gives an equal file)",
    )
    output.add_argument(
        "--only",
        metavar="NAME[,NAME]",
        help=f"of {', '.join(report_sections.SECTIONS)} (default: those whose files are given; "
        "examples and gaming only by name)",
    )
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    output.add_argument(
        "--out", metavar="FILE", help="also write the report (.md) or the numbers (.tsv)"
    )


def _add_analyses(parser: argparse.ArgumentParser) -> None:
    lists = parser.add_argument_group("costs and nbest: n-best lists, and how long they should be")
    lists.add_argument(
        "--nbest-lists",
        metavar="FILE",
        help="costs: lists of the model before fine-tuning: what fairseq-generate --nbest 8 "
        "printed, or a file of the criterion's --risk-dump",
    )
    lists.add_argument(
        "--nbest-folder",
        metavar="DIR",
        help="nbest: outputs of systems trained with N candidates: NAME.nN.txt or "
        "NAME.nN.SEED.txt, and perhaps mle.txt (recipes/multi30k/nbest.sh makes it)",
    )
    quality = parser.add_argument_group("quality: how well --encoder and other metrics rank")
    quality.add_argument(
        "--sts",
        nargs="+",
        default=[],
        metavar="DIR",
        help="pairs with human similarity: STS.input.X.txt and STS.gs.X.txt, a folder a year",
    )
    quality.add_argument(
        "--judgements",
        nargs="+",
        default=[],
        metavar="FILE",
        help="judged translations: a TSV of hypothesis, reference and human score a language pair "
        "(simile eval-encoder --help says more, and compares several encoders)",
    )
    quality.add_argument(
        "--judgement-columns",
        nargs=3,
        metavar=("HYP", "REF", "SCORE"),
        help="its columns, by name or number from 1, where they have other names",
    )
    details = parser.add_argument_group("lexical, examples and gaming: what changed (by --only)")
    details.add_argument(
        "--compare",
        metavar="FIRST,SECOND",
        help="lexical, examples: the two systems (default: the last --baseline and the last --sys)",
    )
    details.add_argument(
        "--src", metavar="FILE", help="examples, gaming: source sentences of the test set"
    )
    details.add_argument(
        "--examples",
        type=int,
        default=10,
        metavar="K",
        help="examples: sentences at either end (default: %(default)s)",
    )
    details.add_argument(
        "--lexical",
        action="append",
        default=[],
        metavar="PAIR=REF,FIRST,SECOND",
        help="lexical: files of one language pair, say de-en=ref.en,bleu.en,simile.en; repeat "
        "(default: --ref and --sys)",
    )
    details.add_argument(
        "--tags",
        metavar="SUFFIX",
        help="lexical: coarse parts of speech in files beside the texts, with this ending added "
        "to their names: a tag for each token of sacreBLEU's 13a tokeniser",
    )
    details.add_argument(
        "--spacy-model",
        metavar="NAME",
        help="lexical: coarse parts of speech by this spaCy model, say en_core_web_sm",
    )
    details.add_argument(
        "--compare-mt",
        metavar="DIR",
        help="lexical: write compare-mt's own HTML report into DIR/PAIR",
    )


def _add_details(results: argparse._ArgumentGroup) -> None:
    from simile_plugin.report import systems

    for flag, what in (("--sys-lines", "--sys"), ("--ref-lines", "--ref")):
        results.add_argument(
            flag,
            choices=systems.LINE_KINDS,
            default=systems.PLAIN,
            help=f"how to read {what}: one sentence a line, or these lines of a "
            "fairseq-generate log, sorted by id (default: %(default)s)",
        )
    results.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="TITLE=FILE",
        help='one more column, not tested: JSON {"SYSTEM": number or [number per seed]}, '
        "or lines SYSTEM<TAB>number; repeat",
    )
    results.add_argument(
        "--sentence-scores",
        action="append",
        default=[],
        metavar="TITLE:NAME=FILE[,FILE]",
        help="one more metric, tested like the others: files with a number from -1 to 1 for each "
        "sentence, shown in percent; for every system, a file for each of its files; repeat",
    )
    results.add_argument(
        "--resamples",
        type=int,
        default=1000,
        metavar="N",
        help="bootstrap resamples (default: %(default)s)",
    )
    results.add_argument(
        "--trials",
        type=int,
        default=10000,
        metavar="N",
        help="randomisation trials (default: %(default)s)",
    )
    results.add_argument(
        "--seed",
        type=int,
        default=12345,
        metavar="N",
        help="of the tests (default: %(default)s, sacreBLEU's)",
    )
    results.add_argument(
        "--simile-alpha",
        metavar="A",
        type=float,
        default=0.25,
        help="exponent of SIMILE's length penalty (default: %(default)s, the paper's)",
    )
    results.add_argument(
        "--device", default="cpu", metavar="DEV", help="where the encoder runs: cpu, cuda, cuda:1"
    )
    results.add_argument(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="sacreBLEU tokeniser of BLEU (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Answer the questions, print and write the report."""
    left_out = _take_from_folder(args) if args.folder else ()
    chosen = report_sections.choose_sections(args)
    _check_targets(args, chosen)
    inputs = Inputs(args)
    sections = {name: report_sections.SECTIONS[name](inputs) for name in chosen}
    if args.svg:
        report_sections.write_picture(args.svg, sections)
    if args.out:
        _write(args.out, sections)
    if args.html:
        _write_page(inputs, sections, left_out)
    if args.json:
        content = {name: section.content for name, section in sections.items()}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show † or blocks shows ? instead of failing.
        sys.stdout.reconfigure(errors="replace")
    print("\n".join(section.text for section in sections.values()), end="")
    for path in filter(None, (args.svg, args.out, args.html)):
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _check_targets(args: argparse.Namespace, chosen: list[str]) -> None:
    """Find out before the work whether its result can be written."""
    if args.svg:
        from simile_plugin.report import check_picture_path

        drawn = [name for name in report_sections.PICTURES if name in chosen]
        if not drawn:
            raise InputError("--svg draws curves; give --log NAME=FILE for them")
        if check_picture_path(args.svg) != "svg" and drawn[0] != "curves":
            raise InputError(f"--svg: got {args.svg}; expected a name that ends in .svg")
    if args.out and not args.out.endswith((".md", ".tsv")):
        raise InputError(f"--out: got {args.out}; expected a name that ends in .md or .tsv")
    if args.out and args.out.endswith(".tsv") and "results" not in chosen:
        raise InputError("--out: .tsv holds results; give --ref and --sys, or a name in .md")
    if args.html and not args.html.endswith((".html", ".htm")):
        raise InputError(f"--html: got {args.html}; expected a name that ends in .html")
    for flag, path in (("--svg", args.svg), ("--out", args.out), ("--html", args.html)):
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            raise InputError(f"{flag}: no folder for {path}; make it first")


def _take_from_folder(args: argparse.Namespace) -> tuple[str, ...]:
    """Fill in the flags that are not given; returns what was found and is not used."""
    found = folder.find_files(args.folder)
    for flag in ("ref", "src", "encoder", "nbest_lists", "nbest_folder", "human"):
        setattr(args, flag, getattr(args, flag) or getattr(found, flag))
    for flag, named in (("sys", found.systems), ("log", found.logs)):
        specs = [f"{name}={','.join(paths)}" for name, paths in named.items()]
        setattr(args, flag, getattr(args, flag) or specs)
    return found.left_out


def _write_page(inputs: Inputs, sections: dict[str, Section], left_out: tuple[str, ...]) -> None:
    from simile_plugin.files import atomic_write
    from simile_plugin.report import report_page, systems

    args = inputs.args
    unasked = report_sections.for_page(args)
    more = {name: report_sections.SECTIONS[name](inputs) for name in unasked}
    files = {"reference": (args.ref,), "source": (args.src,), "n-best": (args.nbest_lists,)}
    files |= {"judgements": tuple(args.judgements)}
    given = {role: tuple(filter(None, paths)) for role, paths in files.items()}
    made = report_page.Made(
        args.command_line,
        {**given, **systems.parse_named_files("--sys", args.sys)},
        systems.parse_named_files("--log", args.log),
        args.title,
        args.date,
        left_out,
    )
    found = {name: section.result for name, section in (sections | more).items()}
    page = report_page.report_page(found, made)
    with atomic_write(args.html) as stream:
        stream.write(page)


def _write(path: str, sections: dict[str, Section]) -> None:
    from simile_plugin.files import atomic_write

    tsv = sections["results"].tsv if path.endswith(".tsv") else None
    with atomic_write(path) as stream:
        stream.write(tsv or "\n".join(section.markdown for section in sections.values()))

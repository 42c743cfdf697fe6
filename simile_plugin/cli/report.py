"""Compare finished systems: scores with significance tests, curves, and a page with all of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simile_plugin.analysis.scores import ScoreSettings

HELP = "compare systems: scores with significance tests, curves, one HTML page with everything"

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


@dataclass(frozen=True)
class Section:
    """The answer to one question in every form that can be asked for."""

    content: dict[str, Any]
    text: str
    markdown: str
    tsv: str | None = None
    result: Any = None  # what the analysis gave, for the page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `simile report`."""
    from simile_plugin.analysis import folder

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
        help="a system and its training logs (fairseq's --log-file, or stderr; json or simple "
        "format), a file for each seed; repeat",
    )
    curves.add_argument(
        "--valid-subset",
        default="valid",
        metavar="NAME",
        help="validation set to show (default: %(default)s)",
    )
    curves.add_argument("--svg", metavar="FILE", help="draw the curves into FILE (.svg or .png)")
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
        help="also write everything as one page: no network needed, tables sort, pictures inside",
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
        help=f"of {', '.join(QUESTIONS)} (default: those whose files are given)",
    )
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    output.add_argument(
        "--out", metavar="FILE", help="also write the report (.md) or the numbers (.tsv)"
    )


def _add_details(results: argparse._ArgumentGroup) -> None:
    from simile_plugin.analysis import systems

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
    chosen = _choose_questions(args)
    _check_targets(args, chosen)
    sections = {name: QUESTIONS[name](args) for name in chosen}
    if args.out:
        _write(args.out, sections)
    if args.html:
        _write_page(args, sections, left_out)
    if args.json:
        content = {name: section.content for name, section in sections.items()}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show † or blocks shows ? instead of failing.
        sys.stdout.reconfigure(errors="replace")
    print("\n".join(section.text for section in sections.values()), end="")
    for path in filter(None, (args.svg if "curves" in chosen else None, args.out, args.html)):
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _choose_questions(args: argparse.Namespace) -> list[str]:
    given = {
        "results": bool(args.ref or args.sys),
        "curves": bool(args.log),
        "human": bool(args.human),
    }
    wanted = [name.strip() for name in args.only.split(",")] if args.only else []
    for name in wanted:
        if name not in QUESTIONS:
            raise ValueError(f"--only: got {name}; expected {', '.join(QUESTIONS)}")
    chosen = [name for name in QUESTIONS if name in wanted or (not wanted and given[name])]
    if not chosen:
        raise ValueError("nothing to report: give --ref and --sys for results, --log for curves")
    if "results" in chosen and not (args.ref and args.sys):
        missing = "--sys" if args.ref else "--ref"
        raise ValueError(f"results need {missing}; see simile report --help")
    if "curves" in chosen and not args.log:
        raise ValueError("curves need --log NAME=FILE; see simile report --help")
    if "human" in chosen and not args.human:
        raise ValueError("human needs --human KEY=FILE; see simile report --help")
    return chosen


def _check_targets(args: argparse.Namespace, chosen: list[str]) -> None:
    """Find out before the work whether its result can be written."""
    if args.svg:
        from simile_plugin.analysis.curves_figure import check_picture_path

        if "curves" not in chosen:
            raise ValueError("--svg draws curves; give --log NAME=FILE for them")
        check_picture_path(args.svg)
    if args.out and not args.out.endswith((".md", ".tsv")):
        raise ValueError(f"--out: got {args.out}; expected a name that ends in .md or .tsv")
    if args.out and args.out.endswith(".tsv") and "results" not in chosen:
        raise ValueError("--out: .tsv holds results; give --ref and --sys, or a name in .md")
    if args.html and not args.html.endswith((".html", ".htm")):
        raise ValueError(f"--html: got {args.html}; expected a name that ends in .html")
    for flag, path in (("--svg", args.svg), ("--out", args.out), ("--html", args.html)):
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            raise ValueError(f"{flag}: no folder for {path}; make it first")


def _take_from_folder(args: argparse.Namespace) -> tuple[str, ...]:
    """Fill in the flags that are not given; returns what was found and is not used."""
    from simile_plugin.analysis.folder import find_files

    found = find_files(args.folder)
    args.ref = args.ref or found.ref
    args.encoder = args.encoder or found.encoder
    for flag, named in (("sys", found.systems), ("log", found.logs)):
        given = getattr(args, flag)
        given += [f"{name}={','.join(paths)}" for name, paths in named.items() if not given]
    if found.human and not args.human:
        args.human = f"{found.human[0]}={','.join(found.human[1:])}"
    return found.left_out


def _write_page(
    args: argparse.Namespace, sections: dict[str, Section], left_out: tuple[str, ...]
) -> None:
    from simile_plugin.analysis import report_page, systems
    from simile_plugin.files import atomic_write

    outputs = systems.parse_named_files("--sys", args.sys) if "results" in sections else {}
    made = report_page.Made(
        args.command_line,
        {"reference": (args.ref,) if args.ref else (), **outputs},
        systems.parse_named_files("--log", args.log),
        args.title,
        args.date,
        left_out,
    )
    found = {name: section.result for name, section in sections.items()}
    page = report_page.report_page(found, made)
    with atomic_write(args.html) as stream:
        stream.write(page)


def _write(path: str, sections: dict[str, Section]) -> None:
    from simile_plugin.files import atomic_write

    tsv = sections["results"].tsv if path.endswith(".tsv") else None
    with atomic_write(path) as stream:
        stream.write(tsv or "\n".join(section.markdown for section in sections.values()))


def _results(args: argparse.Namespace) -> Section:
    from tqdm import tqdm

    from simile_plugin.analysis import results, results_table, systems

    test = results.PairedTest(args.test, args.resamples, args.trials, args.seed)
    named = systems.parse_named_files("--sys", args.sys)
    baselines = results.choose_baselines(list(named), [n for n in args.baseline.split(",") if n])
    settings = _score_settings(args)
    refs = systems.read_sentences(args.ref, "--ref", args.ref_lines)
    compared = systems.read_systems("--sys", named, args.sys_lines, refs, f"--ref {args.ref}")
    columns = {
        title: systems.read_column(title, files[0], compared)
        for title, files in systems.parse_named_files("--column", args.column).items()
    }
    sentence_scores = systems.read_sentence_scores(
        "--sentence-scores", args.sentence_scores, compared
    )
    with tqdm(total=len(refs), unit="sent", disable=not sys.stderr.isatty(), leave=False) as bar:
        found = results.analyse_results(
            compared,
            refs,
            args.ref,
            settings,
            test,
            baselines,
            columns,
            sentence_scores,
            progress=bar.update,
        )
    return Section(
        found.as_json(),
        results_table.format_results(found),
        results_table.render_markdown(found),
        results_table.render_tsv(found),
        result=found,
    )


def _score_settings(args: argparse.Namespace) -> ScoreSettings:
    from simile_plugin.analysis.scores import ScoreSettings
    from simile_plugin.encoder.format import load_encoder
    from simile_plugin.reward import check_tokenizer

    if not args.simile_alpha >= 0:
        raise ValueError(
            f"--simile-alpha: got {args.simile_alpha}; expected 0 or more (the paper: 0.25)"
        )
    check_tokenizer(args.tokenize, "--tokenize")
    encoder = load_encoder(args.encoder, device=args.device) if args.encoder else None
    return ScoreSettings(encoder, args.simile_alpha, args.tokenize)


def _curves(args: argparse.Namespace) -> Section:
    from simile_plugin.analysis import curves, curves_figure, systems

    named = systems.parse_named_files("--log", args.log)
    found = curves.analyse_curves(named, "--log", args.valid_subset)
    if args.svg:
        curves_figure.write_figure(found, args.svg)
    link = curves_figure.picture_link(args.svg, args.out) if args.svg and args.out else None
    return Section(
        found.as_json(),
        curves_figure.format_curves(found),
        curves_figure.render_markdown(found, link),
        result=found,
    )


def _human(args: argparse.Namespace) -> Section:
    from simile_plugin.analysis import human, human_ratings, systems

    named = systems.parse_named_files("--human", [args.human])
    (key, paths), *_ = named.items()
    study = human.read_key(key, "--human")
    answers = [human_ratings.read_answers(path, study, "--human") for path in paths]
    found = human_ratings.analyse_ratings(study, answers, args.resamples, args.seed)
    return Section(
        found.as_json(),
        human_ratings.format_ratings(found),
        human_ratings.render_markdown(found),
        result=found,
    )


QUESTIONS: dict[str, Callable[[argparse.Namespace], Section]] = {
    "results": _results,
    "curves": _curves,
    "human": _human,
}

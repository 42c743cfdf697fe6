"""From the flags of `simile report` to the answer of each question, in every form of output."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simile_plugin.analysis.scores import ScoreSettings

# The flags that a question needs: one of the alternatives, each of them whole.
NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "results": (("ref", "sys"),),
    "curves": (("log",),),
    "costs": (("nbest_lists",),),
    "human": (("human",),),
}
# Answered where they are asked for by --only: they need no files beyond those of `results`.
ON_DEMAND = ("lexical", "examples", "gaming")


@dataclass(frozen=True)
class Section:
    """The answer to one question in every form that can be asked for.

    Attributes:
        result: what the analysis gave.
    """

    content: dict[str, Any]
    text: str
    markdown: str
    tsv: str | None = None
    result: Any = None


def choose_sections(args: Namespace) -> list[str]:
    """The questions to answer: those of --only, or those whose files are given.

    Raises:
        ValueError: for an unknown name, or a question whose files are not given.
    """
    wanted = [name.strip() for name in args.only.split(",")] if args.only else []
    for name in wanted:
        if name not in SECTIONS:
            raise ValueError(f"--only: got {name}; expected {', '.join(SECTIONS)}")
    begun = [name for name in SECTIONS if name not in ON_DEMAND and _given(args, name, any)]
    chosen = [name for name in SECTIONS if name in (wanted or begun)]
    if not chosen:
        raise ValueError("nothing to report: give --ref and --sys for results, --log for curves")
    for name in chosen:
        if not _given(args, name, all):
            ways = " or ".join(" and ".join(map(_flag, way)) for way in NEEDS[name])
            raise ValueError(f"{name}: needs {ways}; see simile report --help")
    return chosen


def for_page(args: Namespace) -> list[str]:
    """The questions that are answered on the page though nobody named them: as many as can be."""
    if args.only or not (args.ref and args.sys):
        return []
    wanted = {"gaming": True, "lexical": len(args.sys) > 1, "examples": len(args.sys) > 1}
    wanted["examples"] = wanted["examples"] and bool(args.encoder)
    return [name for name in ON_DEMAND if wanted[name] and name in SECTIONS]


def _given(args: Namespace, name: str, how: Callable[[list[bool]], bool]) -> bool:
    return any(how([bool(getattr(args, flag)) for flag in way]) for way in NEEDS[name])


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _plain(content: dict[str, Any], text: str, result: Any) -> Section:
    """A section whose markdown is its text, fenced."""
    heading, _, rest = text.partition("\n")
    return Section(content, text, f"## {heading}\n\n```\n{rest.strip()}\n```\n", result=result)


def _results(args: Namespace) -> Section:
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
    with _progress(len(refs)) as bar:
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


def _score_settings(args: Namespace) -> ScoreSettings:
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


def _curves(args: Namespace) -> Section:
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


def _costs(args: Namespace) -> Section:
    from simile_plugin.analysis import costs

    with _progress(None) as bar:
        found = costs.analyse_costs(
            args.nbest_lists, _score_settings(args), "--nbest-lists", bar.update
        )
    return _plain(found.as_json(), costs.format_costs(found), found)


def _human(args: Namespace) -> Section:
    from simile_plugin.analysis import human, human_ratings, systems

    ((key, paths),) = systems.parse_named_files("--human", [args.human]).items()
    study = human.read_key(key, "--human")
    answers = [human_ratings.read_answers(path, study, "--human") for path in paths]
    found = human_ratings.analyse_ratings(study, answers, args.resamples, args.seed)
    return Section(
        found.as_json(),
        human_ratings.format_ratings(found),
        human_ratings.render_markdown(found),
        result=found,
    )


def _progress(total: int | None) -> Any:
    """A bar on a terminal, nothing elsewhere."""
    from tqdm import tqdm

    return tqdm(total=total, unit="sent", disable=not sys.stderr.isatty(), leave=False)


SECTIONS: dict[str, Callable[[Namespace], Section]] = {
    "results": _results,
    "curves": _curves,
    "costs": _costs,
    "human": _human,
}

"""From the flags of `simile report` to the answer of each question, in every form of output."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simile_plugin.files import InputError
from simile_plugin.report.report_inputs import Inputs, progress_bar

if TYPE_CHECKING:
    from simile_plugin.report.lexical import LexicalPair

# The flags that a question needs: one of the alternatives, each of them whole.
NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "results": (("ref", "sys"),),
    "curves": (("log",),),
    "costs": (("nbest_lists",),),
    "human": (("human",),),
    "nbest": (("nbest_folder", "ref"),),
    "lexical": (("lexical",), ("ref", "sys")),
    "examples": (("ref", "sys", "encoder"),),
    "quality": (("encoder", "sts"), ("encoder", "judgements")),
    "gaming": (("ref", "sys"), ("log",)),
}
# Questions with a picture, in the order in which --svg takes them.
PICTURES = ("curves", "costs", "nbest", "lexical", "quality", "gaming")
# The flags that ask for a question by themselves; the other questions are asked by --only.
ASKED_BY: dict[str, tuple[str, ...]] = {
    "results": ("ref", "sys"),
    "curves": ("log",),
    "costs": ("nbest_lists",),
    "human": ("human",),
    "nbest": ("nbest_folder",),
    "lexical": ("lexical",),
    "quality": ("sts", "judgements"),
}


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
            raise InputError(f"--only: got {name}; expected {', '.join(SECTIONS)}")
    if not wanted:
        asked = {n for n, flags in ASKED_BY.items() if any(getattr(args, f) for f in flags)}
        # The references of an n-best folder alone do not ask for the results table.
        wanted = sorted(asked - {"results"} if "nbest" in asked and not args.sys else asked)
    chosen = [name for name in SECTIONS if name in wanted]
    if not chosen:
        raise InputError("nothing to report: give --ref and --sys for results, --log for curves")
    for name in chosen:
        if not _given(args, name):
            ways = " or ".join(" and ".join(map(_flag, way)) for way in NEEDS[name])
            raise InputError(f"{name}: needs {ways}; see simile report --help")
    return chosen


def for_page(args: Namespace) -> list[str]:
    """The questions that the page answers unasked: as many more as the files allow.

    With --only it answers what is asked, nothing else; and they read the outputs once more, which
    a pipe does not allow.
    """
    if args.only or not all(map(os.path.isfile, _result_files(args))):
        return []
    several = len(args.sys) > 1 and bool(args.ref)
    wanted = {"lexical": several and not args.lexical, "examples": several, "gaming": True}
    return [name for name, can in wanted.items() if can and _given(args, name)]


def _result_files(args: Namespace) -> list[str]:
    from simile_plugin.report import systems

    named = systems.parse_named_files("--sys", args.sys)
    texts = [args.ref, args.src, *(path for paths in named.values() for path in paths)]
    return [path for path in texts if path]


def _given(args: Namespace, name: str) -> bool:
    return any(all(getattr(args, flag) for flag in way) for way in NEEDS[name])


def write_picture(path: str, sections: dict[str, Section]) -> None:
    """Draw the first of PICTURES that was answered into a file, atomically."""
    from simile_plugin.files import atomic_write
    from simile_plugin.report import costs, curves_figure, gaming, lexical, nbest, quality

    name = next(name for name in PICTURES if name in sections)
    result = sections[name].result
    if name == "curves":
        curves_figure.write_figure(result, path)
        return
    figures: dict[str, Callable[[Any], str | None]] = {
        "costs": costs.costs_figure,
        "nbest": nbest.nbest_figure,
        "lexical": lexical.lexical_figure,
        "quality": quality.quality_figure,
        "gaming": gaming.gaming_figure,
    }
    picture = figures[name](result)
    if picture is None:
        raise InputError("--svg: gaming draws validations; give --log NAME=FILE for them")
    with atomic_write(path) as stream:
        stream.write(picture + "\n")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _plain(content: dict[str, Any], text: str, result: Any) -> Section:
    """A section whose markdown is its text, fenced."""
    heading, _, rest = text.partition("\n")
    return Section(content, text, f"## {heading}\n\n```\n{rest.strip()}\n```\n", result=result)


def _results(inputs: Inputs) -> Section:
    from simile_plugin.report import results, results_table, systems

    args = inputs.args
    test = results.PairedTest(args.test, args.resamples, args.trials, args.seed)
    baselines = _baselines(args)
    settings = inputs.settings
    refs, compared = inputs.outputs
    columns = {
        title: systems.read_column(title, files[0], compared)
        for title, files in systems.parse_named_files("--column", args.column).items()
    }
    sentence_scores = systems.read_sentence_scores(
        "--sentence-scores", args.sentence_scores, compared
    )
    found = results.analyse_results(
        compared,
        refs,
        args.ref,
        settings,
        test,
        baselines,
        columns,
        sentence_scores,
        list_scores=inputs.scores,
    )
    return Section(
        found.as_json(),
        results_table.format_results(found),
        results_table.render_markdown(found),
        results_table.render_tsv(found),
        result=found,
    )


def _curves(inputs: Inputs) -> Section:
    from simile_plugin.report import curves, curves_figure, systems

    args = inputs.args
    named = systems.parse_named_files("--log", args.log)
    found = curves.analyse_curves(named, "--log", args.valid_subset)
    link = curves_figure.picture_link(args.svg, args.out) if args.svg and args.out else None
    return Section(
        found.as_json(),
        curves_figure.format_curves(found),
        curves_figure.render_markdown(found, link),
        result=found,
    )


def _costs(inputs: Inputs) -> Section:
    from simile_plugin.report import costs

    args = inputs.args
    with progress_bar(None) as bar:
        found = costs.analyse_costs(args.nbest_lists, inputs.settings, "--nbest-lists", bar.update)
    return _plain(found.as_json(), costs.format_costs(found), found)


def _human(inputs: Inputs) -> Section:
    from simile_plugin.report import human, human_ratings, systems

    args = inputs.args
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


def _nbest(inputs: Inputs) -> Section:
    from simile_plugin.report import nbest, systems

    args = inputs.args
    refs = systems.read_sentences(args.ref, "--ref", args.ref_lines)
    settings = inputs.settings
    with progress_bar(len(refs)) as bar:
        found = nbest.analyse_nbest(
            args.nbest_folder, refs, f"--ref {args.ref}", settings, progress=bar.update
        )
    return _plain(found.as_json(), nbest.format_nbest(found), found)


def _lexical(inputs: Inputs) -> Section:
    from simile_plugin.report import lexical, lexical_input, systems
    from simile_plugin.reward import check_tokenizer

    args = inputs.args
    check_tokenizer(args.tokenize, "--tokenize")
    if args.lexical:
        first, _, second = (args.compare or "first,second").partition(",")
        files = lexical_input.parse_pairs(args.lexical)
        flag, kinds = "--lexical", ("text", "text")
    else:
        first, second = _pair(args)
        named = systems.parse_named_files("--sys", args.sys)
        files = [lexical_input.PairFiles("test", args.ref, named[first], named[second])]
        flag, kinds = "--sys", (args.ref_lines, args.sys_lines)
    tag, note = lexical_input.choose_tags(args.tags, args.spacy_model)
    pairs = [lexical_input.read_pair(one, tag, flag, *kinds, args.tokenize) for one in files]
    folders = {}
    if args.compare_mt:
        folders = _write_compare_mt(args.compare_mt, (first, second), pairs)
    found = lexical.analyse_lexical(
        (first, second), pairs, args.resamples, args.seed, [note], folders
    )
    return _plain(found.as_json(), lexical.format_lexical(found), found)


def _write_compare_mt(
    folder: str, names: tuple[str, str], pairs: Sequence[LexicalPair]
) -> dict[str, str]:
    from simile_plugin.report.compare_mt_report import PAGE, write_compare_mt

    written = {}
    os.makedirs(folder, exist_ok=True)
    for pair in pairs:
        own = os.path.join(folder, pair.language_pair)
        title = f"compare-mt: {names[0]} and {names[1]}, {pair.language_pair}"
        write_compare_mt(own, title, names, pair.refs, [pair.first[0], pair.second[0]])
        written[pair.language_pair] = os.path.join(own, PAGE)
    return written


def _examples(inputs: Inputs) -> Section:
    from simile_plugin.report import examples

    args = inputs.args
    names = _pair(args)
    settings = inputs.settings
    refs, compared = inputs.outputs
    by_name = {system.name: system for system in compared}
    pair = by_name[names[0]], by_name[names[1]]
    with progress_bar(len(refs)) as bar:
        found = examples.analyse_examples(
            pair,
            refs,
            settings,
            inputs.sources,
            args.examples,
            bar.update,
            inputs.known_scores(names),
        )
    return _plain(found.as_json(), examples.format_examples(found), found)


def _quality(inputs: Inputs) -> Section:
    from simile_plugin.evaluation import read_judgements, read_sts
    from simile_plugin.report import quality

    args = inputs.args
    if args.resamples < quality.FEWEST_RESAMPLES:
        raise InputError(
            f"--resamples: got {args.resamples}; quality expects {quality.FEWEST_RESAMPLES} or more"
        )
    folders = {folder: read_sts(folder) for folder in args.sts}
    judged = [read_judgements(path, args.judgement_columns) for path in args.judgements]
    settings = inputs.settings
    assert settings.encoder is not None
    (name,) = quality.short_names([args.encoder]).values()
    found = quality.analyse_quality(
        {name: settings.encoder}, folders, judged, settings.alpha, args.resamples, args.seed
    )
    return _plain(found.as_json(), quality.format_quality(found), found)


def _gaming(inputs: Inputs) -> Section:
    from simile_plugin.report import gaming, systems

    args = inputs.args
    logs = systems.parse_named_files("--log", args.log)
    settings = inputs.settings
    if not args.sys:
        found = gaming.analyse_gaming([], [], settings, logs=logs, subset=args.valid_subset)
        return _plain(found.as_json(), gaming.format_gaming(found), found)
    baseline = _baselines(args)[0]
    refs, compared = inputs.outputs
    sources = inputs.sources
    found = gaming.analyse_gaming(
        compared,
        refs,
        settings,
        baseline,
        sources,
        logs,
        args.valid_subset,
        scores=inputs.scores,
    )
    return _plain(found.as_json(), gaming.format_gaming(found), found)


def _baselines(args: Namespace) -> tuple[str, ...]:
    from simile_plugin.report import results, systems

    names = list(systems.parse_named_files("--sys", args.sys))
    return results.choose_baselines(names, [n for n in args.baseline.split(",") if n])


def _pair(args: Namespace) -> tuple[str, str]:
    """The two systems of --compare, or its default."""
    from simile_plugin.report import results, systems

    names = list(systems.parse_named_files("--sys", args.sys))
    wanted = args.compare.split(",") if args.compare else []
    return results.choose_pair(names, _baselines(args), wanted)


SECTIONS: dict[str, Callable[[Inputs], Section]] = {
    "results": _results,
    "curves": _curves,
    "costs": _costs,
    "human": _human,
    "nbest": _nbest,
    "lexical": _lexical,
    "examples": _examples,
    "quality": _quality,
    "gaming": _gaming,
}

"""A question a module: `ask(inputs)` gives its Answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module

from simile_plugin.files import InputError, flag_name
from simile_plugin.report.answer import UNSPACED, Answer
from simile_plugin.report.inputs import Inputs

# The options that each needs, in the order in which they are shown. The last of them asks it.
NEEDS = {
    "results": ("ref", "sys"),
    "length": ("ref", "sys"),
    "human": ("human",),
    "where": ("ref", "sys"),
    "lexical": ("ref", "sys"),
    "examples": ("ref", "sys"),
    "gaming": ("ref", "sys"),
    "curves": ("log",),
    "nbest": ("ref", "nbest_folder"),
    "headroom": ("nbest_lists",),
}
# Asked by --only, and answered on the page: the first three of two systems or more.
ON_PAGE = ("where", "lexical", "examples", "gaming")


def choose_questions(inputs: Inputs) -> list[str]:
    """Choose the questions to answer: those of --only, or those whose files are given.

    Raises:
        InputError: for an unknown name, or a question whose files are not given.
    """
    only = ",".join(inputs.options.only)
    wanted = {name.strip() for name in only.split(",")} if only else set()
    for name in wanted.difference(NEEDS):
        raise InputError(f"--only: got {name}; expected {', '.join(NEEDS)}")
    if not only:
        wanted = {n for n in NEEDS if n not in ON_PAGE and inputs.gives(NEEDS[n][-1])}
    if not wanted:
        raise InputError("nothing to report: give --ref and --sys for results, --log for curves")
    chosen = [name for name in NEEDS if name in wanted]
    for name in chosen:
        if not all(map(inputs.gives, NEEDS[name])):
            flags = " and ".join(map(flag_name, NEEDS[name]))
            raise InputError(f"{name}: needs {flags}; see simile report --help")
    return chosen


def ask(inputs: Inputs, names: Iterable[str]) -> list[Answer]:
    """Answer questions."""
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return [_with_warning(module.ask(inputs), inputs) for module in modules]


def _with_warning(answer: Answer, inputs: Inputs) -> Answer:
    """Add warnings where words would be whole sentences, or n-best lists are no plain text."""
    if answer.name == "headroom" and inputs.doubtful_lists:
        answer = replace(answer, warnings=[*answer.warnings, inputs.doubtful_lists])
    by_words = "BLEU" in answer.signatures or answer.name in ("where", "lexical", "gaming")
    if not by_words or UNSPACED in answer.warnings or not inputs.unspaced:
        return answer
    return replace(answer, warnings=[*answer.warnings, UNSPACED])


def ask_for_page(inputs: Inputs, answers: list[Answer]) -> list[Answer]:
    """Add, in order, the answers that the page gives unasked, as many as the files allow.

    With --only it answers what is asked, nothing else.
    """
    by_name = {answer.name: answer for answer in answers}
    if inputs.options.ref and not inputs.options.only:
        systems = len(inputs.named_systems)
        unasked = [n for n in ON_PAGE if systems > (n != "gaming")]
        by_name |= {answer.name: answer for answer in ask(inputs, unasked)}
    return [by_name[name] for name in NEEDS if name in by_name]

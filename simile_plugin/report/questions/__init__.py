"""A question a module, each with one Answer.

A module has NEEDS (the options it needs: one of the alternatives, each of them whole), ASKED_BY
(options that ask it by themselves; the others are asked by --only), PICTURED (whether --svg draws
its chart), ask(inputs) -> Answer, and perhaps on_page(inputs): whether the page answers it unasked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from types import ModuleType

from simile_plugin.files import InputError, flag_name
from simile_plugin.report.answer import UNSPACED, Answer
from simile_plugin.report.inputs import Inputs

# In the order in which they are shown.
NAMES = (
    *("results", "length", "human", "where", "lexical", "examples", "gaming"),
    *("curves", "nbest", "headroom", "probe"),
)


def find_question(name: str) -> ModuleType:
    """Import the module of a question."""
    return import_module(f"{__name__}.{name}")


def choose_questions(inputs: Inputs) -> dict[str, ModuleType]:
    """Choose the questions to answer: those of --only, or those whose files are given.

    Raises:
        InputError: for an unknown name, or a question whose files are not given.
    """
    only = inputs.options.only
    wanted = {name.strip() for name in only.split(",")} if only else set()
    for name in wanted.difference(NAMES):
        raise InputError(f"--only: got {name}; expected {', '.join(NAMES)}")
    if not only:
        wanted = {n for n in NAMES if any(map(inputs.gives, find_question(n).ASKED_BY))}
        # References that another question takes do not ask for the results table.
        if wanted & {"nbest", "headroom", "probe"} and not inputs.named_systems:
            wanted -= {"results", "length"}
    if not wanted:
        raise InputError("nothing to report: give --ref and --sys for results, --log for curves")
    chosen = {name: find_question(name) for name in NAMES if name in wanted}
    for name, question in chosen.items():
        if not _given(inputs, question):
            ways = (" and ".join(map(flag_name, way)) for way in question.NEEDS)
            where = ""
            if folder := inputs.options.folder:
                lacking: list[list[str]] = [
                    [f for f in way if not inputs.gives(f)] for way in question.NEEDS
                ]
                fewest = " and ".join(map(flag_name, sorted(lacking, key=len)[0]))
                where = f", but {folder} does not give {fewest}"
            raise InputError(f"{name}: needs {' or '.join(ways)}{where}; see simile report --help")
    return chosen


def ask(inputs: Inputs, names: Iterable[str]) -> list[Answer]:
    """Answer questions."""
    return [_with_warning(find_question(name).ask(inputs), inputs) for name in names]


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
    for name in NAMES if not inputs.options.only else ():
        question = find_question(name)
        unasked = name not in by_name and hasattr(question, "on_page")
        if unasked and _given(inputs, question) and question.on_page(inputs):
            (by_name[name],) = ask(inputs, [name])
    return [by_name[name] for name in NAMES if name in by_name]


def _given(inputs: Inputs, question: ModuleType) -> bool:
    return any(all(map(inputs.gives, way)) for way in question.NEEDS)

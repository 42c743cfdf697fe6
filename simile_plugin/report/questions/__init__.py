"""A question a module, each with one Answer.

A module has NEEDS (the flags it needs: one of the alternatives, each of them whole), ASKED_BY
(flags that ask it by themselves; the others are asked by --only), PICTURED (whether --svg draws
its chart), ask(inputs) -> Answer, and perhaps on_page(inputs): whether the page answers it unasked.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import ModuleType

from simile_plugin.files import InputError
from simile_plugin.report.answer import UNSPACED, Answer
from simile_plugin.report.inputs import Inputs

# In the order in which they are shown.
NAMES = (
    *("results", "human", "examples", "curves", "nbest", "costs", "headroom"),
    *("lexical", "quality", "gaming", "probe"),
)


def find_question(name: str) -> ModuleType:
    """The module of a question."""
    return import_module(f"{__name__}.{name}")


def choose_questions(inputs: Inputs) -> list[str]:
    """The questions to answer: those of --only, or those whose files are given.

    Raises:
        InputError: for an unknown name, or a question whose files are not given.
    """
    args = inputs.args
    wanted = [name.strip() for name in args.only.split(",")] if args.only else []
    for name in wanted:
        if name not in NAMES:
            raise InputError(f"--only: got {name}; expected {', '.join(NAMES)}")
    if not wanted:
        asked = {n for n in NAMES if any(getattr(args, f) for f in find_question(n).ASKED_BY)}
        # References that another question takes do not ask for the results table.
        taken = asked & {"nbest", "costs", "probe"} and not args.sys
        wanted = sorted(asked - {"results"} if taken else asked)
    chosen = [name for name in NAMES if name in wanted]
    if not chosen:
        raise InputError("nothing to report: give --ref and --sys for results, --log for curves")
    for name in chosen:
        if not _given(inputs, name):
            needs = find_question(name).NEEDS
            ways = (" and ".join(map(_flag, way)) for way in needs)
            where = ""
            if args.folder:
                lacking = min(([f for f in way if not getattr(args, f)] for way in needs), key=len)
                where = f", but {args.folder} does not give {' and '.join(map(_flag, lacking))}"
            raise InputError(f"{name}: needs {' or '.join(ways)}{where}; see simile report --help")
    return chosen


def ask(inputs: Inputs, names: list[str]) -> list[Answer]:
    """Answer questions."""
    return [_with_doubt(find_question(name).ask(inputs), inputs) for name in names]


def _with_doubt(answer: Answer, inputs: Inputs) -> Answer:
    """The answer, with a warning where its words would be whole sentences."""
    by_words = "BLEU" in answer.signatures or answer.name in ("lexical", "gaming")
    if not by_words or UNSPACED in answer.warnings or not inputs.unspaced:
        return answer
    return replace(answer, warnings=[*answer.warnings, UNSPACED])


def ask_for_page(inputs: Inputs, answers: list[Answer]) -> list[Answer]:
    """More answers, in order: those that the page gives unasked, as many as the files allow.

    With --only it answers what is asked, nothing else.
    """
    found = {answer.name: answer for answer in answers}
    for name in NAMES if not inputs.args.only else ():
        unasked = getattr(find_question(name), "on_page", None)
        if name not in found and unasked and _given(inputs, name) and unasked(inputs):
            (found[name],) = ask(inputs, [name])
    return [found[name] for name in NAMES if name in found]


def _given(inputs: Inputs, name: str) -> bool:
    needs = find_question(name).NEEDS
    return any(all(getattr(inputs.args, flag) for flag in way) for way in needs)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

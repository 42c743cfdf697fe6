"""Sentences on which two systems differ by one metric and not by the other (Tables 71 and 72)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Passage, Passages
from simile_plugin.report.human.ratings import mean_ratings
from simile_plugin.report.human.study import normalised
from simile_plugin.report.inputs.systems import System

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings
    from simile_plugin.reward import ListScores

NEEDS = (("ref", "sys", "encoder"),)
ASKED_BY = ()
PICTURED = False


@dataclass(frozen=True)
class Example:
    """One sentence of both systems.

    Attributes:
        line: of the files, from 1.
        others: outputs of the systems that are not compared, by name.
        ratings: mean rating by people, 0 to 5, of the outputs they saw, by the system's name.
        bleu, sim: sentence scores of the first and the second system, in percent.
        delta_bleu, delta_sim: second minus first.
        contrast: |delta_bleu| - |delta_sim|.
    """

    line: int
    source: str | None
    ref: str
    first: str
    second: str
    bleu: tuple[float, float]
    sim: tuple[float, float]
    delta_bleu: float
    delta_sim: float
    contrast: float
    others: dict[str, str]
    ratings: dict[str, float]


@dataclass(frozen=True)
class ExamplesResult:
    """Both ends of the ranking by contrast, and of that by people's ratings.

    Attributes:
        sentences: how many there are; different: on how many the outputs differ.
        by_bleu: BLEU differs most and SIM least, the largest contrast first.
        by_sim: SIM differs most and BLEU least, the smallest contrast first.
        better, worse: where people rate the second system most above and below the first.
    """

    first_name: str
    second_name: str
    sentences: int
    different: int
    by_bleu: tuple[Example, ...]
    by_sim: tuple[Example, ...]
    better: tuple[Example, ...]
    worse: tuple[Example, ...]
    signatures: dict[str, str]
    notes: tuple[str, ...]


def analyse_examples(
    pair: tuple[System, System],
    refs: Sequence[str],
    settings: ScoreSettings,
    sources: Sequence[str] | None = None,
    number: int = 10,
    scores: ListScores | None = None,
    others: Sequence[System] = (),
    ratings: Mapping[tuple[int, str], float] | None = None,
) -> ExamplesResult:
    """Rank the sentences by |dBLEU| - |dSIM| and keep `number` at either end.

    Of a system with several seeds the first is shown. Sentences with equal outputs are left out.

    Args:
        scores: (N, 2) of the pair's first seeds, where they are known already.
        others: systems to show beside the pair.
        ratings: (line from 1, output with single spaces) -> mean rating, see `mean_ratings`.

    Raises:
        InputError: without an encoder, or for a number below 1.
    """
    from simile_plugin.reward import bleu_signature, score_outputs, signature

    if settings.encoder is None:
        raise InputError("--encoder: not given; examples compare BLEU with SIM, which needs one")
    if number < 1:
        raise InputError(f"--examples: got {number}; expected at least 1")
    outputs = [system.outputs[0] for system in pair]
    scores = scores or score_outputs(
        outputs, refs, settings.encoder, settings.alpha, settings.tokenize
    )
    assert scores.sim is not None
    bleu, sim = (100 * values.double().numpy() for values in (scores.bleu, scores.sim))
    contrast = np.abs(bleu[:, 1] - bleu[:, 0]) - np.abs(sim[:, 1] - sim[:, 0])
    different = [i for i in range(len(refs)) if outputs[0][i] != outputs[1][i]]
    ranked = sorted(different, key=lambda i: (-contrast[i], i))
    given = ratings or {}
    rated = {i: _ratings(given, i, [*pair, *others]) for i in different}
    # Ties keep the order of the file; sentences of which one side was not rated are left out.
    gain = {
        i: own[pair[1].name] - own[pair[0].name]
        for i, own in rated.items()
        if pair[0].name in own and pair[1].name in own
    }
    best = sorted(gain, key=lambda i: -gain[i])[:number]
    worst = sorted(gain, key=lambda i: gain[i])[:number]
    found = {
        i: Example(
            i + 1,
            sources[i] if sources is not None else None,
            refs[i],
            outputs[0][i],
            outputs[1][i],
            (float(bleu[i, 0]), float(bleu[i, 1])),
            (float(sim[i, 0]), float(sim[i, 1])),
            float(bleu[i, 1] - bleu[i, 0]),
            float(sim[i, 1] - sim[i, 0]),
            float(contrast[i]),
            {system.name: system.outputs[0][i] for system in others},
            rated[i],
        )
        for i in {*ranked[:number], *ranked[-number:], *best, *worst}
    }
    several = [system.name for system in (*others, *pair) if len(system.outputs) > 1]
    return ExamplesResult(
        pair[0].name,
        pair[1].name,
        len(refs),
        len(different),
        tuple(found[i] for i in ranked[:number] if contrast[i] > 0),
        tuple(found[i] for i in ranked[::-1][:number] if contrast[i] < 0),
        tuple(found[i] for i in best if gain[i] > 0),
        tuple(found[i] for i in worst if gain[i] < 0),
        {
            "BLEU": bleu_signature(settings.tokenize, sentence=True),
            "SIM": signature(settings.encoder, settings.alpha),
        },
        tuple(f"{name}: the first seed" for name in several),
    )


def _ratings(
    given: Mapping[tuple[int, str], float], place: int, systems: Sequence[System]
) -> dict[str, float]:
    """What people said of the outputs of one sentence, as far as they saw them."""
    seen = {system.name: (place + 1, normalised(system.outputs[0][place])) for system in systems}
    return {name: given[key] for name, key in seen.items() if key in given}


# --- the answer ---


def on_page(inputs: Inputs) -> bool:
    """The page has them unasked."""
    return len(inputs.named_systems) > 1


def ask(inputs: Inputs) -> Answer:
    """Examples of the two systems that are compared, the others and people's ratings beside."""
    from simile_plugin.reward import ListScores

    pair = inputs.pair
    systems = inputs.systems
    columns = [sum(len(system.outputs) for system in systems[:place]) for place in pair]
    known = inputs.scores
    sim = None if known.sim is None else known.sim[:, columns]
    found = analyse_examples(
        (systems[pair[0]], systems[pair[1]]),
        inputs.refs,
        inputs.settings,
        inputs.sources,
        inputs.args.examples,
        ListScores(known.bleu_stats[:, columns], known.bleu[:, columns], sim),
        [system for place, system in enumerate(systems) if place not in pair],
        mean_ratings(*inputs.human) if inputs.args.human else None,
    )
    return answer_examples(found)


def answer_examples(result: ExamplesResult) -> Answer:
    """Both ends of the ranking, to read and to filter."""
    names = f"{result.first_name} and {result.second_name}"
    kinds = {
        "BLEU differs more than SIM": [_passage(result, one) for one in result.by_bleu],
        "SIM differs more than BLEU": [_passage(result, one) for one in result.by_sim],
    }
    for name, found in ((result.second_name, result.better), (result.first_name, result.worse)):
        if found:
            kinds[f"people prefer {name}"] = [_passage(result, one) for one in found]
    return Answer(
        "examples",
        "Examples",
        f"Sentences on which {names} differ most by one metric and least by the other: read these "
        "to judge the metrics themselves.",
        f"Examples: {names} differ on {result.different:,} of {result.sentences:,} sentences; "
        "ranked by |dBLEU| - |dSIM|",
        [Passages(kinds)],
        asdict(result),
        notes=result.notes,
        signatures=result.signatures,
    )


def _passage(result: ExamplesResult, example: Example) -> Passage:
    scores = (
        f"line {example.line}: BLEU {example.bleu[0]:.1f} -> {example.bleu[1]:.1f} "
        f"({example.delta_bleu:+.1f}), SIM {example.sim[0]:.1f} -> {example.sim[1]:.1f} "
        f"({example.delta_sim:+.1f})"
    )
    source = [] if example.source is None else [("source", [(example.source, "")])]
    first, second = marked(example.first, example.second)
    others = [(name, [(text, "")]) for name, text in example.others.items()]
    outputs = [*others, (result.first_name, first), (result.second_name, second)]
    shown = [(_rated(name, example.ratings), runs) for name, runs in outputs]
    return Passage(scores, [*source, ("reference", [(example.ref, "")]), *shown])


def _rated(name: str, ratings: dict[str, float]) -> str:
    """A system's name, with people's mean rating of this output where there is one."""
    return f"{name} ({ratings[name]:.1f})" if name in ratings else name


Runs = list[tuple[str, str]]


def marked(first: str, second: str) -> tuple[Runs, Runs]:
    """Pieces of two strings: "first" or "second" beside words that the other has not there."""
    a, b = first.split(), second.split()
    left: Runs = []
    right: Runs = []
    for what, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for words, kept, style in ((a[a1:a2], left, "first"), (b[b1:b2], right, "second")):
            if words:
                kept.append((" ".join(words), "" if what == "equal" else style))
    return left, right

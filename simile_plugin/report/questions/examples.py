"""Sentences on which two systems differ by one metric and not by the other (Tables 71 and 72)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simile_plugin.files import InputError
from simile_plugin.report.answer import Answer, Data, Passage, Passages
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

Runs = list[tuple[str, str]]


def on_page(inputs: Inputs) -> bool:
    """Answer on the page unasked where there are two systems."""
    return len(inputs.named_systems) > 1


def ask(inputs: Inputs) -> Answer:
    """Choose examples of the two systems compared, the others and people's ratings beside."""
    from simile_plugin.reward import ListScores

    pair, systems, known = inputs.pair, inputs.systems, inputs.scores
    # The first seed of each of the two.
    columns = [sum(len(system.outputs) for system in systems[:place]) for place in pair]
    sim = None if known.sim is None else known.sim[:, columns]
    data = choose_examples(
        (systems[pair[0]], systems[pair[1]]),
        inputs.refs,
        inputs.settings,
        inputs.sources,
        inputs.options.examples,
        ListScores(known.bleu_stats[:, columns], known.bleu[:, columns], sim),
        [system for place, system in enumerate(systems) if place not in pair],
        mean_ratings(*inputs.human) if inputs.named_answers else None,
    )
    return answer_examples(data)


def choose_examples(
    pair: tuple[System, System],
    refs: Sequence[str],
    settings: ScoreSettings,
    sources: Sequence[str] | None = None,
    number: int = 10,
    scores: ListScores | None = None,
    others: Sequence[System] = (),
    ratings: Mapping[tuple[int, str], float] | None = None,
) -> Data:
    """Rank the sentences by |dBLEU| - |dSIM| and keep `number` at either end.

    Of a system with several seeds the first is shown. Sentences with equal outputs are left out.
    Where people rated both outputs, the ends of the ranking by their ratings are kept as well
    (`better`, `worse`: of the second system).

    Args:
        scores: (N, 2) of the pair's first seeds, where they are known already.
        others: systems to show beside the pair.
        ratings: (line from 1, output with single spaces) -> mean rating, see `mean_ratings`.

    Raises:
        InputError: without an encoder.
    """
    from simile_plugin.reward import score_outputs

    if settings.encoder is None:
        raise InputError("--encoder: not given; examples compare BLEU with SIM, which needs one")
    first, second = (system.outputs[0] for system in pair)
    scores = scores or score_outputs(
        [first, second], refs, settings.encoder, settings.alpha, settings.tokenize
    )
    assert scores.sim is not None
    bleu, sim = (100 * values.double().numpy() for values in (scores.bleu, scores.sim))
    contrast = np.abs(bleu[:, 1] - bleu[:, 0]) - np.abs(sim[:, 1] - sim[:, 0])
    different = [i for i in range(len(refs)) if first[i] != second[i]]
    ranked = sorted(different, key=lambda i: (-contrast[i], i))
    rated = {i: _ratings(ratings or {}, i, [*pair, *others]) for i in different}
    names = [system.name for system in pair]
    # Ties keep the order of the file; sentences of which one side was not rated are left out.
    gain = {i: own[names[1]] - own[names[0]] for i, own in rated.items() if {*names} <= own.keys()}

    def example(i: int) -> dict[str, Any]:
        return {
            "line": i + 1,
            "source": sources[i] if sources is not None else None,
            "ref": refs[i],
            "first": first[i],
            "second": second[i],
            "bleu": bleu[i].tolist(),
            "sim": sim[i].tolist(),
            "delta_bleu": float(bleu[i, 1] - bleu[i, 0]),
            "delta_sim": float(sim[i, 1] - sim[i, 0]),
            "contrast": float(contrast[i]),
            "others": {system.name: system.outputs[0][i] for system in others},
            "ratings": rated[i],
        }

    best = sorted(gain, key=lambda i: -gain[i])[:number]
    worst = sorted(gain, key=lambda i: gain[i])[:number]
    return {
        "first_name": names[0],
        "second_name": names[1],
        "sentences": len(refs),
        "different": len(different),
        "by_bleu": [example(i) for i in ranked[:number] if contrast[i] > 0],
        "by_sim": [example(i) for i in ranked[::-1][:number] if contrast[i] < 0],
        "better": [example(i) for i in best if gain[i] > 0],
        "worse": [example(i) for i in worst if gain[i] < 0],
        "signatures": settings.signatures("SIM", chrf=False, sentence=True),
        "notes": [f"{one.name}: the first seed" for one in (*others, *pair) if one.outputs[1:]],
    }


def _ratings(
    ratings: Mapping[tuple[int, str], float], place: int, systems: Sequence[System]
) -> dict[str, float]:
    """Return what people said of the outputs of one sentence, as far as they saw them."""
    seen = {system.name: (place + 1, normalised(system.outputs[0][place])) for system in systems}
    return {name: ratings[key] for name, key in seen.items() if key in ratings}


def answer_examples(data: Data) -> Answer:
    """Show both ends of the rankings, to read and to filter."""
    first, second = data["first_name"], data["second_name"]
    kinds = {
        "BLEU differs more than SIM": data["by_bleu"],
        "SIM differs more than BLEU": data["by_sim"],
    }
    for name, chosen in ((second, data["better"]), (first, data["worse"])):
        if chosen:
            kinds[f"people prefer {name}"] = chosen
    return Answer(
        "examples",
        "Examples",
        f"Sentences on which {first} and {second} differ most by one metric and least by the "
        "other: read these to judge the metrics themselves.",
        f"Examples: {first} and {second} differ on {data['different']:,} of "
        f"{data['sentences']:,} sentences; ranked by |dBLEU| - |dSIM|",
        [Passages({kind: [_passage(data, one) for one in own] for kind, own in kinds.items()})],
        data,
        notes=data["notes"],
        signatures=data["signatures"],
    )


def _passage(data: Data, example: Data) -> Passage:
    bleu, sim = example["bleu"], example["sim"]
    title = (
        f"line {example['line']}: BLEU {bleu[0]:.1f} -> {bleu[1]:.1f} "
        f"({example['delta_bleu']:+.1f}), SIM {sim[0]:.1f} -> {sim[1]:.1f} "
        f"({example['delta_sim']:+.1f})"
    )
    source = [] if example["source"] is None else [("source", [(example["source"], "")])]
    first, second = marked(example["first"], example["second"])
    others = [(name, [(text, "")]) for name, text in example["others"].items()]
    outputs = [*others, (data["first_name"], first), (data["second_name"], second)]
    shown = []
    for name, runs in outputs:  # with people's mean rating of this output where there is one
        rating = example["ratings"].get(name)
        shown.append((name if rating is None else f"{name} ({rating:.1f})", runs))
    return Passage(title, [*source, ("reference", [(example["ref"], "")]), *shown])


def marked(first: str, second: str) -> tuple[Runs, Runs]:
    """Cut two strings into runs of words, marked "first" or "second" where the other differs."""
    a, b = first.split(), second.split()
    left: Runs = []
    right: Runs = []
    for what, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for words, kept, style in ((a[a1:a2], left, "first"), (b[b1:b2], right, "second")):
            if words:
                kept.append((" ".join(words), "" if what == "equal" else style))
    return left, right

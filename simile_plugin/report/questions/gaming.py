"""Is the reward gamed? Signs that a system pleases its reward and not its reader.

A system that learns to please the encoder may repeat itself, grow longer, or leave the source
untranslated, while the reward rises: the paper's Turkish system did.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from simile_plugin.report.answer import (
    Answer,
    Cell,
    Data,
    Figure,
    Part,
    Table,
    make_table,
    optional,
)
from simile_plugin.report.inputs.logs import Validations
from simile_plugin.report.inputs.systems import System
from simile_plugin.report.inputs.texts import tokenised
from simile_plugin.significance import Chart, Line, Panel, line_chart

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings
    from simile_plugin.reward import ListScores

NEEDS = (("ref", "sys"), ("log",))
ASKED_BY = ()
PICTURED = True

BLEU_BAND = 1.0  # points below the start
LENGTH_BAND = 0.03  # of the length ratio, beyond the start and 1, as the training's watch has it
REPETITION_BAND = 0.25  # of the start's share of repeated bigrams
REPETITION_FLOOR = 0.005  # a difference below this is chance
COPY_BAND = 0.01  # untranslated sentences above the baseline
COPIED_RUN = 4
# Signs of a validation by their keys in the log.
LOGGED = {
    "cost": "cost",
    "bleu": "bleu",
    "length_ratio": "length_ratio",
    "repeated": "repetition",
    "distinct": "distinct",
}
BAND = (
    f"BLEU at most {BLEU_BAND:g} point below the start (in systems: the first --baseline); length "
    f"ratio at most {LENGTH_BAND:.0%} below the smaller or above the larger of the start's and 1; "
    f"repeated bigrams at most {REPETITION_BAND:.0%} more than the start's; untranslated sentences "
    f"at most {COPY_BAND:.0%} above the baseline's"
)
Signs = dict[str, Any]


def on_page(inputs: Inputs) -> bool:
    """Answer on the page unasked."""
    return True


def ask(inputs: Inputs) -> Answer:
    """Look for signs in the outputs of --sys and in --log."""
    data: Data = {"systems": [], "epochs": {}, "warnings": [], "band": BAND, "notes": []}
    data["signatures"] = {}
    if inputs.named_systems:
        settings, baseline = inputs.settings, inputs.baselines[0]
        signs = system_signs(
            inputs.systems, inputs.refs, settings, baseline, inputs.sources, inputs.scores
        )
        behind = settings.signatures(chrf=False)
        behind = {"BLEU and the tokens": behind.pop("BLEU"), **behind}
        data |= {"systems": signs, "signatures": behind}
        data["warnings"] += system_warnings(signs, baseline)
        if inputs.sources is None:
            data["notes"].append("untranslated sentences are not counted: give --src")
        if settings.encoder is None:
            data["notes"].append("the reward of the outputs is not known: give --encoder")
    data["epochs"] = {name: epoch_signs(list(runs.values())) for name, runs in inputs.runs.items()}
    data["warnings"] += epoch_warnings(data["epochs"])
    data["notes"] += [
        f"{name}: no validation has both bleu and length_ratio in all seeds"
        for name, epochs in data["epochs"].items()
        if not epochs
    ]
    return answer_gaming(data)


# --- outputs ---


def system_signs(
    systems: Sequence[System],
    refs: Sequence[str],
    settings: ScoreSettings,
    baseline: str = "",
    sources: Sequence[str] | None = None,
    scores: ListScores | None = None,
) -> list[Signs]:
    """Compute the signs in each system's outputs, of several seeds the mean.

    `repeated` is a share of bigrams, `distinct` the number of different tokens, `distinct_ratio`
    that number over the references', `copied` a share of sentences, `sim` and `reward` are SIM
    and SIMILE in percent. `outside` says which signs have left their band around the baseline.

    Args:
        scores: what `scores.score_all` gave for the systems, where it is known already.
    """
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems

    ref_tokens = tokenised(settings.tokenize, tuple(refs))
    source_tokens = tokenised(settings.tokenize, tuple(sources)) if sources is not None else None
    ref_types = len({token for ref in ref_tokens for token in ref})
    scores = scores or score_all(systems, refs, settings)
    signs: list[Signs] = []
    for system, metrics in zip(
        systems, score_systems(systems, refs, scores, chrf=False), strict=True
    ):
        seeds = [tokenised(settings.tokenize, output) for output in system.outputs]
        distinct = fmean([len({token for hyp in hyps for token in hyp}) for hyps in seeds])
        copied = None
        if source_tokens is not None:
            copied = fmean([copied_share(hyps, source_tokens, ref_tokens) for hyps in seeds])
        signs.append(
            {
                "name": system.name,
                "length_ratio": metrics[LENGTH_RATIO].corpus(),
                "repeated": fmean([repeated_share(hyps) for hyps in seeds]),
                "distinct": distinct,
                "distinct_ratio": distinct / max(1, ref_types),
                "copied": copied,
                "bleu": metrics["bleu"].corpus(),
                "sim": metrics["sim"].corpus() if "sim" in metrics else None,
                "reward": metrics["simile"].corpus() if "simile" in metrics else None,
            }
        )
    start = next((one for one in signs if one["name"] == baseline), signs[0])
    for one in signs:
        one["outside"] = signs_outside(one, start)
    return signs


def repeated_share(sentences: Sequence[Sequence[str]]) -> float:
    """Return the share of all sentences' bigrams that repeat one of their sentence."""
    total = again = 0
    for tokens in sentences:
        bigrams = Counter(pairwise(tokens))
        total += bigrams.total()
        again += bigrams.total() - len(bigrams)
    return again / max(1, total)


def copied_share(
    hyps: Sequence[Sequence[str]], sources: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]
) -> float:
    """Return the share of sentences with 4 source words in a row that the reference has not.

    Numbers and punctuation are no words; of scripts that are written without spaces each letter is
    one. A sentence with fewer words than that is untranslated when its words are the source's and
    not the reference's.
    """
    from simile_plugin.encoder import split_words

    copied = 0
    for sentence in zip(hyps, sources, refs, strict=True):
        words = (split_words(" ".join(tokens)) for tokens in sentence)
        hyp, source, ref = ([word for word in own if any(map(str.isalpha, word))] for own in words)
        run = min(COPIED_RUN, len(source))
        copied += bool(run and (_runs(hyp, run) & _runs(source, run)) - _runs(ref, run))
    return copied / max(1, len(hyps))


def _runs(words: Sequence[str], length: int) -> set[tuple[str, ...]]:
    if length < COPIED_RUN and len(words) != length:
        return set()
    return set(zip(*(words[i:] for i in range(length)), strict=False))


# --- logs ---


def epoch_signs(runs: Sequence[Validations]) -> list[Signs]:
    """Average the signs over seeds, at the updates where all of them have BLEU and length ratio.

    `reward` is 1 - the expected cost that is trained on, `distinct` the share of a list's
    candidates that differ; what is not in the logs of all seeds is None.
    """
    epochs: list[Signs] = []
    for update in sorted(set.intersection(*(set(run) for run in runs))):
        signs = {key: _mean([run[update] for run in runs], name) for key, name in LOGGED.items()}
        if signs["bleu"] is None or signs["length_ratio"] is None:
            continue
        cost = signs.pop("cost")
        own = {"update": update, "reward": None if cost is None else 1 - cost, **signs}
        epochs.append({**own, "outside": signs_outside(own, (epochs or [own])[0])})
    return epochs


def _mean(validations: Sequence[Mapping[str, float]], key: str) -> float | None:
    values = [numbers.get(key, math.nan) for numbers in validations]
    return fmean(values) if all(map(math.isfinite, values)) else None


def signs_outside(signs: Signs, start: Signs) -> list[str]:
    """Name what has left its band, see BAND."""
    outside = ["BLEU"] if signs["bleu"] < start["bleu"] - BLEU_BAND else []
    low, high = _length_band([start["length_ratio"]])
    if not low <= signs["length_ratio"] <= high:
        outside.append("length")
    if signs["repeated"] is not None and start["repeated"] is not None:
        more = signs["repeated"] - start["repeated"]
        if more > REPETITION_FLOOR and more > REPETITION_BAND * start["repeated"]:
            outside.append("repetition")
    if signs.get("copied") is not None and signs["copied"] > start["copied"] + COPY_BAND:
        outside.append("copies")
    return outside


def _length_band(starts: Sequence[float]) -> tuple[float, float]:
    return min(*starts, 1.0) / (1 + LENGTH_BAND), max(*starts, 1.0) * (1 + LENGTH_BAND)


# --- warnings: a sign is outside its band while the reward is above the start's ---


def system_warnings(systems: Sequence[Signs], baseline: str) -> list[str]:
    """Warn of systems outside the band whose SIM or SIMILE is above the baseline's."""
    start = next(one for one in systems if one["name"] == baseline)
    warnings = []
    for signs in systems:
        if signs is start or not signs["outside"]:
            continue
        name = signs["name"]
        where = f"{' and '.join(signs['outside'])} outside the band around {baseline}"
        if signs["reward"] is None:
            warnings.append(f"{name}: {where} (the reward is not known)")
            continue
        gains = [
            f"{metric} is {signs[key] - start[key]:.2f}"
            for metric, key in (("SIM", "sim"), ("SIMILE", "reward"))
            if signs[key] > start[key]
        ]
        if gains:
            warnings.append(f"{name}: {' and '.join(gains)} above {baseline}'s, but {where}")
    return warnings


def epoch_warnings(epochs: Mapping[str, Sequence[Signs]]) -> list[str]:
    """Warn of trainings outside the band while 1 - cost is above the first validation's."""
    warnings = []
    for name, own in epochs.items():
        if not own or own[0]["reward"] is None:
            continue
        first = own[0]["reward"]
        gamed = (e for e in own if e["outside"] and e["reward"] is not None and e["reward"] > first)
        if one := next(gamed, None):
            warnings.append(
                f"{name}: from update {one['update']:,} the reward is above its start while "
                f"{' and '.join(one['outside'])} left the band (BLEU {one['bleu']:.2f}, "
                f"length ratio {one['length_ratio']:.3f}, repeated bigrams "
                f"{optional(one['repeated'], '.2%')})"
            )
    return warnings


# --- the answer ---


def answer_gaming(data: Data) -> Answer:
    """Show warnings first, then a table of the systems and one of the validations."""
    shown = {name: epochs for name, epochs in data["epochs"].items() if epochs}
    parts: list[Part] = [_system_table(data["systems"])] if data["systems"] else []
    if shown:
        parts.append(Figure(gaming_chart(shown), "Reward, BLEU and length while training."))
    parts += [_epoch_table(name, epochs) for name, epochs in shown.items()]
    fine = "every sign is inside its band, or no reward rose"
    if len(data["systems"]) < 2 and not shown:
        fine = "nothing to watch: no second system, and no validations with the signs"
    return Answer(
        "gaming",
        "Is the reward being gamed?",
        "Length, repetition and copies: what goes wrong when a model finds outputs that the reward "
        "likes and a reader does not.",
        "Gaming watch",
        parts,
        data,
        warnings=data["warnings"],
        notes=[*([] if data["warnings"] else [fine]), f"band: {data['band']}", *data["notes"]],
        signatures=data["signatures"],
    )


SYSTEM_COLUMNS = {
    "Length": ("length_ratio", ".3f"),
    "Repeated": ("repeated", ".2%"),
    "Distinct": ("distinct", ",.0f"),
    "of ref": ("distinct_ratio", ".1%"),
    "Copied": ("copied", ".2%"),
    "BLEU": ("bleu", ".2f"),
    "SIM": ("sim", ".2f"),
    "SIMILE": ("reward", ".2f"),
}
EPOCH_COLUMNS = {
    "Reward": ("reward", ".4f"),
    "BLEU": ("bleu", ".2f"),
    "Length": ("length_ratio", ".3f"),
    "Repeated": ("repeated", ".2%"),
    "Distinct": ("distinct", ".1%"),
}


def _system_table(systems: Sequence[Signs]) -> Table:
    rows = [_row(signs["name"], signs, SYSTEM_COLUMNS) for signs in systems]
    return make_table(["System", *SYSTEM_COLUMNS, "outside the band"], rows)


def _epoch_table(name: str, epochs: Sequence[Signs]) -> Table:
    rows = [_row(f"{epoch['update']:,}", epoch, EPOCH_COLUMNS) for epoch in epochs]
    header = [f"{name}, update", *EPOCH_COLUMNS, "outside the band"]
    return make_table(header, rows, folded=f"Every validation of {name}")


def _row(title: str, signs: Signs, columns: Mapping[str, tuple[str, str]]) -> list[str | Cell]:
    outside = Cell(", ".join(signs["outside"]), style="bad" if signs["outside"] else "")
    return [title, *(optional(signs[key], form) for key, form in columns.values()), outside]


def gaming_chart(epochs: Mapping[str, Sequence[Signs]]) -> Chart:
    """Draw reward, BLEU and length ratio by update, with the edges of the bands."""
    starts = [own[0] for own in epochs.values()]
    panels = []
    for title, key, edges in (
        ("Reward (1 - cost)", "reward", []),
        ("BLEU", "bleu", [min(start["bleu"] for start in starts) - BLEU_BAND]),
        ("Length ratio", "length_ratio", [*_length_band([s["length_ratio"] for s in starts])]),
    ):
        lines = {
            name: Line(
                [e["update"] for e in own], [math.nan if e[key] is None else e[key] for e in own]
            )
            for name, own in epochs.items()
        }
        panels.append(Panel(title, lines, {"edge of the band": edges}))
    label = f"Reward, BLEU and length ratio by update, of {', '.join(epochs)}"
    return line_chart(label, panels, "Update")

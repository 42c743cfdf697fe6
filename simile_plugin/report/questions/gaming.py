"""Is the reward gamed? Signs that a system pleases its reward and not its reader.

A system that learns to please the encoder may repeat itself, grow longer, or leave the source
untranslated, while the reward rises: the paper's Turkish system did.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from simile_plugin.report.answer import Answer, Cell, Figure, Part, Table, make_table, optional
from simile_plugin.report.inputs.logs import Runs
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
LOGGED = ("cost", "repetition", "distinct", "bleu", "length_ratio")
BAND = (
    f"BLEU at most {BLEU_BAND:g} point below the start (in systems: the first --baseline); length "
    f"ratio at most {LENGTH_BAND:.0%} below the smaller or above the larger of the start's and 1; "
    f"repeated bigrams at most {REPETITION_BAND:.0%} more than the start's; untranslated sentences "
    f"at most {COPY_BAND:.0%} above the baseline's"
)


@dataclass(frozen=True)
class SystemSigns:
    """The signs in one system's outputs, of several seeds the mean.

    Attributes:
        length_ratio: tokens of the outputs over tokens of the references.
        repeated: share of the bigrams that their sentence has said before.
        distinct: different tokens; distinct_ratio: over the references' number of them.
        copied: share of sentences with at least 4 words in a row (or a whole shorter sentence)
            of the source that the reference does not have; None without sources.
        sim, reward: SIM and SIMILE in percent; None without an encoder.
        outside: which signs have left their band.
    """

    name: str
    length_ratio: float
    repeated: float
    distinct: float
    distinct_ratio: float
    copied: float | None
    bleu: float
    sim: float | None
    reward: float | None
    outside: tuple[str, ...]


@dataclass(frozen=True)
class EpochSigns:
    """The signs in one validation of a training, of several seeds the mean.

    Attributes:
        reward: 1 - the expected cost that is trained on; None where the log has no cost.
        repeated: share of repeated bigrams; None where not in the log.
        distinct: share of the candidates of a list that differ; None where not in the log.
    """

    update: int
    reward: float | None
    bleu: float
    length_ratio: float
    repeated: float | None
    distinct: float | None
    outside: tuple[str, ...]


@dataclass(frozen=True)
class GamingResult:
    """Signs by system and by validation, and what to look at.

    Attributes:
        epochs: system -> validations in their order.
        band: the definition of the bands, in words.
        signatures: of the outputs' scores.
    """

    systems: tuple[SystemSigns, ...]
    epochs: dict[str, tuple[EpochSigns, ...]]
    warnings: tuple[str, ...]
    band: str
    notes: tuple[str, ...]
    signatures: dict[str, str]


def analyse_gaming(
    systems: Sequence[System],
    refs: Sequence[str],
    settings: ScoreSettings,
    baseline: str = "",
    sources: Sequence[str] | None = None,
    runs: Runs | None = None,
    scores: ListScores | None = None,
) -> GamingResult:
    """Signs of gaming per system (where there are outputs) and per validation (from logs).

    A warning is given where a sign is outside its band while the reward is above the start's:
    for outputs SIM or SIMILE above the baseline's, for a log 1 - cost above the first
    validation's.

    Args:
        baseline: name of the system that the others are held against.
        runs: validations of trainings, see `logs.read_runs`.
        scores: what `scores.score_all` gave for the systems, where it is known already.
    """
    signs: Sequence[SystemSigns] = ()
    if systems:
        signs = _system_signs(systems, refs, settings, baseline, sources, scores)
    epochs = {name: _epoch_signs(list(own.values())) for name, own in (runs or {}).items()}
    notes = []
    if systems and sources is None:
        notes.append("untranslated sentences are not counted: give --src")
    if systems and settings.encoder is None:
        notes.append("the reward of the outputs is not known: give --encoder")
    notes += [
        f"{name}: no validation has both bleu and length_ratio in all seeds"
        for name, found in epochs.items()
        if not found
    ]
    warnings = _system_warnings(signs, baseline) + _epoch_warnings(epochs)
    signed_by = _signatures(settings) if systems else {}
    return GamingResult(tuple(signs), epochs, tuple(warnings), BAND, tuple(notes), signed_by)


def _signatures(settings: ScoreSettings) -> dict[str, str]:
    from simile_plugin.reward import bleu_signature, signature

    found = {"BLEU and the tokens": bleu_signature(settings.tokenize)}
    if settings.encoder is not None:
        found["SIM, SIMILE"] = signature(settings.encoder, settings.alpha)
    return found


# --- outputs ---


def _system_signs(
    systems: Sequence[System],
    refs: Sequence[str],
    settings: ScoreSettings,
    baseline: str,
    sources: Sequence[str] | None,
    scores: ListScores | None,
) -> list[SystemSigns]:
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems

    ref_tokens = tokenised(settings.tokenize, tuple(refs))
    source_tokens = tokenised(settings.tokenize, tuple(sources)) if sources is not None else None
    ref_types = len({token for ref in ref_tokens for token in ref})
    scores = scores or score_all(systems, refs, settings)
    scored = score_systems(systems, refs, scores, chrf=False)
    found = []
    for system, metrics in zip(systems, scored, strict=True):
        seeds = [tokenised(settings.tokenize, output) for output in system.outputs]
        distinct = fmean([len({token for hyp in hyps for token in hyp}) for hyps in seeds])
        copied = None
        if source_tokens is not None:
            copied = fmean([copied_share(hyps, source_tokens, ref_tokens) for hyps in seeds])
        found.append(
            SystemSigns(
                system.name,
                metrics[LENGTH_RATIO].corpus(),
                fmean([repeated_share(hyps) for hyps in seeds]),
                distinct,
                distinct / max(1, ref_types),
                copied,
                metrics["bleu"].corpus(),
                metrics["sim"].corpus() if "sim" in metrics else None,
                metrics["simile"].corpus() if "simile" in metrics else None,
                (),
            )
        )
    start = next((signs for signs in found if signs.name == baseline), found[0])
    return [_with_outside(signs, start) for signs in found]


def _with_outside(signs: SystemSigns, start: SystemSigns) -> SystemSigns:
    outside = _outside(signs, start)
    if signs.copied is not None and start.copied is not None:
        outside += ["copies"] if signs.copied > start.copied + COPY_BAND else []
    return replace(signs, outside=tuple(outside))


def repeated_share(sentences: Sequence[Sequence[str]]) -> float:
    """Share of the bigrams of all sentences that stand in their sentence a second time or more."""
    total = again = 0
    for tokens in sentences:
        bigrams = Counter(pairwise(tokens))
        total += bigrams.total()
        again += bigrams.total() - len(bigrams)
    return again / max(1, total)


def copied_share(
    hyps: Sequence[Sequence[str]], sources: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]
) -> float:
    """Share of sentences with 4 source words in a row that the reference does not have.

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


def _epoch_signs(runs: Sequence[Mapping[int, Mapping[str, float]]]) -> tuple[EpochSigns, ...]:
    """Means over seeds at the updates at which all of them have BLEU and length ratio."""
    updates = [
        update
        for update in sorted(set.intersection(*(set(run) for run in runs)))
        if all(_finite(run[update], key) for run in runs for key in ("bleu", "length_ratio"))
    ]
    found: list[EpochSigns] = []
    for update in updates:
        cost, repeated, distinct, bleu, ratio = (_mean_at(runs, update, key) for key in LOGGED)
        assert bleu is not None and ratio is not None
        reward = None if cost is None else 1 - cost
        signs = EpochSigns(update, reward, bleu, ratio, repeated, distinct, ())
        found.append(replace(signs, outside=tuple(_outside(signs, (found or [signs])[0]))))
    return tuple(found)


def _finite(numbers: Mapping[str, float], key: str) -> bool:
    return math.isfinite(numbers.get(key, math.nan))


def _mean_at(
    runs: Sequence[Mapping[int, Mapping[str, float]]], update: int, key: str
) -> float | None:
    if not all(_finite(run[update], key) for run in runs):
        return None
    return fmean([run[update][key] for run in runs])


def _outside(signs: SystemSigns | EpochSigns, start: SystemSigns | EpochSigns) -> list[str]:
    """What has left its band, see BAND."""
    outside = ["BLEU"] if signs.bleu < start.bleu - BLEU_BAND else []
    low, high = _length_band([start.length_ratio])
    if not low <= signs.length_ratio <= high:
        outside.append("length")
    if signs.repeated is not None and start.repeated is not None:
        more = signs.repeated - start.repeated
        if more > REPETITION_FLOOR and more > REPETITION_BAND * start.repeated:
            outside.append("repetition")
    return outside


def _length_band(starts: Sequence[float]) -> tuple[float, float]:
    return min(*starts, 1.0) / (1 + LENGTH_BAND), max(*starts, 1.0) * (1 + LENGTH_BAND)


# --- warnings ---


def _system_warnings(signs: Sequence[SystemSigns], baseline: str) -> list[str]:
    start = next((found for found in signs if found.name == baseline), None)
    warnings = []
    for found in signs:
        if start is None or found is start or not found.outside:
            continue
        where = f"{' and '.join(found.outside)} outside the band around {baseline}"
        if found.reward is None:
            warnings.append(f"{found.name}: {where} (the reward is not known)")
        gains = [
            f"{name} is {own - before:.2f}"
            for name, own, before in (
                ("SIM", found.sim, start.sim),
                ("SIMILE", found.reward, start.reward),
            )
            if own is not None and before is not None and own > before
        ]
        if gains:
            warnings.append(f"{found.name}: {' and '.join(gains)} above {baseline}'s, but {where}")
    return warnings


def _epoch_warnings(epochs: Mapping[str, Sequence[EpochSigns]]) -> list[str]:
    warnings = []
    for name, found in epochs.items():
        if not found or found[0].reward is None:
            continue
        first = found[0].reward
        gamed = [e for e in found if e.outside and e.reward is not None and e.reward > first]
        if gamed:
            one = gamed[0]
            warnings.append(
                f"{name}: from update {one.update:,} the reward is above its start while "
                f"{' and '.join(one.outside)} left the band (BLEU {one.bleu:.2f}, "
                f"length ratio {one.length_ratio:.3f}, repeated bigrams "
                f"{optional(one.repeated, '.2%')})"
            )
    return warnings


# --- the answer ---


def on_page(inputs: Inputs) -> bool:
    """The page has it unasked."""
    return True


def ask(inputs: Inputs) -> Answer:
    """Signs in the outputs of --sys and in --log."""
    if not inputs.args.sys:
        return answer_gaming(analyse_gaming([], [], inputs.settings, runs=inputs.runs))
    found = analyse_gaming(
        inputs.systems,
        inputs.refs,
        inputs.settings,
        inputs.baselines[0],
        inputs.sources,
        inputs.runs,
        inputs.scores,
    )
    return answer_gaming(found)


def answer_gaming(result: GamingResult) -> Answer:
    """Warnings first, then a table of the systems and one of the validations."""
    parts: list[Part] = [_system_table(result)] if result.systems else []
    chart = gaming_chart(result)
    if chart is not None:
        parts.append(Figure(chart, "Reward, BLEU and length while training."))
    parts += [_epoch_table(name, epochs) for name, epochs in result.epochs.items() if epochs]
    fine = "every sign is inside its band, or no reward rose"
    if len(result.systems) < 2 and not any(result.epochs.values()):
        fine = "nothing to watch: no second system, and no validations with the signs"
    return Answer(
        "gaming",
        "Is the reward being gamed?",
        "Length, repetition and copies: what goes wrong when a model finds outputs that the reward "
        "likes and a reader does not.",
        "Gaming watch",
        parts,
        asdict(result),
        warnings=result.warnings,
        notes=[*([] if result.warnings else [fine]), f"band: {result.band}", *result.notes],
        signatures=result.signatures,
    )


def _system_table(result: GamingResult) -> Table:
    header = ["System", "Length", "Repeated", "Distinct", "of ref", "Copied", "BLEU", "SIM"]
    rows = [
        [
            signs.name,
            f"{signs.length_ratio:.3f}",
            f"{signs.repeated:.2%}",
            f"{signs.distinct:,.0f}",
            f"{signs.distinct_ratio:.1%}",
            optional(signs.copied, ".2%"),
            f"{signs.bleu:.2f}",
            optional(signs.sim, ".2f"),
            optional(signs.reward, ".2f"),
            _outside_cell(signs.outside),
        ]
        for signs in result.systems
    ]
    return make_table([*header, "SIMILE", "outside the band"], rows)


def _epoch_table(name: str, epochs: Sequence[EpochSigns]) -> Table:
    header = [f"{name}, update", "Reward", "BLEU", "Length", "Repeated", "Distinct"]
    rows = [
        [
            f"{epoch.update:,}",
            optional(epoch.reward, ".4f"),
            f"{epoch.bleu:.2f}",
            f"{epoch.length_ratio:.3f}",
            optional(epoch.repeated, ".2%"),
            optional(epoch.distinct, ".1%"),
            _outside_cell(epoch.outside),
        ]
        for epoch in epochs
    ]
    folded = f"Every validation of {name}"
    return make_table([*header, "outside the band"], rows, folded=folded)


def _outside_cell(outside: Sequence[str]) -> Cell:
    return Cell(", ".join(outside), style="bad" if outside else "")


def gaming_chart(result: GamingResult) -> Chart | None:
    """Reward, BLEU and length ratio by update; None without logs."""
    shown = {name: epochs for name, epochs in result.epochs.items() if epochs}
    if not shown:
        return None
    starts = [epochs[0] for epochs in shown.values()]
    edges: tuple[list[float], ...] = (
        [],
        [min(e.bleu for e in starts) - BLEU_BAND],
        [*_length_band([e.length_ratio for e in starts])],
    )
    lines: list[dict[str, Line]] = [{}, {}, {}]
    for name, epochs in shown.items():
        rewards = [math.nan if e.reward is None else e.reward for e in epochs]
        columns = (rewards, [e.bleu for e in epochs], [e.length_ratio for e in epochs])
        for own, values in zip(lines, columns, strict=True):
            own[name] = Line([e.update for e in epochs], values)
    titles = ("Reward (1 - cost)", "BLEU", "Length ratio")
    panels = [
        Panel(title, own, {"edge of the band": heights})
        for title, own, heights in zip(titles, lines, edges, strict=True)
    ]
    label = f"Reward, BLEU and length ratio by update, of {', '.join(shown)}"
    return line_chart(label, panels, "Update")

"""Is the reward gamed? Signs that a system pleases its reward and not its reader.

A system that learns to please the encoder may repeat itself, grow longer, or leave the source
untranslated, while the reward rises: the paper's Turkish system did.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sacrebleu.metrics import BLEU

from simile_plugin.report.logs import read_validations
from simile_plugin.report.scores import LENGTH_RATIO, ScoreSettings, score_systems
from simile_plugin.report.systems import System
from simile_plugin.statistics import COLORS, DASHES, MARKERS, render_svg, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simile_plugin.reward import ListScores

BLEU_BAND = 1.0  # points below the start
LENGTH_BAND = 0.05  # of the length ratio, beyond the start and 1
SHARE_BAND = 0.01  # repeated 4-grams and untranslated sentences above the baseline
REPEATED_ORDER = 4
COPIED_RUN = 4
EDGE = "#808080"
BAND = (
    f"BLEU at most {BLEU_BAND:g} point below the start (in systems: the first --baseline); length "
    f"ratio at most {LENGTH_BAND:.0%} below the smaller or above the larger of the start's and 1; "
    f"repeated 4-grams and untranslated sentences at most {SHARE_BAND:.0%} above the baseline's"
)


@dataclass(frozen=True)
class SystemSigns:
    """The signs in one system's outputs, of several seeds the mean.

    Attributes:
        length_ratio: tokens of the outputs over tokens of the references.
        repeated: share of the 4-grams that their sentence has said before.
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
        distinct: share of the candidates of a list that differ; None where not in the log.
    """

    update: int
    reward: float | None
    bleu: float
    length_ratio: float
    distinct: float | None
    outside: tuple[str, ...]


@dataclass(frozen=True)
class GamingResult:
    """Signs by system and by validation, and what to look at.

    Attributes:
        epochs: system -> validations in their order.
        band: the definition of the bands, in words.
    """

    systems: tuple[SystemSigns, ...]
    epochs: dict[str, tuple[EpochSigns, ...]]
    warnings: tuple[str, ...]
    band: str
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        return asdict(self)


def analyse_gaming(
    systems: Sequence[System],
    refs: Sequence[str],
    settings: ScoreSettings,
    baseline: str = "",
    sources: Sequence[str] | None = None,
    logs: Mapping[str, Sequence[str]] | None = None,
    subset: str = "valid",
    progress: Callable[[int], object] | None = None,
    scores: ListScores | None = None,
) -> GamingResult:
    """Signs of gaming per system (where there are outputs) and per validation (from logs).

    A warning is given where a sign is outside its band while the reward is above the start's:
    for outputs SIM or SIMILE above the baseline's, for a log 1 - cost above the first
    validation's.

    Args:
        baseline: name of the system that the others are held against.
        logs: system -> one training log a seed, see `logs.read_validations`.
        progress: called with the number of sentences just scored.
        scores: what `scores.score_all` gave for the systems, where it is known already.

    Raises:
        ValueError: for logs without validations.
    """
    signs: Sequence[SystemSigns] = ()
    if systems:
        signs = _system_signs(systems, refs, settings, baseline, sources, progress, scores)
    epochs = {
        name: _epoch_signs([read_validations(path, "--log", subset) for path in paths])
        for name, paths in (logs or {}).items()
    }
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
    return GamingResult(tuple(signs), epochs, tuple(warnings), BAND, tuple(notes))


# --- outputs ---


def _system_signs(
    systems: Sequence[System],
    refs: Sequence[str],
    settings: ScoreSettings,
    baseline: str,
    sources: Sequence[str] | None,
    progress: Callable[[int], object] | None,
    scores: ListScores | None,
) -> list[SystemSigns]:
    tokenize = BLEU(tokenize=settings.tokenize).tokenizer
    ref_tokens = [tokenize(ref).split() for ref in refs]
    source_tokens = [tokenize(line).split() for line in sources] if sources is not None else None
    ref_types = len({token for ref in ref_tokens for token in ref})
    scored = score_systems(systems, refs, settings, progress, False, scores).metrics
    found = []
    for system, metrics in zip(systems, scored, strict=True):
        seeds = [[tokenize(hyp).split() for hyp in output] for output in system.outputs]
        distinct = _mean([len({token for hyp in hyps for token in hyp}) for hyps in seeds])
        copied = None
        if source_tokens is not None:
            copied = _mean([copied_share(hyps, source_tokens, ref_tokens) for hyps in seeds])
        found.append(
            SystemSigns(
                system.name,
                metrics[LENGTH_RATIO].corpus(),
                _mean([repeated_share(hyps) for hyps in seeds]),
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
    outside = _outside(signs.bleu, signs.length_ratio, start.bleu, start.length_ratio)
    if signs.repeated > start.repeated + SHARE_BAND:
        outside.append("repetition")
    if signs.copied is not None and start.copied is not None:
        outside += ["copies"] if signs.copied > start.copied + SHARE_BAND else []
    return replace(signs, outside=tuple(outside))


def repeated_share(sentences: Sequence[Sequence[str]]) -> float:
    """Share of the 4-grams of all sentences that stand in their sentence a second time or more."""
    total = again = 0
    for tokens in sentences:
        grams = Counter(zip(*(tokens[i:] for i in range(REPEATED_ORDER)), strict=False))
        total += grams.total()
        again += grams.total() - len(grams)
    return again / max(1, total)


def copied_share(
    hyps: Sequence[Sequence[str]], sources: Sequence[Sequence[str]], refs: Sequence[Sequence[str]]
) -> float:
    """Share of sentences with 4 source words in a row that the reference does not have.

    Numbers and punctuation are no words. A sentence with fewer words than that is untranslated
    when its words are the source's and not the reference's.
    """
    copied = 0
    for sentence in zip(hyps, sources, refs, strict=True):
        hyp, source, ref = ([t for t in tokens if any(map(str.isalpha, t))] for tokens in sentence)
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
        cost, distinct, bleu, ratio = (
            _mean_at(runs, update, key) for key in ("cost", "distinct", "bleu", "length_ratio")
        )
        assert bleu is not None and ratio is not None
        start = found[0] if found else None
        outside = _outside(bleu, ratio, start.bleu, start.length_ratio) if start else []
        reward = None if cost is None else 1 - cost
        found.append(EpochSigns(update, reward, bleu, ratio, distinct, tuple(outside)))
    return tuple(found)


def _finite(numbers: Mapping[str, float], key: str) -> bool:
    return math.isfinite(numbers.get(key, math.nan))


def _mean_at(
    runs: Sequence[Mapping[int, Mapping[str, float]]], update: int, key: str
) -> float | None:
    if not all(_finite(run[update], key) for run in runs):
        return None
    return _mean([run[update][key] for run in runs])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _outside(bleu: float, ratio: float, start_bleu: float, start_ratio: float) -> list[str]:
    """What has left its band, see BAND."""
    outside = ["BLEU"] if bleu < start_bleu - BLEU_BAND else []
    low, high = min(start_ratio, 1) * (1 - LENGTH_BAND), max(start_ratio, 1) * (1 + LENGTH_BAND)
    return outside + (["length"] if not low <= ratio <= high else [])


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
                f"length ratio {one.length_ratio:.3f})"
            )
    return warnings


# --- presentation ---


def format_gaming(result: GamingResult) -> str:
    """Warnings first, then a table of the systems and one of the validations."""
    parts = ["Gaming watch"]
    parts.append("\n".join(f"warning: {text}" for text in result.warnings) or "no warning")
    if result.systems:
        parts.append(text_table(_system_grid(result)))
    for name, epochs in result.epochs.items():
        if epochs:
            parts.append(text_table(_epoch_grid(name, epochs)))
    parts.append("\n".join([f"band: {result.band}", *result.notes]))
    return "\n\n".join(parts) + "\n"


def _system_grid(result: GamingResult) -> list[list[str]]:
    header = [
        "System",
        "Length",
        "Repeated",
        "Distinct",
        "of ref",
        "Copied",
        "BLEU",
        "SIM",
        "SIMILE",
    ]
    rows = [
        [
            signs.name,
            f"{signs.length_ratio:.3f}",
            f"{signs.repeated:.2%}",
            f"{signs.distinct:,.0f}",
            f"{signs.distinct_ratio:.1%}",
            "-" if signs.copied is None else f"{signs.copied:.2%}",
            f"{signs.bleu:.2f}",
            "-" if signs.sim is None else f"{signs.sim:.2f}",
            "-" if signs.reward is None else f"{signs.reward:.2f}",
            ", ".join(signs.outside),
        ]
        for signs in result.systems
    ]
    return [[*header, "outside the band"], *rows]


def _epoch_grid(name: str, epochs: Sequence[EpochSigns]) -> list[list[str]]:
    header = [f"{name}, update", "Reward", "BLEU", "Length", "Distinct", "outside the band"]
    rows = [
        [
            f"{epoch.update:,}",
            "-" if epoch.reward is None else f"{epoch.reward:.4f}",
            f"{epoch.bleu:.2f}",
            f"{epoch.length_ratio:.3f}",
            "-" if epoch.distinct is None else f"{epoch.distinct:.1%}",
            ", ".join(epoch.outside),
        ]
        for epoch in epochs
    ]
    return [header, *rows]


def gaming_figure(result: GamingResult) -> str | None:
    """Reward, BLEU and length ratio by update as inline SVG; None without logs."""
    shown = {name: epochs for name, epochs in result.epochs.items() if epochs}
    if not shown:
        return None
    label = f"Reward, BLEU and length ratio by update, of {', '.join(shown)}"
    return render_svg(label, (10.5, 3.8), partial(_draw, shown=shown))


def _draw(figure: Figure, shown: Mapping[str, Sequence[EpochSigns]]) -> None:
    from matplotlib.ticker import MaxNLocator

    panels = figure.subplots(1, 3)
    for panel, title in zip(panels, ("Reward (1 - cost)", "BLEU", "Length ratio"), strict=True):
        panel.set_title(title, loc="left", fontsize=12)
        panel.set_xlabel("Update")
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        panel.grid(axis="y")
    handles = []
    for place, epochs in enumerate(shown.values()):
        look = {
            "color": COLORS[place % len(COLORS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": DASHES[place % len(DASHES)],
        }
        rewards = [math.nan if e.reward is None else e.reward for e in epochs]
        columns = (rewards, [e.bleu for e in epochs], [e.length_ratio for e in epochs])
        for panel, values in zip(panels, columns, strict=True):
            (line,) = panel.plot([e.update for e in epochs], values, **look)
        handles.append(line)
    starts = [epochs[0] for epochs in shown.values()]
    panels[1].axhline(min(e.bleu for e in starts) - BLEU_BAND, color=EDGE, linestyle="--")
    ratios = [e.length_ratio for e in starts]
    for edge in (min(*ratios, 1) * (1 - LENGTH_BAND), max(*ratios, 1) * (1 + LENGTH_BAND)):
        panels[2].axhline(edge, color=EDGE, linestyle="--")
    figure.legend(
        handles,
        list(shown),
        loc="outside lower center",
        ncols=min(4, len(shown)),
        frameon=False,
        title="dashed: edge of the band",
        title_fontsize=9,
    )

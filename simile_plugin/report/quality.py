"""How good are the metrics, the reward among them? Correlation with people (Tables 65 and 66)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation import (
    KINDS,
    METEOR_SIGNATURE,
    SYMMETRIC,
    Estimate,
    Judgements,
    Meteor,
    Quality,
    StsFolder,
    StsQuality,
    StsSet,
    evaluate_judgements,
    evaluate_sts_metrics,
    missing_meteor,
)
from simile_plugin.reward import SIMILE_ALPHA, LearnedReward, bleu_signature, signature
from simile_plugin.statistics import BOOTSTRAP_RESAMPLES, SEED, Grid, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_RESAMPLES = 40  # for a 95% interval
STS_TITLE = "STS: mean of the sets of each folder"


@dataclass(frozen=True)
class QualityResult:
    """Correlations with human similarity and with human judgements of translations, in percent.

    Attributes:
        encoders: name -> fingerprint.
        signatures: by metric, how its sentence scores are made.
    """

    encoders: dict[str, str]
    sts: StsQuality | None
    judgements: Quality | None
    alpha: float
    resamples: int
    seed: int
    signatures: dict[str, str]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers; undefined correlations are None."""
        found: dict[str, Any] = {"encoders": self.encoders}
        if len(self.encoders) == 1:
            found["encoder"] = next(iter(self.encoders.values()))
        if self.sts is not None:
            found["sts"] = [_folder_json(part) for part in self.sts.folders]
            found["sts_mean"] = _dicts(self.sts.mean)
            found["sts_difference"] = _dicts(self.sts.difference)
        if self.judgements is not None:
            facts = {"resamples": self.resamples, "seed": self.seed, "alpha": self.alpha}
            found["judgements"] = {**facts, **asdict(self.judgements)}
        found |= {"resamples": self.resamples, "seed": self.seed}
        found |= {"signatures": self.signatures, "notes": list(self.notes)}
        plain = _plain(found)
        assert isinstance(plain, dict)
        return plain


def _folder_json(part: StsFolder) -> dict[str, Any]:
    """SIM of a single encoder at the top, and every metric below."""
    metrics = {
        name: {**asdict(scores), "interval": asdict(part.estimates[name])}
        for name, scores in part.scores.items()
    }
    for scores in metrics.values():
        del scores["folder"], scores["pairs"]
    single = asdict(part.scores["SIM"]) if "SIM" in part.scores else {}
    return {"folder": part.folder, "pairs": part.pairs, **single, "metrics": metrics}


def _dicts(estimates: Mapping[str, Estimate]) -> dict[str, dict[str, float]]:
    return {name: asdict(found) for name, found in estimates.items()}


def _plain(value: object) -> object:
    """NaN is no JSON."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and value != value else value


def analyse_quality(
    encoders: Mapping[str, RewardEncoder],
    folders: Mapping[str, Sequence[StsSet]],
    judged: Sequence[Judgements],
    alpha: float = SIMILE_ALPHA,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    learned: LearnedReward | None = None,
) -> QualityResult:
    """Correlate encoders and surface metrics with people on STS folders and judgement files.

    METEOR is among them where it is installed; a note says what is missing where it is not.
    """
    missing = missing_meteor() if folders or judged else ""
    signatures = {
        "BLEU": f"sentence, +1 on orders 2 to 4; {bleu_signature()}",
        "chrF": f"sentence; {_chrf_signature()}",
    }
    if not missing:
        signatures["METEOR"] = METEOR_SIGNATURE
    for name, encoder in encoders.items():
        of = f" of {name}" if len(encoders) > 1 else ""
        signatures[f"SIM{of}, SIMILE{of}"] = signature(encoder, alpha)
    if learned is not None:
        signatures["LEARNED"] = learned.signature
    wanted = (folders or judged) and not missing
    with Meteor() if wanted else nullcontext() as meteor:
        settings = (alpha, resamples, seed, meteor)
        sts = evaluate_sts_metrics(encoders, folders, *settings) if folders else None
        quality = evaluate_judgements(encoders, judged, *settings, learned) if judged else None
    fingerprints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    notes = (missing,) if missing else ()
    return QualityResult(fingerprints, sts, quality, alpha, resamples, seed, signatures, notes)


def _chrf_signature() -> str:
    from simile_plugin.reward import chrf_signature

    return chrf_signature()


# --- presentation ---


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Last parts of paths, or whole paths where the last parts are not distinct."""
    names = {path: Path(path).name or path for path in paths}
    return names if len(set(names.values())) == len(names) else {path: path for path in names}


def sts_grid(sts: StsQuality) -> Grid:
    """Table 65: a row a metric, a column a folder, and their mean."""
    names = short_names([part.folder for part in sts.folders])
    rows = [
        [metric, *(cell(part.estimates[metric]) for part in sts.folders), cell(mean)]
        for metric, mean in sts.mean.items()
    ]
    return [["Pearson", *names.values(), "mean of folders"], *rows]


def judgement_grid(quality: Quality, kind: str) -> Grid:
    """Table 66: a row a metric, a column a file (language pair), and their mean."""
    names = short_names(list(quality.files))
    rows = [
        [metric, *(cell(found[kind][metric]) for found in quality.files.values()), cell(mean)]
        for metric, mean in quality.mean[kind].items()
    ]
    return [[kind.capitalize(), *names.values(), "mean of files"], *rows]


def folder_grid(part: StsFolder) -> Grid:
    """One folder, a row a set, then the mean of the sets and all pairs at once, as Spearman too."""
    metrics = part.scores.values()
    rows = [
        [name, *(_number(scores.pearson[name]) for scores in metrics)]
        for name in next(iter(metrics)).pearson
    ]
    rows += [
        ["mean of sets", *(_number(scores.mean_pearson) for scores in metrics)],
        [f"all {part.pairs} pairs", *(_number(scores.all_pearson) for scores in metrics)],
        ["Spearman, mean of sets", *(_number(scores.mean_spearman) for scores in metrics)],
        [f"Spearman, all {part.pairs}", *(_number(scores.all_spearman) for scores in metrics)],
    ]
    return [["Pearson", *part.scores], *rows]


def difference_grid(differences: Mapping[str, Mapping[str, Estimate]]) -> Grid:
    """Kind of correlation -> differences of the means, a row a pair of metrics."""
    first = next(iter(differences.values()))
    rows = [[pair, *(cell(found[pair]) for found in differences.values())] for pair in first]
    return [["difference of the means", *(kind.capitalize() for kind in differences)], *rows]


def cell(found: Estimate) -> str:
    """A value with its interval."""
    return f"{found.value:.1f} [{found.low:.1f} {found.high:.1f}]"


def _number(value: float) -> str:
    return f"{value:.1f}"


def constant_lines(part: StsFolder) -> list[str]:
    """Where a metric gives every pair of a set the same score."""
    return [
        f"{metric}: undefined (equal scores): {', '.join(scores.constant)}"
        for metric, scores in part.scores.items()
        if scores.constant
    ]


def legend(result: QualityResult) -> list[str]:
    """How to read the tables, and what was computed."""
    lines = [
        f"percent, with 95% intervals of {result.resamples} bootstrap resamples, seed {result.seed}"
    ]
    if result.sts is not None:
        lines.append(
            f"STS: the second sentence is the reference;{SYMMETRIC} is the mean of both directions"
        )
    signed = [f"{name}: {text}" for name, text in result.signatures.items()]
    return [*lines, *signed, *result.notes]


def format_quality(result: QualityResult, sets: bool = False) -> str:
    """Tables for a terminal. sets: with each set of each STS folder."""
    parts = ["Metric quality: correlation with people"]
    if result.sts is not None:
        for part in result.sts.folders if sets else ():
            title = [part.folder, text_table(folder_grid(part)), *constant_lines(part)]
            parts.append("\n".join(title))
        parts.append(f"{STS_TITLE}\n{text_table(sts_grid(result.sts))}")
        parts.append(text_table(difference_grid({"pearson": result.sts.difference})))
    if quality := result.judgements:
        total = ", ".join(
            f"{short_names(list(quality.segments))[p]} {n}" for p, n in quality.segments.items()
        )
        parts.append(f"judgements: segments of {total}")
        parts += [text_table(judgement_grid(quality, kind)) for kind in KINDS]
        parts.append(text_table(difference_grid(quality.difference)))
    return "\n\n".join([*parts, "\n".join(legend(result))]) + "\n"


def quality_figure(result: QualityResult) -> str:
    """Bars of the means with their 95% intervals; small marks are folders or files."""
    from simile_plugin.statistics import render_svg

    panels = []
    if sts := result.sts:
        single = {name: [part.estimates[name].value for part in sts.folders] for name in sts.mean}
        panels.append(("STS: Pearson, mean of folders", sts.mean, single))
    if quality := result.judgements:
        mean = quality.mean["spearman"]
        single = {
            name: [found["spearman"][name].value for found in quality.files.values()]
            for name in mean
        }
        panels.append(("Judgements: Spearman, mean of files", mean, single))
    rows = max(len(mean) for _, mean, _ in panels)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for where, (title, mean, single) in zip(axes, panels, strict=True):
            _draw_bars(where, title, mean, single)

    label = "Correlation of each metric with people, in percent."
    return render_svg(label, (5.0 * len(panels), 1.2 + 0.34 * rows), draw)


def _draw_bars(
    axes: Axes, title: str, mean: Mapping[str, Estimate], single: Mapping[str, Sequence[float]]
) -> None:
    from simile_plugin.statistics import COLORS, INK

    for row, (name, found) in enumerate(mean.items()):
        # What an encoder says in one colour, what words and characters say in another.
        color = COLORS[0 if name.startswith("SIM") else 5]
        axes.barh(row, found.value, height=0.6, color=color)
        axes.plot([found.low, found.high], [row, row], color=INK, linewidth=1.6)
        if len(single[name]) > 1:
            axes.plot(single[name], [row] * len(single[name]), "o", color=INK, mfc="none", ms=4)
    axes.set_yticks(range(len(mean)), list(mean))
    axes.invert_yaxis()
    axes.set_title(title, fontsize=11)
    axes.grid(axis="x")

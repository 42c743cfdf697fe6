"""Answer `simile eval-encoder`: correlation of metrics with people (Tables 65 and 66)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.report.answer import UNSPACED, Answer, Data, Part, Table, make_table
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    KINDS,
    SEED,
    Estimate,
    without_nan,
)

if TYPE_CHECKING:
    from simile_plugin.evaluation import (
        Judgements,
        Metrics,
        Quality,
        StsFolder,
        StsQuality,
        StsSet,
    )


def answer_quality(
    metrics: Metrics,
    folders: Mapping[str, Sequence[StsSet]],
    judged: Sequence[Judgements],
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
) -> Answer:
    """Correlate encoders and surface metrics with people on STS folders and judgement files.

    METEOR is added where it is installed; a note says what is missing where it is not.
    """
    from simile_plugin import evaluation
    from simile_plugin.reward import is_unspaced

    missing = evaluation.missing_meteor() if folders or judged else ""
    sts = quality = None
    with evaluation.Meteor() if (folders or judged) and not missing else nullcontext() as meteor:
        metrics = replace(metrics, meteor=meteor)
        if folders:
            sts = evaluation.evaluate_sts_metrics(metrics, folders, resamples, seed)
        if judged:
            quality = evaluation.evaluate_judgements(metrics, judged, resamples, seed)
    refs = [[text for part in sets for text in part.right] for sets in folders.values()]
    refs += [part.refs for part in judged]
    signatures = _signatures(metrics, with_meteor=not missing)
    notes = [missing] if missing else []
    data: Data = {
        "encoders": {name: encoder.fingerprint for name, encoder in metrics.encoders.items()}
    }
    if len(metrics.encoders) == 1:
        data["encoder"] = next(iter(data["encoders"].values()))
    if sts is not None:
        data["sts"] = [_folder_data(part) for part in sts.folders]
        data["sts_mean"] = {name: asdict(column) for name, column in sts.mean.items()}
        data["sts_difference"] = {name: asdict(column) for name, column in sts.difference.items()}
    if quality is not None:
        facts = {"resamples": resamples, "seed": seed, "alpha": metrics.alpha}
        data["judgements"] = {**facts, **asdict(quality)}
    data |= {"resamples": resamples, "seed": seed, "signatures": signatures, "notes": notes}
    parts, told = quality_parts(sts, quality)
    drawn = f"percent, with 95% intervals of {resamples} bootstrap resamples, seed {seed}"
    return Answer(
        "quality",
        "How good are the metrics?",
        "Correlation of the reward and of other metrics with what people say about sentence pairs "
        "and about translations.",
        "Metric quality: correlation with people",
        parts,
        without_nan(data),  # of undefined correlations
        notes=[drawn, *told, *notes],
        warnings=[UNSPACED] if any(is_unspaced(lines, metrics.tokenize) for lines in refs) else [],
        signatures=signatures,
    )


def _signatures(metrics: Metrics, with_meteor: bool) -> dict[str, str]:
    from simile_plugin.evaluation import METEOR_SIGNATURE
    from simile_plugin.reward import bleu_signature, chrf_signature, signature

    signatures = {
        "BLEU": bleu_signature(metrics.tokenize, sentence=True),
        "chrF": f"sentence; {chrf_signature()}",
    }
    if with_meteor:
        signatures["METEOR"] = METEOR_SIGNATURE
    for name, encoder in metrics.encoders.items():
        of = f" of {name}" if len(metrics.encoders) > 1 else ""
        signatures[f"SIM{of}, SIMILE{of}"] = signature(encoder, metrics.alpha)
    if metrics.learned is not None:
        signatures["LEARNED"] = metrics.learned.signature
    return signatures


def _folder_data(part: StsFolder) -> Data:
    """Return SIM of a single encoder at the top, and every metric below."""
    metrics = {
        name: {**asdict(scores), "interval": asdict(part.estimates[name])}
        for name, scores in part.scores.items()
    }
    for scores in metrics.values():
        del scores["folder"], scores["pairs"]
    single = asdict(part.scores["SIM"]) if "SIM" in part.scores else {}
    return {"folder": part.folder, "pairs": part.pairs, **single, "metrics": metrics}


# --- the answer ---


def quality_parts(sts: StsQuality | None, quality: Quality | None) -> tuple[list[Part], list[str]]:
    """Return the tables, and notes."""
    parts: list[Part] = []
    notes = []
    if sts:
        parts += [_folder_table(part) for part in sts.folders]
        parts += [_sts_table(sts), _difference_table({"pearson": sts.difference})]
        notes += [
            f"{part.folder}, {metric}: undefined (equal scores): {', '.join(scores.constant)}"
            for part in sts.folders
            for metric, scores in part.scores.items()
            if scores.constant
        ]
        notes.append(
            "STS: the second sentence is the reference; sym. is the mean of both directions"
        )
    if quality:
        names = short_names(list(quality.segments))
        total = ", ".join(f"{names[path]} {n}" for path, n in quality.segments.items())
        notes.append(f"judgements: segments of {total}")
        parts += [_judgement_table(quality, kind) for kind in KINDS]
        parts.append(_difference_table(quality.difference))
    return parts, notes


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the last parts of paths, or whole paths where the last parts are not distinct."""
    names = {path: Path(path).name or path for path in paths}
    return names if len(set(names.values())) == len(names) else {path: path for path in names}


def _sts_table(sts: StsQuality) -> Table:
    """Tabulate a row a metric, a column a folder, and their mean (Table 65)."""
    names = short_names([part.folder for part in sts.folders])
    rows = [
        [metric, *(_cell(part.estimates[metric]) for part in sts.folders), _cell(mean)]
        for metric, mean in sts.mean.items()
    ]
    header = ["Pearson", *names.values(), "mean of folders"]
    return make_table(header, rows, caption="STS: mean of the sets of each folder")


def _judgement_table(quality: Quality, kind: str) -> Table:
    """Tabulate a row a metric, a column a file (language pair), and their mean (Table 66)."""
    names = short_names(list(quality.files))
    rows = [
        [metric, *(_cell(column[kind][metric]) for column in quality.files.values()), _cell(mean)]
        for metric, mean in quality.mean[kind].items()
    ]
    header = [kind.capitalize(), *names.values(), "mean of files"]
    caption = "Judgements of translations" if kind == KINDS[0] else ""
    return make_table(header, rows, caption=caption)


def _folder_table(part: StsFolder) -> Table:
    """Tabulate a row a set, then the mean of the sets and all pairs at once, as Spearman too."""
    metrics = part.scores.values()
    numbers = {name: [s.pearson[name] for s in metrics] for name in next(iter(metrics)).pearson}
    numbers |= {
        "mean of sets": [scores.mean_pearson for scores in metrics],
        f"all {part.pairs} pairs": [scores.all_pearson for scores in metrics],
        "Spearman, mean of sets": [scores.mean_spearman for scores in metrics],
        f"Spearman, all {part.pairs}": [scores.all_spearman for scores in metrics],
    }
    rows = [[name, *(f"{value:.1f}" for value in row)] for name, row in numbers.items()]
    return make_table(["Pearson", *part.scores], rows, caption=part.folder)


def _difference_table(differences: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Tabulate differences of the means, a row a pair of metrics, by kind of correlation."""
    first = next(iter(differences.values()))
    rows = [[pair, *(_cell(column[pair]) for column in differences.values())] for pair in first]
    return make_table(["difference of the means", *map(str.capitalize, differences)], rows)


def _cell(correlation: Estimate) -> str:
    return f"{correlation.value:.1f} [{correlation.low:.1f} {correlation.high:.1f}]"

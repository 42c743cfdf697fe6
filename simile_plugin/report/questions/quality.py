"""How good are the metrics, the reward among them? Correlation with people (Tables 65 and 66)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.files import refuse_twice
from simile_plugin.report.answer import UNSPACED, Answer, Data, Figure, Part, Table, make_table
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    KINDS,
    SEED,
    Bar,
    Estimate,
    interval_chart,
    without_nan,
)

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.evaluation import (
        Judgements,
        Quality,
        StsFolder,
        StsQuality,
        StsSet,
    )
    from simile_plugin.report.inputs import Inputs
    from simile_plugin.reward import LearnedReward

NEEDS = (("encoder", "sts"), ("encoder", "judgements"))
ASKED_BY = ("sts", "judgements")
PICTURED = True

OURS = ("SIM", "LEARNED")  # what needs an encoder: SIM, SIMILE, also of one of several


def ask(inputs: Inputs) -> Answer:
    """Correlate the encoder and other metrics with people on --sts and --judgements."""
    from simile_plugin.evaluation import read_judgements, read_sts

    options = inputs.options
    refuse_twice(options.sts, "--sts")
    refuse_twice(options.judgements, "--judgements")
    folders = {folder: read_sts(folder) for folder in options.sts}
    judged = [read_judgements(path, options.judgement_columns) for path in options.judgements]
    settings = inputs.settings
    assert settings.encoder is not None and options.encoder is not None
    (name,) = short_names([options.encoder]).values()
    return answer_quality(
        {name: settings.encoder},
        folders,
        judged,
        settings.alpha,
        options.resamples,
        options.seed,
        tokenize=options.tokenize,
    )


def answer_quality(
    encoders: Mapping[str, RewardEncoder],
    folders: Mapping[str, Sequence[StsSet]],
    judged: Sequence[Judgements],
    alpha: float = 0.25,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    learned: LearnedReward | None = None,
    tokenize: str = "13a",
) -> Answer:
    """Correlate encoders and surface metrics with people on STS folders and judgement files.

    METEOR is among them where it is installed; a note says what is missing where it is not.
    The tables of single sets are details (see `render_text`).
    """
    from simile_plugin import evaluation
    from simile_plugin.reward import is_unspaced

    missing = evaluation.missing_meteor() if folders or judged else ""
    sts = quality = None
    with evaluation.Meteor() if (folders or judged) and not missing else nullcontext() as meteor:
        settings = (alpha, resamples, seed, meteor)
        if folders:
            sts = evaluation.evaluate_sts_metrics(encoders, folders, *settings, tokenize)
        if judged:
            quality = evaluation.evaluate_judgements(encoders, judged, *settings, learned, tokenize)
    refs = [[text for part in sets for text in part.right] for sets in folders.values()]
    refs += [part.refs for part in judged]
    signatures = _signatures(encoders, alpha, learned, tokenize, with_meteor=not missing)
    notes = [missing] if missing else []
    data: Data = {"encoders": {name: encoder.fingerprint for name, encoder in encoders.items()}}
    if len(encoders) == 1:
        data["encoder"] = next(iter(data["encoders"].values()))
    if sts is not None:
        data["sts"] = [_folder_data(part) for part in sts.folders]
        data["sts_mean"] = {name: asdict(own) for name, own in sts.mean.items()}
        data["sts_difference"] = {name: asdict(own) for name, own in sts.difference.items()}
    if quality is not None:
        facts = {"resamples": resamples, "seed": seed, "alpha": alpha}
        data["judgements"] = {**facts, **asdict(quality)}
    data |= {"resamples": resamples, "seed": seed, "signatures": signatures, "notes": notes}
    parts, told, sentences = quality_parts(sts, quality)
    drawn = f"percent, with 95% intervals of {resamples} bootstrap resamples, seed {seed}"
    return Answer(
        "quality",
        "How good are the metrics?",
        "Correlation of the reward and of other metrics with what people say about sentence pairs "
        "and about translations.",
        "Metric quality: correlation with people",
        parts,
        without_nan(data),  # of undefined correlations
        sentences=sentences,
        notes=[drawn, *told, *notes],
        warnings=[UNSPACED] if any(is_unspaced(own, tokenize) for own in refs) else [],
        signatures=signatures,
    )


def _signatures(
    encoders: Mapping[str, RewardEncoder],
    alpha: float,
    learned: LearnedReward | None,
    tokenize: str,
    with_meteor: bool,
) -> dict[str, str]:
    from simile_plugin.evaluation import METEOR_SIGNATURE
    from simile_plugin.reward import bleu_signature, chrf_signature, signature

    signatures = {
        "BLEU": bleu_signature(tokenize, sentence=True),
        "chrF": f"sentence; {chrf_signature()}",
    }
    if with_meteor:
        signatures["METEOR"] = METEOR_SIGNATURE
    for name, encoder in encoders.items():
        of = f" of {name}" if len(encoders) > 1 else ""
        signatures[f"SIM{of}, SIMILE{of}"] = signature(encoder, alpha)
    if learned is not None:
        signatures["LEARNED"] = learned.signature
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


def quality_parts(
    sts: StsQuality | None, quality: Quality | None
) -> tuple[list[Part], list[str], list[str]]:
    """Return the tables behind their picture, notes, and the answer in sentences."""
    parts: list[Part] = []
    notes, sentences, panels = [], list[str](), {}
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
        told = "On sentence pairs (STS, Pearson)"
        sentences += beside_best(told, sts.mean, sts.difference)
        single = [part.estimates for part in sts.folders]
        panels["STS: Pearson, mean of folders"] = _bars(sts.mean, single)
    if quality:
        names = short_names(list(quality.segments))
        total = ", ".join(f"{names[path]} {n}" for path, n in quality.segments.items())
        notes.append(f"judgements: segments of {total}")
        parts += [_judgement_table(quality, kind, kind != KINDS[0]) for kind in KINDS]
        parts.append(_difference_table(quality.difference))
        told = "On judged translations (Spearman)"
        mean, difference = quality.mean["spearman"], quality.difference["spearman"]
        sentences += beside_best(told, mean, difference)
        single = [own["spearman"] for own in quality.files.values()]
        panels["Judgements: Spearman, mean of files"] = _bars(mean, single)
    if panels:
        chart = interval_chart("Correlation of each metric with people, in percent", panels)
        small = "small circles are single years or language pairs"
        parts.insert(0, Figure(chart, f"Means with their 95% intervals; {small}."))
    return parts, notes, sentences


def _bars(mean: Mapping[str, Estimate], single: Sequence[Mapping[str, Estimate]]) -> list[Bar]:
    return [
        Bar(name, e.value, e.low, e.high, [own[name].value for own in single])
        for name, e in mean.items()
    ]


def beside_best(
    told: str, mean: Mapping[str, Estimate], difference: Mapping[str, Estimate]
) -> list[str]:
    """Hold the learned reward, or else SIMILE, against the best metric without an encoder."""
    values = {name: one.value for name, one in mean.items() if one.value == one.value}
    others = {name: value for name, value in values.items() if not name.startswith(OURS)}
    ours = "LEARNED" if "LEARNED" in values else "SIMILE"
    if not others or ours not in values:
        return []
    best = max(others, key=others.__getitem__)
    gap = difference[f"{ours} - {best}"]
    clear = "" if gap.low > 0 or gap.high < 0 else ", which may be chance"
    return [
        f"{told} {ours} correlates with people at {values[ours]:.1f} percent and {best}, the "
        f"best metric without an encoder, at {others[best]:.1f}: a difference of {gap.value:+.1f} "
        f"[{gap.low:+.1f}, {gap.high:+.1f}]{clear}."
    ]


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


def _judgement_table(quality: Quality, kind: str, other: bool) -> Table:
    """Tabulate a row a metric, a column a file (language pair), and their mean (Table 66)."""
    names = short_names(list(quality.files))
    rows = [
        [metric, *(_cell(own[kind][metric]) for own in quality.files.values()), _cell(mean)]
        for metric, mean in quality.mean[kind].items()
    ]
    header = [kind.capitalize(), *names.values(), "mean of files"]
    if other:
        return make_table(header, rows, folded="Judgements by other correlations")
    return make_table(header, rows, caption="Judgements of translations")


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
    header = ["Pearson", *part.scores]
    folded = "Every set of every folder"
    return make_table(header, rows, caption=part.folder, folded=folded, detail=True)


def _difference_table(differences: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Tabulate differences of the means, a row a pair of metrics, by kind of correlation."""
    first = next(iter(differences.values()))
    rows = [[pair, *(_cell(own[pair]) for own in differences.values())] for pair in first]
    return make_table(["difference of the means", *map(str.capitalize, differences)], rows)


def _cell(correlation: Estimate) -> str:
    return f"{correlation.value:.1f} [{correlation.low:.1f} {correlation.high:.1f}]"

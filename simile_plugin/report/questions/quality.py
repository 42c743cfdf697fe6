"""How good are the metrics, the reward among them? Correlation with people (Tables 65 and 66)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simile_plugin.files import refuse_twice
from simile_plugin.report.answer import UNSPACED, Answer, Figure, Part, Table, make_table
from simile_plugin.report.render.text import render_text
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    KINDS,
    SEED,
    Bar,
    Chart,
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


@dataclass(frozen=True)
class QualityResult:
    """Correlations with human similarity and with human judgements of translations, in percent.

    Attributes:
        encoders: name -> fingerprint.
        signatures: by metric, how its sentence scores are made.
        unspaced: whether BLEU's tokeniser takes whole sentences of a folder or file for words.
    """

    encoders: dict[str, str]
    sts: StsQuality | None
    judgements: Quality | None
    alpha: float
    resamples: int
    seed: int
    signatures: dict[str, str]
    notes: tuple[str, ...]
    unspaced: bool = False

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
        plain: dict[str, Any] = without_nan(found)
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


def analyse_quality(
    encoders: Mapping[str, RewardEncoder],
    folders: Mapping[str, Sequence[StsSet]],
    judged: Sequence[Judgements],
    alpha: float = 0.25,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    learned: LearnedReward | None = None,
    tokenize: str = "13a",
) -> QualityResult:
    """Correlate encoders and surface metrics with people on STS folders and judgement files.

    METEOR is among them where it is installed; a note says what is missing where it is not.
    """
    from simile_plugin import evaluation
    from simile_plugin.reward import bleu_signature, chrf_signature, is_unspaced, signature

    missing = evaluation.missing_meteor() if folders or judged else ""
    refs = [[text for part in sets for text in part.right] for sets in folders.values()]
    refs += [part.refs for part in judged]
    signatures = {
        "BLEU": bleu_signature(tokenize, sentence=True),
        "chrF": f"sentence; {chrf_signature()}",
    }
    if not missing:
        signatures["METEOR"] = evaluation.METEOR_SIGNATURE
    for name, encoder in encoders.items():
        of = f" of {name}" if len(encoders) > 1 else ""
        signatures[f"SIM{of}, SIMILE{of}"] = signature(encoder, alpha)
    if learned is not None:
        signatures["LEARNED"] = learned.signature
    wanted = (folders or judged) and not missing
    with evaluation.Meteor() if wanted else nullcontext() as meteor:
        settings = (alpha, resamples, seed, meteor)
        sts = quality = None
        if folders:
            sts = evaluation.evaluate_sts_metrics(encoders, folders, *settings, tokenize)
        if judged:
            more = learned, tokenize
            quality = evaluation.evaluate_judgements(encoders, judged, *settings, *more)
    fingerprints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    notes = (missing,) if missing else ()
    return QualityResult(
        fingerprints,
        sts,
        quality,
        alpha,
        resamples,
        seed,
        signatures,
        notes,
        any(is_unspaced(own, tokenize) for own in refs),
    )


# --- the answer ---


def ask(inputs: Inputs) -> Answer:
    """The encoder and other metrics on --sts and --judgements."""
    from simile_plugin.evaluation import read_judgements, read_sts

    args, test = inputs.args, inputs.test
    refuse_twice(args.sts, "--sts")
    refuse_twice(args.judgements, "--judgements")
    folders = {folder: read_sts(folder) for folder in args.sts}
    judged = [read_judgements(path, args.judgement_columns) for path in args.judgements]
    settings = inputs.settings
    assert settings.encoder is not None
    (name,) = short_names([args.encoder]).values()
    encoders = {name: settings.encoder}
    return answer_quality(
        analyse_quality(
            encoders,
            folders,
            judged,
            settings.alpha,
            test.resamples,
            test.seed,
            tokenize=args.tokenize,
        )
    )


def format_quality(result: QualityResult) -> str:
    """Tables for a terminal, with each set of each STS folder."""
    return render_text(answer_quality(result), details=True)


def answer_quality(result: QualityResult) -> Answer:
    """Tables 65 and 66: which metric agrees with people."""
    caption = "Means with their 95% intervals; small circles are single years or language pairs."
    parts: list[Part] = [Figure(quality_chart(result), caption)]
    notes = [
        f"percent, with 95% intervals of {result.resamples} bootstrap resamples, seed {result.seed}"
    ]
    sentences = []
    if sts := result.sts:
        parts += [_folder_table(part) for part in sts.folders]
        parts += [_sts_table(sts), _difference_table({"pearson": sts.difference})]
        notes += [line for part in sts.folders for line in _constant(part)]
        notes.append(
            "STS: the second sentence is the reference; sym. is the mean of both directions"
        )
        told = "On sentence pairs (STS, Pearson)"
        sentences += _beside_best(told, sts.mean, sts.difference)
    if judged := result.judgements:
        names = short_names(list(judged.segments))
        total = ", ".join(f"{names[path]} {n}" for path, n in judged.segments.items())
        notes.append(f"judgements: segments of {total}")
        parts += [_judgement_table(judged, kind, kind != KINDS[0]) for kind in KINDS]
        parts.append(_difference_table(judged.difference))
        told = "On judged translations (Spearman)"
        mean, difference = judged.mean["spearman"], judged.difference["spearman"]
        sentences += _beside_best(told, mean, difference)
    return Answer(
        "quality",
        "How good are the metrics?",
        "Correlation of the reward and of other metrics with what people say about sentence pairs "
        "and about translations.",
        "Metric quality: correlation with people",
        parts,
        result.as_json(),
        sentences=sentences,
        notes=[*notes, *result.notes],
        warnings=[UNSPACED] if result.unspaced else [],
        signatures=result.signatures,
    )


def _beside_best(
    told: str, mean: Mapping[str, Estimate], difference: Mapping[str, Estimate]
) -> list[str]:
    """The learned reward, or else SIMILE, beside the best of the metrics that need no encoder."""
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
    """Last parts of paths, or whole paths where the last parts are not distinct."""
    names = {path: Path(path).name or path for path in paths}
    return names if len(set(names.values())) == len(names) else {path: path for path in names}


def _sts_table(sts: StsQuality) -> Table:
    """Table 65: a row a metric, a column a folder, and their mean."""
    names = short_names([part.folder for part in sts.folders])
    rows = [
        [metric, *(_cell(part.estimates[metric]) for part in sts.folders), _cell(mean)]
        for metric, mean in sts.mean.items()
    ]
    header = ["Pearson", *names.values(), "mean of folders"]
    return make_table(header, rows, caption="STS: mean of the sets of each folder")


def _judgement_table(quality: Quality, kind: str, other: bool) -> Table:
    """Table 66: a row a metric, a column a file (language pair), and their mean."""
    names = short_names(list(quality.files))
    rows = [
        [metric, *(_cell(found[kind][metric]) for found in quality.files.values()), _cell(mean)]
        for metric, mean in quality.mean[kind].items()
    ]
    header = [kind.capitalize(), *names.values(), "mean of files"]
    if other:
        return make_table(header, rows, folded="Judgements by other correlations")
    return make_table(header, rows, caption="Judgements of translations")


def _folder_table(part: StsFolder) -> Table:
    """One folder, a row a set, then the mean of the sets and all pairs at once, as Spearman too."""
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
    """Kind of correlation -> differences of the means, a row a pair of metrics."""
    first = next(iter(differences.values()))
    rows = [[pair, *(_cell(found[pair]) for found in differences.values())] for pair in first]
    return make_table(["difference of the means", *map(str.capitalize, differences)], rows)


def _cell(found: Estimate) -> str:
    return f"{found.value:.1f} [{found.low:.1f} {found.high:.1f}]"


def _constant(part: StsFolder) -> list[str]:
    """Where a metric gives every pair of a set the same score."""
    return [
        f"{part.folder}, {metric}: undefined (equal scores): {', '.join(scores.constant)}"
        for metric, scores in part.scores.items()
        if scores.constant
    ]


def quality_chart(result: QualityResult) -> Chart:
    """The means with their 95% intervals; small circles are folders or files."""
    panels = {}
    if sts := result.sts:
        single = {name: [part.estimates[name].value for part in sts.folders] for name in sts.mean}
        panels["STS: Pearson, mean of folders"] = _bars(sts.mean, single)
    if quality := result.judgements:
        mean = quality.mean["spearman"]
        single = {
            name: [found["spearman"][name].value for found in quality.files.values()]
            for name in mean
        }
        panels["Judgements: Spearman, mean of files"] = _bars(mean, single)
    return interval_chart("Correlation of each metric with people, in percent", panels)


def _bars(mean: Mapping[str, Estimate], single: Mapping[str, Sequence[float]]) -> list[Bar]:
    return [Bar(name, e.value, e.low, e.high, single[name]) for name, e in mean.items()]

"""The fit of the learned reward, judged on segments that it was not fitted on.

`reward_weights.py` fits the weights, `fit_facts.py` checks the input and describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simile_plugin.encoder import RewardEncoder
from simile_plugin.evaluation.fit_facts import Text, check_fit, data_facts, shared_names
from simile_plugin.evaluation.harm import Material
from simile_plugin.evaluation.judgements import Judgements, Quality, correlate, metric_scores
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.evaluation.reward_weights import (
    FOLDS,
    HarmSeen,
    feature_spread,
    fit_weights,
    leave_out,
    make_part,
)
from simile_plugin.evaluation.sentence_metrics import Metrics
from simile_plugin.reward import (
    FEATURES,
    LearnedReward,
    WordTable,
    chrf_statistics,
    corpus_chrf,
    make_lexicon,
)
from simile_plugin.significance import BOOTSTRAP_RESAMPLES, SEED, Floats, without_nan

LEARNED, CHRFPP = "LEARNED", "chrF++"
SOURCE = "source"  # the feature of the source side, by how much the reference is nearer to it


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit's draws and resamples.

    Attributes:
        seed: of the harm, the folds and the resamples.
        tokenize: sacreBLEU tokeniser of the BLEU that the reward stands beside.
    """

    resamples: int = BOOTSTRAP_RESAMPLES
    seed: int = SEED
    tokenize: str = "13a"


@dataclass(frozen=True)
class Fit:
    """A learned reward, and its agreement with people on segments that it was not fitted on.

    Attributes:
        reward: fitted on everything.
        quality: of the rewards fitted without the segments that they are judged on, under
            LEARNED, beside the other metrics.
        folds: what was left out.
        harm: by kind.
        importance: by feature, its weight for one standard deviation of it.
        overlap: judged references that are a line of the texts too.
    """

    reward: LearnedReward
    quality: Quality
    folds: str
    harm: dict[str, HarmSeen]
    importance: dict[str, float]
    overlap: int

    def figures(self) -> dict[str, Any]:
        """Return plain dicts, lists and numbers; correlations that are not defined are None."""
        figures = {"folds": self.folds, **asdict(self.quality), "importance": self.importance}
        figures |= {"harm": {kind: asdict(seen) for kind, seen in self.harm.items()}}
        plain: dict[str, Any] = without_nan(figures)
        return plain


def fit_reward(
    files: Sequence[Judgements],
    texts: Sequence[Text],
    encoder: RewardEncoder,
    settings: FitSettings | None = None,
    meteor: Meteor | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> Fit:
    """Fit a learned reward, and judge it on segments that it was not fitted on.

    Args:
        files: judged segments; with several files each is left out once, one file is cut in FOLDS.
        texts: names and lines of plain text of the language: words and material for harm.
        progress: called with 1 after each of `steps(files)` steps.

    Raises:
        InputError: for files that a fit cannot be made of.
    """
    check_fit(files, texts)
    settings = settings or FitSettings()
    lexicon = make_lexicon([lines for _, lines in texts])
    table = WordTable(encoder, lexicon)
    material = Material([lines for _, lines in texts], lexicon)
    with_sources = encoder.source is not None and all(judged.srcs for judged in files)
    peers = []
    for judged in files:  # first: they raise an error where low human scores are good ones
        peers.append(_peers(judged, encoder, meteor, settings.tokenize))
        progress(1)
    parts = []
    for judged in files:
        parts.append(make_part(judged, table, material, settings.seed, with_sources))
        progress(1)
    held_out, harm = leave_out(parts, settings.seed)
    scores = [{LEARNED: ours} | other for ours, other in zip(held_out, peers, strict=True)]
    quality = correlate(scores, files, settings.resamples, settings.seed)
    weights = fit_weights(parts)
    names = (*FEATURES, SOURCE)[: len(weights)]
    by_name = dict(zip(names, weights.tolist(), strict=True))
    importance = dict(zip(names, (weights * feature_spread(parts)).tolist(), strict=True))
    reward = LearnedReward(by_name, lexicon, encoder.fingerprint)
    folds = "leave one file out" if len(files) > 1 else f"{FOLDS} folds of the one file"
    lines = {line for _, text in texts for line in text}
    overlap = sum(ref in lines for judged in files for ref in set(judged.refs))
    fit = Fit(reward, quality, folds, harm, importance, overlap)
    reward.facts = _facts(fit, files, texts, settings)
    return fit


def steps(files: Sequence[Judgements]) -> int:
    """Count the calls of progress by `fit_reward`."""
    return 2 * len(files)


def _peers(
    judged: Judgements, encoder: RewardEncoder, meteor: Meteor | None, tokenize: str
) -> dict[str, Floats]:
    """Return sentence scores of the metrics that a learned reward stands beside."""
    metrics = Metrics({"": encoder}, tokenize=tokenize, meteor=meteor)
    scores = metric_scores(metrics, judged)
    return scores | {CHRFPP: corpus_chrf(chrf_statistics([judged.hyps], judged.refs, 2)[0])}


def _facts(
    fit: Fit, files: Sequence[Judgements], texts: Sequence[Text], settings: FitSettings
) -> dict[str, Any]:
    """Return what the reward's folder says of the fit."""
    figures, names = fit.figures(), shared_names(files)
    for part in ("files", "segments"):
        figures[part] = {names[path]: values for path, values in figures[part].items()}
    return {
        **data_facts(files, texts),
        "judged_references_in_text": fit.overlap,
        "seed": settings.seed,
        "resamples": settings.resamples,
        "figures": figures,
    }

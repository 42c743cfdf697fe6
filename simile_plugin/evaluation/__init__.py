"""Quality of encoders and rewards: STS, judged translations, and ways to game a reward."""

from simile_plugin.evaluation.fit_facts import check_fit, shared_segments
from simile_plugin.evaluation.judgements import (
    Judgements,
    Quality,
    evaluate_judgements,
    read_judgements,
)
from simile_plugin.evaluation.meteor import METEOR_SIGNATURE, Meteor, missing_meteor
from simile_plugin.evaluation.neural_metrics import load_comet, load_neural_metric, sentence_scores
from simile_plugin.evaluation.probe import (
    Change,
    Probed,
    Texts,
    meteor_lists,
    probe_reward,
    probe_steps,
    reward_scores,
)
from simile_plugin.evaluation.reward_fit import Fit, FitSettings, fit_reward, steps
from simile_plugin.evaluation.sentence_metrics import Metrics
from simile_plugin.evaluation.sts import (
    StsSet,
    evaluate_sts,
    read_sts,
    similarities,
)
from simile_plugin.evaluation.sts_quality import (
    StsFolder,
    StsQuality,
    check_sts,
    evaluate_sts_metrics,
)
from simile_plugin.evaluation.text_search import Scores

__all__ = [
    "METEOR_SIGNATURE",
    "Change",
    "Fit",
    "FitSettings",
    "Judgements",
    "Meteor",
    "Metrics",
    "Probed",
    "Quality",
    "Scores",
    "StsFolder",
    "StsQuality",
    "StsSet",
    "Texts",
    "check_fit",
    "check_sts",
    "evaluate_judgements",
    "evaluate_sts",
    "evaluate_sts_metrics",
    "fit_reward",
    "load_comet",
    "load_neural_metric",
    "meteor_lists",
    "missing_meteor",
    "probe_reward",
    "probe_steps",
    "read_judgements",
    "read_sts",
    "reward_scores",
    "sentence_scores",
    "shared_segments",
    "similarities",
    "steps",
]

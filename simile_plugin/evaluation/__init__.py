"""How good is an encoder or a reward: STS, judged translations, detection, bitext mining."""

from simile_plugin.evaluation.bitext import (
    Corpus,
    Embed,
    Neighbours,
    embed_all,
    evaluate_mining,
    nearest,
    propose,
    read_corpus,
    read_gold,
    retrieval_accuracy,
    tune_threshold,
)
from simile_plugin.evaluation.detection import (
    DetectionSet,
    PerceptronConfig,
    evaluate_detection,
    group_folds,
    read_detection,
    shared_sentence_groups,
)
from simile_plugin.evaluation.hard_sts import evaluate_hard, format_hard
from simile_plugin.evaluation.harm import HARMS, Harm, HarmedSentence, Material, harmed_sentences
from simile_plugin.evaluation.judgements import (
    Judgements,
    Quality,
    evaluate_judgements,
    read_judgements,
)
from simile_plugin.evaluation.meteor import (
    METEOR_SIGNATURE,
    Meteor,
    meteor_scores,
    missing_meteor,
)
from simile_plugin.evaluation.probe import (
    Change,
    Probed,
    Scores,
    Texts,
    meteor_lists,
    probe_reward,
    probe_steps,
    reward_scores,
)
from simile_plugin.evaluation.reward_fit import Fit, check_fit, fit_reward, format_fit, steps
from simile_plugin.evaluation.sentence_metrics import SYMMETRIC
from simile_plugin.evaluation.speed import SPEED_SENTENCES, EncodingSpeed, measure_speed
from simile_plugin.evaluation.sts import StsScores, StsSet, evaluate_sts, read_sts, similarities
from simile_plugin.evaluation.sts_quality import StsFolder, StsQuality, evaluate_sts_metrics
from simile_plugin.statistics import KINDS, Estimate

__all__ = [
    "HARMS",
    "KINDS",
    "METEOR_SIGNATURE",
    "SPEED_SENTENCES",
    "SYMMETRIC",
    "Change",
    "Corpus",
    "DetectionSet",
    "Embed",
    "EncodingSpeed",
    "Estimate",
    "Fit",
    "Harm",
    "HarmedSentence",
    "Judgements",
    "Material",
    "Meteor",
    "Neighbours",
    "PerceptronConfig",
    "Probed",
    "Quality",
    "Scores",
    "StsFolder",
    "StsQuality",
    "StsScores",
    "StsSet",
    "Texts",
    "check_fit",
    "embed_all",
    "evaluate_detection",
    "evaluate_hard",
    "evaluate_judgements",
    "evaluate_mining",
    "evaluate_sts",
    "evaluate_sts_metrics",
    "fit_reward",
    "format_fit",
    "format_hard",
    "group_folds",
    "harmed_sentences",
    "measure_speed",
    "meteor_lists",
    "meteor_scores",
    "missing_meteor",
    "nearest",
    "probe_reward",
    "probe_steps",
    "propose",
    "read_corpus",
    "read_detection",
    "read_gold",
    "read_judgements",
    "read_sts",
    "retrieval_accuracy",
    "reward_scores",
    "shared_sentence_groups",
    "similarities",
    "steps",
    "tune_threshold",
]

"""Minimum risk training as pure tensors: Q, expected cost, guards, log-probabilities, prefix trees,
and what any trainer does around them: lists laid out, gradients in portions, sums, a watch.

Knows torch and numpy only, nothing of fairseq: any trainer of an encoder-decoder can use it.
"""

from simile_plugin.risk.distribution import (
    beyond_bleu_distribution,
    candidate_distribution,
    candidate_scores,
    entropy,
    expected_cost,
    masked_std,
)
from simile_plugin.risk.gradient_portions import Portion, Portions
from simile_plugin.risk.length_control import (
    LENGTH_SUMS,
    LengthControl,
    length_slope,
    relative_length,
)
from simile_plugin.risk.log_probabilities import label_smoothed_nll, token_lprobs
from simile_plugin.risk.nonfinite import FiniteRows, cost_without_members, finite_rows, repeats
from simile_plugin.risk.objective import Objective
from simile_plugin.risk.prefix_trees import (
    TREE_MASK,
    TREE_SHARE,
    PrefixTree,
    attention_mask,
    prefix_tree,
    trees_of_rows,
)
from simile_plugin.risk.reward_gaming import GamingWatch
from simile_plugin.risk.risk_set import RiskSet, layout, plan_parts, teacher_forcing_input
from simile_plugin.risk.settings import REMOVED, RiskSettings, check_settings
from simile_plugin.risk.temporary_changes import evaluation_mode, replaced, unwrap, weights_as
from simile_plugin.risk.update_log import (
    PHASES,
    SENTENCE_MEANS,
    Scored,
    Stopwatch,
    on_host,
    sums_over_sentences,
)

__all__ = [
    "LENGTH_SUMS",
    "PHASES",
    "REMOVED",
    "SENTENCE_MEANS",
    "TREE_MASK",
    "TREE_SHARE",
    "FiniteRows",
    "GamingWatch",
    "LengthControl",
    "Objective",
    "Portion",
    "Portions",
    "PrefixTree",
    "RiskSet",
    "RiskSettings",
    "Scored",
    "Stopwatch",
    "attention_mask",
    "beyond_bleu_distribution",
    "candidate_distribution",
    "candidate_scores",
    "check_settings",
    "cost_without_members",
    "entropy",
    "evaluation_mode",
    "expected_cost",
    "finite_rows",
    "label_smoothed_nll",
    "layout",
    "length_slope",
    "masked_std",
    "on_host",
    "plan_parts",
    "prefix_tree",
    "relative_length",
    "repeats",
    "replaced",
    "sums_over_sentences",
    "teacher_forcing_input",
    "token_lprobs",
    "trees_of_rows",
    "unwrap",
    "weights_as",
]

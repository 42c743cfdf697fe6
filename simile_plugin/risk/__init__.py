"""Minimum risk training as pure tensors: Q, expected cost, guards, log-probabilities, prefix trees.

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
from simile_plugin.risk.guards import FiniteRows, cost_without_members, finite_rows, repeats
from simile_plugin.risk.length_control import (
    LengthControl,
    LengthSums,
    length_slope,
    relative_length,
)
from simile_plugin.risk.log_probabilities import label_smoothed_nll, token_lprobs
from simile_plugin.risk.prefix_trees import (
    PrefixTree,
    attention_mask,
    prefix_tree,
    trees_of_rows,
)

__all__ = [
    "FiniteRows",
    "LengthControl",
    "LengthSums",
    "PrefixTree",
    "attention_mask",
    "beyond_bleu_distribution",
    "candidate_distribution",
    "candidate_scores",
    "cost_without_members",
    "entropy",
    "expected_cost",
    "finite_rows",
    "label_smoothed_nll",
    "length_slope",
    "masked_std",
    "prefix_tree",
    "relative_length",
    "repeats",
    "token_lprobs",
    "trees_of_rows",
]

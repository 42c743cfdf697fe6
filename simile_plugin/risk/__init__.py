"""Minimum risk training, for any trainer of encoder-decoders: `risk_update` is one update of it.

Around that page: Q, expected cost and log-probabilities as pure tensors, prefix trees, gradients in
portions, the reward of lists, what is logged, and the watch that ends a run.
"""

from simile_plugin.risk.control_rewards import read_control
from simile_plugin.risk.gradient_portions import Portions
from simile_plugin.risk.known_pairs import KNOWN_BY_HEART, draw_sample, what_to_expect
from simile_plugin.risk.length_control import LENGTH_SUMS, LengthControl
from simile_plugin.risk.list_reward import ListReward, encoder_identity
from simile_plugin.risk.log_probabilities import token_lprobs
from simile_plugin.risk.logit_kernels import triton_works
from simile_plugin.risk.objective import Objective
from simile_plugin.risk.risk_set import RiskSet, layout, teacher_forcing_input
from simile_plugin.risk.run_watch import RunWatch
from simile_plugin.risk.settings import RiskSettings, check_settings
from simile_plugin.risk.temporary_changes import (
    attention_without_plans,
    evaluation_mode,
    replaced,
    unwrap,
)
from simile_plugin.risk.tree_scoring import Nodes, choose_tree, score_nodes
from simile_plugin.risk.update import Translator, Update, risk_update
from simile_plugin.risk.update_log import (
    CORPUS_METRICS,
    PHASES,
    SENTENCE_MEANS,
    Stopwatch,
    on_host,
    weighted_means,
)

__all__ = [
    "CORPUS_METRICS",
    "KNOWN_BY_HEART",
    "LENGTH_SUMS",
    "PHASES",
    "SENTENCE_MEANS",
    "LengthControl",
    "ListReward",
    "Nodes",
    "Objective",
    "Portions",
    "RiskSet",
    "RiskSettings",
    "RunWatch",
    "Stopwatch",
    "Translator",
    "Update",
    "attention_without_plans",
    "check_settings",
    "choose_tree",
    "draw_sample",
    "encoder_identity",
    "evaluation_mode",
    "layout",
    "on_host",
    "read_control",
    "replaced",
    "risk_update",
    "score_nodes",
    "teacher_forcing_input",
    "token_lprobs",
    "triton_works",
    "unwrap",
    "weighted_means",
    "what_to_expect",
]

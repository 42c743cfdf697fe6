"""The criterion simile_risk: candidates, their second scoring, rewards, one update of fairseq."""

from simile_plugin.fairseq_training.candidates import (
    CandidateOptions,
    RiskSet,
    build_risk_set,
    evaluation_mode,
    stack_lists,
)
from simile_plugin.fairseq_training.scoring import score_rows, teacher_forcing_input
from simile_plugin.fairseq_training.target_text import TargetText

__all__ = [
    "CandidateOptions",
    "RiskSet",
    "TargetText",
    "build_risk_set",
    "evaluation_mode",
    "score_rows",
    "stack_lists",
    "teacher_forcing_input",
]

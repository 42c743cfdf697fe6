"""The criterion simile_risk: candidates, their second scoring, rewards, one update of fairseq.

Importing `criterion` registers it with fairseq, `architectures` theirs; user_dir does both.
"""

from simile_plugin.fairseq_training.candidates import beam_search, build_risk_set
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.fairseq_training.target_text import TargetText

__all__ = [
    "SimileRiskConfig",
    "TargetText",
    "beam_search",
    "build_risk_set",
    "score_rows",
]

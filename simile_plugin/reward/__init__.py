"""Candidate and reference strings -> scores: BLEU, chrF, SIM, SIMILE, and what --reward names."""

from simile_plugin.reward.bleu import (
    bleu_signature,
    bleu_statistics,
    check_tokenizer,
    corpus_bleu,
    sentence_bleu,
)
from simile_plugin.reward.chrf import (
    CHAR_ORDER,
    chrf_signature,
    chrf_statistics,
    corpus_chrf,
    list_chrf_statistics,
)
from simile_plugin.reward.lists import (
    SENTENCES_AT_ONCE,
    ListScores,
    add_similarity,
    score_lists,
    score_outputs,
)
from simile_plugin.reward.simile import SIMILE_ALPHA, length_penalty, signature
from simile_plugin.reward.spec import Reward

__all__ = [
    "CHAR_ORDER",
    "SENTENCES_AT_ONCE",
    "SIMILE_ALPHA",
    "ListScores",
    "Reward",
    "add_similarity",
    "bleu_signature",
    "bleu_statistics",
    "check_tokenizer",
    "chrf_signature",
    "chrf_statistics",
    "corpus_bleu",
    "corpus_chrf",
    "length_penalty",
    "list_chrf_statistics",
    "score_lists",
    "score_outputs",
    "sentence_bleu",
    "signature",
]

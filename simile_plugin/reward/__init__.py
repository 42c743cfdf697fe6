"""Candidate and reference strings -> scores: BLEU, chrF, SIM, SIMILE, a learned reward.

And what --reward names.
"""

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
from simile_plugin.reward.faults import (
    FAULTS,
    Lexicon,
    WordTable,
    count_faults,
    make_lexicon,
    words_of,
)
from simile_plugin.reward.learned import (
    REWARD,
    LearnedReward,
    load_learned,
    reward_of_faults,
    save_learned,
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
    "FAULTS",
    "REWARD",
    "SENTENCES_AT_ONCE",
    "SIMILE_ALPHA",
    "LearnedReward",
    "Lexicon",
    "ListScores",
    "Reward",
    "WordTable",
    "add_similarity",
    "bleu_signature",
    "bleu_statistics",
    "check_tokenizer",
    "chrf_signature",
    "chrf_statistics",
    "corpus_bleu",
    "corpus_chrf",
    "count_faults",
    "length_penalty",
    "list_chrf_statistics",
    "load_learned",
    "make_lexicon",
    "reward_of_faults",
    "save_learned",
    "score_lists",
    "score_outputs",
    "sentence_bleu",
    "signature",
    "words_of",
]

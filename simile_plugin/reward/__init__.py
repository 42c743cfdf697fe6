"""Candidate and reference strings -> scores: BLEU, chrF, SIM, SIMILE, learned, and --reward.

Whole outputs, one string a sentence; scores are (sentences, outputs):

    >>> from simile_plugin.encoder import load_encoder
    >>> from simile_plugin.reward import Reward, as_reward_function, score_lists, score_outputs
    >>> encoder = load_encoder("encoder")  # None: BLEU alone
    >>> refs = ["two boys skip stones over the pond", "he paid for the tickets with coins"]
    >>> mle = ["two boys skip stones over the pond", "he paid with coins"]
    >>> simile = ["boys skip flat stones over the pond", "he paid for the tickets with coins"]
    >>> scores = score_outputs([mle, simile], refs, encoder)
    >>> scores.simile.shape
    torch.Size([2, 2])
    >>> scores.bleu.diagonal()  # an output that is its reference has BLEU 1, and SIMILE 1
    tensor([1., 1.])

A training reward, as --reward names it, of lists of candidates:

    >>> reward = Reward("simile:0.7,bleu:0.3")
    >>> lists = score_lists([["he paid with coins", "he paid for the tickets"]], refs[1:], encoder)
    >>> value = reward.from_scores(lists)  # (sentences, candidates), higher is better
    >>> bool((value == 0.7 * lists.simile + 0.3 * lists.bleu).all())
    True
    >>> cost = 1 - value

For TRL's GRPO trainers; the data set's column `reference` has the reference translations:

    >>> function = as_reward_function("bleu")
    >>> function(["er zahlte"], ["he paid"], reference=["he paid"])
    [1.0]
"""

from simile_plugin.reward.bleu import bleu_signature, check_tokenizer, corpus_bleu
from simile_plugin.reward.chrf import chrf_signature, chrf_statistics, corpus_chrf
from simile_plugin.reward.features import FEATURES, Lexicon, WordTable, make_lexicon
from simile_plugin.reward.functions import CompletionReward, as_reward_function
from simile_plugin.reward.language_warnings import language_warning
from simile_plugin.reward.learned import (
    REWARD,
    LearnedReward,
    learned_beside,
    load_learned,
    save_learned,
)
from simile_plugin.reward.lists import (
    UNKNOWN_HYP,
    UNKNOWN_REF,
    ListScores,
    score_lists,
    score_outputs,
)
from simile_plugin.reward.metric import SIMILE
from simile_plugin.reward.pairs import pair_scores
from simile_plugin.reward.simile import SIMILE_ALPHA, length_penalty, signature
from simile_plugin.reward.spec import Reward, load_reward_encoder
from simile_plugin.reward.text_warnings import (
    GIVE_A_TOKENISER,
    FirstLook,
    is_unspaced,
    tokenised_warning,
)
from simile_plugin.reward.words import repetition

__all__ = [
    "FEATURES",
    "GIVE_A_TOKENISER",
    "REWARD",
    "SIMILE",
    "SIMILE_ALPHA",
    "UNKNOWN_HYP",
    "UNKNOWN_REF",
    "CompletionReward",
    "FirstLook",
    "LearnedReward",
    "Lexicon",
    "ListScores",
    "Reward",
    "WordTable",
    "as_reward_function",
    "bleu_signature",
    "check_tokenizer",
    "chrf_signature",
    "chrf_statistics",
    "corpus_bleu",
    "corpus_chrf",
    "is_unspaced",
    "language_warning",
    "learned_beside",
    "length_penalty",
    "load_learned",
    "load_reward_encoder",
    "make_lexicon",
    "pair_scores",
    "repetition",
    "save_learned",
    "score_lists",
    "score_outputs",
    "signature",
    "tokenised_warning",
]

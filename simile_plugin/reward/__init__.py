"""Candidate and reference strings -> scores: BLEU, chrF, SIM, SIMILE, learned, and --reward.

Whole outputs, one string a sentence; scores are (sentences, outputs):

    >>> from simile_plugin.encoder import load_encoder
    >>> from simile_plugin.reward import CompletionReward, Reward, Scorer
    >>> scorer = Scorer(encoder=load_encoder("encoder"))  # without an encoder: BLEU alone
    >>> refs = ["two boys skip stones over the pond", "he paid for the tickets with coins"]
    >>> mle = ["two boys skip stones over the pond", "he paid with coins"]
    >>> simile = ["boys skip flat stones over the pond", "he paid for the tickets with coins"]
    >>> scores = scorer.outputs([mle, simile], refs)
    >>> scores.simile.shape
    torch.Size([2, 2])
    >>> scores.bleu.diagonal()  # an output that is its reference has BLEU 1, and SIMILE 1
    tensor([1., 1.])

A training reward, as --reward names it, of lists of candidates:

    >>> scorer = Scorer(Reward("simile:0.7,bleu:0.3"), load_encoder("encoder"))
    >>> hyps = [["he paid with coins", "he paid for the tickets"]]
    >>> value = scorer.values(hyps, refs[1:], srcs=[])  # (sentences, candidates), higher is better
    >>> scores = scorer.lists(hyps, refs[1:])
    >>> bool((value == 0.7 * scores.simile + 0.3 * scores.bleu).all())
    True
    >>> cost = 1 - value

For TRL's GRPO trainers; the data set's column `reference` has the reference translations:

    >>> function = CompletionReward(Scorer(Reward("bleu")))
    >>> function(["er zahlte"], ["he paid"], reference=["he paid"])
    [1.0]
"""

from simile_plugin.reward.bleu import bleu_signature, check_tokenizer, corpus_bleu
from simile_plugin.reward.chrf import chrf_signature, chrf_statistics, corpus_chrf
from simile_plugin.reward.features import FEATURES, Lexicon, WordTable, make_lexicon
from simile_plugin.reward.functions import CompletionReward
from simile_plugin.reward.gaming_signs import LENGTH_SIGN, REPETITION_FLOOR, REPETITION_SIGN
from simile_plugin.reward.language_warnings import (
    UNKNOWN_LIMIT,
    encoder_warning,
    language_warning,
    unknown_warning,
)
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
)
from simile_plugin.reward.metric import SIMILE
from simile_plugin.reward.ngrams import repetition
from simile_plugin.reward.pairs import pair_scores
from simile_plugin.reward.references import several_references
from simile_plugin.reward.scorer import Scorer
from simile_plugin.reward.simile import SIMILE_ALPHA, length_penalty, signature
from simile_plugin.reward.spec import Reward
from simile_plugin.reward.text_warnings import (
    GIVE_A_TOKENISER,
    FirstLook,
    is_unspaced,
    tokenised_warning,
    warnings_of_text,
)

__all__ = [
    "FEATURES",
    "GIVE_A_TOKENISER",
    "LENGTH_SIGN",
    "REPETITION_FLOOR",
    "REPETITION_SIGN",
    "REWARD",
    "SIMILE",
    "SIMILE_ALPHA",
    "UNKNOWN_HYP",
    "UNKNOWN_LIMIT",
    "UNKNOWN_REF",
    "CompletionReward",
    "FirstLook",
    "LearnedReward",
    "Lexicon",
    "ListScores",
    "Reward",
    "Scorer",
    "WordTable",
    "bleu_signature",
    "check_tokenizer",
    "chrf_signature",
    "chrf_statistics",
    "corpus_bleu",
    "corpus_chrf",
    "encoder_warning",
    "is_unspaced",
    "language_warning",
    "learned_beside",
    "length_penalty",
    "load_learned",
    "make_lexicon",
    "pair_scores",
    "repetition",
    "save_learned",
    "several_references",
    "signature",
    "tokenised_warning",
    "unknown_warning",
    "warnings_of_text",
]

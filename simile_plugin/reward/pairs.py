"""Sentence BLEU and chrF of every candidate against every reference, as `Scorer.lists` has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simile_plugin.reward.bleu import BLEU_ORDER, bleu_units, sentence_bleu
from simile_plugin.reward.chrf import CHAR_ORDER, WORD_ORDER, character_ids, sentence_chrf, word_ids
from simile_plugin.reward.ngrams import common_of_pairs


def pair_scores(
    name: str, hyps: Sequence[str], refs: Sequence[str], tokenize: str = "13a"
) -> Tensor:
    """Score H candidates against R references: (H, R) float32 in [0, 1].

    Args:
        name: bleu, of sentences; chrf or chrf++.
        tokenize: sacreBLEU tokeniser of BLEU.
    """
    if name == "bleu":
        return _bleu(hyps, refs, tokenize)
    return _chrf(hyps, refs, WORD_ORDER if name == "chrf++" else 0)


def _bleu(hyps: Sequence[str], refs: Sequence[str], tokenize: str) -> Tensor:
    units, lengths = bleu_units([*hyps, *refs], tokenize)
    matches, hyp_totals, _ = common_of_pairs(units, len(hyps), BLEU_ORDER)
    shape = (len(hyps), len(refs), 1)
    hyp_lengths, ref_lengths = torch.from_numpy(lengths).split([len(hyps), len(refs)])
    sizes = [hyp_lengths.view(-1, 1, 1).expand(shape), ref_lengths.view(1, -1, 1).expand(shape)]
    return sentence_bleu(torch.cat([*sizes, matches, hyp_totals], dim=-1))


def _chrf(hyps: Sequence[str], refs: Sequence[str], word_order: int) -> Tensor:
    texts = [*hyps, *refs]
    parts = []
    for units, order in ((character_ids(texts), CHAR_ORDER), (word_ids(texts), word_order)):
        matches, hyp_totals, ref_totals = common_of_pairs(units, len(hyps), order)
        parts.append(torch.stack([hyp_totals, ref_totals, matches], dim=-1).flatten(2))
    return sentence_chrf(torch.cat(parts, dim=-1).numpy())

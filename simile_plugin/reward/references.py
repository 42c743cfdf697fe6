"""Scores by several references of each sentence, as sacreBLEU counts them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simile_plugin.files import InputError
from simile_plugin.reward.bleu import BLEU_ORDER, BLEU_STATS, sentence_bleu
from simile_plugin.reward.lists import ListScores


def several_references(
    scores: Sequence[ListScores],
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    tokenize: str = "13a",
) -> ListScores:
    """Return the scores of N outputs by R references of each of B sentences.

    BLEU is sacreBLEU's: an n-gram counts as often as in the reference that has most of it, and the
    length is that of the nearest reference. chrF counts the reference that gives a sentence most,
    as sacreBLEU does; so do SIM, SIMILE and the learned reward.

    Args:
        scores: R scores by one reference, with chrF, as `Scorer.outputs` gives them.
        outputs: N outputs of B sentences each.
        references: R lists of B references.
        tokenize: sacreBLEU tokeniser of BLEU.

    Raises:
        InputError: for no reference at all.
    """
    if not references:
        raise InputError("references: got none; expected lists of sentences")
    if len(references) == 1:
        return scores[0]
    stats = _bleu_statistics(outputs, references, tokenize)
    chrf = [one.chrf for one in scores if one.chrf is not None]
    chrf_stats = [one.chrf_stats for one in scores if one.chrf_stats is not None]
    best = torch.stack(chrf).argmax(0)  # the first of equal ones
    taken = torch.stack(chrf_stats).take_along_dim(best[None, ..., None], 0)[0]
    return ListScores(
        bleu_stats=stats,
        bleu=sentence_bleu(stats),
        sim=_highest([one.sim for one in scores]),
        simile=_highest([one.simile for one in scores]),
        unknown_pieces=sum(one.unknown_pieces for one in scores),
        tokens=sum(one.tokens for one in scores),
        chrf_stats=taken,
        chrf=_highest([*chrf]),
        learned=_highest([one.learned for one in scores]),
        source=scores[0].source,
    )


def _bleu_statistics(
    outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: str
) -> Tensor:
    """Return sacreBLEU's statistics (B, N, 10)."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize=tokenize, effective_order=True)  # says how to score, not what is counted
    stats = torch.zeros(len(references[0]), len(outputs), BLEU_STATS, dtype=torch.int64)
    for number, output in enumerate(outputs):
        for sentence, (hyp, *refs) in enumerate(zip(output, *references, strict=True)):
            found = bleu.sentence_score(hyp, refs)
            assert len(found.counts) == BLEU_ORDER
            row = [found.sys_len, found.ref_len, *found.counts, *found.totals]
            stats[sentence, number] = torch.tensor(row)
    return stats


def _highest(values: Sequence[Tensor | None]) -> Tensor | None:
    """Return the highest of each sentence's and output's values; None without any."""
    known = [value for value in values if value is not None]
    return torch.stack(known).amax(0) if known else None

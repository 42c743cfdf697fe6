"""Minimum Bayes risk decoding: the candidate that is best on average against pseudo-references.

h* = argmax over h of EU(h),  EU(h) = sum over r of w(r) U(h, r)  (Kumar and Byrne 2004)

SIM is linear in unit vectors: sum of w(r) cos(h, r) = cos-vector(h) . sum of w(r) vector(r), one
product for a list instead of one for each pair. SIMILE's length penalty depends on the two lengths
alone, so that the references of one length are summed first. BLEU and chrF are counted for all
pairs at once; what is left, learned rewards and own functions, is scored pair by pair in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from simile_plugin.files import InputError
from simile_plugin.nbest.readers import NbestList, sources
from simile_plugin.reward import Reward, Scorer, length_penalty, pair_scores
from simile_plugin.significance import Floats

TIE = 1e-6  # utilities are sums in float32: differences below this are rounding
STRINGS_AT_ONCE = 20_000  # that are encoded together
REFS_AT_ONCE = 256  # of all pairs that are counted together
PAIRS_AT_ONCE = 4_096  # of candidate and reference that are scored one by one


@dataclass(frozen=True)
class Side:
    """Distinct strings of one list with their vectors of length 1 (or 0) and their lengths."""

    texts: list[str]
    vectors: Tensor
    lengths: Tensor


def expected_utilities(
    lists: Sequence[NbestList],
    scorer: Scorer,
    pseudo: Sequence[NbestList] | None = None,
    weights: str = "uniform",
    progress: Callable[[int], object] | None = None,
) -> list[Floats]:
    """Return EU of every candidate of every list; equal strings have equal values.

    Args:
        lists: candidates; a list may be empty, and there may be none.
        scorer: its reward is the utility of a candidate and a pseudo-reference.
        pseudo: lists of pseudo-references, found by their sentence; default: `lists` themselves.
            Without one for a sentence its utilities are 0.
        weights: of the pseudo-references: uniform, each 1 / N, so that a sample that came twice
            counts twice; or model, see :func:`model_weights`.
        progress: called with the number of lists just done.

    Returns:
        (N,) for each list; NaN where the user's function gave NaN.

    Raises:
        InputError: for weights of the model where lists have no scores.
    """
    if scorer.reward.needs_sources:
        sources(lists, f"{scorer.reward.flag} {scorer.reward.spec}")
    by_sentence = {one.sentence: one for one in (lists if pseudo is None else pseudo)}
    refs = [by_sentence.get(one.sentence, NbestList(-1, None, ())) for one in lists]
    sizes = [len(one.hyps) + len(ref.hyps) for one, ref in zip(lists, refs, strict=True)]
    step = max(1, STRINGS_AT_ONCE // max([1, *sizes]))
    utilities: list[Floats] = []
    for start in range(0, len(lists), step):
        pairs = [*zip(lists[start : start + step], refs[start : start + step], strict=True)]
        make = _sides([text for one, ref in pairs for text in (*one.hyps, *ref.hyps)], scorer)
        for one, ref in pairs:
            by_text = model_weights(ref) if weights == "model" else _shares(ref)
            distinct = {hyp: place for place, hyp in enumerate(dict.fromkeys(one.hyps))}
            values = np.zeros(len(distinct))
            if distinct and by_text:
                w = torch.tensor([*by_text.values()], dtype=torch.float32)
                values = _of_list(make([*distinct]), make([*by_text]), w, scorer, one.src or "")
            utilities.append(values[[distinct[hyp] for hyp in one.hyps]])
        if progress is not None:
            progress(len(pairs))
    return utilities


def choose(one: NbestList, utilities: Floats) -> int | None:
    """Return the place of the highest expected utility, or None in an empty list.

    Of a tie the model's own order decides: the highest score, then the first. What is NaN or
    infinite is never chosen where there is a number.
    """
    if not one.hyps:
        return None
    values = np.where(np.isfinite(utilities), utilities, -np.inf)
    tied = np.flatnonzero(values >= values.max() - TIE)
    return int(max(tied, key=lambda i: (one.scores[i] if one.scores else 0.0, -i)))


def model_weights(refs: NbestList) -> dict[str, float]:
    """Return w(r) = exp(s(r)) / sum of exp(s): the model's probabilities, renormalised.

    s is the log-probability where the file has it (fairseq's P- lines, Marian's F0=), else the
    score. A string that the list has twice counts once, with its higher score; a score of -inf
    weighs nothing, beside others.

    Raises:
        InputError: if the list has no scores.
    """
    scores = refs.lprobs or refs.scores
    if len(scores) < len(refs.hyps):
        raise InputError(
            f"--weights: model: the list of sentence {refs.sentence} has no scores; give lists "
            "with scores, or uniform weights"
        )
    best: dict[str, float] = {}
    for hyp, score in zip(refs.hyps, scores, strict=True):
        best[hyp] = max(score, best.get(hyp, -np.inf))
    exponents = np.array([*best.values()])
    if np.isneginf(exponents).all():
        exponents = np.zeros(len(best))
    shares = np.exp(exponents - exponents.max(initial=-np.inf))
    return dict(zip(best, (shares / shares.sum()).tolist(), strict=True))


def _shares(refs: NbestList) -> dict[str, float]:
    """Return 1 / N for each of N pseudo-references, added up where strings are equal."""
    counted: dict[str, float] = {}
    for hyp in refs.hyps:
        counted[hyp] = counted.get(hyp, 0.0) + 1 / len(refs.hyps)
    return counted


def _sides(texts: Sequence[str], scorer: Scorer) -> Callable[[list[str]], Side]:
    """Encode each distinct text once, if the utility needs that; return what makes a Side."""
    if not scorer.reward.needs_encoder:
        nothing = torch.zeros(0)
        return lambda some: Side(some, nothing, nothing)
    assert scorer.encoder is not None
    index = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    embedded = scorer.encoder.embed_counted([*index])
    norms = embedded.vectors.norm(dim=-1, keepdim=True)
    unit = torch.where(norms > 0, embedded.vectors / norms.clamp(min=1e-30), 0.0).cpu()
    lengths = embedded.lengths.cpu()

    def make(some: list[str]) -> Side:
        rows = torch.tensor([index[text] for text in some])
        return Side(some, unit[rows], lengths[rows])

    return make


def _of_list(hyps: Side, refs: Side, weights: Tensor, scorer: Scorer, src: str) -> Floats:
    """Return EU of distinct candidates against distinct references: (H,)."""
    if scorer.reward.function is not None:
        return _one_by_one(hyps, refs, weights, scorer, src).double().numpy()
    total = torch.zeros(len(hyps.texts), dtype=torch.float64)
    for name, share in scorer.reward.weights.items():
        if name == "sim":
            part = expected_sim(hyps.vectors, refs.vectors, weights)
        elif name == "simile":
            part = expected_simile(hyps, refs, weights, scorer.alpha)
        elif name == "source":  # whatever the pseudo-reference
            part = weights.sum() * _of_source(hyps.texts, src, scorer)
        elif name == "learned":
            part = _one_by_one(hyps, refs, weights, scorer, src)
        else:
            part = _of_pairs(name, hyps.texts, refs.texts, weights, scorer.tokenize)
        total += share * part
    return total.numpy()


def expected_sim(hyps: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
    """Return sum over r of w(r) cos(h, r) = h . sum over r of w(r) r, for vectors of length 1 or 0.

    Args:
        hyps: (H, D); refs: (R, D); weights: (R,).

    Returns:
        (H,), in O((H + R) D) instead of O(H R D).
    """
    return hyps @ (weights @ refs)


def expected_simile(hyps: Side, refs: Side, weights: Tensor, alpha: float) -> Tensor:
    """Return sum over r of w(r) LP(r, h)^alpha cos(h, r) = h . sum over l of LP(l, |h|)^alpha m_l.

    m_l is the weighted sum of the references of length l.

    Returns:
        (H,), in O((H + R + K L) D) for K and L distinct lengths, instead of O(H R D).
    """
    hyp_lengths, hyp_row = hyps.lengths.unique(return_inverse=True)
    ref_lengths, ref_row = refs.lengths.unique(return_inverse=True)
    sums = torch.zeros(len(ref_lengths), refs.vectors.shape[1])
    sums.index_add_(0, ref_row, weights[:, None] * refs.vectors)
    penalties = length_penalty(ref_lengths, hyp_lengths[:, None]) ** alpha
    return (hyps.vectors * (penalties @ sums)[hyp_row]).sum(1)


def _of_pairs(
    name: str, hyps: list[str], refs: list[str], weights: Tensor, tokenize: str
) -> Tensor:
    """Return EU by BLEU, chrF or chrF++ of all pairs, REFS_AT_ONCE references at a time."""
    total = torch.zeros(len(hyps))
    for start in range(0, len(refs), REFS_AT_ONCE):
        some = refs[start : start + REFS_AT_ONCE]
        total += pair_scores(name, hyps, some, tokenize) @ weights[start : start + REFS_AT_ONCE]
    return total


def _of_source(hyps: list[str], src: str, scorer: Scorer) -> Tensor:
    """Return what the source says of candidates: (H,); nothing where it is an empty line."""
    if not src.strip():
        return torch.zeros(len(hyps))
    of_source = replace(scorer, reward=Reward("source"))
    return of_source.values([hyps], [""], [src])[0].cpu()


def _one_by_one(hyps: Side, refs: Side, weights: Tensor, scorer: Scorer, src: str) -> Tensor:
    """Return EU under a learned reward or the user's function, PAIRS_AT_ONCE pairs at a time."""
    learned, function = scorer.reward.learned, scorer.reward.function
    total = torch.zeros(len(hyps.texts))
    step = max(1, PAIRS_AT_ONCE // len(hyps.texts))
    for start in range(0, len(refs.texts), step):
        rows = slice(start, start + step)
        some = refs.texts[rows]
        lists = [[*hyps.texts] for _ in some]
        if function is not None:
            mask = torch.ones(len(some), len(hyps.texts), dtype=torch.bool)
            values = scorer.reward.from_function(lists, some, [src] * len(some), mask)
        else:
            assert learned is not None and scorer.encoder is not None
            sim = (refs.vectors[rows] @ hyps.vectors.T).clamp(-1, 1)
            values = learned.scores(lists, some, scorer.encoder, sim, [src] * len(some))
        total += weights[rows] @ values
    return total

"""Minimum Bayes risk decoding: the candidate that is best on average against pseudo-references.

h* = argmax over h of EU(h),  EU(h) = sum over r of w(r) U(h, r)  (Kumar and Byrne 2004)

SIM is linear in unit vectors: sum of w(r) cos(h, r) = cos-vector(h) . sum of w(r) vector(r), one
product for a list instead of one for each pair. SIMILE's length penalty depends on the two lengths
alone, so that the references of one length are summed first. BLEU and chrF are counted for all
pairs at once; what is left, learned rewards and own functions, is scored pair by pair in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder
from simile_plugin.files import InputError
from simile_plugin.nbest.readers import NbestList
from simile_plugin.reward import SIMILE_ALPHA, Reward, length_penalty, pair_bleu, pair_chrf
from simile_plugin.significance import Floats

TIE = 1e-6  # utilities are sums in float32: differences below this are rounding
STRINGS_AT_ONCE = 20_000  # that are encoded together
REFS_AT_ONCE = 256  # of all pairs that are counted together
PAIRS_AT_ONCE = 4_096  # of candidate and reference that are scored one by one


@dataclass(frozen=True)
class Utility:
    """What MBR decoding calls utility: any --reward, of a candidate and a pseudo-reference.

    Args:
        alpha: exponent of SIMILE's length penalty.
        tokenize: sacreBLEU tokeniser of BLEU.

    Raises:
        InputError: if the reward needs an encoder and there is none, or another one.
    """

    reward: Reward
    encoder: RewardEncoder | None = None
    alpha: float = SIMILE_ALPHA
    tokenize: str = "13a"

    def __post_init__(self) -> None:
        if self.reward.needs_encoder and self.encoder is None:
            raise InputError(
                f"{self.reward.flag} {self.reward.spec}: needs --encoder DIR, a reward encoder "
                "(make one by simile train-encoder)"
            )
        if self.reward.learned is not None and self.encoder is not None:
            self.reward.learned.use(self.encoder)


@dataclass(frozen=True)
class Side:
    """Distinct strings of one list with their vectors of length 1 (or 0) and their lengths."""

    texts: list[str]
    vectors: Tensor
    lengths: Tensor


def expected_utilities(
    lists: Sequence[NbestList],
    utility: Utility,
    pseudo: Sequence[NbestList] | None = None,
    weights: str = "uniform",
    progress: Callable[[int], object] | None = None,
) -> list[Floats]:
    """EU of every candidate of every list; equal strings have equal values.

    Args:
        lists: candidates; a list may be empty.
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
    refs = {found.sentence: found for found in (lists if pseudo is None else pseudo)}
    empty = NbestList(-1, None, ())
    found: list[Floats] = []
    for block in _blocks(lists, refs):
        pairs = [(one, refs.get(one.sentence, empty)) for one in block]
        weighted = [_weights(ref, weights) for _, ref in pairs]
        texts = [text for one, ref in pairs for text in (*one.hyps, *ref.hyps)]
        make = _sides(texts, utility)
        for (one, _), by_text in zip(pairs, weighted, strict=True):
            distinct = {hyp: place for place, hyp in enumerate(dict.fromkeys(one.hyps))}
            values = np.zeros(len(distinct))
            if distinct and by_text:
                w = torch.tensor([*by_text.values()], dtype=torch.float32)
                values = _of_list(make([*distinct]), make([*by_text]), w, utility, one.src or "")
            found.append(values[[distinct[hyp] for hyp in one.hyps]])
        if progress is not None:
            progress(len(block))
    return found


def choose(found: NbestList, utilities: Floats) -> int | None:
    """Place of the candidate with the highest expected utility, or None in an empty list.

    Of a tie the model's own order decides: the highest score, then the first; in a ranked list the
    first. What is NaN or infinite is never chosen where there is a number.
    """
    if not found.hyps:
        return None
    values = np.where(np.isfinite(utilities), utilities, -np.inf)
    tied = np.flatnonzero(values >= values.max() - TIE)
    scores = () if found.ranked else found.scores
    return int(max(tied, key=lambda i: (scores[i] if scores else 0.0, -i)))


def model_weights(found: NbestList) -> dict[str, float]:
    """w(r) = exp(s(r)) / sum of exp(s): the model's own probabilities, renormalised over the list.

    s is the log-probability where the file has it (fairseq's P- lines), else the score. A string
    that the list has twice counts once, with its higher score.

    Raises:
        InputError: if the list has no scores.
    """
    scores = found.lprobs or found.scores
    if len(scores) < len(found.hyps):
        raise InputError(
            f"--weights: model: the list of sentence {found.sentence} has no scores; give lists "
            "with scores, or uniform weights"
        )
    best: dict[str, float] = {}
    for hyp, score in zip(found.hyps, scores, strict=True):
        best[hyp] = max(score, best.get(hyp, -np.inf))
    exponents = np.array([*best.values()])
    shares = np.exp(exponents - exponents.max(initial=-np.inf))
    return dict(zip(best, (shares / shares.sum()).tolist(), strict=True))


def _weights(found: NbestList, kind: str) -> dict[str, float]:
    if kind == "model":
        return model_weights(found)
    counted: dict[str, float] = {}
    for hyp in found.hyps:
        counted[hyp] = counted.get(hyp, 0.0) + 1 / len(found.hyps)
    return counted


def _blocks(
    lists: Sequence[NbestList], refs: dict[int, NbestList]
) -> Iterator[Sequence[NbestList]]:
    """Lists after each other, with at most STRINGS_AT_ONCE strings if they are more than one."""
    start = size = 0
    for place, found in enumerate(lists):
        own = len(found.hyps) + len(refs[found.sentence].hyps if found.sentence in refs else ())
        if place > start and size + own > STRINGS_AT_ONCE:
            yield lists[start:place]
            start, size = place, 0
        size += own
    yield lists[start:]


def _sides(texts: Sequence[str], utility: Utility) -> Callable[[list[str]], Side]:
    """Encode each distinct text once, if the utility needs that; returns what makes a Side."""
    if not utility.reward.needs_encoder:
        nothing = torch.zeros(0)
        return lambda some: Side(some, nothing, nothing)
    assert utility.encoder is not None
    index: dict[str, int] = {}
    for text in texts:
        index.setdefault(text, len(index))
    found = utility.encoder.embed_counted([*index])
    norms = found.vectors.norm(dim=-1, keepdim=True)
    unit = torch.where(norms > 0, found.vectors / norms.clamp(min=1e-30), 0.0).cpu()
    lengths = found.lengths.cpu()

    def make(some: list[str]) -> Side:
        rows = torch.tensor([index[text] for text in some])
        return Side(some, unit[rows], lengths[rows])

    return make


def _of_list(hyps: Side, refs: Side, weights: Tensor, utility: Utility, src: str) -> Floats:
    """EU of distinct candidates against distinct references: (H,)."""
    reward = utility.reward
    if reward.function is not None:
        return _of_function(hyps, refs, weights, reward, src)
    total = torch.zeros(len(hyps.texts), dtype=torch.float64)
    for name, share in reward.weights.items():
        if name == "sim":
            part = expected_sim(hyps.vectors, refs.vectors, weights)
        elif name == "simile":
            part = expected_simile(hyps, refs, weights, utility.alpha)
        elif name == "learned":
            part = _of_learned(hyps, refs, weights, utility)
        else:
            part = _of_pairs(name, hyps.texts, refs.texts, weights, utility.tokenize)
        total += share * part
    return total.numpy()


def expected_sim(hyps: Tensor, refs: Tensor, weights: Tensor) -> Tensor:
    """sum over r of w(r) cos(h, r) = h . sum over r of w(r) r, for vectors of length 1 or 0.

    Args:
        hyps: (H, D); refs: (R, D); weights: (R,).

    Returns:
        (H,), in O((H + R) D) instead of O(H R D).
    """
    return hyps @ (weights @ refs)


def expected_simile(hyps: Side, refs: Side, weights: Tensor, alpha: float) -> Tensor:
    """sum over r of w(r) LP(r, h)^alpha cos(h, r) = h . sum over l of LP(l, |h|)^alpha m_l.

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
    """BLEU, chrF or chrF++ of all pairs, REFS_AT_ONCE references at a time."""
    total = torch.zeros(len(hyps))
    for start in range(0, len(refs), REFS_AT_ONCE):
        some = refs[start : start + REFS_AT_ONCE]
        if name == "bleu":
            pairs = pair_bleu(hyps, some, tokenize)
        else:
            pairs = pair_chrf(hyps, some, word_order=2 if name == "chrf++" else 0)
        total += pairs @ weights[start : start + REFS_AT_ONCE]
    return total


def _of_learned(hyps: Side, refs: Side, weights: Tensor, utility: Utility) -> Tensor:
    learned, encoder = utility.reward.learned, utility.encoder
    assert learned is not None and encoder is not None
    total = torch.zeros(len(hyps.texts))
    for rows in _rows(hyps, refs):
        sim = (refs.vectors[rows] @ hyps.vectors.T).clamp(-1, 1)
        some = refs.texts[rows]
        total += weights[rows] @ learned.scores([hyps.texts] * len(some), some, encoder, sim)
    return total


def _of_function(hyps: Side, refs: Side, weights: Tensor, reward: Reward, src: str) -> Floats:
    total = torch.zeros(len(hyps.texts))
    for rows in _rows(hyps, refs):
        some = refs.texts[rows]
        mask = torch.ones(len(some), len(hyps.texts), dtype=torch.bool)
        lists = [list(hyps.texts) for _ in some]
        total += weights[rows] @ reward.from_function(lists, some, [src] * len(some), mask)
    return total.double().numpy()


def _rows(hyps: Side, refs: Side) -> Iterator[slice]:
    """References in blocks of PAIRS_AT_ONCE pairs with the candidates."""
    step = max(1, PAIRS_AT_ONCE // len(hyps.texts))
    for start in range(0, len(refs.texts), step):
        yield slice(start, start + step)

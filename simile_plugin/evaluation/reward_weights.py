"""Weights >= 0 of the features of the learned reward, by human scores and by made harm.

The judgements: a ridge regression of the human scores, standardised within each file, on the
standardised features; every file weighs the same. The harm (`harm.py`): each change to a hypothesis
must cost it at least HARM_FLOOR + HARM_SLOPE * the share of its words that were touched, in
standard deviations of the human scores; what falls short of that enters squared. All kinds of harm
together weigh as much as the judgements before KIND_WEIGHTS. Segments with an empty side are left
out: the reward is 0 there, whatever the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from simile_plugin.encoder import cosine
from simile_plugin.evaluation.harm import HARMS, HarmedSentence, Material, harmed_sentences
from simile_plugin.evaluation.judgements import Judgements
from simile_plugin.files import InputError
from simile_plugin.reward import FEATURES, LearnedReward, WordTable
from simile_plugin.significance import Floats

Ids = NDArray[np.int64]

FOLDS = 5  # of a single file, cut between references
RIDGE = 0.03
HARM_FLOOR, HARM_SLOPE = 0.1, 1.0
KIND_WEIGHTS = {"append": 4.0, "negation": 2.0}  # the hardest to see; the others weigh 1
REFERENCES = 3  # one of so many harmed references is in the fit
LEAST_SPREAD = 1e-3  # standard deviation of a feature that hardly ever occurs
ROUNDS = 30
SETTLED = 1e-6
LOWER = 1e-6  # a loss below this is rounding
BATCH = 512  # pairs whose features are counted at once


@dataclass(frozen=True)
class Rise:
    """By how much M changes for the worse raise the features.

    Attributes:
        features: (M, K) features after the change less those before it.
        kinds: (M,) places in HARMS.
        rows: (M,) segments that were changed.
        shares: (M,) how much harm each is, in (0, 1].
    """

    features: Floats
    kinds: Ids
    rows: Ids
    shares: Floats

    def of(self, chosen: NDArray[np.bool_]) -> Rise:
        """Return the harm done to the chosen segments; chosen: (n,)."""
        keep = chosen[self.rows]
        return Rise(self.features[keep], self.kinds[keep], self.rows[keep], self.shares[keep])


@dataclass(frozen=True)
class Part:
    """One file of judgements as the fit reads it.

    Attributes:
        features: (n, K) of the hypotheses.
        empty: (n,) segments with an empty side: neither harmed nor fitted.
    """

    judged: Judgements
    features: Floats
    empty: NDArray[np.bool_]
    hyp_harm: Rise
    ref_harm: Rise


@dataclass(frozen=True)
class HarmSeen:
    """A kind of harm to hypotheses that were not fitted on.

    Attributes:
        count: harmed hypotheses.
        lower: share of them that the reward puts below the unharmed one, in percent.
        drop: mean loss of the weighted features, in standard deviations of human scores.
    """

    count: int
    lower: float
    drop: float


def make_part(
    judged: Judgements,
    table: WordTable,
    material: Material,
    seed: int,
    with_sources: bool = False,
) -> Part:
    """Count the features of the hypotheses of a file, and of harmed hypotheses and references."""
    srcs = judged.srcs if with_sources else None
    features, empty = _features(table, judged.hyps, judged.refs, srcs)
    hyps, refs = (
        [
            sentence
            for sentence in harmed_sentences(texts, judged.refs, material, seed)
            if not empty[sentence.row]
        ]
        for texts in (judged.hyps, judged.refs)
    )
    return Part(
        judged,
        features,
        empty,
        _rise(hyps, judged.refs, features, table, srcs),
        _rise(refs[::REFERENCES], judged.refs, np.zeros_like(features), table, srcs),
    )


def _rise(
    harmed: Sequence[HarmedSentence],
    refs: Sequence[str],
    before: Floats,
    table: WordTable,
    srcs: Sequence[str] | None,
) -> Rise:
    """Return the rise of the features by harm; before: (n, K) of the unharmed sentences."""
    rows = np.array([sentence.row for sentence in harmed], dtype=np.int64)
    kinds = np.array([sentence.kind for sentence in harmed], dtype=np.int64)
    shares = np.array([sentence.share for sentence in harmed])
    sources = None if srcs is None else [srcs[row] for row in rows]
    texts, references = [sentence.text for sentence in harmed], [refs[row] for row in rows]
    after, _ = _features(table, texts, references, sources)
    return Rise(after - before[rows], kinds, rows, shares)


def _features(
    table: WordTable,
    hyps: Sequence[str],
    refs: Sequence[str],
    srcs: Sequence[str] | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return features (n, K) of n pairs, and whether a side is empty (n,)."""
    width = len(FEATURES) + (srcs is not None)
    features, empty = [np.zeros((0, width))], [np.zeros(0, dtype=bool)]
    for start in range(0, len(refs), BATCH):
        left, right = hyps[start : start + BATCH], refs[start : start + BATCH]
        sim = cosine(table.encoder.embed_text(left), table.encoder.embed_text(right))
        of = None if srcs is None else srcs[start : start + BATCH]
        part, none = table.count([[hyp] for hyp in left], right, sim[:, None], of)
        features.append(part[:, 0])
        empty.append(none[:, 0])
    return np.concatenate(features), np.concatenate(empty)


def fit_weights(parts: Sequence[Part], chosen: Sequence[NDArray[np.bool_]] | None = None) -> Floats:
    """Return weights (K,) >= 0 of the features, fitted to all segments or to the chosen ones.

    Args:
        chosen: (n,) of each part.
    """
    fitted = [~part.empty for part in parts]
    if chosen is not None:
        fitted = [rows & some for rows, some in zip(fitted, chosen, strict=True)]
    used = [(part, rows) for part, rows in zip(parts, fitted, strict=True) if rows.any()]
    features = np.concatenate([part.features[rows] for part, rows in used])
    human = np.concatenate([_standardised(part.judged.human[rows]) for part, rows in used])
    share = np.concatenate([np.full(rows.sum(), 1 / rows.sum()) for _, rows in used]) / len(used)
    spread = _deviation(features, share)
    better = (share @ features - features) / spread
    squares = better.T @ (better * share[:, None]) + RIDGE * np.eye(len(spread))
    products = better.T @ (human * share)
    rises = [rise.of(rows) for part, rows in used for rise in (part.hyp_harm, part.ref_harm)]
    return _with_harm(squares, products, rises, spread) / spread


def _standardised(values: Floats) -> Floats:
    spread = values.std()
    standardised: Floats = (values - values.mean()) / (spread if spread > 0 else 1)
    return standardised


def _deviation(features: Floats, share: Floats) -> Floats:
    return np.maximum(np.sqrt(share @ (features - share @ features) ** 2), LEAST_SPREAD)


def feature_spread(parts: Sequence[Part]) -> Floats:
    """Return the standard deviation of each feature over all files, (K,)."""
    features = [part.features[~part.empty] for part in parts]
    share = [np.full(len(part), 1 / len(part) / len(parts)) for part in features]
    return _deviation(np.concatenate(features), np.concatenate(share))


def _with_harm(squares: Floats, products: Floats, rises: Sequence[Rise], spread: Floats) -> Floats:
    """Return least-squares weights >= 0 where harm enters only as far as it costs too little.

    Which changes cost too little depends on the weights: they are fitted in rounds, each to the
    changes that fell short in the round before.
    """
    rise = np.concatenate([part.features for part in rises]) / spread
    wanted = HARM_FLOOR + HARM_SLOPE * np.concatenate([part.shares for part in rises])
    kinds = np.concatenate([part.kinds for part in rises])
    by_kind = np.array([KIND_WEIGHTS.get(name, 1.0) for name, _ in HARMS]) / len(HARMS)
    weight = (by_kind / np.maximum(np.bincount(kinds, minlength=len(HARMS)), 1))[kinds]
    fitted = _least_squares(squares, products)
    for step in range(ROUNDS):
        short = rise @ fitted < wanted
        active = rise[short] * weight[short, None]
        new = _least_squares(squares + rise[short].T @ active, products + wanted[short] @ active)
        if np.abs(new - fitted).max() < SETTLED:
            break
        fitted = new if step < ROUNDS // 4 else (fitted + new) / 2  # two sets may take turns
    return fitted


def _least_squares(squares: Floats, products: Floats) -> Floats:
    """Return the c >= 0 that minimises c A c / 2 - b c, where A = squares and b = products."""
    lower = np.linalg.cholesky(squares)
    return np.asarray(nnls(lower.T, np.linalg.solve(lower, products))[0])


def leave_out(parts: Sequence[Part], seed: int) -> tuple[list[Floats], dict[str, HarmSeen]]:
    """Return rewards of each segment by a fit without its file or fold, and the cost of harm there.

    A judged pair is left out of the fit in other files, too.

    Returns:
        Rewards (n,) of each file, and the harm by kind over all files.

    Raises:
        InputError: for a file whose segments are all that there are.
    """
    folds = [np.full(len(part.features), number) for number, part in enumerate(parts)]
    if len(parts) == 1:
        groups = _groups(parts[0])
        folds = [np.random.default_rng(seed).permutation(max(groups) + 1)[groups] % FOLDS]
    rewards = [np.zeros(len(part.features)) for part in parts]
    drops: list[Floats] = []
    kinds: list[Ids] = []
    pairs = [list(zip(part.judged.hyps, part.judged.refs, strict=True)) for part in parts]
    for fold in range(len(parts) if len(parts) > 1 else FOLDS):
        judged = {
            pair
            for segments, rows in zip(pairs, folds, strict=True)
            for pair, place in zip(segments, rows, strict=True)
            if place == fold and any(pair)
        }
        fitted = [
            (rows != fold) & np.array([pair not in judged for pair in segments])
            for segments, rows in zip(pairs, folds, strict=True)
        ]
        if not any(rows.any() for rows in fitted):
            raise InputError(
                f"--judgements: {parts[fold].judged.path} has every segment of the other files; "
                "expected files of other segments to judge a fit by"
            )
        weights = fit_weights(parts, fitted)
        for part, rows, values in zip(parts, folds, rewards, strict=True):
            left = rows == fold
            values[left] = LearnedReward.of_features(part.features[left], part.empty[left], weights)
            rise = part.hyp_harm.of(left)
            drops.append(rise.features @ weights)
            kinds.append(rise.kinds)
    return rewards, _harm_seen(np.concatenate(drops), np.concatenate(kinds))


def _groups(part: Part) -> list[int]:
    """Return a number (n) for each segment: equal ones share a fold.

    These are segments of one reference, unless there are too few references.
    """
    seen: dict[str, int] = {}
    groups = [seen.setdefault(ref, len(seen)) for ref in part.judged.refs]
    fitted = {group for group, none in zip(groups, part.empty, strict=True) if not none}
    return groups if len(fitted) > FOLDS else [*range(len(groups))]


def _harm_seen(drops: Floats, kinds: Ids) -> dict[str, HarmSeen]:
    seen = {}
    for kind, (name, _) in enumerate(HARMS):
        losses = drops[kinds == kind]
        if len(losses):
            lower = 100 * float((losses > LOWER).mean())
            seen[name] = HarmSeen(len(losses), lower, float(losses.mean()))
    return seen

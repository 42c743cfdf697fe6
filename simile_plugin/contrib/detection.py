"""Paraphrase detection from sentence vectors (Sjöblom et al. 2018, sections 4 and 5).

The two vectors of a pair, side by side, go through a perceptron with one hidden layer; a threshold
on their cosine stands beside it. Labels are grades, as in Opusparcus (1 bad to 4 good), or 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from simile_plugin.encoder import cosine
from simile_plugin.files import InputError, read_rows
from simile_plugin.significance import Floats

Labels = NDArray[np.bool_]

HIDDEN = 200  # units, the paper's; the rest is ours
EPOCHS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 10, 128, 1e-3, 1e-4
PARAPHRASE, OTHER = 3.0, 2.0  # lowest grade of a paraphrase, highest one of a pair that is none

NAMES = (  # of PAWS, Quora's pairs and MRPC, too
    ("text1", "sentence1", "question1", "#1 string"),
    ("text2", "sentence2", "question2", "#2 string"),
    ("label", "grade", "score", "is_duplicate", "quality"),
)

# --- files ---


@dataclass(frozen=True)
class DetectionSet:
    """Sentence pairs that are paraphrases or are not.

    Attributes:
        labels: (n,) True for a paraphrase.
        dropped: pairs left out because their grade lies between the two classes.
    """

    name: str
    left: list[str]
    right: list[str]
    labels: Labels
    dropped: int


def read_detection(path: str | Path, flag: str) -> DetectionSet:
    """Read labelled pairs: TAB-separated text1, text2, grade, or with an id before them.

    That is Opusparcus' layout (id, text1, text2, mean grade of two people), and PAWS'; a header may
    say that another column than the last is the label, as TurkuNLP's does. If every grade is 0 or 1
    they are classes; otherwise a grade of 3 or more is a paraphrase, one of 2 or less is none, and
    what lies between is left out (2.5 in Opusparcus: one person said 3 and the other 2).

    Raises:
        InputError: naming file:line, for wrong numbers of columns, grades that are no number,
            grades outside 1 to 4 or empty sentences; for a file without pairs of both classes.
    """
    rows = read_rows(path, flag, "lines of text1, text2, grade")
    named = [column for names in NAMES for column in rows[0].find(names)[:1]]
    count = len(rows[0].cells)
    if len(named) == len(NAMES):
        one, other, at = named
    else:
        expected = "text1, text2, grade, or an id before them, or a header with these names"
        rows[0].expect(3, 4, expected)
        named = rows[0].find(NAMES[-1])
        at = named[0] if named else count - 1
        one, other = [column for column in range(count) if column != at][-2:]
    if named:
        del rows[0]
    left, right, grades = [], [], []
    for row in rows:
        row.expect(count, count, f"{count} as in the first line")
        left.append(row.cells[one])
        right.append(row.cells[other])
        if not left[-1].strip() or not right[-1].strip():
            raise InputError(f"{row.where}: an empty sentence; remove the line")
        label = row.cells[at].rstrip("<>isn ")  # 4<i of TurkuNLP's corpus
        row.cells[at] = {"true": "1", "false": "0"}.get(label.lower(), label)
        grades.append(row.number(at, "grade", 0, 4))
    classes = set(grades) <= {0, 1}
    for row, grade in zip(rows, grades, strict=True):
        if not classes and grade < 1:
            expected = "expected 1 to 4 (or 0 and 1 in the whole file)"
            raise InputError(f"{row.where}: got grade {grade:g}, {expected}")
    lowest, highest = (1, 0) if classes else (PARAPHRASE, OTHER)
    kept = [i for i, grade in enumerate(grades) if grade >= lowest or grade <= highest]
    labels = np.array([grades[i] >= lowest for i in kept], dtype=bool)
    if len(set(labels.tolist())) < 2:
        raise InputError(
            f"{flag}: {path}: {labels.sum()} of its {len(labels)} pairs are paraphrases, expected "
            f"pairs of both classes (grades from {lowest:g} on against grades to {highest:g})"
        )
    left, right = [left[i] for i in kept], [right[i] for i in kept]
    return DetectionSet(str(path), left, right, labels, len(grades) - len(kept))


# --- folds ---


def shared_sentence_groups(left: Sequence[str], right: Sequence[str]) -> NDArray[np.int64]:
    """Number (n,) of the group of each pair: pairs that share a sentence, over any chain of them.

    Folds that keep groups whole test no sentence that was trained on.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    number: dict[str, int] = {}
    ends = [[number.setdefault(text, len(number)) for text in side] for side in (left, right)]
    edges = coo_array((np.ones(len(left)), ends), shape=(len(number), len(number)))
    _, groups = connected_components(edges, directed=False)
    return np.asarray(groups[ends[0]], dtype=np.int64)


def group_folds(groups: NDArray[np.int64], folds: int, seed: int) -> NDArray[np.int64]:
    """Fold (n,) from 0 of each pair; a group is in one fold, folds are about equally large.

    Groups go, largest first and equal ones in random order, to the smallest fold so far.

    Raises:
        InputError: if there are fewer groups than folds.
    """
    sizes = np.bincount(groups)
    if len(sizes) < folds:
        raise InputError(
            f"--folds: {folds} folds of pairs without a common sentence, but there are only "
            f"{len(sizes)} groups of such pairs; give fewer folds or a --test file"
        )
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of_group = np.empty(len(sizes), dtype=np.int64)
    filled = np.zeros(folds, dtype=np.int64)
    for group in order:
        fold_of_group[group] = filled.argmin()
        filled[fold_of_group[group]] += sizes[group]
    return fold_of_group[groups]


# --- classifiers ---


def fit_perceptron(
    features: Tensor, labels: Labels, seed: int, epochs: int = EPOCHS
) -> Callable[[Tensor], Labels]:
    """Train W2 relu(W1 z + b1) + b2 > 0 with the logistic loss; return it as a function.

    z are the features standardised by the mean and deviation of the training pairs.

    Args:
        features: (n, 2 D), both vectors of each pair.
        labels: (n,).
    """
    mean, deviation = features.mean(0), features.std(0, correction=0)
    scale = torch.where(deviation > 0, 1 / deviation.clamp(min=1e-12), torch.zeros_like(deviation))
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(features.shape[1], HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, 1),
        )
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    inputs = (features - mean) * scale
    wanted = torch.from_numpy(labels).float()
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs), generator=generator).split(BATCH):
            optimizer.zero_grad()
            logits = model(inputs[rows]).squeeze(1)
            F.binary_cross_entropy_with_logits(logits, wanted[rows]).backward()
            optimizer.step()

    @torch.no_grad()
    def predict(others: Tensor) -> Labels:
        found: Labels = (model((others - mean) * scale).squeeze(1) > 0).numpy()
        return found

    return predict


def best_threshold(scores: Floats, labels: Labels) -> float:
    """The t with the most correct ``score >= t``; halfway between neighbours, of ties the highest.

    inf says that no pair is a paraphrase, -inf that all are.
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    correct = np.concatenate([[0], np.cumsum(np.where(labels[order], 1, -1))])
    allowed = np.concatenate([[True], ordered[1:] != ordered[:-1], [True]])
    best = int(np.where(allowed, correct, -len(labels) - 1).argmax())
    if best == 0:
        return math.inf
    if best == len(ordered):
        return -math.inf
    return float((ordered[best - 1] + ordered[best]) / 2)


# --- the evaluation ---


@dataclass(frozen=True)
class Detected:
    """Accuracy of detection in percent, with 95% bootstrap intervals over the test pairs.

    Attributes:
        protocol: what was trained on and what tested on.
        perceptron: accuracy for each seed.
        perceptron_mean, perceptron_interval: mean over the seeds.
        threshold: accuracy of the threshold on the cosine, tuned on the training pairs.
        auc: area under the curve of the cosine on the test pairs, in percent; no threshold.
        all_paraphrases: accuracy of calling every pair a paraphrase, the paper's baseline.
        majority: accuracy of the more frequent class of the test pairs.
    """

    protocol: str
    pairs: int
    train_pairs: int
    perceptron: list[float]
    perceptron_mean: float
    perceptron_interval: tuple[float, float]
    threshold: float
    threshold_interval: tuple[float, float]
    auc: float
    all_paraphrases: float
    majority: float
    dropped: int


@dataclass(frozen=True)
class _Vectors:
    features: Tensor
    cosines: Floats
    labels: Labels


def evaluate_detection(
    embed: Callable[[Sequence[str]], Tensor],
    train: DetectionSet,
    test: DetectionSet | None = None,
    *,
    folds: int = 5,
    seeds: Sequence[int] = (1, 2, 3),
    resamples: int = 1000,
    epochs: int = EPOCHS,
    progress: Callable[[int], object] | None = None,
) -> Detected:
    """Train on one set and test on another, or, without one, by cross-validation over folds.

    Args:
        embed: sentences -> (U, D) vectors.
        seeds: of the perceptron's start and order; each seed trains one for each split. Folds and
            bootstrap draws are those of the first seed.
        progress: called with 1 after each training.

    Raises:
        InputError: for vectors that are not finite or all zero, or too few groups for the folds.
    """
    from sklearn.metrics import roc_auc_score  # ties count half

    vectors = _vectors(embed, train)
    if test is None:
        groups = shared_sentence_groups(train.left, train.right)
        parts = group_folds(groups, folds, seeds[0])
        splits = [(parts != fold, parts == fold) for fold in range(folds)]
        tested, train_pairs = vectors, round(len(train.left) * (folds - 1) / folds)
        protocol = (
            f"{folds}-fold cross-validation on {train.name}, pairs that share a sentence in one "
            "fold"
        )
    else:
        tested, train_pairs = _vectors(embed, test), len(train.left)
        splits = [(np.ones(len(train.left), dtype=bool), np.ones(len(test.left), dtype=bool))]
        protocol = f"trained on {train.name}, tested on {test.name}"
    right = np.zeros((len(seeds) + 1, len(tested.labels)))
    for known, asked in splits:
        features, labels = vectors.features[torch.from_numpy(known)], vectors.labels[known]
        wanted, asking = tested.labels[asked], tested.features[torch.from_numpy(asked)]
        cut = best_threshold(vectors.cosines[known], labels)
        right[-1, asked] = (tested.cosines[asked] >= cut) == wanted
        for row, seed in enumerate(seeds):
            predict = fit_perceptron(features, labels, seed, epochs)
            right[row, asked] = predict(asking) == wanted
            if progress:
                progress(1)
    mean = right[:-1].mean(0)
    positive = float(tested.labels.mean())
    return Detected(
        protocol=protocol,
        pairs=len(tested.labels),
        train_pairs=train_pairs,
        perceptron=[100 * float(row.mean()) for row in right[:-1]],
        perceptron_mean=100 * float(mean.mean()),
        perceptron_interval=_interval(mean, resamples, seeds[0]),
        threshold=100 * float(right[-1].mean()),
        threshold_interval=_interval(right[-1], resamples, seeds[0]),
        auc=100 * float(roc_auc_score(tested.labels, tested.cosines)),
        all_paraphrases=100 * positive,
        majority=100 * max(positive, 1 - positive),
        dropped=(test or train).dropped,
    )


def _vectors(embed: Callable[[Sequence[str]], Tensor], pairs: DetectionSet) -> _Vectors:
    left, right = embed(pairs.left).float().cpu(), embed(pairs.right).float().cpu()
    features = torch.cat([left, right], dim=1)
    if not bool(torch.isfinite(features).all()):
        raise InputError("the encoder gives vectors with NaN or infinite values; train it again")
    if not bool(features.any()):
        raise InputError(
            f"{pairs.name}: the encoder knows no piece of any sentence; was it trained on this "
            "language and script?"
        )
    return _Vectors(features, cosine(left, right).double().numpy(), pairs.labels)


def _interval(correct: Floats, resamples: int, seed: int) -> tuple[float, float]:
    """95% percentile interval of the mean, in percent, over resampled pairs."""
    rng = np.random.default_rng(seed)
    n = len(correct)
    means = [correct[rng.integers(0, n, n)].mean() for _ in range(resamples)]
    low, high = np.percentile(means, [2.5, 97.5])
    return 100 * float(low), 100 * float(high)

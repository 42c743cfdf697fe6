"""Fit of the learned reward: weights >= 0 of features, by human judgements and by made harm.

The judgements: a ridge regression of the human scores, standardised within each file, on the
standardised features; every file weighs the same. The harm (`harm.py`): what is done to hypotheses
must cost it at least HARM_FLOOR + HARM_SLOPE * the share of its words that were touched, in
standard deviations of the human scores; what falls short of that enters squared. All kinds of harm
together weigh as much as the judgements before KIND_WEIGHTS. Segments with an empty side have no
part in it: the reward is 0 there, whatever the weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from simile_plugin.encoder import RewardEncoder, cosine
from simile_plugin.evaluation.harm import HARMS, HarmedSentence, Material, harmed_sentences
from simile_plugin.evaluation.judgements import Judgements, Quality, correlate, metric_scores
from simile_plugin.evaluation.meteor import Meteor
from simile_plugin.files import InputError, refuse_twice
from simile_plugin.reward import (
    FEATURES,
    LearnedReward,
    WordTable,
    chrf_statistics,
    corpus_chrf,
    make_lexicon,
)
from simile_plugin.significance import (
    BOOTSTRAP_RESAMPLES,
    SEED,
    Estimate,
    Floats,
    text_table,
    without_nan,
)

Ids = NDArray[np.int64]

FEWEST_SEGMENTS = 20  # of a file, for twelve weights
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
LEARNED, CHRFPP = "LEARNED", "chrF++"
SOURCE, OF_SOURCE = "source", "by how much the reference is nearer to the source"


@dataclass(frozen=True)
class Rise:
    """By how much harm raises the features: (M, K), with the harm it was."""

    features: Floats
    kinds: Ids
    rows: Ids
    shares: Floats

    def of(self, chosen: NDArray[np.bool_]) -> Rise:
        """The harm done to the chosen segments (n,)."""
        keep = chosen[self.rows]
        return Rise(self.features[keep], self.kinds[keep], self.rows[keep], self.shares[keep])


@dataclass(frozen=True)
class Part:
    """One file of judgements as the fit reads it: features (n, K), empty (n,), harm.

    Where a side is empty there is no harm to do, and nothing to fit.
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


@dataclass(frozen=True)
class Fit:
    """A learned reward and what it is worth.

    Attributes:
        reward: fitted on everything.
        quality: of the rewards fitted without the segments that they are judged on, under
            LEARNED, beside the other metrics.
        folds: what was left out.
        harm: by kind.
        importance: by feature, its weight for one standard deviation of it.
        overlap: judged references that are a line of the texts too.
    """

    reward: LearnedReward
    quality: Quality
    folds: str
    harm: dict[str, HarmSeen]
    importance: dict[str, float]
    overlap: int

    def figures(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers; correlations that are not defined are None."""
        found = {"folds": self.folds, **asdict(self.quality), "importance": self.importance}
        found |= {"harm": {kind: asdict(seen) for kind, seen in self.harm.items()}}
        plain: dict[str, Any] = without_nan(found)
        return plain


def fit_reward(
    files: Sequence[Judgements],
    texts: Sequence[tuple[str, Sequence[str]]],
    encoder: RewardEncoder,
    resamples: int = BOOTSTRAP_RESAMPLES,
    seed: int = SEED,
    meteor: Meteor | None = None,
    progress: Callable[[int], object] = lambda done: None,
    tokenize: str = "13a",
) -> Fit:
    """Fit a learned reward, and judge it on segments that it was not fitted on.

    Args:
        files: judged segments; with several files each is left out once, one file is cut in FOLDS.
        texts: names and lines of plain text of the language: words and material for harm.
        seed: of the harm, the folds and the resamples.
        progress: called with 1 after each of `steps(files)` steps.
        tokenize: sacreBLEU tokeniser of the BLEU that the reward stands beside.

    Raises:
        InputError: for files that a fit cannot be made of.
    """
    check_fit(files, texts)
    lexicon = make_lexicon([lines for _, lines in texts])
    table = WordTable(encoder, lexicon)
    material = Material([lines for _, lines in texts], lexicon)
    with_sources = encoder.source is not None and all(judged.srcs for judged in files)
    peers = []
    for judged in files:  # first: they tell human scores of which low ones are good
        peers.append(_peers(judged, encoder, meteor, tokenize))
        progress(1)
    parts = []
    for judged in files:
        parts.append(make_part(judged, table, material, seed, with_sources))
        progress(1)
    held_out, harm = leave_out(parts, seed)
    scores = [{LEARNED: own} | other for own, other in zip(held_out, peers, strict=True)]
    quality = correlate(scores, files, resamples, seed)
    weights = fit_weights(parts)
    spread = _spread(parts)
    by_name = dict(zip((*FEATURES, SOURCE), weights.tolist(), strict=False))  # SOURCE: if known
    reward = LearnedReward(by_name, lexicon, encoder.fingerprint)
    folds = "leave one file out" if len(files) > 1 else f"{FOLDS} folds of the one file"
    lines = {line for _, text in texts for line in text}
    overlap = sum(ref in lines for judged in files for ref in set(judged.refs))
    importance = dict(zip(by_name, (weights * spread).tolist(), strict=True))
    found = Fit(reward, quality, folds, harm, importance, overlap)
    reward.facts = _facts(found, files, texts, seed, resamples)
    return found


def steps(files: Sequence[Judgements]) -> int:
    """Count the calls of progress by `fit_reward`."""
    return 2 * len(files)


def check_fit(files: Sequence[Judgements], texts: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Raise InputError for judgements or texts that a fit cannot be made of."""
    for named, given in (("--judgements", files), ("--text", texts)):
        if not given:
            raise InputError(f"{named}: got no file, expected one or more")
    for judged in files:
        pairs = zip(judged.hyps, judged.refs, strict=True)
        count = sum(bool(hyp.strip() and ref.strip()) for hyp, ref in pairs)
        if count < FEWEST_SEGMENTS:
            words = " with words on both sides" if count < len(judged.human) else ""
            raise InputError(
                f"--judgements: {judged.path}: {count} judged segments{words}, expected "
                f"{FEWEST_SEGMENTS} or more to fit {len(FEATURES)} weights"
            )
    seen: dict[str, str] = {}
    for judged in files:
        same = seen.setdefault(_digest(_rows(judged)), judged.path)
        if same != judged.path or [part.path for part in files].count(judged.path) > 1:
            raise InputError(
                f"--judgements: {judged.path} has the same content as {same}; it would be judged "
                "by itself"
            )
    refuse_twice((path for path, _ in texts), "--text")
    for path, lines in texts:
        if not any(map(str.strip, lines)):
            raise InputError(f"--text: {path} is empty; expected sentences, one a line")


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
            found
            for found in harmed_sentences(texts, judged.refs, material, seed)
            if not empty[found.row]
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
    rows = np.array([found.row for found in harmed], dtype=np.int64)
    of = None if srcs is None else [srcs[row] for row in rows]
    after, _ = _features(table, [found.text for found in harmed], [refs[row] for row in rows], of)
    kinds = np.array([found.kind for found in harmed], dtype=np.int64)
    return Rise(after - before[rows], kinds, rows, np.array([found.share for found in harmed]))


def _features(
    table: WordTable,
    hyps: Sequence[str],
    refs: Sequence[str],
    srcs: Sequence[str] | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Features (n, K) of n pairs, and whether a side is empty (n,)."""
    width = len(FEATURES) + (srcs is not None)
    found, empty = [np.zeros((0, width))], [np.zeros(0, dtype=bool)]
    for start in range(0, len(refs), BATCH):
        left, right = hyps[start : start + BATCH], refs[start : start + BATCH]
        sim = cosine(table.encoder.embed_text(left), table.encoder.embed_text(right))
        of = None if srcs is None else srcs[start : start + BATCH]
        part, none = table.count([[hyp] for hyp in left], right, sim[:, None], of)
        found.append(part[:, 0])
        empty.append(none[:, 0])
    return np.concatenate(found), np.concatenate(empty)


def fit_weights(parts: Sequence[Part], chosen: Sequence[NDArray[np.bool_]] | None = None) -> Floats:
    """Weights (K,) >= 0 of the features; of the chosen segments of each part, if given."""
    both = [~part.empty for part in parts]
    if chosen is not None:
        both = [of & rows for of, rows in zip(both, chosen, strict=True)]
    used = [(part, rows) for part, rows in zip(parts, both, strict=True) if rows.any()]
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
    return (values - values.mean()) / (spread if spread > 0 else 1)


def _deviation(features: Floats, share: Floats) -> Floats:
    return np.maximum(np.sqrt(share @ (features - share @ features) ** 2), LEAST_SPREAD)


def _spread(parts: Sequence[Part]) -> Floats:
    """Standard deviation of each feature over all files: (K,)."""
    features = [part.features[~part.empty] for part in parts]
    share = [np.full(len(part), 1 / len(part) / len(parts)) for part in features]
    return _deviation(np.concatenate(features), np.concatenate(share))


def _with_harm(squares: Floats, products: Floats, rises: Sequence[Rise], spread: Floats) -> Floats:
    """Least squares with weights >= 0 where the harm that falls short is a set found in rounds."""
    rise = np.concatenate([part.features for part in rises]) / spread
    wanted = HARM_FLOOR + HARM_SLOPE * np.concatenate([part.shares for part in rises])
    kinds = np.concatenate([part.kinds for part in rises])
    by_kind = np.array([KIND_WEIGHTS.get(name, 1.0) for name, _ in HARMS]) / len(HARMS)
    weight = (by_kind / np.maximum(np.bincount(kinds, minlength=len(HARMS)), 1))[kinds]
    found = _least_squares(squares, products)
    for step in range(ROUNDS):
        short = rise @ found < wanted
        active = rise[short] * weight[short, None]
        new = _least_squares(squares + rise[short].T @ active, products + wanted[short] @ active)
        if np.abs(new - found).max() < SETTLED:
            break
        found = new if step < ROUNDS // 4 else (found + new) / 2  # two sets may take turns
    return found


def _least_squares(squares: Floats, products: Floats) -> Floats:
    """The c >= 0 of least c A c / 2 - b c, A = squares, b = products."""
    lower = np.linalg.cholesky(squares)
    return np.asarray(nnls(lower.T, np.linalg.solve(lower, products))[0])


def leave_out(parts: Sequence[Part], seed: int) -> tuple[list[Floats], dict[str, HarmSeen]]:
    """Rewards of every segment by a fit without its file (or its fold), and what harm costs there.

    What is judged is left out of the fit wherever it stands, in another file, too.

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
            for own, rows in zip(pairs, folds, strict=True)
            for pair, place in zip(own, rows, strict=True)
            if place == fold and any(pair)
        }
        fitted = [
            (rows != fold) & np.array([pair not in judged for pair in own])
            for own, rows in zip(pairs, folds, strict=True)
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
    """Number what shares a fold: segments of one reference, unless there are too few others."""
    seen: dict[str, int] = {}
    groups = [seen.setdefault(ref, len(seen)) for ref in part.judged.refs]
    fitted = {group for group, none in zip(groups, part.empty, strict=True) if not none}
    return groups if len(fitted) > FOLDS else [*range(len(groups))]


def _harm_seen(drops: Floats, kinds: Ids) -> dict[str, HarmSeen]:
    found = {}
    for kind, (name, _) in enumerate(HARMS):
        own = drops[kinds == kind]
        if len(own):
            lower = 100 * float((own > LOWER).mean())
            found[name] = HarmSeen(len(own), lower, float(own.mean()))
    return found


def _peers(
    judged: Judgements, encoder: RewardEncoder, meteor: Meteor | None, tokenize: str
) -> dict[str, Floats]:
    """Sentence scores of the metrics that a learned reward stands beside."""
    found = metric_scores({"": encoder}, judged, meteor=meteor, tokenize=tokenize)
    return found | {CHRFPP: corpus_chrf(chrf_statistics([judged.hyps], judged.refs, 2)[0])}


def _rows(judged: Judgements) -> list[str]:
    cells = zip(judged.hyps, judged.refs, judged.human.tolist(), strict=True)
    return ["\t".join(map(str, row)) for row in cells]


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _facts(
    fit: Fit,
    files: Sequence[Judgements],
    texts: Sequence[tuple[str, Sequence[str]]],
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """Collect what the reward's folder says of itself; digests are of the lines that were used."""
    read = [(judged.path, _rows(judged)) for judged in files]
    figures = fit.figures()
    names: dict[str, str] = {}  # of paths: people share the folder
    for judged in files:
        name = Path(judged.path).name
        names[judged.path] = f"{name} ({len(names) + 1})" if name in names.values() else name
    for part in ("files", "segments"):
        figures[part] = {names[path]: found for path, found in figures[part].items()}
    return {
        "judgements": [_file_facts(*file) for file in read],
        "text": [_file_facts(path, lines) for path, lines in texts],
        "judged_references_in_text": fit.overlap,
        "ridge": RIDGE,
        "harm": {
            "kinds": [name for name, _ in HARMS],
            "floor": HARM_FLOOR,
            "slope": HARM_SLOPE,
            "kind_weights": KIND_WEIGHTS,
        },
        "seed": seed,
        "resamples": resamples,
        "figures": figures,
    }


def _file_facts(path: str, lines: Sequence[str]) -> dict[str, Any]:
    return {"file": Path(path).name, "lines": len(lines), "sha256": _digest(lines)}


# --- presentation ---


def format_fit(fit: Fit) -> str:
    """Tables for a terminal: agreement with people, harm, weights."""
    kinds = ("spearman", "pearson")
    names = {
        path: Path(path).name.removesuffix(".gz").removesuffix(".tsv") for path in fit.quality.files
    }
    if len(set(names.values())) < len(names):  # files of one name in several folders
        names = {path: path for path in names}
    header = [
        f"{fit.folds}: Spearman / Pearson",
        "mean",
        "95% interval of Spearman",
        *names.values(),
    ]
    grid = [header]
    for metric, mean in fit.quality.mean["spearman"].items():
        found = [fit.quality.mean, *fit.quality.files.values()]
        cells = ["/".join(_percent(part[kind][metric].value) for kind in kinds) for part in found]
        grid.append([metric, cells[0], _interval(mean), *cells[1:]])
    harm = [["harm (hypotheses not fitted on)", "count", "lower, %", "mean loss"]]
    for kind, seen in fit.harm.items():
        harm.append([kind, f"{seen.count:,}", f"{seen.lower:.1f}", f"{seen.drop:.2f}"])
    weights = [["feature", "weight", "of one deviation"]]
    for feature, weight in fit.reward.weights.items():
        row = [
            f"{feature}: {FEATURES.get(feature, OF_SOURCE)}",
            f"{weight:.3f}",
            f"{fit.importance[feature]:.3f}",
        ]
        weights.append(row)
    return "\n\n".join(map(text_table, (grid, harm, weights))) + "\n"


def _percent(value: float) -> str:
    return "-" if value != value else f"{value:.1f}"


def _interval(found: Estimate) -> str:
    return f"{_percent(found.low)} to {_percent(found.high)}"

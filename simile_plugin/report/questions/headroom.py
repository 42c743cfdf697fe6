"""Will training pay? What n-best lists hold beyond their first line, before anyone trains.

MRT moves probability within such lists: it cannot gain where all candidates cost the same, and
what it gains is a share of the distance from the model's choice to the best of each list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import read_bytes
from simile_plugin.nbest import NbestList, read_nbest_lists
from simile_plugin.report.answer import HEADINGS, Answer, Figure, count, make_table, p_told
from simile_plugin.report.inputs.settings import PairedTest
from simile_plugin.significance import (
    COLORS,
    INK,
    Chart,
    Floats,
    SentenceStatistics,
    bootstrap,
    bootstrap_p_value,
    correlation,
    interval,
    mean_statistics,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings
    from simile_plugin.reward import LearnedReward

NEEDS = (("nbest_lists",),)
ASKED_BY = ("nbest_lists",)
PICTURED = True

Places = NDArray[np.int64]

NAMES = {**HEADINGS, "learned": "LEARNED"}
FIRST, MBR = "first", "mbr"
EQUAL = 1e-6  # rewards are made in float32: differences below this are rounding
# Gain on the test set of a model trained on the reward, over (best - first) of the lists of 8 of
# the model before: recipes/mbr/README.md has the figures behind them.
MEASURED: tuple[tuple[str, str, float], ...] = (
    ("Multi30k de-en", "simile", 0.095),
    ("quickstart", "simile", 0.371),
    ("Multi30k de-en", "bleu", 0.103),
    ("quickstart", "bleu", 0.164),
    ("Multi30k de-en", "learned", 0.118),
)


@dataclass(frozen=True)
class Figures:
    """A corpus score in percent, its 95% interval, and p of its difference from the first's."""

    value: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Agreement:
    """How two rewards agree within lists.

    Attributes:
        correlation: Spearman, the mean over lists where both differ; None without such a list.
        same_best: share of lists where the candidate that one prefers is also best for the other.
    """

    correlation: float | None
    same_best: float


@dataclass(frozen=True)
class HeadroomResult:
    """What choosing from the lists would give, by metric.

    Attributes:
        choices: first, mbr, best_METRIC, worst_METRIC -> metric -> figures; BLEU and chrF are of
            the corpus, best and worst are by their sentence scores.
        utility: of the MBR choice.
        agreement: of "METRIC METRIC".
        equal: metric -> share of lists where all candidates cost the same.
        gain: metric -> lowest and highest gain that the measured shares promise, in percent points.
        test: resamples and seed of intervals and p-values.
    """

    file: str
    sentences: int
    list_sizes: tuple[int, int]
    choices: dict[str, dict[str, Figures]]
    utility: str
    agreement: dict[str, Agreement]
    equal: dict[str, float]
    gain: dict[str, tuple[float, float]]
    signatures: dict[str, str]
    test: PairedTest


@dataclass(frozen=True)
class Scored:
    """Rewards of S lists, padded to N: metric -> (S, N); counts behind BLEU and chrF."""

    mask: NDArray[np.bool_]
    rewards: dict[str, Floats]
    counts: dict[str, NDArray[np.int64]]

    def statistics(self, metric: str, places: Places) -> SentenceStatistics:
        """The metric over the chosen candidates, for the bootstrap."""
        rows = np.arange(len(places))
        if metric in self.counts:
            return SentenceStatistics(
                self.counts[metric][None, rows, places], _corpus_score(metric)
            )
        return mean_statistics(100 * self.rewards[metric][None, rows, places])

    def best(self, metric: str, first: Places) -> Places:
        """Place of the highest reward of each list; of equal ones the model's choice."""
        rewards = np.where(self.mask, self.rewards[metric], -np.inf)
        top = rewards.max(axis=1)
        own = rewards[np.arange(len(first)), first]
        return np.where(own >= top - EQUAL, first, rewards.argmax(axis=1))

    def worst(self, metric: str) -> Places:
        """Place of the lowest reward of each list."""
        return np.where(self.mask, self.rewards[metric], np.inf).argmin(axis=1)


def _corpus_score(metric: str) -> Callable[[Floats], Floats]:
    from simile_plugin.report.inputs.scores import bleu_of_sums
    from simile_plugin.reward import corpus_chrf

    return corpus_chrf if metric == "chrf" else bleu_of_sums


def analyse_headroom(
    path: str,
    settings: ScoreSettings,
    test: PairedTest,
    learned: LearnedReward | None = None,
    progress: Callable[[int], object] | None = None,
    read: Callable[[str, str], bytes] = read_bytes,
    refs: Sequence[str] | None = None,
) -> HeadroomResult:
    """Score the model's choice, the MBR choice, and the best and worst of each list.

    Args:
        path: see `nbest.read_lists`.
        test: the resamples of intervals and p-values.
        learned: a learned reward, beside BLEU, chrF and with an encoder SIMILE.
        progress: called with the number of lists just scored.
        read: reads the file.
        refs: a reference for each line of the source, for lists without.

    Raises:
        InputError: for a file without lists or references.
    """
    from simile_plugin.nbest import Utility, choose_all, expected_utilities
    from simile_plugin.reward import Reward, bleu_signature, chrf_signature, signature

    lists = read_nbest_lists(path, "--nbest-lists", read, refs)
    scored = _score(lists, settings, learned, progress)
    spec = "chrf" if settings.encoder is None else "simile"
    utility = Utility(Reward(spec), settings.encoder, settings.alpha, settings.tokenize)
    chosen = choose_all(lists, expected_utilities(lists, utility))
    first = np.array([found.first for found in lists])
    places = {FIRST: first, MBR: np.array([place or 0 for place in chosen])}
    for metric in scored.rewards:
        places[f"best_{metric}"] = scored.best(metric, first)
    for metric in scored.rewards:
        places[f"worst_{metric}"] = scored.worst(metric)
    choices = _figures(scored, places, test)
    signatures = {"BLEU": bleu_signature(settings.tokenize), "chrF": chrf_signature()}
    if settings.encoder is not None:
        signatures["SIMILE"] = signature(settings.encoder, settings.alpha)
    if learned is not None:
        signatures["LEARNED"] = learned.signature
    sizes = scored.mask.sum(axis=1)
    return HeadroomResult(
        path,
        len(lists),
        (int(sizes.min()), int(sizes.max())),
        choices,
        spec,
        _agreement(scored, first),
        {metric: _equal_share(scored, metric) for metric in scored.rewards},
        _expected_gain(choices),
        signatures,
        test,
    )


def _score(
    lists: Sequence[NbestList],
    settings: ScoreSettings,
    learned: LearnedReward | None,
    progress: Callable[[int], object] | None,
) -> Scored:
    from simile_plugin.report.inputs.scores import score_candidates

    scores = score_candidates(lists, settings, progress, chrf_words=0, learned=learned)
    assert scores.chrf_stats is not None
    named = {name: getattr(scores, name) for name in ("bleu", "chrf", "simile", "learned")}
    rewards = {name: found.double().numpy() for name, found in named.items() if found is not None}
    counts = {"bleu": scores.bleu_stats.numpy(), "chrf": scores.chrf_stats.numpy()}
    sizes = np.array([len(found.hyps) for found in lists])
    return Scored(np.arange(sizes.max()) < sizes[:, None], rewards, counts)


def _figures(
    scored: Scored, places: Mapping[str, Places], test: PairedTest
) -> dict[str, dict[str, Figures]]:
    found: dict[str, dict[str, Figures]] = {name: {} for name in places}
    for metric in scored.rewards:
        column = [scored.statistics(metric, chosen) for chosen in places.values()]
        draws = bootstrap(column, test.resamples, test.seed)
        values = [statistics.corpus() for statistics in column]
        for name, value, own in zip(places, values, draws, strict=True):
            around = interval(own)
            p = bootstrap_p_value(draws[0], own, value - values[0], len(scored.mask))
            found[name][metric] = Figures(value, around.low, around.high, p)
    return found


def _equal_share(scored: Scored, metric: str) -> float:
    rewards = scored.rewards[metric]
    high = np.where(scored.mask, rewards, -np.inf).max(axis=1)
    low = np.where(scored.mask, rewards, np.inf).min(axis=1)
    return float((high - low <= EQUAL).mean())


def _agreement(scored: Scored, first: Places) -> dict[str, Agreement]:
    """Of each pair of rewards; lists of one length are correlated together."""
    found = {}
    # What differs by rounding has one rank.
    steps = {name: np.rint(values / EQUAL) for name, values in scored.rewards.items()}
    sizes = scored.mask.sum(axis=1)
    rows = np.arange(len(sizes))
    for one, other in combinations(scored.rewards, 2):
        values = [
            correlation(
                "spearman",
                *(steps[name][sizes == size, :size] for name in (one, other)),
            )
            for size in np.unique(sizes)
            if size > 1
        ]
        defined = np.concatenate(values)
        defined = defined[~np.isnan(defined)]
        theirs = scored.rewards[other]
        top = np.where(scored.mask, theirs, -np.inf).max(axis=1)
        same = theirs[rows, scored.best(one, first)] >= top - EQUAL
        mean = float(defined.mean()) if len(defined) else None
        found[f"{one} {other}"] = Agreement(mean, float(same.mean()))
    return found


def _expected_gain(choices: Mapping[str, Mapping[str, Figures]]) -> dict[str, tuple[float, float]]:
    """Headroom times the lowest and the highest of the measured shares, where there are some."""
    found = {}
    for metric in choices[FIRST]:
        shares = [share for _, reward, share in MEASURED if reward == metric]
        if shares:
            headroom = choices[f"best_{metric}"][metric].value - choices[FIRST][metric].value
            found[metric] = (headroom * min(shares), headroom * max(shares))
    return found


# --- the answer ---


def ask(inputs: Inputs) -> Answer:
    """The headroom of --nbest-lists."""
    from simile_plugin.files import InputError, Progress
    from simile_plugin.reward import load_learned

    args = inputs.args
    if args.learned and inputs.settings.encoder is None:
        raise InputError("--learned: there is no --encoder DIR it could be for")
    learned = load_learned(args.learned, "--learned") if args.learned else None
    refs = inputs.refs if args.ref else None
    with Progress(None, "sent") as bar:
        found = analyse_headroom(
            args.nbest_lists,
            inputs.settings,
            inputs.test,
            learned,
            progress=bar.update,
            read=inputs.texts.bytes,
            refs=refs,
        )
    return answer_headroom(found)


def answer_headroom(result: HeadroomResult) -> Answer:
    """A line a choice, a column a metric; how the rewards agree; what training may give."""
    metrics = list(result.choices[FIRST])
    names = [NAMES[metric] for metric in metrics]
    rows = [
        [_title(choice, result.utility), *(_cell(row[metric]) for metric in metrics)]
        for choice, row in result.choices.items()
    ]
    spread = [
        ["all candidates cost the same", *(f"{result.equal[metric]:.1%}" for metric in metrics)],
        ["headroom: best - first", *(f"{_headroom(result, metric):.2f}" for metric in metrics)],
        ["expected gain of MRT on it", *(_gain(result, metric) for metric in metrics)],
    ]
    agreement = [
        [
            " and ".join(NAMES[name] for name in pair.split()),
            "-" if found.correlation is None else f"{found.correlation:.2f}",
            f"{found.same_best:.1%}",
        ]
        for pair, found in result.agreement.items()
    ]
    low, high = result.list_sizes
    sizes = str(high) if low == high else f"{low} to {high}"
    label = f"First, MBR, best and worst choice by {', '.join(names)}"
    chart = Chart(label, (9.2, 0.9 + 0.8 * len(metrics)), partial(_draw, result=result))
    measured = ", ".join(
        f"{NAMES[reward]} {share:.0%} on {run}"
        for run, reward, share in MEASURED
        if reward in metrics
    )
    return Answer(
        "headroom",
        "Will training pay?",
        "What these lists hold beyond the model's first choice. MBR needs no reference and no "
        "training; best and worst know the reference, and bound what a choice can give.",
        f"Choices from {count(result.sentences, 'list')} of {sizes},",
        [
            Figure(chart, "From the worst to the best choice of each metric, with first and MBR."),
            make_table(["Choice", *names], rows),
            make_table(["Lists", *names], spread),
            make_table(["Agreement within lists", "Spearman", "same best"], agreement),
        ],
        asdict(result),
        result.file,
        sentences=_sentences(result),
        notes=[
            f"± is half of the 95% interval over {result.test.resamples:,} resamples of the lists, "
            f"seed {result.test.seed}; p: paired bootstrap by the same (the tail of the direction "
            "seen)",
            "best and worst are chosen by sentence scores, BLEU and chrF shown are of the corpus",
            "expected gain: the headroom of the trained reward times the lowest and highest share "
            f"of it that was gained on test sets ({measured}); few runs, of at most 200 "
            "updates, on small models and lists of 8: an order of magnitude, no promise",
        ],
        signatures=result.signatures,
    )


def _title(choice: str, utility: str) -> str:
    kind, _, metric = choice.partition("_")
    if choice == FIRST:
        return "first, by the model"
    return f"MBR by {NAMES[utility]}" if choice == MBR else f"{kind} by {NAMES[metric]}"


def _cell(figures: Figures) -> str:
    return f"{figures.value:.2f} ±{(figures.high - figures.low) / 2:.2f}"


def _headroom(result: HeadroomResult, metric: str) -> float:
    return result.choices[f"best_{metric}"][metric].value - result.choices[FIRST][metric].value


def _gain(result: HeadroomResult, metric: str) -> str:
    if metric not in result.gain:
        return "not measured"
    low, high = result.gain[metric]
    return f"{low:+.2f} to {high:+.2f}"


def _sentences(result: HeadroomResult) -> list[str]:
    metric = result.utility
    first, mbr = (result.choices[choice][metric] for choice in (FIRST, MBR))
    other = [
        f"{result.choices[MBR][name].value - result.choices[FIRST][name].value:+.2f} {NAMES[name]} "
        f"({p_told(result.choices[MBR][name].p_value)})"
        for name in result.choices[FIRST]
        if name != metric
    ]
    found = [
        f"MBR decoding, without training, changes {NAMES[metric]} by "
        f"{mbr.value - first.value:+.2f} ({p_told(mbr.p_value)}), {', '.join(other)}.",
        f"The best of each list is {_headroom(result, metric):.2f} {NAMES[metric]} above the "
        f"first; in {result.equal[metric]:.0%} of the lists all candidates cost the same.",
    ]
    if metric in result.gain:
        low, high = result.gain[metric]
        found.append(
            f"Trained on {NAMES[metric]}, the models of this project gained a share of that "
            f"headroom which would be {low:+.2f} to {high:+.2f} here."
        )
    return found


def _draw(figure: Drawing, result: HeadroomResult) -> None:
    metrics = list(result.choices[FIRST])
    for axes, metric in zip(
        figure.subplots(len(metrics), 1, squeeze=False)[:, 0], metrics, strict=True
    ):
        values = {name: row[metric].value for name, row in result.choices.items()}
        ends = [values[f"worst_{metric}"], values[f"best_{metric}"]]
        axes.plot(ends, [0, 0], "|-", color=COLORS[0], linewidth=2, markersize=14)
        for name, mark, color in ((FIRST, "o", INK), (MBR, "D", COLORS[1])):
            axes.plot([values[name]], [0], mark, color=color, markersize=8, label=name)
        axes.set_yticks([0], [NAMES[metric]])
        axes.set_ylim(-1, 1)
        axes.grid(axis="x")
    handles = axes.get_lines()
    names = ("worst to best", "first, by the model", f"MBR by {NAMES[result.utility]}")
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)

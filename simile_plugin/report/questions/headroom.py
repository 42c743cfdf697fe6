"""Will training pay? What n-best lists hold beyond their first line, before anyone trains.

MRT moves probability within such lists: it cannot gain where all candidates cost the same, and
what it gains is a share of the distance from the model's choice to the best of each list. A reward
that gives partial credit differs between most candidates (Wieting et al. 2019, Figure 11).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import InputError, Progress
from simile_plugin.nbest import (
    NbestList,
    choose,
    expected_utilities,
    name_of_first,
    references,
    sources,
)
from simile_plugin.report.answer import (
    HEADINGS,
    Answer,
    Figure,
    Table,
    count,
    make_table,
    p_defined,
    p_told,
    size_range,
)
from simile_plugin.report.inputs.options import PairedTest
from simile_plugin.report.inputs.scores import bleu_of_sums, score_candidates
from simile_plugin.reward import Reward, Scorer, corpus_chrf, encoder_warning, load_learned
from simile_plugin.significance import (
    COLORS,
    INK,
    Chart,
    Floats,
    SentenceStatistics,
    bootstrap,
    interval,
    mean_statistics,
    paired_p_value,
)

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

Places = NDArray[np.int64]

NAMES = {**HEADINGS, "learned": "LEARNED"}
FIRST, MBR = "first", "mbr"
# What to say of a first choice that is not the model's.
UNKNOWN = {
    "first of the list": "these lists have no scores: their first candidate is the model's choice "
    "if a beam wrote them, and any sample if they were sampled, so that no gain is told",
    "highest score": "these lists are samples (their scores are in no order, or equal candidates "
    "have equal scores): the one with the highest score is not what a beam would choose, so that "
    "no gain is told",
}
EQUAL = 1e-6  # rewards are made in float32: differences below this are rounding
# Gain on the test set of a model trained on the reward, over (best - first) of the lists of 8 of
# the model before: docs/results/mbr.md has the figures behind them.
BINS = 25
MEASURED: tuple[tuple[str, str, float], ...] = (
    ("Multi30k de-en", "simile", 0.095),
    ("quickstart", "simile", 0.371),
    ("Multi30k de-en", "bleu", 0.103),
    ("quickstart", "bleu", 0.164),
    ("Multi30k de-en", "learned", 0.118),
)


def ask(inputs: Inputs) -> Answer:
    """Measure the headroom of --nbest-lists."""
    options, scorer = inputs.options, inputs.scorer
    if options.learned and scorer.encoder is None:
        raise InputError("--learned: there is no --encoder DIR it could be for")
    learned = load_learned(options.learned, "--learned") if options.learned else None
    with Progress(None, "sent") as bar:
        data = measure_headroom(
            inputs.nbest_lists,
            replace(scorer, learned=learned),
            inputs.test,
            options.nbest_lists or "",
            bar.update,
        )
    return answer_headroom(data)


@dataclass(frozen=True)
class Chosen:
    """A metric of the chosen candidates in percent, its 95% interval, p against the first."""

    value: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class CostSpread:
    """The cost differences of two candidates of a list: shares of pairs, and a histogram."""

    zero_share: float
    above_zero_share: float
    mean_difference: float
    median_difference: float
    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class Headroom:
    """Figures of n-best lists.

    Attributes:
        first: kind of the first choice, see `simile_plugin.nbest.name_of_first`.
        list_sizes: lowest and highest.
        choices: first, mbr, best_METRIC, worst_METRIC -> metric -> figures.
        utility: of the MBR choice.
        equal: metric -> share of lists where all candidates cost the same.
        pairs: of two candidates of a list; costs: cost_METRIC -> how they differ.
        only_bleu_equal: share of pairs that are equal under BLEU and apart under SIMILE.
        gain: metric -> lowest and highest expected gain, see MEASURED.
        language: warning about the references, or "".
    """

    file: str
    sentences: int
    first: str
    list_sizes: tuple[int, int]
    choices: dict[str, dict[str, Chosen]]
    utility: str
    equal: dict[str, float]
    pairs: int
    costs: dict[str, CostSpread]
    only_bleu_equal: float | None
    gain: dict[str, tuple[float, float]]
    signatures: dict[str, str]
    test: PairedTest
    language: str


@dataclass(frozen=True)
class ScoredLists:
    """Rewards of S lists, padded to N: metric -> (S, N); counts behind BLEU and chrF."""

    mask: NDArray[np.bool_]
    rewards: dict[str, Floats]
    counts: dict[str, NDArray[np.int64]]

    def statistics(self, metric: str, places: Places) -> SentenceStatistics:
        """Return the metric over the chosen candidates, for the bootstrap."""
        rows = np.arange(len(places))
        if metric in self.counts:
            chosen = self.counts[metric][None, rows, places]
            return SentenceStatistics(chosen, _corpus_score(metric))
        return mean_statistics(100 * self.rewards[metric][None, rows, places])

    def best(self, metric: str, first: Places) -> Places:
        """Return the place of the highest reward of each list; of equal ones the model's choice."""
        rewards = np.where(self.mask, self.rewards[metric], -np.inf)
        top = rewards.max(axis=1)
        of_first = rewards[np.arange(len(first)), first]
        places: Places = np.where(of_first >= top - EQUAL, first, rewards.argmax(axis=1))
        return places

    def worst(self, metric: str) -> Places:
        """Return the place of the lowest reward of each list."""
        places: Places = np.where(self.mask, self.rewards[metric], np.inf).argmin(axis=1)
        return places


def _corpus_score(metric: str) -> Callable[[Floats], Floats]:
    return corpus_chrf if metric == "chrf" else bleu_of_sums


def measure_headroom(
    lists: Sequence[NbestList],
    scorer: Scorer,
    test: PairedTest,
    file: str = "",
    progress: Callable[[int], object] | None = None,
) -> Headroom:
    """Score the model's choice, the MBR choice, and the best and worst of each list.

    BLEU and chrF are of the corpus, best and worst are by their sentence scores.

    Args:
        scorer: of BLEU, chrF, with an encoder SIMILE, and perhaps a learned reward.
        progress: called with the number of lists just scored.
    """
    refs = references(lists, "--nbest-lists")
    scored = _score(lists, scorer, progress)
    spec = "chrf" if scorer.encoder is None else "simile"
    utilities = expected_utilities(lists, replace(scorer, reward=Reward(spec)))
    chosen = [choose(*pair) for pair in zip(lists, utilities, strict=True)]
    first = np.array([candidates.first for candidates in lists])
    places = {FIRST: first, MBR: np.array([place or 0 for place in chosen])}
    places |= {f"best_{metric}": scored.best(metric, first) for metric in scored.rewards}
    places |= {f"worst_{metric}": scored.worst(metric) for metric in scored.rewards}
    choices = _figures(scored, places, test)
    signatures = scorer.signatures("BLEU", "chrF", "SIMILE", "LEARNED")
    sizes = scored.mask.sum(axis=1)
    kind = name_of_first(lists)
    differences = {
        metric: pair_differences(rewards, scored.mask) for metric, rewards in scored.rewards.items()
    }
    return Headroom(
        file=file,
        sentences=len(lists),
        first=kind,
        list_sizes=(int(sizes.min()), int(sizes.max())),
        choices=choices,
        utility=spec,
        equal={metric: _equal_share(scored, metric) for metric in scored.rewards},
        pairs=len(differences["bleu"]),
        costs=_cost_spreads(differences),
        only_bleu_equal=_only_bleu_equal(differences),
        # The shares were measured from a beam's choice, which no sample is.
        gain=_expected_gain(choices) if kind not in UNKNOWN else {},
        signatures=signatures,
        test=test,
        language=encoder_warning("the text of the references", scorer.encoder, refs),
    )


def _score(
    lists: Sequence[NbestList],
    scorer: Scorer,
    progress: Callable[[int], object] | None,
) -> ScoredLists:
    srcs = None
    if scorer.learned is not None and scorer.learned.needs_sources:
        srcs = sources(lists, "--nbest-lists", "")
    scores = score_candidates(lists, scorer, srcs, progress)
    assert scores.chrf_stats is not None
    named = {name: getattr(scores, name) for name in ("bleu", "chrf", "simile", "learned")}
    rewards = {
        name: values.double().numpy() for name, values in named.items() if values is not None
    }
    counts = {"bleu": scores.bleu_stats.numpy(), "chrf": scores.chrf_stats.numpy()}
    sizes = np.array([len(candidates.hyps) for candidates in lists])
    return ScoredLists(np.arange(sizes.max()) < sizes[:, None], rewards, counts)


def _figures(
    scored: ScoredLists, places: Mapping[str, Places], test: PairedTest
) -> dict[str, dict[str, Chosen]]:
    choices: dict[str, dict[str, Chosen]] = {name: {} for name in places}
    for metric in scored.rewards:
        column = [scored.statistics(metric, chosen) for chosen in places.values()]
        draws = bootstrap(column, test.resamples, test.seed)
        for place, (name, drawn) in enumerate(zip(places, draws, strict=True)):
            ends = interval(drawn)
            p_value = paired_p_value(column[0], column[place], (draws[0], drawn))
            choices[name][metric] = Chosen(column[place].corpus(), ends.low, ends.high, p_value)
    return choices


def _equal_share(scored: ScoredLists, metric: str) -> float:
    """Return the share of lists where all candidates cost the same."""
    rewards = scored.rewards[metric]
    high = np.where(scored.mask, rewards, -np.inf).max(axis=1)
    low = np.where(scored.mask, rewards, np.inf).min(axis=1)
    return float((high - low <= EQUAL).mean())


def _cost_spreads(differences: Mapping[str, Floats]) -> dict[str, CostSpread]:
    """Describe the cost differences of the N (N - 1) / 2 pairs within each list of N."""
    widest = max(float(values.max(initial=0)) for values in differences.values()) or 1.0
    costs = {}
    for metric, values in differences.items():
        counts, edges = np.histogram(values, BINS, (0.0, widest))
        above = float((values > EQUAL).mean()) if len(values) else 0.0
        costs[f"cost_{metric}"] = CostSpread(
            zero_share=1 - above,
            above_zero_share=above,
            mean_difference=float(values.mean()) if len(values) else 0.0,
            median_difference=float(np.median(values)) if len(values) else 0.0,
            edges=edges.tolist(),
            counts=counts.tolist(),
        )
    return costs


def _only_bleu_equal(differences: Mapping[str, Floats]) -> float | None:
    if "simile" not in differences or not len(differences["bleu"]):
        return None
    only = (differences["bleu"] <= EQUAL) & (differences["simile"] > EQUAL)
    return float(only.mean())


def pair_differences(rewards: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Return |r_i - r_j| of every pair i < j within a list, the shortest lists first: (pairs,)."""
    sizes = mask.sum(axis=1)
    differences = np.empty(int((sizes * (sizes - 1) // 2).sum()))
    end = 0
    # Lists of one length at a time: all as long as the longest would be too much for memory.
    for size in np.unique(sizes):
        i, j = np.triu_indices(size, k=1)
        for values in rewards[sizes == size]:
            start, end = end, end + len(i)
            np.abs(values[i] - values[j], out=differences[start:end])
    return differences


def _expected_gain(choices: Mapping[str, Mapping[str, Chosen]]) -> dict[str, tuple[float, float]]:
    """Multiply the headroom by the lowest and the highest measured share, where there are some."""
    gains = {}
    for metric in choices[FIRST]:
        shares = [share for _, reward, share in MEASURED if reward == metric]
        if shares:
            headroom = _headroom(choices, metric)
            gains[metric] = (headroom * min(shares), headroom * max(shares))
    return gains


def _headroom(choices: Mapping[str, Mapping[str, Chosen]], metric: str) -> float:
    return choices[f"best_{metric}"][metric].value - choices[FIRST][metric].value


# --- the answer ---


def answer_headroom(data: Headroom) -> Answer:
    """Show a line a choice, a column a metric; what training may give."""
    metrics = list(data.choices[FIRST])
    names = [NAMES[metric] for metric in metrics]
    rows = [
        [_title(choice, data), *(_cell(row[metric]) for metric in metrics)]
        for choice, row in data.choices.items()
    ]
    label = f"First, MBR, best and worst choice by {', '.join(names)}"
    chart = Chart(label, (9.2, 0.9 + 0.8 * len(metrics)), lambda figure: _draw(figure, data))
    return Answer(
        "headroom",
        "Will training pay?",
        f"What these lists hold beyond the {data.first}. MBR needs no reference and no "
        "training; best and worst know the reference, and bound what a choice can give.",
        f"Choices from {count(data.sentences, 'list')} of {size_range(data.list_sizes)},",
        [
            Figure(chart, "From the worst to the best choice of each metric, with first and MBR."),
            make_table(["Choice", *names], rows),
            _spread_table(data, metrics),
            _histograms(data),
        ],
        asdict(data),
        data.file,
        sentences=_sentences(data),
        warnings=[data.language] if data.language else [],
        notes=_notes(data, metrics),
        signatures=data.signatures,
    )


def _spread_table(data: Headroom, metrics: Sequence[str]) -> Table:
    """Tabulate how far the candidates of a list differ, a column a metric."""
    spreads = list(data.costs.values())
    gains = [
        "{:+.2f} to {:+.2f}".format(*data.gain[metric]) if metric in data.gain else "not measured"
        for metric in metrics
    ]
    rows = [
        ["all candidates cost the same", *(f"{data.equal[metric]:.1%}" for metric in metrics)],
        ["pairs of a list that cost the same", *(f"{of.zero_share:.1%}" for of in spreads)],
        ["mean difference of a pair", *(f"{of.mean_difference:.4f}" for of in spreads)],
        ["median difference of a pair", *(f"{of.median_difference:.4f}" for of in spreads)],
        [
            f"headroom: best - {data.first}",
            *(f"{_headroom(data.choices, metric):.2f}" for metric in metrics),
        ],
        ["expected gain of MRT on it", *gains],
    ]
    return make_table(["Lists", *(NAMES[metric] for metric in metrics)], rows)


def _notes(data: Headroom, metrics: Sequence[str]) -> list[str]:
    measured = ", ".join(
        f"{NAMES[reward]} {share:.0%} on {run}"
        for run, reward, share in MEASURED
        if reward in metrics
    )
    notes = []
    if data.only_bleu_equal is not None:
        notes.append(
            f"{data.only_bleu_equal:.1%} of the pairs are equal under BLEU, apart under SIMILE"
        )
    notes.append(
        f"± is half of the 95% interval over {data.test.resamples:,} resamples of the lists, seed "
        f"{data.test.seed}; p: {p_defined(data.sentences, data.test.resamples)}"
    )
    if data.first in UNKNOWN:
        notes.append(UNKNOWN[data.first])
    return [
        *notes,
        "best and worst are chosen by sentence scores, BLEU and chrF shown are of the corpus",
        "expected gain: the headroom of the trained reward times the lowest and highest share of "
        f"it that was gained on test sets ({measured}); few runs, of at most 200 updates, on small "
        "models and lists of 8: an order of magnitude, no promise",
    ]


def _title(choice: str, data: Headroom) -> str:
    kind, _, metric = choice.partition("_")
    if choice == FIRST:
        return data.first
    return f"MBR by {NAMES[data.utility]}" if choice == MBR else f"{kind} by {NAMES[metric]}"


def _cell(figures: Chosen) -> str:
    return f"{figures.value:.2f} ±{(figures.high - figures.low) / 2:.2f}"


def _sentences(data: Headroom) -> list[str]:
    choices, metric = data.choices, data.utility
    changes = {
        name: f"{of.value - choices[FIRST][name].value:+.2f}" for name, of in choices[MBR].items()
    }
    draws = data.test.resamples
    chances = {name: p_told(of.p_value, draws) for name, of in choices[MBR].items()}
    other = [f"{changes[m]} {NAMES[m]} ({chances[m]})" for m in changes if m != metric]
    where = f"the n-best lists of {os.path.basename(data.file) or 'the model'}"
    told = [
        f"On {where}, MBR decoding, without training, changes {NAMES[metric]} by {changes[metric]} "
        f"({chances[metric]}), {', '.join(other)} against the {data.first}.",
        f"The best of each list is {_headroom(choices, metric):.2f} {NAMES[metric]} above the "
        f"{data.first}; in {data.equal[metric]:.0%} of the lists all candidates cost the same.",
    ]
    if metric in data.gain:
        low, high = data.gain[metric]
        told.append(
            f"Trained on {NAMES[metric]}, the models of this project gained a share of that "
            f"headroom which would be {low:+.2f} to {high:+.2f} here."
        )
    return told


def _draw(figure: Any, data: Headroom) -> None:
    metrics = list(data.choices[FIRST])
    panels = figure.subplots(len(metrics), 1, squeeze=False)[:, 0]
    for axes, metric in zip(panels, metrics, strict=True):
        values = {name: row[metric].value for name, row in data.choices.items()}
        ends = [values[f"worst_{metric}"], values[f"best_{metric}"]]
        axes.plot(ends, [0, 0], "|-", color=COLORS[0], linewidth=2, markersize=14)
        for name, mark, color in ((FIRST, "o", INK), (MBR, "D", COLORS[1])):
            axes.plot([values[name]], [0], mark, color=color, markersize=8, label=name)
        axes.set_yticks([0], [NAMES[metric]])
        axes.set_ylim(-1, 1)
        axes.grid(axis="x")
    handles = panels[-1].get_lines()
    names = ("worst to best", data.first, f"MBR by {NAMES[data.utility]}")
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)


def _histograms(data: Headroom) -> Figure:
    costs = data.costs

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(costs), squeeze=False, sharey=True)[0]
        for place, (panel, (cost, spread)) in enumerate(zip(panels, costs.items(), strict=True)):
            shares = [100 * number / max(1, data.pairs) for number in spread.counts]
            panel.stairs(shares, spread.edges, fill=True, color=COLORS[place], alpha=0.85)
            panel.set_title(NAMES[cost.removeprefix("cost_")], loc="left", fontsize=12)
            panel.grid(axis="y")
        panels[0].set_ylabel("% of pairs")

    label = "Histograms of the differences in cost of two candidates of a list"
    return Figure(Chart(label, (9.5, 3.2), draw), f"{label}.", "How far candidates differ")

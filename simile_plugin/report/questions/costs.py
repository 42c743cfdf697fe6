"""How much do the two costs tell the candidates of a list apart? (Wieting et al. 2019, Figure 11)

A cost that gives partial credit differs between most candidates of an n-best list, so that most
of them carry a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import read_bytes
from simile_plugin.nbest import COSTS, NbestList, read_nbest_lists
from simile_plugin.report.answer import Answer, Figure, make_table, optional
from simile_plugin.significance import COLORS, Chart, Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings

NEEDS = (("nbest_lists",),)
ASKED_BY = ("nbest_lists",)
PICTURED = True

NAMES = {"cost_bleu": "BLEU cost", "cost_simile": "SIMILE cost"}
BINS = 25
EQUAL = 1e-6  # costs are made in float32: differences below this are rounding


@dataclass(frozen=True)
class CostDistribution:
    """One cost over all candidates, and its |difference| over all pairs within a list.

    Attributes:
        skew, difference_skew: third standardised moment; None where nothing varies.
        edges, counts: histogram of the costs, from 0 to 1; what lies above 1 is in the last bin.
        difference_edges, difference_counts: of the |differences|.
        zero_share, above_zero_share: of the pairs; together 1.
        first_cost: mean over lists of the model's likeliest candidate.
        oracle_cost: mean over lists of the lowest cost in the list.
    """

    mean: float
    std: float
    skew: float | None
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    difference_edges: tuple[float, ...]
    difference_counts: tuple[int, ...]
    zero_share: float
    above_zero_share: float
    mean_difference: float
    median_difference: float
    difference_skew: float | None
    first_cost: float
    oracle_cost: float


@dataclass(frozen=True)
class CostsResult:
    """Both costs over the n-best lists of one file.

    Attributes:
        list_sizes: smallest and largest number of candidates.
        pairs: N (N - 1) / 2 a list of N, 28 of 8.
        only_bleu_equal: share of the pairs that are equal under BLEU and differ under SIMILE.
    """

    file: str
    sentences: int
    candidates: int
    list_sizes: tuple[int, int]
    pairs: int
    costs: dict[str, CostDistribution]
    only_bleu_equal: float | None
    signatures: dict[str, str]
    notes: tuple[str, ...]


def analyse_costs(
    path: str,
    settings: ScoreSettings,
    progress: Callable[[int], object] | None = None,
    read: Callable[[str, str], bytes] = read_bytes,
    refs: Sequence[str] | None = None,
) -> CostsResult:
    """Both costs over n-best lists: those in the file, or computed where it has none.

    With an encoder they are always computed, by it.

    Args:
        path: see `nbest.read_nbest_lists`.
        progress: called with the number of sentences just scored.
        read: reads the file.
        refs: a reference for each line of the source, for lists without.

    Raises:
        InputError: for a file without lists.
    """
    from simile_plugin.reward import bleu_signature, signature

    lists = read_nbest_lists(path, "--nbest-lists", read, refs)
    sizes = np.array([len(found.hyps) for found in lists])
    mask = np.arange(sizes.max()) < sizes[:, None]
    written = [cost for cost in COSTS if all(cost in found.costs for found in lists)]
    signatures = {}
    if written and settings.encoder is None:
        costs = {cost: _padded([found.costs[cost] for found in lists], mask) for cost in written}
    else:
        costs = _scored(lists, settings, progress)
        signatures["BLEU"] = bleu_signature(settings.tokenize, sentence=True)
        if settings.encoder is not None:
            signatures["SIMILE"] = signature(settings.encoder, settings.alpha)
    pairs = {cost: _pair_differences(values, mask) for cost, values in costs.items()}
    widest = max(float(found.max(initial=0)) for found in pairs.values())
    first = np.array([found.first for found in lists])
    return CostsResult(
        path,
        len(lists),
        int(sizes.sum()),
        (int(sizes.min()), int(sizes.max())),
        len(next(iter(pairs.values()))),
        {c: _distribution(costs[c], mask, pairs[c], widest or 1.0, first) for c in costs},
        _only_bleu_equal(pairs),
        signatures,
        _notes(sizes, costs),
    )


def _padded(rows: Sequence[Sequence[float]], mask: NDArray[np.bool_]) -> Floats:
    values = np.zeros(mask.shape)
    values[mask] = [value for row in rows for value in row]
    return values


def _scored(
    lists: Sequence[NbestList],
    settings: ScoreSettings,
    progress: Callable[[int], object] | None,
) -> dict[str, Floats]:
    """Costs (S, N) by the reward that training uses."""
    from simile_plugin.report.inputs.scores import score_candidates

    scores = score_candidates(lists, settings, progress)
    rewards = {"cost_bleu": scores.bleu, "cost_simile": scores.simile}
    return {c: 1 - values.double().numpy() for c, values in rewards.items() if values is not None}


def _pair_differences(costs: Floats, mask: NDArray[np.bool_]) -> Floats:
    """|c_i - c_j| of every pair i < j within a list, the shortest lists first: (pairs,)."""
    sizes = mask.sum(axis=1)
    found = np.empty(int((sizes * (sizes - 1) // 2).sum()))
    end = 0
    for size in np.unique(sizes):  # all as long as the longest would be too much for memory
        i, j = np.triu_indices(size, k=1)
        for values in costs[sizes == size]:
            start, end = end, end + len(i)
            np.abs(values[i] - values[j], out=found[start:end])
    return found


def _distribution(
    costs: Floats,
    mask: NDArray[np.bool_],
    differences: Floats,
    widest: float,
    first: NDArray[np.int64],
) -> CostDistribution:
    values = costs[mask]
    counts, edges = np.histogram(values.clip(0, 1), BINS, (0.0, 1.0))
    difference_counts, difference_edges = np.histogram(differences, BINS, (0.0, widest))
    above = float((differences > EQUAL).mean())
    return CostDistribution(
        float(values.mean()),
        float(values.std()),
        _skew(values),
        tuple(edges.tolist()),
        tuple(counts.tolist()),
        tuple(difference_edges.tolist()),
        tuple(difference_counts.tolist()),
        1 - above,
        above,
        float(differences.mean()),
        float(np.median(differences)),
        _skew(differences),
        float(costs[np.arange(len(costs)), first].mean()),
        float(np.where(mask, costs, np.inf).min(axis=1).mean()),
    )


def _skew(values: Floats) -> float | None:
    """mean((x - m)^3) / std^3, or None where all values are equal."""
    centred = values - values.mean()
    deviation = float(np.sqrt((centred**2).mean()))
    return float((centred**3).mean()) / deviation**3 if deviation > EQUAL else None


def _only_bleu_equal(pairs: dict[str, Floats]) -> float | None:
    if len(pairs) < 2:
        return None
    bleu, simile = (pairs[cost] for cost in COSTS)
    return float(((bleu <= EQUAL) & (simile > EQUAL)).mean())


def _notes(sizes: NDArray[np.int64], costs: dict[str, Floats]) -> tuple[str, ...]:
    notes = []
    short = int((sizes < sizes.max()).sum())
    if short:
        notes.append(f"{short} of {len(sizes)} lists have fewer than {sizes.max()} candidates")
    if "cost_simile" not in costs:
        notes.append("no SIMILE cost: give --encoder")
    return tuple(notes)


# --- the answer ---


def ask(inputs: Inputs) -> Answer:
    """Both costs of --nbest-lists."""
    from simile_plugin.files import Progress

    path, settings, read = inputs.args.nbest_lists, inputs.settings, inputs.texts.bytes
    refs = inputs.refs if inputs.args.ref else None
    with Progress(None, "sent") as bar:
        found = analyse_costs(path, settings, bar.update, read, refs)
    return answer_costs(found)


def answer_costs(result: CostsResult) -> Answer:
    """A column a cost: its distribution, and that of the differences within a list."""
    low, high = result.list_sizes
    sizes = str(high) if low == high else f"{low} to {high}"
    found = list(result.costs.values())
    names = [NAMES[cost] for cost in result.costs]
    candidates = [
        ["mean", *(f"{cost.mean:.4f}" for cost in found)],
        ["standard deviation", *(f"{cost.std:.4f}" for cost in found)],
        ["skew", *(optional(cost.skew, ".2f") for cost in found)],
        ["model's first choice, mean", *(f"{cost.first_cost:.4f}" for cost in found)],
        ["best of each list, mean", *(f"{cost.oracle_cost:.4f}" for cost in found)],
    ]
    pairs = [
        ["zero", *(f"{cost.zero_share:.1%}" for cost in found)],
        ["above zero", *(f"{cost.above_zero_share:.1%}" for cost in found)],
        ["mean", *(f"{cost.mean_difference:.4f}" for cost in found)],
        ["median", *(f"{cost.median_difference:.4f}" for cost in found)],
        ["skew", *(optional(cost.difference_skew, ".2f") for cost in found)],
    ]
    notes = list(result.notes)
    if result.only_bleu_equal is not None:
        equal = (
            f"{result.only_bleu_equal:.1%} of the pairs are equal under BLEU, apart under SIMILE"
        )
        notes.insert(0, equal)
    label = f"Histograms of {' and '.join(names)} over n-best lists"
    chart = Chart(label, (4.6 * len(found), 5.6), partial(_draw, result=result))
    return Answer(
        "costs",
        "Cost distributions and partial credit",
        "What the candidates of one source cost under either reward before fine-tuning: a cost "
        "that is equal for two candidates teaches nothing about them.",
        f"Costs of {result.candidates:,} candidates in {result.sentences:,} lists of {sizes},",
        [
            Figure(chart, "Costs of candidates, and differences within lists."),
            make_table(["Candidates", *names], candidates),
            make_table([f"|difference| of {result.pairs:,} pairs", *names], pairs),
        ],
        asdict(result),
        result.file,
        notes=notes,
        signatures=result.signatures,
    )


def _draw(figure: Drawing, result: CostsResult) -> None:
    panels = figure.subplots(2, len(result.costs), squeeze=False, sharey="row")
    for column, (cost, found) in enumerate(result.costs.items()):
        upper, lower = panels[:, column]
        for panel, edges, counts, total in (
            (upper, found.edges, found.counts, result.candidates),
            (lower, found.difference_edges, found.difference_counts, result.pairs),
        ):
            shares = [100 * count / max(1, total) for count in counts]
            panel.stairs(shares, edges, fill=True, color=COLORS[column], alpha=0.85)
            panel.grid(axis="y")
        upper.set_title(NAMES[cost], loc="left", fontsize=12)
        upper.set_xlabel("cost of a candidate")
        lower.set_xlabel("|difference| of two candidates of a list")
        lower.annotate(
            f"zero: {found.zero_share:.1%}\nmean: {found.mean_difference:.3f}",
            (0.97, 0.93),
            xycoords="axes fraction",
            ha="right",
            va="top",
        )
    panels[0, 0].set_ylabel("% of candidates")
    panels[1, 0].set_ylabel("% of pairs")

"""How much do the two costs tell the candidates of a list apart? (Wieting et al. 2019, Figure 11)

A cost that gives partial credit differs between most candidates of an n-best list, so that most
of them carry a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simile_plugin.files import Progress
from simile_plugin.nbest import COSTS, NbestList
from simile_plugin.report.answer import Answer, Data, Figure, make_table, size_range
from simile_plugin.significance import COLORS, Chart, Floats

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs
    from simile_plugin.report.inputs.scores import ScoreSettings

NEEDS = (("nbest_lists",),)
ASKED_BY = ("nbest_lists",)
PICTURED = True

NAMES = {"cost_bleu": "BLEU cost", "cost_simile": "SIMILE cost"}
BINS = 25
EQUAL = 1e-6  # costs are made in float32: differences below this are rounding


def ask(inputs: Inputs) -> Answer:
    """Describe both costs of --nbest-lists."""
    with Progress(None, "sent") as bar:
        data = describe_costs(
            inputs.nbest_lists, inputs.settings, inputs.options.nbest_lists or "", bar.update
        )
    return answer_costs(data)


def describe_costs(
    lists: Sequence[NbestList],
    settings: ScoreSettings,
    file: str = "",
    progress: Callable[[int], object] | None = None,
) -> Data:
    """Describe both costs over n-best lists: those written in them, or computed.

    With an encoder they are always computed, by it. `progress` is called with the number of lists
    just scored. Shares and differences are of the N (N - 1) / 2 pairs within each list of N.
    """
    sizes = np.array([len(one.hyps) for one in lists])
    mask = np.arange(sizes.max()) < sizes[:, None]
    written = [cost for cost in COSTS if all(cost in one.costs for one in lists)]
    signatures: dict[str, str] = {}
    if written and settings.encoder is None:
        costs = {cost: _padded([one.costs[cost] for one in lists], mask) for cost in written}
    else:
        costs = _scored(lists, settings, progress)
        signatures = settings.signatures("SIMILE", chrf=False, sentence=True)
    pairs = {cost: pair_differences(values, mask) for cost, values in costs.items()}
    widest = max(float(values.max(initial=0)) for values in pairs.values()) or 1.0
    only_bleu_equal = None
    if len(pairs) == 2:
        bleu, simile = (pairs[cost] for cost in COSTS)
        only_bleu_equal = float(((bleu <= EQUAL) & (simile > EQUAL)).mean())
    notes = []
    if short := int((sizes < sizes.max()).sum()):
        notes.append(f"{short} of {len(sizes)} lists have fewer than {sizes.max()} candidates")
    if "cost_simile" not in costs:
        notes.append("no SIMILE cost: give --encoder")
    return {
        "file": file,
        "sentences": len(lists),
        "candidates": int(sizes.sum()),
        "list_sizes": (int(sizes.min()), int(sizes.max())),
        "pairs": len(next(iter(pairs.values()))),
        "costs": {c: _distribution(costs[c], mask, pairs[c], widest) for c in costs},
        "only_bleu_equal": only_bleu_equal,
        "signatures": signatures,
        "notes": notes,
    }


def _padded(rows: Sequence[Sequence[float]], mask: NDArray[np.bool_]) -> Floats:
    values = np.zeros(mask.shape)
    values[mask] = [value for row in rows for value in row]
    return values


def _scored(
    lists: Sequence[NbestList],
    settings: ScoreSettings,
    progress: Callable[[int], object] | None,
) -> dict[str, Floats]:
    """Compute costs (S, N) by the reward that training uses."""
    from simile_plugin.report.inputs.scores import score_candidates

    scores = score_candidates(lists, settings, progress)
    rewards = {"cost_bleu": scores.bleu, "cost_simile": scores.simile}
    return {c: 1 - values.double().numpy() for c, values in rewards.items() if values is not None}


def pair_differences(costs: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Return |c_i - c_j| of every pair i < j within a list, the shortest lists first: (pairs,)."""
    sizes = mask.sum(axis=1)
    differences = np.empty(int((sizes * (sizes - 1) // 2).sum()))
    end = 0
    # Lists of one length at a time: all as long as the longest would be too much for memory.
    for size in np.unique(sizes):
        i, j = np.triu_indices(size, k=1)
        for values in costs[sizes == size]:
            start, end = end, end + len(i)
            np.abs(values[i] - values[j], out=differences[start:end])
    return differences


def _distribution(
    costs: Floats,
    mask: NDArray[np.bool_],
    differences: Floats,
    widest: float,
) -> Data:
    values = costs[mask]
    # Costs above 1 are in the last bin.
    counts, edges = np.histogram(values.clip(0, 1), BINS, (0.0, 1.0))
    difference_counts, difference_edges = np.histogram(differences, BINS, (0.0, widest))
    above = float((differences > EQUAL).mean())
    return {
        "mean": float(values.mean()),
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "difference_edges": difference_edges.tolist(),
        "difference_counts": difference_counts.tolist(),
        "zero_share": 1 - above,
        "above_zero_share": above,
        "mean_difference": float(differences.mean()),
        "median_difference": float(np.median(differences)),
    }


def answer_costs(data: Data) -> Answer:
    """Show a column a cost: its distribution, and that of the differences within a list."""
    costs = data["costs"]
    names = [NAMES[cost] for cost in costs]

    def row(title: str, key: str, form: str) -> list[str]:
        return [title, *(f"{cost[key]:{form}}" for cost in costs.values())]

    rows = [
        row("mean cost of a candidate", "mean", ".4f"),
        row("pairs of a list that cost the same", "zero_share", ".1%"),
        row("mean difference of a pair", "mean_difference", ".4f"),
        row("median difference of a pair", "median_difference", ".4f"),
    ]
    notes = list(data["notes"])
    if (equal := data["only_bleu_equal"]) is not None:
        notes.insert(0, f"{equal:.1%} of the pairs are equal under BLEU, apart under SIMILE")
    label = f"Histograms of {' and '.join(names)} over n-best lists"
    chart = Chart(label, (4.6 * len(costs), 5.6), lambda figure: _draw(figure, data))
    return Answer(
        "costs",
        "Cost distributions and partial credit",
        "What the candidates of one source cost under either reward before fine-tuning: a cost "
        "that is equal for two candidates teaches nothing about them.",
        f"Costs of {data['candidates']:,} candidates in {data['sentences']:,} lists of "
        f"{size_range(data['list_sizes'])},",
        [
            Figure(chart, "Costs of candidates, and differences within lists."),
            make_table([f"{data['pairs']:,} pairs", *names], rows),
        ],
        data,
        data["file"],
        notes=notes,
        signatures=data["signatures"],
    )


def _draw(figure: Any, data: Data) -> None:
    panels = figure.subplots(2, len(data["costs"]), squeeze=False, sharey="row")
    for column, (cost, own) in enumerate(data["costs"].items()):
        upper, lower = panels[:, column]
        for panel, kind, total in (
            (upper, "", data["candidates"]),
            (lower, "difference_", data["pairs"]),
        ):
            shares = [100 * count / max(1, total) for count in own[f"{kind}counts"]]
            edges = own[f"{kind}edges"]
            panel.stairs(shares, edges, fill=True, color=COLORS[column], alpha=0.85)
            panel.grid(axis="y")
        upper.set_title(NAMES[cost], loc="left", fontsize=12)
        upper.set_xlabel("cost of a candidate")
        lower.set_xlabel("|difference| of two candidates of a list")
        lower.annotate(
            f"zero: {own['zero_share']:.1%}\nmean: {own['mean_difference']:.3f}",
            (0.97, 0.93),
            xycoords="axes fraction",
            ha="right",
            va="top",
        )
    panels[0, 0].set_ylabel("% of candidates")
    panels[1, 0].set_ylabel("% of pairs")

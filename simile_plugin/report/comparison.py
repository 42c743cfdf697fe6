"""Score all systems, test their differences, and say what of a difference is length."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from simile_plugin import significance
from simile_plugin.files import InputError
from simile_plugin.report.answer import Data
from simile_plugin.report.inputs.choices import PairedTest, choose_baselines
from simile_plugin.report.inputs.systems import System
from simile_plugin.significance import Floats, SentenceStatistics

if TYPE_CHECKING:
    from simile_plugin.reward import ListScores, Scorer

MAIN = "bleu"  # the metric that no system here is trained on by SIMILE's promise
ORDERS = 4
CHANCE = 50.0  # percent of pairs that a coin orders as people do
Numbers = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]


def compare_systems(
    systems: Sequence[System],
    refs: Sequence[str],
    reference: str,
    scorer: Scorer,
    test: PairedTest,
    baselines: Sequence[str] = (),
    more: Numbers | None = None,
    list_scores: ListScores | None = None,
) -> Data:
    """Compute scores, intervals, and paired tests against one or two baselines.

    A system is {name, files, scores: metric -> score, length_ratio: score, brevity_penalty,
    precisions, chrf_precision, chrf_recall}; a score {value (mean of the seeds, in percent),
    seeds, interval, against}, one of `against` {baseline, difference, p_value (share of the
    resamples), p_holm (after Holm over the metric's comparisons), p_sacrebleu, same_length
    {difference, p_value}, people}; see `at_the_others_length` and `people_agree`.

    A system with several seeds has the mean of its seeds' corpus scores; how the tests treat
    seeds is said in `significance.bootstrap`. Of three systems or more, `lead` is the highest BLEU
    against the second highest.

    Args:
        reference: name of the reference file, for the reader.
        baselines: see `choose_baselines`.
        more: title -> system name -> (S, N) numbers in [-1, 1], each title one more tested metric,
            in percent (`systems.read_sentence_scores`).
        list_scores: what `scores.score_all` gave for the systems, where it is known already.

    Raises:
        InputError: for unknown baselines, the title of a metric, or scores that are not finite.
    """
    from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems
    from simile_plugin.reward import is_unspaced, language_warning, tokenised_warning

    names = [system.name for system in systems]
    chosen = choose_baselines(names, baselines)
    list_scores = list_scores or score_all(systems, refs, scorer)
    metrics = score_systems(systems, refs, list_scores)
    ratios = [row.pop(LENGTH_RATIO) for row in metrics]
    _add_metrics(metrics, names, more or {})
    pairs = [
        (names.index(baseline), row)
        for row, name in enumerate(names)
        for order, baseline in enumerate(chosen)
        # A pair of baselines is shown once, in the later one's row.
        if name not in chosen[: order + 1]
    ]
    rows: list[Data] = [
        {
            "name": system.name,
            "files": list(system.files),
            "scores": {},
            "length_ratio": {
                **{"value": ratio.corpus(), "seeds": ratio.seed_scores().tolist()},
                **{"interval": None, "against": []},  # it is not tested
            },
            **_parts(own),
        }
        for system, ratio, own in zip(systems, ratios, metrics, strict=True)
    ]
    columns = {metric: [row[metric] for row in metrics] for metric in metrics[0]}
    levelled = {
        metric: [
            at_the_others_length(metric, own[row], own[base], ratios[row], ratios[base])
            for base, row in pairs
        ]
        for metric, own in columns.items()
    }
    asked = [one for metric in columns for one in (*columns[metric], *levelled[metric])]
    drawn = iter(significance.bootstrap(asked, test.resamples, test.seed))
    lead = None
    for metric, column in columns.items():
        scored = [Drawn(one.corpus(), next(drawn), len(refs)) for one in column]
        level = [Drawn(one.corpus(), next(drawn), len(refs)) for one in levelled[metric]]
        for entry, own, statistics in zip(rows, scored, column, strict=True):
            entry["scores"][metric] = {
                "value": own.value,
                "seeds": statistics.seed_scores().tolist(),
                "interval": asdict(significance.interval(own.draws)),
                "against": [],
            }
        tests = [_test(metric, scored[base], scored[row]) for base, row in pairs]
        adjusted = significance.holm([one["p_value"] for one in tests])
        for (base, row), found, equal, p_holm in zip(pairs, tests, level, adjusted, strict=True):
            size, p_value = equal.above(scored[base])
            same = {"difference": size, "p_value": p_value}
            found |= {"baseline": names[base], "p_holm": p_holm, "same_length": same}
            rows[row]["scores"][metric]["against"].append(found)
        if metric == MAIN and len(names) > 2:
            second, best = sorted(range(len(names)), key=lambda place: scored[place].value)[-2:]
            lead = {"baseline": names[second], **_test(metric, scored[second], scored[best])}
    texts = [(reference, refs)]
    texts += [part for one in systems for part in zip(one.files, one.outputs, strict=True)]
    return {
        "systems": rows,
        "baselines": list(chosen),
        "reference": os.path.basename(reference),
        "sentences": len(refs),
        "comparisons": len(pairs),
        "test": {"kind": "bootstrap", **asdict(test)},
        "signatures": _signatures(scorer, test),
        "unknown_share": list_scores.unknown_share,
        "lead": lead,
        "language": language_warning(reference, scorer.encoder, refs),
        "unspaced": is_unspaced(refs, scorer.tokenize),
        "tokenised": [
            text for name, lines in texts if (text := tokenised_warning(name, lines, refs))
        ],
    }


@dataclass(frozen=True)
class Drawn:
    """A score of the whole test set, and of its resamples (R,)."""

    value: float
    draws: Floats
    sentences: int

    def above(self, other: Drawn) -> tuple[float, float]:
        """Return the difference and its p-value."""
        size = self.value - other.value
        return size, significance.bootstrap_p_value(other.draws, self.draws, size, self.sentences)


def _test(metric: str, base: Drawn, own: Drawn) -> Data:
    size, p_value = own.above(base)
    sacrebleu = significance.sacrebleu_p_value(base.draws, own.draws, size, own.sentences)
    people = people_agree(metric, size)
    return {"difference": size, "p_value": p_value, "p_sacrebleu": sacrebleu, "people": people}


def _add_metrics(
    metrics: Sequence[dict[str, SentenceStatistics]], names: Sequence[str], more: Numbers
) -> None:
    computed = {title.casefold() for title in metrics[0]}
    for title, numbers in more.items():
        if title.casefold() in computed:
            raise InputError(
                f"--sentence-scores: got {title}, which is computed; name it otherwise"
            )
        for name, row in zip(names, metrics, strict=True):
            percent = 100 * np.asarray(numbers[name], dtype=np.float64)
            row[title] = significance.mean_statistics(percent)


def _signatures(scorer: Scorer, test: PairedTest) -> dict[str, str]:
    """Return what stands behind the numbers, with the test where sacreBLEU puts it."""
    signatures = scorer.signatures("BLEU", "chrF", "SIM, SIMILE", "LEARNED")
    for name in ("BLEU", "chrF"):
        references, _, rest = signatures[name].partition("|")
        signatures[name] = f"{references}|bs:{test.resamples}|seed:{test.seed}|{rest}"
    return signatures


# --- length ---


def _parts(metrics: Mapping[str, SentenceStatistics]) -> Data:
    """Return what BLEU and chrF are made of, the mean of the seeds."""
    bleu = metrics[MAIN].values.sum(axis=1, dtype=np.float64)
    matches, totals = bleu[:, 2 : 2 + ORDERS], bleu[:, 2 + ORDERS :]
    chrf = metrics["chrf"].values.sum(axis=1, dtype=np.float64)
    hyp, ref, both = (chrf[:, first::3] for first in range(3))
    return {
        "brevity_penalty": float(_brevity_penalty(bleu[:, 0], bleu[:, 1]).mean()),
        "precisions": (100 * (matches / np.maximum(totals, 1)).mean(0)).tolist(),
        "chrf_precision": float(100 * (both / np.maximum(hyp, 1)).mean()),
        "chrf_recall": float(100 * (both / np.maximum(ref, 1)).mean()),
    }


def _brevity_penalty(hyp: Floats, ref: Floats) -> Floats:
    return np.exp(np.minimum(0, 1 - ref / np.maximum(hyp, 1)))


def at_the_others_length(
    metric: str,
    own: SentenceStatistics,
    other: SentenceStatistics,
    own_lengths: SentenceStatistics,
    other_lengths: SentenceStatistics,
) -> SentenceStatistics:
    """Return what a system would score were its outputs as long as another's, and as good.

    BLEU: its own precisions, the other's brevity penalty. chrF: its own precisions of characters,
    of as many n-grams as the other has, so that recall is what they give. A mean of sentences (SIM,
    SIMILE, a judge): the other's score plus the intercept of the regression of the sentences'
    differences on their differences in length, (|h| - |h'|) / |r| in tokens.

    Args:
        own, other: statistics of the metric; of several seeds of the other, their mean counts.
        own_lengths, other_lengths: tokens of outputs and references, (S, N, 2).
    """
    from simile_plugin.report.inputs.scores import bleu_of_sums
    from simile_plugin.reward import corpus_chrf

    values, theirs = own.values.astype(np.float64), other.values.mean(axis=0, keepdims=True)
    width = values.shape[-1]

    def beside(columns: Floats) -> Floats:
        repeated = np.broadcast_to(columns, (len(values), *columns.shape[1:]))
        return np.concatenate([values, repeated], axis=2)

    def bleu(sums: Floats) -> Floats:
        hyp, ref, hyp_of_other = sums[..., 0], sums[..., 1], sums[..., width]
        penalties = _brevity_penalty(hyp_of_other, ref), _brevity_penalty(hyp, ref)
        return bleu_of_sums(sums[..., :width]) * penalties[0] / np.maximum(penalties[1], 1e-300)

    def chrf(sums: Floats) -> Floats:
        hyp, ref, both = (sums[..., first:width:3] for first in range(3))
        count = sums[..., width:]
        level = np.stack([count, ref, both * count / np.maximum(hyp, 1)], axis=-1)
        return corpus_chrf(level.reshape(*level.shape[:-2], width))

    def mean(sums: Floats) -> Floats:
        n, base, d, x, xx, xd = (sums[..., i] for i in range(6))
        spread = n * xx - x * x
        slope = np.divide(n * xd - x * d, spread, out=np.zeros_like(n), where=spread > 1e-9)
        return (base + d - slope * x) / n

    if metric == MAIN:
        return SentenceStatistics(beside(theirs[..., :1]), bleu)
    if metric == "chrf":
        return SentenceStatistics(beside(theirs[..., ::3]), chrf)
    lengths = own_lengths.values[..., 0] - other_lengths.values[..., 0].mean(axis=0)
    x = lengths / np.maximum(own_lengths.values[..., 1], 1)
    d = values[..., 0] - theirs[..., 0]
    base = np.broadcast_to(theirs[..., 0], d.shape)
    return SentenceStatistics(np.stack([np.ones_like(d), base, d, x, x * x, x * d], axis=2), mean)


def people_agree(metric: str, difference: float) -> float | None:
    """Return the percentage of pairs of WMT systems so far apart that people order alike.

    Kocmi et al. 2024, "Navigating the Metrics Maze", by mt-thresholds; None without that package,
    and for a metric that it does not have.
    """
    try:
        import mt_thresholds
    except ImportError:
        return None
    if metric.casefold() not in mt_thresholds.METRICS:
        return None
    return max(CHANCE, float(mt_thresholds.accuracy(abs(difference), metric.casefold())))

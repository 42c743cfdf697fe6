"""What of a difference is length: by hand, as sacreBLEU takes BLEU apart, in sentences."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from simile_plugin.report.comparison import References, compare_systems
from simile_plugin.report.inputs.options import PairedTest
from simile_plugin.report.inputs.scores import at_the_others_length, score_all, score_systems
from simile_plugin.report.questions.length import answer_length
from simile_plugin.report.questions.results import headline
from simile_plugin.report.render.text import render_text
from simile_plugin.reward import Scorer
from simile_plugin.significance import SentenceStatistics, mean_statistics
from tests.report.test_results import REFS, noisy, system


def test_bleu_at_the_others_brevity_penalty_is_what_sacrebleu_says() -> None:
    """Short outputs that are right, long ones that are not: what the long ones gain is length."""
    short = tuple(" ".join(ref.split()[: -max(1, len(ref.split()) // 4)]) for ref in REFS)
    long = noisy(0.06, 5)
    systems = [system("short", short), system("long", long)]
    data = compare_systems(systems, References("ref", REFS), Scorer(), PairedTest(200))
    first, second = (BLEU().corpus_score(list(out), [REFS]) for out in (short, long))
    for row, expected in zip(data.systems, (first, second), strict=True):
        assert row.brevity_penalty == pytest.approx(expected.bp)
        assert row.precisions == pytest.approx(expected.precisions)
    (found,) = data.systems[1].scores["bleu"].against
    expected = second.score * first.bp / second.bp - first.score
    assert found.same_length.difference == pytest.approx(expected)
    assert found.difference > 0 > expected  # the long one scores more, with worse precisions
    assert headline(data)[1] == (
        f"All of it is length: at short's brevity penalty the difference is {expected:+.2f} BLEU."
    )
    text = render_text(answer_length(data))
    assert f"{first.bp:.3f}" in text and f"{expected:+.2f} (p" in text


def test_chrf_and_means_at_equal_length_by_hand() -> None:
    lengths = [
        SentenceStatistics(np.array([[[h, 10] for h in own]]), lambda sums: sums[..., 0])
        for own in ((12, 9, 10), (10, 9, 8))
    ]
    # Sentences differ in length by 0.2, 0 and 0.2 of the reference, in score by 0.3, 0.1, 0.3:
    # the line through them is 0.1 + 1.0 x, so that 0.1 is left at equal length.
    own, other = (mean_statistics(np.array([v])) for v in ((0.8, 0.6, 0.7), (0.5, 0.5, 0.4)))
    level = at_the_others_length("sim", own, other, *lengths)
    assert level.corpus() == pytest.approx((0.5 + 0.5 + 0.4) / 3 + 0.1)
    # b's own precisions, of as many character n-grams as a has
    systems = [system("a", ["ab ab"]), system("b", ["ab ab ab xx"])]
    scores = score_all(systems, ["ab cd ef"], Scorer())
    one, two = score_systems(systems, ["ab cd ef"], scores)
    level = at_the_others_length("chrf", two["chrf"], one["chrf"], *lengths)
    hyp, ref, both = (two["chrf"].values[0, 0, first::3].astype(float) for first in range(3))
    count = one["chrf"].values[0, 0, ::3].astype(float)
    kept = (count > 0) & (ref > 0)
    precision = (both / np.maximum(hyp, 1))[kept].sum() / kept.sum()
    recall = (both / np.maximum(hyp, 1) * count / np.maximum(ref, 1))[kept].sum() / kept.sum()
    assert level.corpus() == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))

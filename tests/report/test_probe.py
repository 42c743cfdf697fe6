"""The probe's section: what it says of a change that is rounding."""

import pytest

from simile_plugin.evaluation import Change, Probed
from simile_plugin.report.probe import answer_probe
from simile_plugin.reward import Scorer


@pytest.mark.parametrize(
    ("rise", "told"), [(6e-8, "rises by no harm on average"), (6e-3, "by shuffle: training can")]
)
def test_a_rise_by_rounding_is_none(rise: float, told: str) -> None:
    change = Change(False, 80, rise, rise / 2, 2 * rise, 100.0, None)
    probed = Probed({"shuffle": change}, None, None, 0, None, {"the references": 1.0})
    answer = answer_probe({"simile": probed}, "harm is done to the references", Scorer(), 1, 40)
    assert told in answer.sentences[0]
    styles = {
        cell.style
        for part in answer.parts
        for group in getattr(part, "groups", ())
        for row in group
        for cell in row
    }
    assert ("bad" in styles) == (rise > 1e-6)

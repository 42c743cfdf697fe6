"""The picture of gains is drawn from results.md, whose figures it shows as they are."""

from pathlib import Path

import pytest

from recipes.evidence import forest, minutes
from simile_plugin.files import InputError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "recipes" / "evidence" / "results.md"


TABLE = """## A corpus

| | updates, alpha | test: BLEU (seeds) | SIM | heldout: BLEU | SIM |
|---|---|---|---|---|---|
| *MLE, model 1* | | 30.00 | 70.00 | 31.00 | 71.00 |
| half | 600, 0.3 | 31.20 ‡ (31.0, 31.4) | 70.75 † | 32.00 | 71.50 |
| half | 2,400, 1 | 39.00 (39.0) | 79.00 | 39.00 | 79.00 |
| half, 2,400 updates, mean of the seeds' weights | 2,400, 0.3 | 32.50 ‡ | 72.00 ‡ | 33.00 | 72.50 |
| likelihood alone | 600 | 29.90 | 69.50 | 31.10 | 70.00 |
| *MLE, model 2* | | 20.00 | 60.00 | 21.00 | 61.00 |
| 1 - BLEU | 600, 0.3 | 25.00 (25.0) | 65.00 | 26.00 | 66.00 |
"""


def test_gains_are_over_the_model_above_and_of_todays_setting(tmp_path):
    path = tmp_path / "results.md"
    path.write_text(TABLE, "utf-8")
    rows = forest.table_of(path, "A corpus")
    gains = forest.block_gains(rows, "*MLE, model 1*", "test: BLEU (seeds)", "SIM")
    assert [each.system for each in gains] == [
        *("likelihood, as many updates", "half (the default)", "half, an evening")
    ]
    likelihood, half, evening = gains
    assert evening.bleu == pytest.approx(32.5 - 30.0)
    assert half.seeds == pytest.approx([31.0 - 30.0, 31.4 - 30.0])
    assert half.bleu == pytest.approx(31.2 - 30.0)
    assert half.sim == pytest.approx(70.75 - 70.0)
    assert likelihood.seeds == pytest.approx([29.9 - 30.0])  # no seeds on record: the mean
    heldout = forest.block_gains(rows, "*MLE, model 1*", "heldout: BLEU", "SIM 2")
    assert heldout[1].sim == pytest.approx(71.5 - 71.0)


def test_a_table_or_a_row_that_is_missing_is_told(tmp_path):
    path = tmp_path / "results.md"
    path.write_text(TABLE, "utf-8")
    with pytest.raises(InputError, match=r"results.md: got no table under a heading 'Another'"):
        forest.table_of(path, "Another")
    with pytest.raises(InputError, match="got no row 'MLE' in the table, expected the MLE"):
        forest.block_gains(forest.table_of(path, "A corpus"), "MLE", "SIM", "SIM")


def test_the_picture_on_record_is_of_the_figures_on_record(tmp_path):
    picture = tmp_path / "gains.svg"
    forest.main([str(RESULTS), str(picture)])
    assert picture.read_text("utf-8") == (ROOT / "docs/pictures/gains.svg").read_text("utf-8"), (
        "results.md has changed: python recipes/evidence/forest.py recipes/evidence/results.md "
        "docs/pictures/gains.svg"
    )


def test_minutes_begin_at_nothing_and_controls_have_their_own_curves():
    rows = [
        {"": "long", "minutes": "48", "USE": "+0.87 ‡, -0.93"},
        {"": "likelihood, as many updates", "minutes": "4", "USE": "-0.12, +0.01"},
        {"": "one run", "minutes": "12", "USE": "+0.45 ‡, +0.09"},
    ]
    test, heldout = minutes.curves(rows, "USE", control=False)
    assert test == [(0, 0), (12, 0.45), (48, 0.87)]
    assert heldout == [(0, 0), (12, 0.09), (48, -0.93)]
    assert minutes.curves(rows, "USE", control=True)[1] == [(0, 0), (4, 0.01)]
    with pytest.raises(InputError, match=r"got the cell '\+0.4', expected two gains"):
        minutes.curves([rows[0] | {"USE": "+0.4"}], "USE", control=False)


def test_the_picture_of_minutes_is_of_the_figures_on_record(tmp_path):
    picture = tmp_path / "minutes.svg"
    minutes.main([str(ROOT / "docs/results.md"), str(picture)])
    assert picture.read_text("utf-8") == (ROOT / "docs/pictures/minutes.svg").read_text("utf-8"), (
        "docs/results.md has changed: python -m recipes.evidence.minutes docs/results.md "
        "docs/pictures/minutes.svg"
    )


def test_a_cell_without_a_number_is_refused():
    with pytest.raises(InputError, match="got the cell 'none', expected a number"):
        forest.first_number("none")

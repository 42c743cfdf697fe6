"""Validation curves: means and bands over seeds, the picture, the text."""

from pathlib import Path

import pytest

from simile_plugin.report.inputs.logs import read_runs
from simile_plugin.report.questions.curves import Curves, collect_curves


def write_log(path: Path, costs: dict[int, tuple[float | str, float | str]]) -> str:
    lines = [
        f'{{"epoch": 1, "valid_cost_bleu": "{bleu}", "valid_cost_simile": "{simile}", '
        f'"valid_num_updates": "{update}"}}'
        for update, (bleu, simile) in costs.items()
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def curves(tmp_path: Path) -> Curves:
    one = write_log(tmp_path / "1", {0: (0.6, 0.3), 100: (0.5, 0.2), 200: (0.4, 0.1)})
    two = write_log(tmp_path / "2", {0: (0.6, 0.3), 100: (0.3, 0.1), 300: (0.2, 0.1)})
    return collect_curves(read_runs({"BLEU": [one], "SIMILE": [one, two]}))


def test_means_and_bands_by_hand(curves: Curves) -> None:
    assert curves.costs["cost_bleu"]["BLEU"].seeds == [[0.6, 0.5, 0.4]]
    curve = curves.costs["cost_bleu"]["SIMILE"]
    # the updates of both seeds are 0 and 100: (0.6 + 0.6) / 2, (0.5 + 0.3) / 2
    assert curve.updates == [0, 100]
    assert curve.mean == pytest.approx((0.6, 0.4))
    assert curves.notes == [
        "SIMILE: seeds validated at different updates; shown are the 2 of 4 that all of them have",
    ]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    nan = write_log(tmp_path / "n", {50: (0.5, "nan"), 100: (0.4, 0.2)})
    curves = collect_curves(read_runs({"late": [nan]}))
    assert curves.costs["cost_simile"]["late"].updates == [100]
    assert curves.notes == [
        "late: no validation before the first update",
        "late: 1 of 2 values of cost_simile are not numbers",
    ]
    no_encoder = tmp_path / "b"
    no_encoder.write_text('{"valid_cost_bleu": "0.5", "valid_num_updates": "0"}\n')
    curves = collect_curves(read_runs({"BLEU": [str(no_encoder)]}))
    assert list(curves.costs) == ["cost_bleu"]
    assert curves.notes == ["BLEU: no cost_simile in its log"]


def test_logs_of_another_criterion_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "mle.log"
    log.write_text('{"valid_loss": "3", "valid_nll_loss": "2", "valid_num_updates": "5"}\n')
    with pytest.raises(
        ValueError,
        match=r"^--log: .*mle.log validates without cost_bleu and cost_simile \(it has loss, "
        r"nll_loss\); train with --criterion simile_risk",
    ):
        collect_curves(read_runs({"MLE": [str(log)]}))

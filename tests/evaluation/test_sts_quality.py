"""STS by every metric: fast resamples against written-out ones, means by hand, the command."""

import json
from pathlib import Path

import pytest

from simile_plugin import evaluation
from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.evaluation.sentence_metrics import Metrics, surface_scores
from simile_plugin.evaluation.sts import evaluate_sts, read_sts
from simile_plugin.evaluation.sts_quality import evaluate_sts_metrics
from simile_plugin.report.quality import answer_quality
from simile_plugin.report.render.text import render_text
from simile_plugin.significance import pearson
from tests.evaluation.test_sts import PAIRS, write_set

EIGHT = [*PAIRS, *((b, a + " again") for a, b in PAIRS)]


@pytest.fixture(autouse=True)
def no_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers on every machine."""
    monkeypatch.setattr(evaluation, "missing_meteor", lambda: "METEOR 1.5 is left out")


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Two years: one of two sets, one of one."""
    write_set(tmp_path / "2012", "one", EIGHT, "5\n0.5\n4\n1\n3\n2\n4\n0\n")
    write_set(tmp_path / "2012", "two", EIGHT[2:7], "1\n5\n2\n3\n4\n")
    write_set(tmp_path / "2013", "one", EIGHT[1:], "0.5\n4\n1\n3\n2\n4\n0\n")
    return [str(tmp_path / "2012"), str(tmp_path / "2013")]


def test_means_over_sets_and_folders(encoder: Encoder, folders: list[str]) -> None:
    sets = {folder: read_sts(folder) for folder in folders}
    found = evaluate_sts_metrics(Metrics({"e": encoder}), sets, resamples=60, seed=3)
    for part in found.folders:
        # SIM as the trainer and the plain evaluation have it
        plain = evaluate_sts(encoder, part.folder, sets[part.folder])
        assert part.scores["SIM"].mean_pearson == pytest.approx(plain.mean_pearson, abs=1e-4)
        assert part.scores["SIM"].all_spearman == pytest.approx(plain.all_spearman, abs=1e-4)
        assert part.pairs == plain.pairs
        by_hand = [
            100 * pearson(surface_scores(one.left, one.right, both=True)["chrF sym."], one.gold)
            for one in sets[part.folder]
        ]
        estimate = part.estimates["chrF sym."]
        assert estimate.value == pytest.approx(sum(by_hand) / len(by_hand))
        assert estimate.value == pytest.approx(part.scores["chrF sym."].mean_pearson)
        assert estimate.low <= estimate.high
    means = [part.estimates["SIM"].value for part in found.folders]
    assert found.mean["SIM"].value == pytest.approx(sum(means) / 2)
    expected = found.mean["SIM"].value - found.mean["BLEU sym."].value
    assert found.difference["SIM - BLEU sym."].value == pytest.approx(expected)
    assert evaluate_sts_metrics(Metrics({"e": encoder}), sets, resamples=60, seed=3) == found


def test_command_prints_every_metric(
    encoder_folder: Path, folders: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval-encoder", str(encoder_folder), "--resamples", "50", "--sts", *folders]
    assert main(command) == 0
    text = capsys.readouterr().out
    header = "Pearson SIM SIMILE BLEU BLEU sym. chrF chrF sym."
    assert [" ".join(line.split()) for line in text.splitlines()].count(header) == 2
    assert "mean of sets" in text and "all 13 pairs" in text and "mean of folders" in text
    assert "METEOR 1.5 is left out" in text
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    part = found["sts"][0]
    assert part["mean_pearson"] == part["metrics"]["SIM"]["mean_pearson"]
    bleu = part["metrics"]["BLEU"]
    assert bleu["interval"]["value"] == pytest.approx(bleu["mean_pearson"])
    assert set(found["sts_mean"]) == set(part["metrics"]) and found["encoder"]


def test_undefined_correlations_are_said_and_are_json(encoder: Encoder, tmp_path: Path) -> None:
    pairs = [(a, "no word of it") for a in ("x", "y", "z")]
    write_set(tmp_path, "flat", pairs, "1\n2\n3\n")
    answer = answer_quality(Metrics({"e": encoder}), {"s": read_sts(tmp_path)}, [], resamples=40)
    assert "BLEU: undefined (equal scores): flat" in render_text(answer)
    assert answer.data["sts"][0]["metrics"]["BLEU"]["mean_pearson"] is None
    json.dumps(answer.data, allow_nan=False)

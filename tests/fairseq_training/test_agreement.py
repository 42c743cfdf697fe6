"""One sentence has one score, wherever it is printed and whatever it is computed beside.

Tolerances: SIM and SIMILE are float32, 1e-4 of 100 points; what fairseq logs is rounded to 0.01.
"""

import json
from pathlib import Path

import pytest
import torch
from fairseq.logging import metrics

from simile_plugin.cli import main
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from tests.fairseq_models import judge, make_model, make_sample, make_task
from tests.oracle import Oracle


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("reward", ["simile", "sim", "bleu"])
def test_training_validation_score_report_and_oracle_agree(
    reward: str, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task()
    config = SimileRiskConfig(
        reward=reward, simile_encoder=str(encoder_folder), risk_candidates=3, mle_weight=0.0
    )
    criterion = SimileRiskCriterion(config, task)
    model = make_model("transformer_tiny", task).eval()
    hyps: list[str] = []
    refs: list[str] = []
    trained: list[float] = []
    with metrics.aggregate(new_root=True) as aggregator, torch.no_grad():
        for seed, lengths in enumerate([((5, 4), (3, 6), (7, 2)), ((2, 9),), ((4, 5), (4, 1))]):
            sample = make_sample(task, seed, lengths)
            _, _, log = criterion(model, sample)
            criterion.reduce_metrics([log])
            found = criterion.translator.generator(model, sample)
            judged = judge(criterion, sample, found)
            refs += [row[0] for row in judged.hyps]
            hyps += [row[1] for row in judged.hyps]
            trained += judged.reward[:, 1].tolist()
    logged = aggregator.get_smoothed_values()

    capsys.readouterr()
    files = [write(tmp_path / "ref", refs), write(tmp_path / "hyp", hyps)]
    encoder = ["--encoder", str(encoder_folder), "--json"]
    assert main(["score", "-r", files[0], "-i", files[1], *encoder]) == 0
    scored = {e["name"]: e for e in json.loads(capsys.readouterr().out)}
    command = ["report", "--ref", files[0], "--sys", f"X={files[1]}", "--only", "results"]
    assert main([*command, "--resamples", "40", *encoder]) == 0
    report = json.loads(capsys.readouterr().out)["results"]
    expected = Oracle(encoder_folder).corpus(hyps, refs)
    for name, value in expected.items():
        assert scored[name]["score"] == pytest.approx(value, abs=1e-4), name
        shown = report["systems"][0]["scores"][name.lower()]["value"]
        assert shown == pytest.approx(value, abs=1e-4), name
        assert logged[name.lower()] == pytest.approx(value, abs=0.0051), name
    if reward != "bleu":  # the reward is of sentences, and so is its mean
        assert 100 * sum(trained) / len(trained) == pytest.approx(
            expected[reward.upper()], abs=1e-4
        )
    assert main(["score", "-r", files[0], "-i", files[1], *encoder, "-sl"]) == 0
    sentences = json.loads(capsys.readouterr().out)[files[1]]
    names = {"simile": "SIMILE", "sim": "SIM", "bleu": "BLEU"}
    assert sentences[names[reward]] == pytest.approx([100 * v for v in trained], abs=1e-4)

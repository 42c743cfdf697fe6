"""One sentence has one score, wherever it is printed and whatever it is computed beside.

Tolerances: SIM and SIMILE are float32, 1e-4 of 100 points; what fairseq logs is rounded to 0.01.
"""

import json
import random
from pathlib import Path

import pytest
import torch
from fairseq.logging import metrics

from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from simile_plugin.reward.lists import score_lists, score_outputs
from tests.encoder.test_odd_text import ODD_SENTENCES
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


def test_each_number_says_how_it_was_made(
    encoder: Encoder, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sacrebleu

    import simile_plugin

    path = write(tmp_path / "ref", ["a heron"])
    command = ["score", "-r", path, "-i", path, "--encoder", str(encoder_folder), "--json"]
    assert main(command) == 0
    found = {e["name"]: e["signature"].split("|") for e in json.loads(capsys.readouterr().out)}
    assert (
        found["SIM"]
        == found["SIMILE"]
        == [
            *(f"enc:{encoder.fingerprint}", "kind:sp", "dim:16", "text:nfkc+lc+punct+vis"),
            *("len:pieces", "alpha:0.25", f"version:{simile_plugin.__version__}"),
        ]
    )
    assert {"tok:13a", "smooth:exp", "case:mixed"} <= set(found["BLEU"])
    assert f"version:{sacrebleu.__version__}" in found["BLEU"]


def test_nothing_around_a_sentence_changes_its_score(encoder: Encoder) -> None:
    rng = random.Random(1)
    words = "the grey heron waits beside cold water two boys skip flat stones".split()
    refs = [" ".join(rng.choices(words, k=rng.randint(0, 30))) for _ in range(50)] + ODD_SENTENCES
    lists = [[ref, " ".join(rng.sample(words, 5)), rng.choice(ODD_SENTENCES)] for ref in refs]
    whole = score_lists(lists, refs, encoder)
    assert whole.simile is not None and whole.sim is not None

    def same(scores: torch.Tensor, other: torch.Tensor) -> None:
        assert float((scores - other).abs().max()) <= 1e-6

    order = rng.sample(range(len(refs)), len(refs))
    moved = score_lists([lists[i][::-1] for i in order], [refs[i] for i in order], encoder)
    assert moved.simile is not None
    same(moved.simile.flip(1), whole.simile[order])
    assert torch.equal(moved.bleu.flip(1), whole.bleu[order])
    padded = score_lists([[*row, "", ""] for row in lists], refs, encoder)
    assert padded.simile is not None
    same(padded.simile[:, :3], whole.simile)
    for size in (1, 7):
        parts = [
            score_outputs(list(zip(*lists[i : i + size], strict=True)), refs[i : i + size], encoder)
            for i in range(0, len(refs), size)
        ]
        same(torch.cat([p.simile for p in parts if p.simile is not None]), whole.simile)
        assert torch.equal(torch.cat([p.bleu for p in parts]), whole.bleu)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        many = score_lists(lists, refs, encoder)
    finally:
        torch.set_num_threads(threads)
    assert many.simile is not None
    same(many.simile, whole.simile)

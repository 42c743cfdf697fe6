"""--risk-dump: what the criterion writes is what it judged, and what the report reads."""

import json
from types import SimpleNamespace

import pytest
import torch

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from simile_plugin.fairseq_training.dump import RiskDump
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.nbest.readers import read_lists, read_nbest_lists
from simile_plugin.reward.lists import score_lists
from simile_plugin.risk import distribution as risk
from tests.fairseq_models import judge, make_model, make_sample, make_task

PAD = 1


@pytest.fixture
def dumped(encoder_folder, tmp_path):
    """A validation, a training batch and another validation; the criterion and its file."""
    task = make_task()
    path = tmp_path / "lists.jsonl"
    config = SimileRiskConfig(
        simile_encoder=str(encoder_folder), risk_candidates=4, risk_dump=str(path)
    )
    criterion = SimileRiskCriterion(config, task)
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    for training in (False, True, False):
        model.train(training)
        criterion.train(training)
        criterion(model, sample)
    model.eval()
    return criterion, model, sample, path


def test_lists_of_the_validation_before_training_are_written(dumped, encoder):
    criterion, model, sample, path = dumped
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [record["id"] for record in records] == sample["id"].tolist()  # once: before training
    risk_set = criterion.translator.generator(model, sample)
    hyps = judge(criterion, sample, risk_set).hyps
    lprobs, _ = score_rows(model, sample, risk_set, PAD)
    sums = risk.candidate_scores(lprobs, risk_set.tokens.ne(PAD), normalize=False)
    for row, record in enumerate(records):
        places = [n for n in range(1, 5) if risk_set.mask[row, n]]
        assert record["ref"] == hyps[row][0]
        assert record["hyps"] == [hyps[row][n] for n in places]
        assert record["scores"] == pytest.approx([float(sums[row, n]) for n in places], abs=1e-4)
        scores = score_lists([hyps[row]], [hyps[row][0]], encoder)
        for key, reward in (("cost_bleu", scores.bleu), ("cost_simile", scores.simile)):
            expected = [1 - float(reward[0, n]) for n in places]
            assert record[key] == pytest.approx(expected, abs=1e-5)
        assert isinstance(record["source"], str) and record["source"]


def test_the_report_reads_it(dumped):
    *_, path = dumped
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lists = read_nbest_lists(str(path), "--nbest-lists")
    assert [len(found.hyps) for found in lists] == [4, 4, 4]
    assert all(set(found.costs) == {"cost_bleu", "cost_simile"} for found in lists)
    sources = {found.sentence: found.src for found in read_lists(str(path), "LISTS")}
    assert sources == {record["id"]: record["source"] for record in records}


def test_the_reference_and_what_is_masked_are_left_out(tmp_path, encoder):
    path = tmp_path / "lists.jsonl"
    dump = RiskDump(str(path))
    hyps = [["a b", "a b", "a c", ""]]
    mask = torch.tensor([[True, True, True, False]])  # the reference is in the risk set
    lprobs = torch.tensor([[[0.0, 0.0], [-0.5, -0.5], [-2.5, 0.0], [0.0, 0.0]]])
    update = SimpleNamespace(
        judged=SimpleNamespace(hyps=hyps, scores=score_lists(hyps, ["a b"], None)),
        scored=SimpleNamespace(members=mask, token_lprobs=lprobs),
    )
    dump.write(torch.tensor([7]), ["x y"], update)
    dump.close()
    dump.write(torch.tensor([8]), ["z"], update)
    # BLEU of "a c": precisions 1/2, (0 + 1)/(1 + 1), (0 + 1)/(0 + 1), the same: (1/4)^(1/4)
    assert json.loads(path.read_text(encoding="utf-8")) == {
        **{"format_version": 1, "id": 7, "source": "x y", "ref": "a b", "hyps": ["a b", "a c"]},
        **{"scores": [-1.0, -2.5], "cost_bleu": [0.0, pytest.approx(1 - 0.25**0.25, abs=1e-6)]},
    }


def test_a_line_that_a_kill_left_unfinished_goes(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text('{"format_version": 1, "id": 0}\n{"format_version": 1, "id": 1, "so')
    RiskDump(str(path)).close()
    assert path.read_text() == '{"format_version": 1, "id": 0}\n'
    path.write_text("a file of somebody else\nwithout a line feed")
    RiskDump(str(path)).close()
    assert path.read_text() == "a file of somebody else\nwithout a line feed"


def test_a_full_disk_is_named(dumped):
    criterion, model, sample, _ = dumped
    criterion.dump = RiskDump("/dev/full")
    criterion.eval()
    with pytest.raises(ValueError, match="--risk-dump: /dev/full: cannot be written: No space"):
        criterion(model, sample)

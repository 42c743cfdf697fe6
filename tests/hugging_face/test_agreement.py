"""On equal lists, log-probabilities and rewards both trainers have one loss and one gradient."""

import pytest
import torch

from simile_plugin.fairseq_training import translator as fairseq_side
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.hugging_face import Pairs, SimileRiskArguments, SimileRiskTrainer
from simile_plugin.hugging_face import translator as hugging_face_side
from simile_plugin.hugging_face.models import PADDING
from simile_plugin.risk import LengthControl, RiskSet
from tests.fairseq_models import make_model, make_sample, numbers
from tests.hugging_face_models import SOURCES, TARGETS, marian

PAD = 1


class Table(torch.nn.Module):
    """Log-probabilities that are parameters, so that a loss has a gradient by them."""

    def __init__(self, lprobs, means):
        super().__init__()
        self.lprobs, self.means = torch.nn.Parameter(lprobs), torch.nn.Parameter(means)

    def of_rows(self, *_):
        return self.lprobs, self.means

    def gradients(self, loss):
        self.zero_grad()
        loss.backward()
        return [self.lprobs.grad.clone(), self.means.grad.clone()]


@pytest.mark.parametrize(
    "flags",
    [
        {"reward": "half"},
        {"risk_score": "mean", "risk_alpha": 2.0, "mle_weight": 0.6},
        {"risk_include_reference": True, "label_smoothing": 0.0, "risk_cost_scale": 3.0},
        {"risk_keep_duplicates": True, "mle_weight": 0.0},
        {"reward": "shuffled:half", "seed": 3},
        {"reward": "model", "risk_include_reference": True},
        {"risk_search": "sampling"},
    ],
)
def test_one_loss_and_one_gradient(flags, make_criterion, encoder_folder, tmp_path, monkeypatch):
    ours, tokenizer = marian(tmp_path / "model")
    criterion = make_criterion(**flags)
    dictionary = criterion.task.target_dictionary
    while len(dictionary) < ours.config.vocab_size:  # over which labels are smoothed
        dictionary.add_symbol(f"\u2581word{len(dictionary)}")
    sample = make_sample(criterion.task)
    theirs = make_model("transformer_tiny", criterion.task).train()
    risk_set = criterion.translator.generator(theirs, sample)
    with torch.no_grad():
        theirs.table = table = Table(*score_rows(theirs, sample, risk_set, PAD))
    length_control = LengthControl(covariance=-0.4, variance=1.0)
    criterion.length_control = length_control
    monkeypatch.setattr(fairseq_side, "score_rows", table.of_rows)
    criterion.translator.generator = lambda *_: risk_set
    loss, _, log = criterion(theirs, sample)
    gradients = table.gradients(loss)

    args = SimileRiskArguments(
        str(tmp_path / "out"),
        simile_encoder=str(encoder_folder),
        use_cpu=True,
        report_to="none",
        **{"risk_candidates": 4, **flags},
    )
    pairs = Pairs(tokenizer, SOURCES, TARGETS, 64)
    trainer = SimileRiskTrainer(ours, args, processing_class=tokenizer, train_dataset=pairs)
    trainer.risk_state.length_control = length_control
    trainer.translator.text.lists = lambda rows, *_: criterion.translator.target_text.lists(
        risk_set.on_host[0].tolist()
    )
    tokens = risk_set.tokens.masked_fill(risk_set.tokens.eq(PAD), PADDING)
    same = RiskSet(tokens, risk_set.mask)
    monkeypatch.setattr(hugging_face_side, "risk_set_of", lambda *_: same)
    monkeypatch.setattr(hugging_face_side.Scorer, "__call__", table.of_rows)
    net_input = sample["net_input"]
    inputs = dict.fromkeys(("input_ids", "attention_mask"), net_input["src_tokens"])
    found, sums = trainer.risk_loss(table.train(), inputs)

    assert found.item() == pytest.approx(loss.item(), rel=1e-6)
    real = risk_set.tokens.ne(PAD)  # what stands elsewhere is constant
    for one, other, mask in zip(table.gradients(found), gradients, (real, real[:, 0]), strict=True):
        assert torch.allclose(one[mask], other[mask], rtol=1e-5, atol=1e-7)
    assert gradients[0][real].abs().sum() > 0
    theirs_summed, ours_summed = numbers(log), numbers(sums)
    shared = theirs_summed.keys() & ours_summed.keys()
    assert {"cost", "cost_bleu", "entropy_q", "bleu_stats", "nll_loss"} <= shared
    for name in shared:
        assert ours_summed[name] == pytest.approx(theirs_summed[name], rel=1e-6), name

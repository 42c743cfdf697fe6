"""Gradient portion by portion: equal to the one of the whole, also where memory runs out."""

import pytest
import torch

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from simile_plugin.risk import gradient_portions, log_probabilities
from simile_plugin.risk.gradient_portions import Portion, plan_portions
from tests.fairseq_models import make_model, make_sample, make_task

ARCHITECTURES = ["transformer_tiny", "fconv", "lstm"]
LENGTHS = ((5, 4), (5, 6), (5, 2), (5, 3), (5, 7))
TIMES = "seconds_"


@pytest.fixture
def update(encoder_folder):
    """Gradient, log and criterion of one update in float64 without dropout."""

    def run(arch="transformer_tiny", scale=1.0, wrap=None, **flags):
        task = make_task()
        flags = {"simile_encoder": str(encoder_folder), "risk_candidates": 3, **flags}
        criterion = SimileRiskCriterion(SimileRiskConfig(**flags), task)
        model = make_model(arch, task).double().train()
        loss, _, log = criterion(wrap(model) if wrap else model, make_sample(task, 0, LENGTHS))
        (scale * loss).backward()
        grads = {n: p.grad / scale for n, p in model.named_parameters() if p.grad is not None}
        return loss.item(), grads, log, criterion

    return run


def check_same(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=1e-9)
    assert found[1].keys() == expected[1].keys()
    for name in expected[1]:
        # a transformer's attention to the source rounds to float32; rows that share prefixes are
        # rounded together, and smaller portions may not share them
        assert torch.allclose(found[1][name], expected[1][name], rtol=1e-6, atol=1e-6), name
    assert found[2].keys() == expected[2].keys()
    for key in found[2]:
        if not key.startswith(TIMES):
            value = torch.as_tensor(expected[2][key]).tolist()
            assert torch.as_tensor(found[2][key]).tolist() == pytest.approx(value, rel=1e-6), key


def small_memory(monkeypatch, forward=10**9, backward=10**9, only=lambda: True):
    """A device on which so many target tokens fit at once; counts the failures."""
    failures = []
    project = log_probabilities._TokenLogits

    class Small(project):
        @staticmethod
        def forward(ctx, features, weight, bias, targets, *others):
            if len(targets) > forward and only():
                failures.append(len(targets))
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
            return project.forward(ctx, features, weight, bias, targets, *others)

        @staticmethod
        def backward(ctx, *gradients):
            if len(gradients[0]) > backward and only():
                failures.append(-len(gradients[0]))
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
            return project.backward(ctx, *gradients)

    monkeypatch.setattr(log_probabilities, "_TokenLogits", Small)
    return failures


def test_plan_by_hand():
    # 8 + 4 <= 12; 4 + 8 + 4 would be 16
    plan = plan_portions([8, 4, 4, 8], 12)
    assert plan == [Portion(slice(0, 2), 12), Portion(slice(2, 4), 12)]
    # a larger sentence is a portion of its own
    assert [p.rows for p in plan_portions([4, 20, 4], 12)] == [
        slice(0, 1),
        slice(1, 2),
        slice(2, 3),
    ]
    assert plan_portions([8, 4, 4, 8], 0) == [Portion(slice(0, 4), 0)]


@pytest.mark.parametrize("half", [False, True], ids=["single", "half"])
@pytest.mark.parametrize("max_tokens", [60, 20])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_portions_have_the_gradient_of_the_whole(update, arch, max_tokens, half, monkeypatch):
    expected = update(arch)
    # under --fp16 in the trainer's own backward pass, the decoder in parts
    monkeypatch.setattr(gradient_portions, "in_half_range", lambda _: half)
    check_same(update(arch, risk_max_tokens=max_tokens, scale=128.0), expected)


def test_the_published_objective_divides_by_the_whole_batch(update):
    flags = {"risk_compat": "beyond-bleu"}
    check_same(update(risk_max_tokens=60, **flags), update(**flags))


@pytest.mark.parametrize("limits", [{"forward": 30}, {"backward": 30}, {"forward": 20}])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_out_of_memory_goes_on_in_smaller_portions(update, arch, limits, monkeypatch):
    expected = update(arch)
    said = []
    monkeypatch.setattr(gradient_portions.logger, "warning", said.append)
    failures = small_memory(monkeypatch, **limits)
    found = update(arch, scale=128.0)
    check_same(found, expected)
    assert failures and said
    assert "out of memory while scoring 5 sentences; going on in smaller portions" in said[0]
    # the criterion has learned from it
    criterion = found[3]
    assert 0 < criterion.portions.max_tokens
    failed = len(failures)
    criterion(make_model(arch, criterion.task).double(), make_sample(criterion.task, 0, LENGTHS))
    assert len(failures) - failed < failed


def test_out_of_memory_in_validation(update, monkeypatch):
    *_, criterion = update()
    model = make_model("transformer_tiny", criterion.task).double().eval()
    sample = make_sample(criterion.task, 0, LENGTHS)
    with torch.no_grad():
        expected = criterion(model, sample)[0]
        failures = small_memory(monkeypatch, forward=30)
        assert torch.allclose(criterion(model, sample)[0], expected) and failures


def test_a_row_that_does_not_fit_is_an_error(update, monkeypatch):
    small_memory(monkeypatch, forward=0)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        update()


def test_wrappers_have_the_gradient_of_their_model(update, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # or it would go to a GPU
    check_same(update(wrap=torch.nn.DataParallel), update())


def test_activation_checkpoints_of_fairseq(encoder_folder):
    task = make_task()
    flags = {"simile_encoder": str(encoder_folder), "risk_candidates": 3}
    grads = []
    for checkpointed in (False, True):
        criterion = SimileRiskCriterion(SimileRiskConfig(**flags), task)
        model = make_model("transformer_tiny", task, checkpoint_activations=checkpointed)
        assert gradient_portions.gradients_can_be_taken(model, model) is not checkpointed
        criterion(model.train(), make_sample(task, 0, LENGTHS))[0].backward()
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(*grads, atol=1e-5)

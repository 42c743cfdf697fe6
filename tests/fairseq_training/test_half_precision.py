"""fairseq's optimisers of --fp16, --bf16 and their memory-efficient kinds around the criterion."""

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import OmegaConf, open_dict

from simile_plugin import fairseq_hooks
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from tests.fairseq_models import make_model, make_sample, make_task
from tests.fairseq_training.test_beam import make_peaked_model

UPDATES = 12
INITIAL_SCALE = 2.0**7  # fairseq's --fp16-init-scale


def make_optimizer(kind, bf16, model):
    config = OmegaConf.structured(FairseqConfig())
    with open_dict(config):
        adam = OmegaConf.structured(FairseqAdamConfig)
        config.optimizer = OmegaConf.merge(adam, {"_name": "adam", "lr": [2e-3], "tpu": False})
        config.common.bf16, config.common.fp16 = bf16, not bf16
        config.common.fp16_no_flatten_grads = True  # fairseq flattens on a GPU only
        config.common.fp16_scale_window = 1000
        config.optimization.update_freq = [1]
    return kind.build_optimizer(config, [p for p in model.parameters() if p.requires_grad])


@pytest.mark.parametrize("max_tokens", [0, 60])
@pytest.mark.parametrize("bf16", [False, True], ids=["fp16", "bf16"])
@pytest.mark.parametrize("kind", [FP16Optimizer, MemoryEfficientFP16Optimizer])
def test_training_in_half_precision(kind, bf16, max_tokens, encoder_folder):
    task = make_task()
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2), (5, 3)))
    flags = {"simile_encoder": str(encoder_folder), "risk_candidates": 4, "risk_cost_scale": 10.0}
    criterion = SimileRiskCriterion(SimileRiskConfig(**flags, risk_max_tokens=max_tokens), task)
    exact, _, exact_log = criterion(make_model("transformer_tiny", task).train(), sample)
    model = make_model("transformer_tiny", task).to(torch.bfloat16 if bf16 else torch.float16)
    optimizer = make_optimizer(kind, bf16, model.train())
    losses, overflows = [], 0
    for _ in range(UPDATES):
        optimizer.zero_grad()
        loss, size, log = criterion(model, sample)
        assert loss.dtype == log["cost"].dtype == log["entropy_q"].dtype == torch.float32
        losses.append(loss.item())
        if len(losses) == 1:
            assert losses[0] == pytest.approx(exact.item(), rel=0.05)
            assert float(log["nll_loss"]) == pytest.approx(float(exact_log["nll_loss"]), rel=0.05)
        optimizer.backward(loss)
        optimizer.multiply_grads(1 / size)
        try:
            assert 0 < float(optimizer.clip_grad_norm(1.0)) < float("inf")
            optimizer.step()
        except OverflowError:
            overflows += 1
    assert losses[-1] < 0.9 * losses[0]
    assert overflows <= 1
    assert bf16 or optimizer.scaler.loss_scale >= INITIAL_SCALE / 2


def test_an_update_with_amp_is_that_of_full_precision(monkeypatch):
    """fairseq's own --amp made Adam's step of gradients that were 128 times too small."""
    monkeypatch.setattr(
        "torch.cuda.amp.GradScaler", lambda **flags: torch.amp.GradScaler("cpu", **flags)
    )
    config = OmegaConf.structured(FairseqConfig())
    with open_dict(config):
        adam = OmegaConf.structured(FairseqAdamConfig)
        config.optimizer = OmegaConf.merge(adam, {"_name": "adam", "lr": [1.0], "tpu": False})
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = AMPOptimizer.build_optimizer(config, [weight])
    fairseq_hooks.install()
    try:
        optimizer.backward((weight * 1e-6).sum())
        assert float(optimizer.clip_grad_norm(0.0)) == pytest.approx(3**0.5 * 1e-6)
        optimizer.step()
    finally:
        fairseq_hooks.uninstall()
    moment = (1 - 0.999) ** 0.5 * 1e-6  # Adam's first step is lr * moment / (moment + 1e-8)
    assert weight.tolist() == pytest.approx([-moment / (moment + 1e-8)] * 3)
    assert optimizer.scaler.get_scale() == INITIAL_SCALE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_reaches_every_parameter(dtype, encoder_folder):
    # --amp: weights that the generation cast without gradient may not serve the scoring
    task = make_task()
    flags = {"simile_encoder": str(encoder_folder), "risk_candidates": 4}
    criterion = SimileRiskCriterion(SimileRiskConfig(**flags), task)
    grads = []
    for enabled in (False, True):
        # far from flat, so that rounding does not change the lists
        model = make_peaked_model("transformer_tiny", task).train()
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            loss, _, _ = criterion(model, make_sample(task))
        assert loss.dtype == torch.float32
        (128 * loss).backward()
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.cosine_similarity(*grads, dim=0) > 0.95

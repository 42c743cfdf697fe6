"""Flags, architectures and batches in any combination: a batch in parts is the whole one."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fairseq_models import make_model, make_sample, numbers

FLAGS = {
    "reward": st.sampled_from(["simile", "bleu", "sim", "half", "simile:0.7,bleu:0.3"]),
    "simile_alpha": st.sampled_from([0.0, 0.25, 1.0]),
    "mle_weight": st.sampled_from([0.0, 0.3, 1.0]),
    "label_smoothing": st.sampled_from([0.0, 0.1]),
    "risk_cost_scale": st.sampled_from([1.0, 10.0]),
    "risk_include_reference": st.booleans(),
    "risk_keep_duplicates": st.booleans(),
    "risk_alpha": st.sampled_from([0.01, 1.0, 3.0]),
    "risk_score": st.sampled_from(["sum", "mean"]),
    "risk_lenpen": st.sampled_from([0.0, 1.0, 2.0]),
    "risk_max_len_b": st.sampled_from([1, 4, 12]),
    "risk_compat": st.sampled_from(["none", "beyond-bleu"]),
}
SIZES = st.sampled_from([1, 2, 3, 4, 6])
LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5)
ARCHITECTURES = ["transformer_tiny", "fconv", "lstm", "bart_base"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(FLAGS),
    SIZES,
    LENGTHS,
    st.sampled_from([7, 15, 40]),
    st.integers(0, 9),
    st.booleans(),
)
def test_parts_are_the_whole(
    make_criterion, task, arch, flags, size, lengths, max_tokens, seed, training
):
    sample = make_sample(task, seed, tuple(lengths))
    flags = {**flags, "risk_candidates": size}
    if size == 1:  # has no risk of its own
        flags["mle_weight"] = 1.0
    found = []
    for bound in (0, max_tokens):
        # With max_len_a candidates depend on the longest source of their batch.
        criterion = make_criterion(**flags, risk_max_len_a=0.0, risk_max_tokens=bound)
        model = make_model(arch, task, seed).train(training)
        loss, _, log = criterion.train(training)(model, sample)
        loss.backward()
        gradient = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        found.append((loss.item(), torch.cat(gradient), numbers(log)))
    (loss, gradient, log), parts = found
    assert gradient.isfinite().all()
    assert parts[0] == pytest.approx(loss, rel=1e-4)
    torch.testing.assert_close(parts[1], gradient, atol=1e-3, rtol=1e-2)
    assert parts[2] == pytest.approx(log, rel=1e-3, abs=1e-3)

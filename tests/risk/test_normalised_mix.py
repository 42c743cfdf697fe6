"""A mix whose parts have the same spread, by hand."""

from pathlib import Path

import pytest
import torch

from simile_plugin.risk import ListReward, RiskSet, RiskSettings
from simile_plugin.risk.normalised_mix import normalised_mix

# Two lists of a reference, no member, and two candidates.
MEMBERS = torch.tensor([[False, True, True], [False, True, True]])
SIMILE = torch.tensor([[1.0, 0.7, 0.6], [1.0, 0.5, 0.51]])
BLEU = torch.tensor([[1.0, 0.2, 0.6], [1.0, 0.1, 0.2]])
HALF = {"simile": 0.5, "bleu": 0.5}


def test_within_a_list_by_hand() -> None:
    mixed, share = normalised_mix({"simile": SIMILE, "bleu": BLEU}, HALF, MEMBERS, "list")
    # First list: MADs 0.05 and 0.2, which agree in nothing: +1 and -1 of their own MAD.
    # Second: 0.005, below the floor of 0.01, and 0.05; spread 0.5 * 0.005 + 0.5 * 0.05 = 0.0275.
    middle = 0.5 * 0.505 + 0.5 * 0.15
    step = 0.0275 * (0.5 * 0.005 / 0.01 + 0.5 * 0.05 / 0.05)
    assert mixed[0, 1:].tolist() == pytest.approx([0.525, 0.525])
    assert mixed[1, 1:].tolist() == pytest.approx([middle - step, middle + step])
    assert share.tolist() == pytest.approx([20 / (20 + 5), 100 / (100 + 20)])


def test_over_a_batch_by_hand() -> None:
    mixed, share = normalised_mix({"simile": SIMILE, "bleu": BLEU}, HALF, MEMBERS, "batch")
    mads = (0.05 + 0.005) / 2, (0.2 + 0.05) / 2
    spread = (mads[0] + mads[1]) / 2
    difference = spread * 0.5 * (0.1 / mads[0] - 0.4 / mads[1])
    assert float(mixed[0, 1] - mixed[0, 2]) == pytest.approx(difference, abs=1e-6)
    assert share.tolist() == pytest.approx([mads[1] / (mads[0] + mads[1])] * 2)


def test_a_mix_of_parts_that_vary_alike_is_the_plain_one() -> None:
    mixed, share = normalised_mix(
        {"a": BLEU, "b": BLEU - 0.1}, {"a": 0.3, "b": 0.7}, MEMBERS, "list"
    )
    assert torch.allclose(mixed[:, 1:], (BLEU - 0.07)[:, 1:])
    assert share.tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize(("reward", "changed"), [("half", True), ("simile", False)])
def test_only_a_mix_is_normalised(reward: str, changed: bool, encoder_folder: Path) -> None:
    hyps = [["a cat sat on it", "a cat sat", "dogs", "a cat on it"]]
    risk_set = RiskSet(
        torch.zeros(1, 4, 2, dtype=torch.int64), torch.tensor([[False, *[True] * 3]])
    )
    settings = (
        RiskSettings(reward, str(encoder_folder), risk_normalise=n) for n in ("none", "list")
    )
    plain, ours = (ListReward(one, seed=1)(hyps, risk_set, list) for one in settings)
    assert torch.equal(plain.reward[:, 1:], ours.reward[:, 1:]) != changed
    assert plain.mix_share is None and (ours.mix_share is not None) == changed

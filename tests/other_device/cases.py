"""The work of a GPU, on one (SIMILE_TEST_DEVICE=cuda) or on a made-up device (elsewhere.py).

Run by tests/test_other_device.py.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.logging import metrics
from torch.utils import _pytree as pytree

from simile_plugin.cli import main
from simile_plugin.encoder_training.config import POOLS, TrainingConfig
from simile_plugin.encoder_training.negatives import Passes, hardest_negatives
from simile_plugin.encoder_training.trainer import Trainer
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from simile_plugin.search.continuations import best_of_rows
from tests.fairseq_models import make_model, make_sample, make_task, numbers
from tests.other_device.waits import Waits
from tests.pairs import random_pairs, write_pairs

NAME = os.environ.get("SIMILE_TEST_DEVICE", "elsewhere")
if NAME == "elsewhere":
    import tests.other_device.elsewhere  # noqa: F401

# On a GPU LSTMs round their inputs to 10 bits otherwise.
torch.backends.cudnn.allow_tf32 = False

# None that shares parameters: moved to the made-up device they come apart.
ARCHITECTURES = ["transformer_tiny", "fconv", "lstm"]
FLAGS: dict[str, dict[str, Any]] = {
    "beam": {},
    "parts": {"risk_max_tokens": 30},
    "half": {"reward": "half"},
    "reference, duplicates": {"risk_include_reference": True, "risk_keep_duplicates": True},
    "beyond-bleu": {"risk_compat": "beyond-bleu"},
    "sampling": {"risk_search": "sampling"},
    "own": {"reward": "tests.other_device.cases:letters", "risk_score": "mean"},
}


def letters(hyps: list[list[str]], refs: list[str], srcs: list[str]) -> list[list[float]]:
    """A user's reward."""
    return [
        [len(hyp) / (1 + len(hyp) + len(ref)) for hyp in row]
        for row, ref in zip(hyps, refs, strict=True)
    ]


def moved(value: Any) -> Any:
    """Tensors of nested containers, on the device."""
    return pytree.tree_map_only(torch.Tensor, lambda x: x.to(NAME), value)


def update(device: str, arch: str, folder: str, flags: dict[str, Any]) -> tuple[Any, ...]:
    """Loss, gradient and log of an update, and the log of a validation."""
    task = make_task()
    criterion = SimileRiskCriterion(
        SimileRiskConfig(**{"simile_encoder": folder, "risk_candidates": 4, **flags}), task
    )
    sample = make_sample(task)
    model = make_model(arch, task)
    if device != "cpu":
        model, sample = model.to(device), moved(sample)
    torch.manual_seed(5)
    loss, _, log = criterion(model, sample)
    loss.backward()
    gradient = [p.grad.cpu().flatten() for p in model.parameters() if p.grad is not None]
    wanted = torch.device(device).type
    assert all(p.grad is None or p.grad.device.type == wanted for p in model.parameters())
    model.eval()
    torch.manual_seed(6)
    with torch.no_grad():
        validation = criterion(model, sample)[2]
    with metrics.aggregate() as logged:  # as the trainer logs it
        criterion.reduce_metrics([log, validation])
    assert math.isfinite(logged.get_smoothed_value("cost"))
    return loss.item(), torch.cat(gradient), numbers(log), numbers(validation)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_updates_are_those_of_the_cpu(arch: str, flags: str, encoder_folder: Path) -> None:
    found = update(NAME, arch, str(encoder_folder), FLAGS[flags])
    if "risk_search" in FLAGS[flags]:  # random numbers are used up in another order
        assert all(map(math.isfinite, [*found[2].values(), *found[3].values()]))
        assert torch.isfinite(found[1]).all()
        return
    wanted = update("cpu", arch, str(encoder_folder), FLAGS[flags])
    # An LSTM's 3 x 20 products are rounded one after the other, by cuDNN in another order.
    assert found[0] == pytest.approx(wanted[0], rel=1e-4 if arch == "lstm" else 1e-5)
    torch.testing.assert_close(found[1], wanted[1], atol=1e-4, rtol=1e-4)
    assert found[2] == pytest.approx(wanted[2], rel=1e-4, abs=1e-4)
    assert found[3] == pytest.approx(wanted[3], rel=1e-4, abs=1e-4)


@pytest.mark.skipif(NAME != "elsewhere", reason="a real device")
@pytest.mark.parametrize("flags", ["beam", "parts", "half", "sampling", "own"])
def test_waits_of_an_update(flags: str, encoder_folder: Path) -> None:
    task = make_task()
    config = {"simile_encoder": str(encoder_folder), "risk_candidates": 4, **FLAGS[flags]}
    criterion = SimileRiskCriterion(SimileRiskConfig(**config), task)
    model, sample = make_model("transformer_tiny", task).to(NAME), moved(make_sample(task))
    for _ in range(2):  # the first one brings the reward encoder over, too
        with Waits() as found, metrics.aggregate():
            loss, _, log = criterion(model, sample)
            loss.backward()
            criterion.reduce_metrics([log])
            criterion.after_update([log])
    # However long the hypotheses are: the first decoder input, the sources, the lists, the log, and
    # of it what the length control sees.
    ours = [place for place in found.places.elements() if "/simile_plugin/" in place]
    assert sorted(place.split("/")[-1].split(":")[0] for place in ours) == [
        *("candidates.py", "risk_set.py", "translator.py", "update_log.py", "update_log.py"),
    ], found.places
    # fairseq's encoder asks in each layer whether there is padding: here one layer, in the search
    # and for each of the portions.
    portions = 3 if flags == "parts" else 1
    assert found.places.total() - len(ours) == 1 + portions, found.places


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision(dtype: torch.dtype, encoder_folder: Path) -> None:
    task = make_task()
    config = SimileRiskConfig(simile_encoder=str(encoder_folder), risk_candidates=4)
    criterion = SimileRiskCriterion(config, task)
    sample, gradients = moved(make_sample(task)), []
    for enabled in (False, True):
        model = make_model("transformer_tiny", task).to(NAME)
        with torch.autocast(torch.device(NAME).type, dtype=dtype, enabled=enabled):
            loss, _, log = criterion(model, sample)
        loss.backward()
        gradients.append(torch.cat([p.grad.cpu().flatten() for p in model.parameters()]))
        assert gradients[-1].dtype == torch.float32 and math.isfinite(float(log["cost"]))
    full, half = gradients
    assert float(torch.cosine_similarity(full, half, dim=0)) > 0.9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_best_of_rows(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 5000, generator=generator).to(dtype)
    logits[1], logits[2, 9:] = math.nan, -math.inf
    best, tokens = (one.cpu() for one in best_of_rows(moved(logits.clone()), 6, (1, 7)))
    wanted = logits.double() - logits.double().logsumexp(-1, keepdim=True)
    wanted[:, [1, 7]] = -math.inf
    wanted[1] = -math.inf
    torch.testing.assert_close(best.double(), wanted.topk(6).values, atol=1e-5, rtol=0)
    torch.testing.assert_close(wanted.gather(1, tokens), best.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pool", POOLS)
def test_mining(pool: str) -> None:
    keys = torch.randint(0, 200, (160,), generator=torch.Generator().manual_seed(0))
    table = torch.randn(200, 6, generator=torch.Generator().manual_seed(1))
    left, right = table[keys[:80]], table[keys[80:]]
    wanted = hardest_negatives(left, right, keys[:80], keys[80:], pool)
    left, right, left_keys, right_keys = moved((left, right, keys[:80], keys[80:]))
    for dtype in (None, torch.bfloat16):
        passes = Passes(dtype, tile=16)
        found = hardest_negatives(left, right, left_keys, right_keys, pool, passes=passes)
        for side, expected in zip(found, wanted, strict=True):
            assert keys[side.cpu()].tolist() == keys[expected].tolist()
        only = moved(torch.arange(3, 80, 7))
        some = hardest_negatives(left, right, left_keys, right_keys, pool, only, Passes(dtype))
        assert keys[some[0].cpu()].tolist() == keys[wanted[0][3::7]].tolist()


@pytest.mark.parametrize("changes", [{}, {"pool": "all"}])
def test_encoder_steps(changes: dict[str, Any]) -> None:
    config = TrainingConfig(
        steps=9, dim=8, batch_size=4, megabatch=3, megabatch_anneal=4, **changes
    )
    pairs = random_pairs(30, 40, shared=2, filler=3)
    there, here = (Trainer(config, pairs, 40, device) for device in (NAME, "cpu"))
    for _ in range(8):
        torch.testing.assert_close(there.train_step().cpu(), here.train_step())
    torch.testing.assert_close(there.weight.cpu(), here.weight)
    again = Trainer(config, pairs, 40, NAME)
    again.load_state(*there.state())
    torch.testing.assert_close(again.train_step().cpu(), there.train_step().cpu())


def run(command: str) -> None:
    assert main(command.split()) == 0


def answer(command: str, device: str, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    run(f"{command} --json --device {device}")
    return json.loads(capsys.readouterr().out)


def numbers_in(value: Any) -> list[float]:
    """The numbers of nested containers."""
    match value:
        case dict():
            return [n for v in value.values() for n in numbers_in(v)]
        case list():
            return [n for v in value for n in numbers_in(v)]
        case float() | int():
            return [float(value)]
    return []


@pytest.mark.parametrize("kind", ["sp", "sp+word --dropout 0.2"])
def test_encoders_from_training_to_use(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", 120)
    lines = [line.split("\t") for line in pairs.read_text().splitlines()]
    turned = [b for _, b in lines[1:] + lines[:1]]
    rows = [f"{a}\t{b}\t1\n{a}\t{other}\t0\n" for (a, b), other in zip(lines, turned, strict=True)]
    contents = {
        "labelled.tsv": "".join(rows),
        "left": "".join(f"{a}\n" for a, _ in lines),
        "right": "".join(f"{b}\n" for _, b in lines),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    labelled, left, right = (tmp_path / name for name in contents)
    encoder = tmp_path / "enc"
    run(
        f"train-encoder {pairs} --output {encoder} --kind {kind} --dim 8 --vocab-size 60 "
        f"--steps 6 --batch-size 8 --megabatch 2 --log-every 2 --device {NAME}"
    )
    for command in (
        f"score -r {right} -i {left} --encoder {encoder}",
        f"eval-encoder {encoder} --sts {labelled} --resamples 40",
    ):
        there, here = (numbers_in(answer(command, device, capsys)) for device in (NAME, "cpu"))
        assert len(there) > 2 and there == pytest.approx(here, abs=0.01), command


@pytest.mark.parametrize("kind", ["marian", "t5"])
def test_lists_of_transformers(kind: str, tmp_path: Path) -> None:
    from simile_plugin.hugging_face import known_decoder, risk_set_of, special_tokens
    from simile_plugin.risk import RiskSettings
    from tests.hugging_face_models import MAKERS, batch_of

    model, tokenizer = MAKERS[kind](tmp_path / "model")
    special, inputs = special_tokens(model, tokenizer), batch_of(tokenizer)
    settings = RiskSettings(risk_candidates=4, risk_max_len_a=1.0, risk_max_len_b=2)
    wanted = risk_set_of(known_decoder(model, special), inputs, settings, special).tokens
    decoder = known_decoder(model.to(NAME), special)
    for _ in range(3):  # as it stands, recorded, replayed
        found = risk_set_of(decoder, moved(inputs), settings, special).tokens.cpu()
        longest = min(found.size(-1), wanted.size(-1))
        assert torch.equal(found[..., :longest], wanted[..., :longest])
        assert (found[..., longest:] == -100).all()

"""The mean of models: by hand arithmetic, as fairseq reads it, and what has none."""

import sys
from pathlib import Path

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from torch import Tensor

from recipes import average
from simile_plugin.fairseq_hooks import allow_fairseq_checkpoints, read_checkpoint

FIXTURE = Path(__file__).parent / "fixtures/formats-1/risk_checkpoint.pt"


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["average.py", *map(str, words)])
    return average.main()


def model(value: float, **more: Tensor) -> dict[str, Tensor]:
    shared = torch.tensor([value, 1.0])
    return {"encoder": shared, "decoder": shared, "version": torch.tensor([3]), **more}


def checkpoint(path: Path, weights: object, **more: object) -> Path:
    torch.save({"model": weights, "args": None, "last_optimizer_state": {"m": 1}, **more}, path)
    return path


@pytest.mark.parametrize(
    ("weights", "expected"), [([], 2.0), (["2", "2"], 2.0), (["1", "3"], 2.5), (["-1", "2"], 5.0)]
)
def test_the_mean_by_hand(
    weights: list[str], expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [checkpoint(tmp_path / f"{v}.pt", model(v), epoch=v) for v in (1.0, 3.0)]
    flags = ["--weights", *weights] if weights else []
    assert run(monkeypatch, *paths, "--output", tmp_path / "mean.pt", *flags) == 0
    found = torch.load(tmp_path / "mean.pt", weights_only=True)
    assert found["model"]["encoder"].tolist() == found["model"]["decoder"].tolist() == [expected, 1]
    assert found["model"]["version"].tolist() == [3]
    assert found["model"]["encoder"].data_ptr() == found["model"]["decoder"].data_ptr()
    assert (found["last_optimizer_state"], found["epoch"]) == (None, 1.0)


def test_halves_are_averaged_in_full_and_stay_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In half precision 2048 + 1 is 2048.
    rows = [{"w": torch.tensor([value], dtype=torch.float16)} for value in (2048, 1, 1)]
    paths = [checkpoint(tmp_path / f"{i}.pt", row) for i, row in enumerate(rows)]
    assert run(monkeypatch, *paths, "--output", tmp_path / "mean.pt") == 0
    found = torch.load(tmp_path / "mean.pt", weights_only=True)["model"]["w"]
    assert found.dtype == torch.float16 and found.item() == torch.tensor(2050 / 3).half().item()


def test_fairseq_reads_it_and_how_far_each_is_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    allow_fairseq_checkpoints()
    near, apart = (read_checkpoint(str(FIXTURE)) for _ in range(2))
    for name, tensor in near["model"].items():
        if tensor.is_floating_point():
            near["model"][name] = tensor * 1.1
            apart["model"][name] = torch.randn_like(tensor)
    for name, state in (("near", near), ("apart", apart)):
        torch.save(state, tmp_path / f"{name}.pt")
    output = tmp_path / "mean.pt"
    assert run(monkeypatch, FIXTURE, tmp_path / "near.pt", "--output", output) == 0
    out, err = capsys.readouterr()
    assert out.count(": 0.048 of the mean's norm away") == 2  # 0.05 of 1.05
    assert "warning" not in err
    mean, first = (load_checkpoint_to_cpu(str(path))["model"] for path in (output, FIXTURE))
    for name, tensor in first.items():
        wanted = tensor * 1.05 if tensor.is_floating_point() else tensor
        torch.testing.assert_close(mean[name], wanted)
    assert run(monkeypatch, FIXTURE, tmp_path / "apart.pt", "--output", output) == 0
    assert "were they trained from one and the same model?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.pt"], "got 1 MODEL; expected two or more"),
        (["a.pt", "text.pt"], "text.pt: not a fairseq checkpoint (UnpicklingError)"),
        (["a.pt", "wide.pt"], "wide.pt: encoder is (3,), but (2,) in a.pt; expected models of one"),
        (["a.pt", "empty"], "got checkpoints and folders; expected models of one kind"),
        (["a.pt", "b.pt", "nan.pt"], "nan.pt: encoder has NaN or infinity in it, expected finite"),
        (["a.pt", "b.pt", "--weights", "1"], "--weights: got 1 for 2 models"),
        (["b.pt", "out.pt"], "--output: out.pt is an input of this command; name another"),
    ],
)
def test_what_has_no_mean(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "out"):
        checkpoint(Path(f"{name}.pt"), model(1.0))
    checkpoint(Path("wide.pt"), model(1.0) | {"encoder": torch.zeros(3)})
    checkpoint(Path("nan.pt"), model(1.0) | {"encoder": torch.tensor([1.0, float("nan")])})
    Path("text.pt").write_text("no checkpoint", encoding="utf-8")
    Path("empty").mkdir()
    before = Path("out.pt").read_bytes()
    assert run(monkeypatch, "--output", "out.pt", *words) == 2
    err = capsys.readouterr().err
    assert f"average.py: error: {message}" in err and err.count("\n") == 1
    assert Path("out.pt").read_bytes() == before

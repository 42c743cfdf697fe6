"""recipes/reward/comet_reward.py with a stand-in of the package: a reward, and a judge."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

PATH = Path(__file__).resolve().parents[2] / "recipes/reward/comet_reward.py"


class Model:
    """Scores by lengths, so that each of the three texts counts."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.batches: list[int] = []

    def eval(self) -> "Model":
        return self

    def to(self, device: str) -> "Model":
        return self

    def prepare_for_inference(self, batch: list[dict[str, str]]) -> tuple[dict[str, torch.Tensor]]:
        self.batches.append(len(batch))
        return (
            {
                name: torch.tensor([len(row[name]) for row in batch])
                for name in ("src", "mt", "ref")
            },
        )

    def predict_step(self, inputs: tuple[dict[str, torch.Tensor]]) -> Any:
        (lengths,) = inputs
        return SimpleNamespace(scores=lengths["src"] + 10 * lengths["mt"] + 100 * lengths["ref"])


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model, comet = Model(), ModuleType("comet")
    vars(comet).update(download_model=lambda name: name, load_from_checkpoint=lambda path: model)
    monkeypatch.setitem(sys.modules, "comet", comet)
    return model


@pytest.fixture
def recipe(model: Model) -> Any:
    spec = importlib.util.spec_from_file_location("comet_reward", PATH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_candidate_has_the_score_of_its_own_texts(recipe: Any, model: Model) -> None:
    recipe.AT_ONCE = 2
    hyps = [["four", "on", "four", ""], ["seven77", "on", " ", "four"]]
    assert recipe.score(hyps, ["r", "re"], ["abc", "a"]) == [
        [143, 123, 143, 0],
        [271, 221, 0, 241],
    ]
    assert model.batches == [2, 2, 1]  # equal ones once, empty ones not at all


def test_a_score_a_line(recipe: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, text in (("src", "a\nbc\n"), ("out", "long\nx\n"), ("ref", "r\nr\n")):
        paths.append(str(tmp_path / name))
        Path(paths[-1]).write_text(text)
    assert recipe.main(paths) == 0
    assert capsys.readouterr().out == "141.000000\n112.000000\n"

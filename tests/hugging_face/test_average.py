"""The mean of folders of transformers models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from simile_plugin.hugging_face.model_card import MARK
from tests.hugging_face_models import marian
from tests.test_average import run


def test_folders_of_hugging_face_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in ("a", "b", "mean")]
    models: list[Any] = [marian(path, seed)[0] for seed, path in enumerate(paths[:2], 1)]
    for one, path in zip(models, paths, strict=False):
        one.save_pretrained(path, max_shard_size="8KB")
    (paths[0] / "training_args.bin").write_bytes(b"of the first training")
    parts = ("# a", "`m`, fine-tuned.\n\n| | |\n|---|---|\n| reward | half |")
    sections = ("## Validation\n\n| update 0 | 30 |", "## Command\n\n    simile finetune-hf m\n")
    (paths[0] / "README.md").write_text("\n\n".join((f"---\n{MARK}", *parts, *sections)))
    for name in ("finetuning.json", "trainer_state.json"):
        (paths[0] / name).write_text("{}")
    assert len(list(paths[0].glob("*.safetensors"))) > 1
    assert run(monkeypatch, *paths[:2], "--output", paths[2], "--weights", "3", "1") == 0
    found: dict[str, Tensor] = AutoModelForSeq2SeqLM.from_pretrained(paths[2]).state_dict()
    a, b = (one.state_dict() for one in models)
    assert found.keys() == a.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, 0.75 * a[name] + 0.25 * b[name])
    assert (paths[2] / "source.spm").is_file()
    for name in ("training_args.bin", "finetuning.json", "trainer_state.json"):
        assert not (paths[2] / name).exists()
    card = (paths[2] / "README.md").read_text()
    row = "| weights | the mean of those of a, b |"
    changed = ("# mean", f"{parts[1]}\n{row}", sections[1])
    assert card == "\n\n".join((f"---\n{MARK}", *changed))


def test_a_card_of_the_user_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in ("a", "b", "mean")]
    for seed, path in enumerate(paths[:2], 1):
        marian(path, seed)[0].save_pretrained(path)
    (paths[0] / "README.md").write_text("# mine\n")
    assert run(monkeypatch, *paths[:2], "--output", paths[2]) == 0
    assert (paths[2] / "README.md").read_text() == "# mine\n"
    assert run(monkeypatch, *paths[:2], "--output", paths[2]) == 2  # a model that is there stays
    assert run(monkeypatch, *paths[:2], "--output", paths[2], "--overwrite") == 0

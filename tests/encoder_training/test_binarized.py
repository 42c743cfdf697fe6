"""Binarized pairs: the same training data as in memory, whatever writes it; bad folders refused."""

import hashlib
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.encoder_training.binarized import (
    BinarizeOptions,
    binarize_pairs,
    open_binarized,
    read_manifest,
    sample_sentences,
)
from simile_plugin.encoder_training.pairs import (
    BadLines,
    Pairs,
    read_pairs,
    segment_pairs,
    sentence_hash,
)
from simile_plugin.encoder_training.tokenizers import train_sentencepiece
from simile_plugin.encoder_training.tsv import FIRST_TWO, TsvInput

PLAIN = Preprocessing()


@pytest.fixture
def model(tmp_path: Path, spm_proto: bytes) -> str:
    path = tmp_path / "pieces.model"
    path.write_bytes(spm_proto)
    return str(path)


def binarize(paths: list[Path], output: Path, **flags: Any) -> Pairs:
    binarize_pairs(BinarizeOptions(pairs=[*map(str, paths)], output=str(output), **flags))
    return open_binarized(output)[0]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pair_pieces(pairs: Pairs) -> list[tuple[list[int], list[int]]]:
    """Every pair as two lists of pieces, by way of pair_rows and bags, pair by pair."""
    found = []
    for index in range(len(pairs)):
        rows = pairs.pair_rows(np.array([index]))
        ids, starts = pairs.bags(rows.ravel())
        found.append((ids[: starts[1]].tolist(), ids[starts[1] :].tolist()))
    return found


def assert_same_pairs(mapped: Pairs, memory: Pairs) -> None:
    assert len(mapped) == len(memory)
    assert pair_pieces(mapped) == pair_pieces(memory)
    every = np.arange(len(memory))
    hashes = [pairs.hashes[pairs.pair_rows(every)].tolist() for pairs in (mapped, memory)]
    assert hashes[0] == hashes[1]
    assert mapped.digest == memory.digest


def test_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m").write_bytes(train_sentencepiece(["ab", "ba", "abab ab"], PLAIN, 20))
    segmenter = Segmenter((tmp_path / "m").read_bytes(), PLAIN)
    left, right = segmenter.encode(["ab", "ba ba"])
    (tmp_path / "a.tsv").write_text("AB\tba  ba\nжж\tab\nalone\nba ba\tab\tmore\n")
    pairs = binarize([tmp_path / "a.tsv"], tmp_path / "out", sentencepiece=str(tmp_path / "m"))
    raw = contents(tmp_path / "out")
    assert np.frombuffer(raw["ids.bin"], "<u2").tolist() == left + right + right + left
    a, b = len(left), len(right)
    assert np.frombuffer(raw["offsets.bin"], "<i8").tolist() == [
        0,
        a,
        a + b,
        a + 2 * b,
        2 * a + 2 * b,
    ]
    assert pairs.pair_rows(np.array([1, 0])).tolist() == [[2, 3], [0, 1]]
    assert pairs.hashes[0] == pairs.hashes[3] != pairs.hashes[1] == pairs.hashes[2]
    path = tmp_path / "a.tsv"
    said = f"{path}:2: side without a known piece, {path}:3: no second column"
    assert said in capsys.readouterr().err
    manifest = read_manifest(tmp_path / "out")
    assert manifest["pairs"] == 2
    assert manifest["sentences"] == 4
    assert manifest["tokens"] == 2 * (a + b)
    assert manifest["skipped_lines"] == {"side without a known piece": 1, "no second column": 1}
    for name, facts in manifest["files"].items():
        assert facts == {"bytes": len(raw[name]), "sha256": hashlib.sha256(raw[name]).hexdigest()}
    # The digest is over accepted lines, also over those whose pieces turn out to be unknown.
    accepted = "AB\tba  ba\nжж\tab\nba ba\tab\n"
    assert pairs.digest == hashlib.sha256(accepted.encode()).hexdigest()[:16]


def slow_pairs(
    data: bytes, segmenter: Segmenter
) -> tuple[list[tuple[list[int], list[int]]], Counter[str]]:
    """Pieces of each pair, and how many lines are skipped for each reason, line by line."""
    pairs, reasons = [], Counter[str]()
    for line in data.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n"):
        try:
            sides = line.decode().rstrip("\r").split("\t")[:2]
        except UnicodeDecodeError:
            reasons["not UTF-8"] += 1
            continue
        rows = [[p for p in row if p != segmenter.unk_id] for row in segmenter.encode(sides)]
        if b"\0" in line:
            reasons["zero byte, as in UTF-16"] += 1
        elif len(sides) < 2:
            reasons["no second column"] += 1
        elif not all(map(PLAIN.apply, sides)):
            reasons["empty side"] += 1
        elif not all(rows):
            reasons["side without a known piece"] += 1
        else:
            pairs.append((rows[0], rows[1]))
    return pairs, reasons


# Without codec= characters() would also give lone surrogates, which no UTF-8 file can hold.
ODD = st.text(
    alphabet=st.one_of(st.sampled_from("ab \t\n\r\x0b\u2028\0ж.,"), st.characters(codec="utf-8"))
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.one_of(ODD.map(str.encode), st.binary(max_size=9)), max_size=12))
def test_odd_text(lines: list[bytes], spm_proto: bytes, tmp_path: Path) -> None:
    """Whatever the bytes: the folder agrees with a slow reader, and with what is held in memory."""
    (tmp_path / "pieces.model").write_bytes(spm_proto)
    path = tmp_path / "odd.tsv"
    path.write_bytes(b"a the\tthe baker\n" + b"\n".join(lines))
    bad = BadLines()
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    mapped = binarize([path], tmp_path / "out", sentencepiece=str(tmp_path / "pieces.model"))
    segmenter = Segmenter(spm_proto, PLAIN)
    expected, reasons = slow_pairs(path.read_bytes(), segmenter)
    assert pair_pieces(mapped) == expected
    assert read_manifest(tmp_path / "out")["skipped_lines"] == reasons
    text = read_pairs([str(path)], PLAIN, bad)
    assert_same_pairs(mapped, segment_pairs(text, segmenter))
    assert len(text) - len(mapped) == reasons.pop("side without a known piece", 0)
    assert bad.counts == reasons


def test_bytes_do_not_depend_on_the_workers(
    tmp_path: Path, model: str, make_tsv: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_tsv(300)
    path.write_bytes(path.read_bytes().replace(b"\t", b" ", 7))
    binarize([path, path], tmp_path / "one", sentencepiece=model)
    # Small blocks here, for there is more than one block then.
    monkeypatch.setattr("simile_plugin.files.packed.CHUNK_BYTES", 2000)
    binarize([path, path], tmp_path / "two", sentencepiece=model, workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert read_manifest(tmp_path / "one")["skipped_lines"] == {"no second column": 14}


def test_a_large_vocabulary_is_stored_wider(
    tmp_path: Path, model: str, make_tsv: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = binarize([make_tsv(20)], tmp_path / "narrow", sentencepiece=model)
    monkeypatch.setattr(Segmenter, "__len__", lambda _: 65_537)
    wide = binarize([make_tsv(20)], tmp_path / "wide", sentencepiece=model)
    assert wide.ids.dtype == np.uint32
    assert wide.ids.tolist() == narrow.ids.tolist()
    assert read_manifest(tmp_path / "wide")["dtype"] == "uint32"


def test_trained_sentencepiece(tmp_path: Path, make_tsv: Callable[..., Path]) -> None:
    path = make_tsv(150)
    backwards = tmp_path / "backwards.tsv"
    backwards.write_text("".join(path.read_text().splitlines(keepends=True)[::-1]))
    flags: dict[str, Any] = {"vocab_size": 120, "sample_sentences": 40}
    binarize([path], tmp_path / "a", **flags)
    binarize([backwards, path], tmp_path / "b", **flags)
    # The sample is of distinct sentences, and the same in any order.
    models = [contents(tmp_path / name)["sentencepiece.model"] for name in "ab"]
    assert models[0] == models[1]
    facts = read_manifest(tmp_path / "a")["sentencepiece"]
    assert facts == {"trained": True, "vocab_size_asked": 120, "sentences": 40}
    binarize([path], tmp_path / "c", vocab_size=120, sample_sentences=10)
    assert contents(tmp_path / "c")["sentencepiece.model"] != models[0]


@given(words=st.lists(st.text("abc", min_size=1, max_size=2), min_size=1), size=st.integers(1, 9))
def test_the_sample(words: list[str], size: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Oracle: sort all distinct sentences by hash."""
    path = tmp_path_factory.mktemp("sample") / "a.tsv"
    path.write_text("".join(f"{word}\tx\n" for word in words))
    expected = sorted({*words, "x"}, key=sentence_hash)[:size]
    assert sample_sentences(TsvInput([str(path)]), FIRST_TWO, size) == expected


def test_strict_and_empty_input(tmp_path: Path, model: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("the map\tthe oven\nalone\n")
    out = tmp_path / "out"
    for flags in ({"sentencepiece": model}, {"vocab_size": 30}):
        with pytest.raises(ValueError, match=r"a.tsv:2: no second column; expected .*--strict"):
            binarize([path], out, strict=True, **flags)
    path.write_text("")
    for flags in ({"sentencepiece": model}, {"vocab_size": 30}):
        with pytest.raises(ValueError, match=r"a.tsv: no pair found"):
            binarize([path], out, **flags)
    assert os.listdir(tmp_path) and not out.exists()


def test_training_needs_a_second_pass(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="standard input or a pipe can be read only once"):
        binarize([Path("-")], tmp_path / "out")


KILLED = """
import os, signal, sys
import simile_plugin.encoder_training.binarized as binarized

add = binarized.FolderWriter.add
def add_and_die(self, *arrays):
    add(self, *arrays)
    os.kill(os.getpid(), signal.SIGKILL)
binarized.FolderWriter.add = add_and_die
pairs, output, model = sys.argv[1:]
options = binarized.BinarizeOptions(
    pairs=[pairs], output=output, sentencepiece=model, overwrite=True
)
binarized.binarize_pairs(options)
"""


def test_a_kill_leaves_the_old_folder_or_none(
    tmp_path: Path, model: str, make_tsv: Callable[..., Path]
) -> None:
    old = binarize([make_tsv(10)], tmp_path / "old", sentencepiece=model)
    for name in ("old", "new"):
        command = [sys.executable, "-c", KILLED, str(make_tsv(20)), str(tmp_path / name), model]
        assert subprocess.run(command).returncode == -signal.SIGKILL
    assert open_binarized(tmp_path / "old")[0].digest == old.digest
    assert not (tmp_path / "new").exists()


def test_other_folders_are_not_replaced(
    tmp_path: Path, model: str, make_tsv: Callable[..., Path]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"holds other files \(no manifest.json among them\)"):
        binarize([make_tsv(5)], tmp_path / "home", sentencepiece=model)


@pytest.fixture
def folder(tmp_path: Path, model: str, make_tsv: Callable[..., Path]) -> Path:
    binarize([make_tsv(30)], tmp_path / "folder", sentencepiece=model)
    return tmp_path / "folder"


def edit_manifest(folder: Path, **changes: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))


@pytest.mark.parametrize("name", ["ids.bin", "offsets.bin", "hashes.bin", "sentencepiece.model"])
def test_damaged_parts(folder: Path, name: str) -> None:
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(good[:-2])
    with pytest.raises(ValueError, match=rf"{name}: .*(truncated|changed) or of another folder"):
        open_binarized(folder)
    (folder / name).write_bytes(bytes([good[0] ^ 1]) + good[1:])
    with pytest.raises(ValueError, match=rf"{name}: its sha256 is not that of manifest.json"):
        open_binarized(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"folder: {name} is missing; binarize the pairs again"):
        open_binarized(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 4}, "format_version 4 is newer than 3, .* update simile-plugin"),
        ({"tokens": -1}, "tokens: got -1, which no version has written"),
        ({"files": {}}, "ids.bin: its sha256 is not that of manifest.json"),
        ({"dtype": "uint32"}, r"ids.bin: has \d+ bytes, expected \d+"),
    ],
)
def test_bad_manifests(folder: Path, changes: dict[str, object], message: str) -> None:
    edit_manifest(folder, **changes)
    with pytest.raises(ValueError, match=message):
        open_binarized(folder)


def test_no_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match="manifest.json: not valid JSON"):
        open_binarized(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match="no manifest.json there, expected a folder of binarized"):
        open_binarized(folder)


def test_the_segmenter_of_a_folder(folder: Path, spm_proto: bytes) -> None:
    _, segmenter = open_binarized(folder)
    assert segmenter.files == {"sentencepiece.model": spm_proto}
    assert segmenter.preprocessing == PLAIN
    edit_manifest(folder, vocab_size=17)
    with pytest.raises(ValueError, match=r"the tokeniser has \d+ tokens, and the pairs have"):
        open_binarized(folder)


def test_nothing_is_loaded_before_it_is_used(folder: Path) -> None:
    pairs, _ = open_binarized(folder)
    for array in (pairs.ids, pairs.offsets, pairs.hashes):
        assert type(array) is np.ndarray
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, mmap.mmap)
        assert not array.flags.writeable

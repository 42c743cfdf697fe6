"""Binarized pairs: the same training data as in memory, whatever writes it; bad folders refused."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simile_plugin.encoder.binarized import (
    BinarizeOptions,
    binarize_pairs,
    binarized_segmenter,
    open_binarized,
    read_manifest,
)
from simile_plugin.encoder.pairs import (
    BadLines,
    Pairs,
    read_pairs,
    segment_pairs,
    train_sentencepiece,
)
from simile_plugin.encoder.trainer import Trainer, TrainingConfig
from simile_plugin.text import Preprocessing, Segmenter

PLAIN = Preprocessing()
FILES = ["hashes.bin", "ids.bin", "manifest.json", "offsets.bin", "sentencepiece.model"]


@pytest.fixture
def model(tmp_path: Path, spm_proto: bytes) -> str:
    path = tmp_path / "pieces.model"
    path.write_bytes(spm_proto)
    return str(path)


def binarize(paths: list[Path], output: Path, bad: BadLines | None = None, **flags: Any) -> Pairs:
    names = tuple(str(path) for path in paths)
    options = BinarizeOptions(names, str(output), PLAIN, **flags)
    binarize_pairs(options, BadLines() if bad is None else bad)
    return open_binarized(output)


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


def test_the_same_pairs_as_in_memory(
    tmp_path: Path, model: str, make_tsv: Callable[..., Path]
) -> None:
    path = make_tsv(200)
    mapped = binarize([path], tmp_path / "out", sentencepiece=model)
    text = read_pairs([str(path)], PLAIN)
    memory, _ = segment_pairs(text, Segmenter(Path(model).read_bytes(), PLAIN))
    assert mapped.rows is None
    assert mapped.ids.dtype == np.uint16
    assert_same_pairs(mapped, memory)
    assert sorted(os.listdir(tmp_path / "out")) == FILES


def test_by_hand(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(train_sentencepiece(["ab", "ba", "abab ab"], PLAIN, 20))
    segmenter = Segmenter((tmp_path / "m").read_bytes(), PLAIN)
    left, right = segmenter.encode(["ab", "ba ba"])
    (tmp_path / "a.tsv").write_text("AB\tba  ba\nжж\tab\nalone\nba ba\tab\tmore\n")
    bad = BadLines()
    pairs = binarize([tmp_path / "a.tsv"], tmp_path / "out", bad, sentencepiece=str(tmp_path / "m"))
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
    assert bad.examples == [f"{path}:2: side without a known piece", f"{path}:3: no second column"]
    manifest = read_manifest(tmp_path / "out")
    assert manifest["pairs"] == 2
    assert manifest["sentences"] == 4
    assert manifest["tokens"] == 2 * (a + b)
    assert manifest["skipped_lines"] == bad.counts
    for name, facts in manifest["files"].items():
        assert facts == {"bytes": len(raw[name]), "sha256": hashlib.sha256(raw[name]).hexdigest()}
    # The digest is over accepted lines, also over those whose pieces turn out to be unknown.
    accepted = "AB\tba  ba\nжж\tab\nba ba\tab\n"
    assert pairs.digest == hashlib.sha256(accepted.encode()).hexdigest()[:16]


def test_training_is_the_same_bit_for_bit(
    tmp_path: Path, model: str, make_tsv: Callable[..., Path]
) -> None:
    path = make_tsv(90)
    mapped = binarize([path], tmp_path / "out", sentencepiece=model)
    # Rows written out, as long as the trainer wants them.
    mapped = replace(mapped, rows=mapped.pair_rows(np.arange(len(mapped))).astype(np.int32))
    segmenter = binarized_segmenter(tmp_path / "out")
    memory, _ = segment_pairs(read_pairs([str(path)], PLAIN), segmenter)
    config = TrainingConfig(steps=30, dim=8, batch_size=16, megabatch=3, megabatch_anneal=5)
    weights = []
    for pairs in (mapped, memory):
        trainer = Trainer(config, pairs, len(segmenter))
        for _ in range(config.steps):
            trainer.train_step()
        weights.append(trainer.weight.detach())
    assert torch.equal(*weights)


ODD = st.text(alphabet=st.one_of(st.sampled_from("ab \t\n\r\x0b\u2028\0ж.,"), st.characters()))


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(lines=st.lists(st.one_of(ODD.map(str.encode), st.binary(max_size=9)), max_size=12))
def test_odd_text(lines: list[bytes], spm_proto: bytes, tmp_path: Path) -> None:
    """Whatever the bytes: the reader of one folder at a time agrees with the one in memory."""
    (tmp_path / "pieces.model").write_bytes(spm_proto)
    path = tmp_path / "odd.tsv"
    path.write_bytes(b"a the\tthe baker\n" + b"\n".join(lines))
    bads = BadLines(), BadLines()
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    mapped = binarize(
        [path], tmp_path / "out", bads[0], sentencepiece=str(tmp_path / "pieces.model")
    )
    memory, dropped = segment_pairs(
        read_pairs([str(path)], PLAIN, bads[1]), Segmenter(spm_proto, PLAIN)
    )
    assert_same_pairs(mapped, memory)
    assert bads[0].counts.pop("side without a known piece", 0) == dropped
    assert bads[0].counts == bads[1].counts

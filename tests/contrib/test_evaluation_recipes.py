"""Recipes of evaluations: what each script writes, and what it refuses."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from simile_plugin.encoder.format import save_encoder
from simile_plugin.encoder.models import Encoder
from tests.contrib.papers import DETECT, LANGUAGES, MINE, script

PAPER = {
    **{"plant_bitext": MINE, "language_choice": LANGUAGES},
    **dict.fromkeys(("split_labelled", "mix_noise", "morphs"), DETECT),
}


def load(name: str) -> ModuleType:
    return script(PAPER[name], name)


def run(
    name: str,
    arguments: Sequence[object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, str]:
    """Status, output and errors of a script's main()."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *(str(argument) for argument in arguments)])
    status = load(name).main()
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_planted_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_text("".join(f"Satz {i}\n" for i in range(40)) + "Satz 3\n\n")
    (tmp_path / "t").write_text("".join(f"line {i}\n" for i in range(40)) + "line 99\nx\n")
    out = tmp_path / "out"
    flags = ["--source", tmp_path / "s", "--target", tmp_path / "t", "--output", out]
    counts = ["--pairs", 10, "--distractors", 15]
    assert run("plant_bitext", flags + counts, monkeypatch, capsys)[0] == 0
    texts = {}
    for side in ("source", "target"):
        rows = [line.split("\t") for line in (tmp_path / f"out.{side}").read_text().splitlines()]
        texts[side] = dict(rows)
        assert len(rows) == len(texts[side]) == len(set(texts[side].values())) == 25
    gold = [line.split("\t") for line in (tmp_path / "out.gold").read_text().splitlines()]
    assert len(gold) == 10

    def number(sentence: str) -> str:
        return sentence.split()[1]

    for one, other in gold:
        assert number(texts["source"][one]) == number(texts["target"][other])
    shared = {number(s) for s in texts["source"].values()} & {
        number(s) for s in texts["target"].values()
    }
    assert len(shared) == 10  # no distractor's translation is there
    before = out.with_suffix(".gold").read_text()
    run("plant_bitext", flags + counts, monkeypatch, capsys)
    assert out.with_suffix(".gold").read_text() == before


@pytest.mark.parametrize("share", [1.0, 0.8, 0.6, 0.0])
def test_noise_at_a_stated_rate(share: float) -> None:
    mix = load("mix_noise").mix
    clean = [(f"a{i}", f"b{i}") for i in range(50)]
    mixed = mix(clean, share, 30, 1)
    assert len(set(mixed)) == 30
    assert mixed == mix(clean, share, 30, 1) != mix(clean, share, 30, 2)
    assert sum(one[1:] == other[1:] for one, other in mixed) == round(30 * share)


def test_labelled_parts_share_no_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"s{i // 2}\tt{i}\t{1 + i % 4}" for i in range(200)]
    (tmp_path / "all.tsv").write_text("\n".join(rows) + "\n")
    flags = [tmp_path / "all.tsv", "--output", tmp_path / "fi"]
    assert run("split_labelled", flags, monkeypatch, capsys)[0] == 0
    parts = {
        name: [line.split("\t") for line in (tmp_path / f"fi.{name}.tsv").read_text().splitlines()]
        for name in ("train", "test", "pairs")
    }
    assert (len(parts["train"]), len(parts["test"])) == (100, 100)
    assert not {row[0] for row in parts["train"]} & {row[0] for row in parts["test"]}
    assert parts["pairs"] == [row[:2] for row in parts["train"] if row[2] == "1"]
    (tmp_path / "all.tsv").write_text("\n".join(rows[:38]) + "\n")
    status, _, error = run("split_labelled", flags, monkeypatch, capsys)
    assert status == 2 and error == (
        f"split_labelled.py: error: LABELLED: {tmp_path}/all.tsv has 19 groups of pairs without a "
        "common sentence, expected 20 or more; give more pairs\n"
    )


def test_shared_pieces_by_hand() -> None:
    piece_overlap = load("language_choice").piece_overlap
    # {1, 2} and {2, 3}: 1 / 3; {4} and {4}: 1; the last has no pieces
    pairs = [([1, 2, 2], [3, 2]), ([4], [4, 4]), ([], [])]
    assert piece_overlap(pairs) == pytest.approx((1 / 3 + 1) / 2)
    with pytest.raises(ValueError, match="no sentence has a known piece"):
        piece_overlap([([], [])])


def test_exact_p_by_hand() -> None:
    exact_p = load("language_choice").exact_p
    # Of the 3! orders only 1 2 3 and 3 2 1 are as extreme as 1 2 3.
    assert exact_p(np.arange(3.0), np.arange(3.0)) == pytest.approx(2 / 6)
    assert exact_p(np.arange(4.0), np.arange(4.0)) == pytest.approx(2 / 24)


def test_language_choice(
    tmp_path: Path,
    encoder: Encoder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tests.evaluation.test_sts import PAIRS, write_set

    write_set(tmp_path, "own", PAIRS, "5\n0.5\n4\n1\n")
    english = ["the red house", "a map of the harbour"]
    specs = []
    for seed, foreign in enumerate(["a red house", "snow on a line", "the harbour map"]):
        torch.manual_seed(seed)
        folder = tmp_path / f"encoder{seed}"
        save_encoder(folder, Encoder(torch.randn_like(encoder.weight), encoder.segmenter))
        (tmp_path / f"f{seed}").write_text(f"{foreign}\n{foreign}\n")
        (tmp_path / f"e{seed}").write_text("\n".join(english) + "\n")
        specs.append(f"l{seed}={folder}={tmp_path}/f{seed},{tmp_path}/e{seed}")
    status, out, _ = run("language_choice", [*specs, "--sts", tmp_path], monkeypatch, capsys)
    assert status == 0
    assert "Spearman over 3 languages" in out

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
from simile_plugin.encoder.segmenter import Segmenter
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
    status, _, error = run(
        "plant_bitext", [*flags, "--pairs", 20, "--distractors", 11], monkeypatch, capsys
    )
    assert (status, error.count("\n")) == (2, 1)
    assert "need 42 lines, but only 40 have" in error


@pytest.mark.parametrize("share", [1.0, 0.8, 0.6, 0.0])
def test_noise_at_a_stated_rate(share: float) -> None:
    mix = load("mix_noise").mix
    clean = [(f"a{i}", f"b{i}") for i in range(50)]
    mixed = mix(clean, share, 30, 1)
    assert len(set(mixed)) == 30
    assert mixed == mix(clean, share, 30, 1) != mix(clean, share, 30, 2)
    assert sum(one[1:] == other[1:] for one, other in mixed) == round(30 * share)


def test_noise_needs_enough_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c").write_text("a\tb\nc\td\n")
    flags = ["--clean", tmp_path / "c", "--output", tmp_path / "o", "--pairs"]
    status, _, error = run("mix_noise", [*flags, 9, "--clean-share", 1], monkeypatch, capsys)
    assert (status, "--clean: 9 pairs are wanted, but there are only 2" in error) == (2, True)
    status, _, error = run("mix_noise", [*flags, 2, "--clean-share", 80], monkeypatch, capsys)
    assert (status, "--clean-share: got 80.0, expected 0 to 1" in error) == (2, True)
    assert run("mix_noise", [*flags, 2, "--clean-share", 0.5], monkeypatch, capsys)[0] == 0
    assert (tmp_path / "o").read_text().count("\n") == 2
    (tmp_path / "c").write_text("a\tb\nc\n")
    status, _, error = run("mix_noise", [*flags, 2, "--clean-share", 1], monkeypatch, capsys)
    assert (status, "c:2: got 1 tab-separated" in error) == (2, True)


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
    assert 0 < len(parts["pairs"]) < 100
    status, _, error = run("split_labelled", [*flags, "--test-share", 1], monkeypatch, capsys)
    assert (status, "--test-share: got 1.0" in error) == (2, True)
    (tmp_path / "all.tsv").write_text("\n".join(rows[:38]) + "\n")
    status, _, error = run("split_labelled", flags, monkeypatch, capsys)
    assert status == 2 and error == (
        f"split_labelled.py: error: LABELLED: {tmp_path}/all.tsv has 19 groups of pairs without a "
        "common sentence, expected 20 or more; give more pairs\n"
    )


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("split_labelled fi.train.tsv --output fi", "--output: fi.train.tsv"),
        ("mix_noise --clean a --clean-share 0 --pairs 1 --output a", "--output: a"),
        (
            "plant_bitext --source fi.source --target b --pairs 1 --distractors 0 --output fi",
            "--output: fi.source",
        ),
    ],
)
def test_no_input_is_overwritten(
    words: str,
    flag: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"a", "b", "fi.source", "fi.gold", "fi.train.tsv", "fi.pairs.tsv"}
    rows = "".join(f"s{i}\tt{i}\t{i % 2}\n" for i in range(40))
    for name in names:
        Path(name).write_text(rows)
    name, *arguments = words.split()
    status, _, error = run(name, arguments, monkeypatch, capsys)
    expected = f"{name}.py: error: {flag} is an input of this command; name another place\n"
    assert (status, error) == (2, expected)
    assert {path.name for path in tmp_path.iterdir()} == names
    assert all(Path(name).read_text() == rows for name in names)


def test_shared_pieces_by_hand() -> None:
    piece_overlap = load("language_choice").piece_overlap
    # {1, 2} and {2, 3}: 1 / 3; {4} and {4}: 1; the last has no pieces
    pairs = [([1, 2, 2], [3, 2]), ([4], [4, 4]), ([], [])]
    assert piece_overlap(pairs) == pytest.approx((1 / 3 + 1) / 2)
    with pytest.raises(ValueError, match="no sentence has a known piece"):
        piece_overlap([([], [])])


def test_unknown_pieces_are_not_shared(encoder: Encoder) -> None:
    choice, segmenter = load("language_choice"), encoder.segmenter
    assert isinstance(segmenter, Segmenter)
    texts = ["的雨停了", "красно 的 the old ferry", "the harbour"]
    known = choice.known_pieces(segmenter, texts)
    assert any(segmenter.unk_id in row for row in segmenter.encode(texts))
    assert not any(segmenter.unk_id in row for row in known)
    assert known[0] == [] and known[2] == segmenter.encode(texts)[2] != []
    # Nothing is left of a pair of unknown words; beside known ones they share nothing: 0.
    pairs = zip(known[:1] * 2, (known[0], known[2]), strict=True)
    assert choice.piece_overlap(pairs) == 0


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
    for bad in (specs[:2], [*specs, specs[0]], ["x"]):
        status, _, error = run("language_choice", [*bad, "--sts", tmp_path], monkeypatch, capsys)
        assert (status, error.startswith("language_choice.py: error: LANGUAGE: got")) == (2, True)

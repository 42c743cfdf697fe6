"""METEOR 1.5: the formula by hand, a program that speaks its protocol, and the jar where it is."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.cli import main
from simile_plugin.evaluation.meteor import STATISTICS, Meteor, meteor_scores, missing_meteor
from tests.conftest import SENTENCES

REAL = not missing_meteor()
# What METEOR's jar answers for two pairs (of the first, all matches in one chunk, which does not
# count), and its scores of both and of their corpus.
CAT = [8, 7, 5, 4, 2, 2, 4, 4, *[0] * 8, 1, 1, 1, 0, 0, 8, 7]
DOG = [5, 6, 1, 2, 0, 0, 1, 1, *[0] * 4, 3, 3, 0, 0, 1, 1, 0, 0, 1, 5, 5]
JAR_SCORES = [0.9043263288009891, 0.4080376908255471, 0.5171629740529841]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up java and a package with a jar."""
    (tmp_path / "pycocoevalcap" / "meteor").mkdir(parents=True)
    (tmp_path / "pycocoevalcap" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "pycocoevalcap" / "meteor" / "meteor-1.5.jar").touch()
    shutil.copy(Path(__file__).with_name("fake_java.py"), tmp_path)
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{tmp_path}/fake_java.py" "$@"\n')
    java.chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_by_hand() -> None:
    # "boats a red the" for "the boats": boats and the match, in two chunks. A content word counts
    # 0.75, a function word 0.25: P = (0.75 + 0.25) / (2 * 0.75 + 2 * 0.25), R = 1 / 1;
    # F = P R / (0.85 P + 0.15 R), penalty 0.6 * (2 chunks / 2 matches)^0.2.
    stats = np.array([4, 2, 2, 1, 1, 1, 1, 1, *[0] * 12, 2, 2, 2.0])
    expected = 0.5 / (0.85 * 0.5 + 0.15) * (1 - 0.6)
    assert meteor_scores(stats) == pytest.approx(expected)
    # The same matches by stem and paraphrase count 0.6 each.
    stemmed = np.array([4, 2, 2, 1, 0, 0, 0, 0, 1, 1, 0, 0, *[0] * 4, 0, 0, 1, 1, 2, 2, 2.0])
    assert meteor_scores(stemmed) == pytest.approx(0.6 * expected)
    synonym = np.array([1, 1, 0, 0, *[0] * 8, 1, 1, *[0] * 6, 1, 1, 1.0])
    assert meteor_scores(synonym) == pytest.approx(0.8 * (1 - 0.6))


def test_scores_and_sums_are_the_jars() -> None:
    stats = np.array([CAT, DOG], dtype=float)
    assert meteor_scores(stats) == pytest.approx(JAR_SCORES[:2], abs=1e-12)
    assert meteor_scores(stats.sum(0)) == pytest.approx(JAR_SCORES[2], abs=1e-12)
    assert meteor_scores(np.zeros((2, STATISTICS))).tolist() == [0, 0]


def test_pairs_in_order_and_sums(folder: Path) -> None:
    hyps = ["boats a red the", "a red boat sails", "", "no match"]
    refs = ["the boats", "a red boat sails", "the boats", "the boats"]
    with Meteor() as meteor:
        stats = meteor.statistics(hyps, refs)
        assert (meteor.scores(hyps[::-1], refs[::-1]) == meteor_scores(stats)[::-1]).all()
    by_hand = 0.5 / (0.85 * 0.5 + 0.15) * 0.4
    assert meteor_scores(stats).tolist() == pytest.approx([by_hand, 1, 0, 0])
    # Both sides are the same in the second pair: its chunk is no fragment of the corpus either.
    assert stats[:, 20].tolist() == [2, 0, 0, 0]
    arguments = (folder / "arguments").read_text().split("\n")
    assert arguments[-6:] == ["-", "-", "-stdio", "-l", "en", "-norm"]


def test_odd_text_stays_in_its_line(folder: Path) -> None:
    hyps = ["a\nb\r\tc", "a ||| b", "||||", "\ud800", "é\x00\u2028x", " "]
    with Meteor() as meteor:
        assert meteor.statistics(hyps, ["||| r"] * 6).shape == (6, STATISTICS)
    asked = (folder / "questions").read_bytes().decode("utf-8").split("\n")[:-1]
    cleaned = ["a b c", "a | | | b", "| | ||", "?", "é\x00 x", ""]
    assert asked == [f"SCORE ||| | | | r ||| {hyp} " for hyp in cleaned]


@pytest.mark.parametrize(
    ("hyp", "message"),
    [
        ("boom", "METEOR: java said 'Exception: out of tables', expected 23 numbers"),
        ("garbled", "METEOR: java said 'Error: specify SCORE', expected 23 numbers"),
    ],
)
def test_a_process_that_fails(folder: Path, hyp: str, message: str) -> None:
    with Meteor() as meteor:
        meteor.scores(["a"], ["a"])
        with pytest.raises(ValueError, match=message):
            meteor.scores([hyp], ["ref"])
        assert not meteor.close.alive and meteor.process.returncode is not None


def test_what_is_missing_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_meteor() == ""
    (folder / "pycocoevalcap" / "meteor" / "meteor-1.5.jar").unlink()
    assert "pip install --no-deps pycocoevalcap" in missing_meteor()
    monkeypatch.setenv("PATH", str(folder / "pycocoevalcap"))
    lacking = missing_meteor()
    assert "pycocoevalcap" in lacking and "no java on the PATH" in lacking and "\n" not in lacking
    with pytest.raises(ValueError, match=r"^METEOR 1\.5 is left out; it needs pycocoevalcap"):
        Meteor()


def test_eval_encoder_shows_it(
    folder: Path, encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "judged.tsv").write_text(
        "hypothesis\treference\thuman_z\n"
        + "".join(f"{SENTENCES[row]}\t{SENTENCES[row % 2]}\t{row}\n" for row in range(5)),
        encoding="utf-8",
    )
    command = ["eval-encoder", str(encoder_folder), "--judgements", str(folder / "judged.tsv")]
    assert main([*command, "--resamples", "40"]) == 0
    text = capsys.readouterr().out
    assert "\nMETEOR " in text and "METEOR: meteor-1.5.jar -l en -norm" in text
    assert "SIMILE - METEOR" in text and "left out" not in text


@pytest.mark.skipif(not REAL, reason=missing_meteor())
def test_the_jar() -> None:
    hyps = ["the cat was sitting on the mat .", "a large hound ran fast", "A|||b\n“c”", "", "a"]
    refs = ["the cat sat on the mat .", "A big dog runs quickly.", 'a ||| B "c"', "a", " "]
    with Meteor() as meteor:
        stats = meteor.statistics(hyps, refs)
    assert stats[:2].tolist() == [CAT, DOG]
    assert meteor_scores(stats) == pytest.approx([*JAR_SCORES[:2], 1, 0, 0], abs=1e-12)

"""Read the outputs of systems and the scores made of them elsewhere."""

from pathlib import Path

import pytest

from simile_plugin.report.inputs.texts import (
    System,
    parse_named_files,
    read_sentence_scores,
    read_sentences,
    read_systems,
)


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_named_files() -> None:
    assert parse_named_files("--sys", ["MLE=a.txt", "S = x=1.txt,b.txt"]) == {
        "MLE": ("a.txt",),
        "S": (" x=1.txt", "b.txt"),
    }


@pytest.mark.parametrize("spec", ["mle.txt", "MLE=a,,b"])
def test_malformed_names_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"^--sys: got '.*'; expected NAME=FILE"):
        parse_named_files("--sys", [spec])


def test_repeated_names_and_files_are_refused() -> None:
    with pytest.raises(ValueError, match=r"--sys: got A twice; give its seeds as A=FILE,FILE"):
        parse_named_files("--sys", ["A=x", "A=y"])
    with pytest.raises(ValueError, match=r"--sys: A names one file twice"):
        parse_named_files("--sys", ["A=x,./x"])


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"--ref: .*empty is empty; expected one sentence a line"):
        read_sentences(empty, "--ref")


def test_systems_must_be_parallel_to_the_references(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a", "b"), write(tmp_path / "two", "a")
    named = {"A": (one,), "B": (one, two)}
    with pytest.raises(
        ValueError,
        match=r"--sys B: .*two has 1 sentences but --ref r.txt has 2; they must be parallel",
    ):
        read_systems("--sys", named, ["x", "y"], "--ref r.txt")
    systems = read_systems("--sys", {"A": (one,)}, ["x", "y"], "--ref r.txt")
    assert systems == [System("A", (one,), (("a", "b"),))]


TWO = [System("A", ("a",), (("x",),)), System("B", ("b1", "b2"), (("x",), ("y",)))]


def test_sentence_scores(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", "1\tright"), write(tmp_path / "b", "0\tverb: - -> sell")
    c = write(tmp_path / "c", "0.25")
    scores = read_sentence_scores([f"m:A={a}", f"m:B={b},{c}"], TWO)
    assert scores == {"m": {"A": [[1.0]], "B": [[0.0], [0.25]]}}


def test_bad_sentence_scores_are_refused(tmp_path: Path) -> None:
    a, two = write(tmp_path / "a", "1"), write(tmp_path / "two", "1", "0")
    word, large = write(tmp_path / "word", "right"), write(tmp_path / "large", "55.1")
    for spec in (f"A={a}", f"m:C={a}", f"m:B={a}"):
        with pytest.raises(ValueError, match=r"--sentence-scores: got .*expected TITLE:NAME=FILE"):
            read_sentence_scores([spec], TWO)
    with pytest.raises(ValueError, match=r"m has no scores of B; expected TITLE:NAME=FILE"):
        read_sentence_scores([f"m:A={a}"], TWO)
    with pytest.raises(ValueError, match=r"m:A: .*two has 2 lines for 1 sentences"):
        read_sentence_scores([f"m:A={two}"], TWO)
    for path in (word, large):
        with pytest.raises(
            ValueError, match=r"m:A: .*:1: got '.*' in column 1, expected a number from -1.5 to 1.5"
        ):
            read_sentence_scores([f"m:A={path}"], TWO)

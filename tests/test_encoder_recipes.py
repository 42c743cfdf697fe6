"""recipes/encoder: statistics of a corpus by hand, and what the script refuses."""

import json
import math
import sys
from pathlib import Path

import pytest

from recipes.encoder import corpus_statistics, shared_translations, table
from simile_plugin.encoder.models import Encoder


def test_entropy_by_hand() -> None:
    # a 4 of 8, b 2, c 1, d 1
    expected = 0.5 * math.log(2) + 0.25 * math.log(4) + 2 * 0.125 * math.log(8)
    assert corpus_statistics.entropy("aabacadb") == pytest.approx(expected)
    assert str(corpus_statistics.entropy("aaaa")) == "0.0"  # not -0.0


def test_a_table_of_corpora(
    tmp_path: Path,
    encoder: Encoder,
    encoder_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.tsv").write_text("A boat.\tthe ship\t0.5\nA boat!\tships\t0.9\n")
    (tmp_path / "b.tsv").write_text("".join(f"word {i}\tx\t1\n" for i in range(50)))

    def run(*words: str) -> tuple[int, str, str]:
        model = str(encoder_folder / "sentencepiece.model")
        monkeypatch.setattr(sys, "argv", ["x", "--sentencepiece", model, *words])
        status = corpus_statistics.main()
        return status, *capsys.readouterr()

    corpora = [f"{name}={tmp_path / f'{name.lower()}.tsv'}" for name in "AB"]
    status, out, _ = run("--score-column", "3", "--sample", "10", *corpora)
    assert status == 0 and "|  | A | B |" in out
    # a, boat: twice of six; "." and "!": once each
    expected = 2 * (1 / 3) * math.log(3) + 2 * (1 / 6) * math.log(6)
    assert f"| entropy of words | {expected:.2f} |" in out
    assert "| length, words | 3.00 (0.00) | 2.00 (0.00) |" in out
    assert "| paraphrase score | 0.70 (0.20) | 1.00 (0.00) |" in out
    assert "| sampled of pairs | 2 of 2 | 10 of 50 |" in out
    assert "paraphrase score" in run("--encoder", str(encoder_folder), *corpora)[1]
    assert "paraphrase score" not in run(*corpora)[1]
    # Lines that filter-pairs would skip are no sentences; Thai is counted by its letters.
    bad = b"A boat.\tthe ship\t0.5\nA boat!\tships\n \tships\t1\nx\tx\tnan\n\xff\tx\t1\n"
    (tmp_path / "a.tsv").write_bytes(bad)
    (tmp_path / "b.tsv").write_text("\u0e01\u0e02\u0e03\tx\t1\n")
    status, out, error = run("--score-column", "3", *corpora)
    assert status == 0 and "| length, words | 3.00 (0.00) | 3.00 (0.00) |" in out
    assert "| sampled of pairs | 1 of 1 | 1 of 1 |" in out
    reasons = "4 lines skipped (2 no score in column 3, 1 empty side, 1 not UTF-8)"
    assert error.startswith(f"warning: {reasons}: {tmp_path / 'a.tsv'}:2: no score in column 3")
    (tmp_path / "a.tsv").write_text("A boat.\n")  # is not read before the names are known
    status, _, error = run(*corpora)
    assert status == 2 and "a.tsv: no pairs in it; 1 lines skipped (1 no second column)" in error
    for words, expected_error in (
        ([corpora[0].removeprefix("A=")], "expected NAME=PAIRS..., each name once"),
        ([corpora[0], corpora[0]], "expected NAME=PAIRS..., each name once"),
        (["--sample", "0", *corpora], "--sample: got 0, expected 1 or more"),
        (["--score-column", "-1", *corpora], "--score-column: got -1, expected 1 or more"),
        (["--sentencepiece", str(tmp_path / "a.tsv"), *corpora], "not a sentencepiece model"),
    ):
        status, _, error = run(*words)
        assert status == 2 and expected_error in error and error.count("\n") == 1


def test_shared_translations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [b"one\tx", b"two\tx\r", b"one\tx", b"caf\xe9\tx", b"lone\ty", b"\ty", b"no tab"]
    lines += [b"what\t", b"who\t ", b"when\t"]  # that nobody translated is no translation in common
    lines += [b"%d\tJa." % i for i in range(7)]
    (tmp_path / "a.tsv").write_bytes(b"\n".join(lines))
    assert shared_translations.main([str(tmp_path / "a.tsv")]) == 0
    shown = capsys.readouterr()
    assert shown.out == "one\ttwo\n"
    assert shown.err == f"warning: 1 lines skipped (1 not UTF-8): {tmp_path}/a.tsv:4: not UTF-8\n"
    assert shared_translations.main([str(tmp_path / "b.tsv")]) == 2
    assert "shared_translations.py: error: [Errno 2]" in capsys.readouterr().err


def test_table_of_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def result(mean: float | None) -> str:
        return json.dumps({"sts": [{"folder": "x/A", "mean_pearson": mean, "all_pearson": 50.0}]})

    for seed, mean in enumerate((40.0, 41.0, None)):  # eval-encoder --json has null for NaN
        (tmp_path / f"{seed}.json").write_text(result(mean))
    files = [str(tmp_path / f"{seed}.json") for seed in range(3)]
    table.main(files[:2])
    assert "| A, mean of sets | 40.0 | 41.0 | 40.5 |" in capsys.readouterr().out
    table.main(files)
    shown = capsys.readouterr().out
    assert "| A, mean of sets | 40.0 | 41.0 | - | - |" in shown
    assert "| A, all pairs | 50.0 | 50.0 | 50.0 | 50.0 |" in shown

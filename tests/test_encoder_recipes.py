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
    status, _, error = run(corpora[0], corpora[0])
    assert status == 2 and "expected NAME=PAIRS..., each name once" in error
    assert error.count("\n") == 1


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

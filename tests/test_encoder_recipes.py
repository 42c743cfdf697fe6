"""recipes/encoder: pairs that share a translation, and the table of seeds."""

import json
from pathlib import Path

import pytest

from recipes.encoder import shared_translations, table


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

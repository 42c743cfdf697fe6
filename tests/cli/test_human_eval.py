"""`simile human-eval`, the real command line: sheets out, answers in."""

import json
import re
from pathlib import Path

import pytest

from simile_plugin.cli import main

REFS = [f"boat number {i} leaves the grey harbour" for i in range(8)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    outputs = {
        "ref": REFS,
        "src": [f"quelle {i}" for i in range(8)],
        "a": [f"{ref} now" for ref in REFS],
        "b": [ref.replace("grey", "old") for ref in REFS],
        "short": REFS[:3],
    }
    for name, lines in outputs.items():
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


SYSTEMS = ["--ref", "ref.txt", "--sys", "A=a.txt", "--sys", "B=b.txt"]
SHEET = ["human-eval", "sheet", *SYSTEMS, "--sentences", "5", "--annotators", "2"]


def test_from_sheets_to_means(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHEET, "--src", "src.txt", "--out", "sheets", "--key", "key.json"]) == 0
    said = capsys.readouterr().out
    assert re.match(r"study [0-9a-f]{12}: 5 sentences, 10 items; 2 sheets", said)
    # 2.487 / sqrt(5) = 1.11, and half of it takes four times as many
    assert "5 sentences show a difference of 1.11 of 5 points" in said and "0.56 takes 20" in said
    systems = [item["systems"] for item in json.loads((files / "key.json").read_text())["items"]]
    for annotator in (1, 2):
        rows = (files / "sheets" / f"sheet.{annotator}.tsv").read_text().splitlines()
        for i, row in enumerate(rows[1:], start=1):
            number = int(row.partition("\t")[0].split("-")[2])
            rows[i] = row.replace("\t\t", "\t4\t" if "B" in systems[number - 1] else "\t2\t", 1)
        (files / f"{annotator}.tsv").write_text("\n".join(rows))
    score = ["human-eval", "score", "--key", "key.json", "--answers", "1.tsv", "2.tsv"]
    assert main([*score, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(s["name"], s["mean"]) for s in found["systems"]] == [("A", 2.0), ("B", 4.0)]
    assert found["pairs"][0]["better"] == 5 and found["agreement"]["alpha"] == 1.0
    assert main([*score, "--partial"]) == 0
    assert "B - A" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "s", "--key", "s/key.json"], "--key: s/key.json lies in the folder of the she"),
        (["--out", "s", "--key", "a.txt"], "--key: a.txt exists; answers to its sheets need it"),
        (["--out", "old", "--key", "k"], "--out: old holds sheets already"),
        (["--out", "s", "--key", "k", "--differ", "A,C"], "--differ: got C; expected two of A, B"),
        (["--out", "s", "--key", "k", "--sys", "S=short.txt"], "--sys S: short.txt has 3"),
        (["--out", "s", "--key", "k", "--sentences", "9"], "--sentences: got 9, but only 8 of 8"),
    ],
)
def test_bad_input_writes_nothing(
    arguments: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "old").mkdir()
    (files / "old" / "sheet.1.tsv").write_text("")
    before = sorted(files.rglob("*"))
    assert main([*SHEET, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"simile human-eval: error: {message}")
    assert captured.out == "" and captured.err.count("\n") == 1
    assert sorted(files.rglob("*")) == before


def test_one_system_is_no_comparison(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = ["human-eval", "sheet", "--ref", "ref.txt", "--sys", "A=a.txt", "--out", "s"]
    assert main([*one, "--key", "k"]) == 2
    assert "--sys: got A alone; a comparison needs two systems" in capsys.readouterr().err

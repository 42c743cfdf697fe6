"""simile contrib mine-bitext."""

import json
from pathlib import Path

import pytest

from simile_plugin.cli import main

LEFT = [
    "the grey heron waits",
    "two boys skip stones",
    "an old ferry crosses",
    "nobody told the baker",
    "she folded the map",
    "our train was late",
    "the museum opens",
    "he paid for tickets",
]
RIGHT = [f"{line} today" for line in LEFT]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


@pytest.fixture
def bucc(tmp_path: Path) -> list[object]:
    for name, lines in (("source", LEFT), ("target", [*reversed(RIGHT)])):
        text = "".join(f"{name}-{i}\t{line}\n" for i, line in enumerate(lines))
        (tmp_path / name).write_text(text)
    (tmp_path / "gold").write_text("".join(f"source-{i}\ttarget-{7 - i}\n" for i in range(6)))
    return ["--source", tmp_path / "source", "--target", tmp_path / "target"]


def test_mining(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    gold, output = tmp_path / "gold", tmp_path / "mined.tsv"
    command = ["contrib", "mine-bitext", encoder_folder, *bucc]
    assert "tuned               True" in run(capsys, *command, "--gold", gold)
    found = json.loads(run(capsys, *command, "--gold", gold, "--output", output, "--json"))
    assert (found["recall"], found["gold"]) == (100, 6)
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    assert len(rows) == found["mined"] == found["written"]
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert ["source-0", "target-7", LEFT[0], RIGHT[0]] in [row[1:] for row in rows]
    # On other texts, by the threshold of these.
    other = ["--threshold", found["threshold"], "--output", tmp_path / "again.tsv"]
    assert json.loads(run(capsys, *command, *other, "--json"))["written"] == len(rows)
    assert (tmp_path / "again.tsv").read_text() == output.read_text()


def test_retrieval_of_aligned_lines(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text("\n".join(LEFT) + "\n")
    (tmp_path / "t").write_text("\n".join(RIGHT) + "\n")
    texts = ("--source", tmp_path / "s", "--target", tmp_path / "t", "--aligned")
    command = ("contrib", "mine-bitext", encoder_folder, *texts)
    assert "forward             100.0" in run(capsys, *command)
    found = json.loads(run(capsys, *command, "--json"))
    assert (found["forward"], found["backward"], found["sentences"]) == (100, 100, 8)
    (tmp_path / "t").write_text("\n".join(RIGHT[1:]) + "\n")
    assert "has 8 lines but" in fails(capsys, *command)


def test_mining_refuses_what_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    gold, foreign = tmp_path / "gold", tmp_path / "foreign"
    gold.write_text("source-0\ttarget-0\n")
    foreign.write_text("a\tдождь идёт\nb\tснег\n")
    start = ["contrib", "mine-bitext", encoder_folder, *bucc]
    for flags, message in (
        (["--threshold", 1], "expected --gold, --aligned, or --threshold with --output"),
        (["--aligned", "--gold", gold], "--aligned: only measures; leave out --gold"),
        (
            ["--threshold", 1, "--output", tmp_path / "o", "--source", foreign],
            f"--source: {foreign}: the encoder knows no piece of any sentence",
        ),
        (["--gold", gold, "--output", gold], f"--output: {gold} is an input of this command"),
    ):
        assert message in fails(capsys, *start, *flags)
    assert gold.read_text() == "source-0\ttarget-0\n"
    assert not (tmp_path / "o").exists()

"""`simile binarize-pairs` and `simile filter-pairs` as they are typed."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.cli import main
from simile_plugin.encoder_training.binarized import open_binarized, read_manifest

PAIRS = [
    ("The map is old.", "An old map, this."),
    ("Stones skip over water.", "Over the pond go flat stones."),
    ("The baker sleeps.", "Nobody wakes the baker."),
    ("A train in the snow", "Snow lies on the train."),
]
TEXT = "".join(f"{left}\t{right}\n" for left, right in PAIRS)


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(TEXT)
    return path


@pytest.fixture
def model(tmp_path: Path, spm_proto: bytes) -> Path:
    path = tmp_path / "pieces.model"
    path.write_bytes(spm_proto)
    return path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail; its last line on standard error."""
    capsys.readouterr()
    assert run(*arguments) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_binarize(
    tsv: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["binarize-pairs", tsv, "--output", out, "--sentencepiece", model]
    assert run(*command) == 0
    shown = capsys.readouterr().out
    manifest = read_manifest(out)
    assert shown.startswith(f"{out}: 4 pairs, {manifest['tokens']} tokens of ")
    assert re.search(r"pieces as uint16, \d+ s", shown)
    assert "holds binarized pairs; name another folder or add --overwrite" in error_of(
        capsys, *command
    )
    assert run(*command, "--overwrite", "--keep-case", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == read_manifest(out)
    assert printed["preprocessing"]["lowercase"] is False


def test_wrong_flags_of_binarize(tsv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["binarize-pairs", tsv, "--output", tsv.parent / "out"]
    for flags, message in [
        (["--workers", "0"], "--workers: got 0"),
        (["--columns", "x"], "--columns: got 'x'"),
        (["--tokens", "sp+sp"], "--tokens: got 'sp+sp', expected one of sp, word, trigram, ngram"),
    ]:
        assert message in error_of(capsys, *command, *flags)


def test_binarize_and_filter_in_a_pipe(tsv: Path, model: Path, tmp_path: Path) -> None:
    """The two as processes of a shell, with standard input and output."""
    simile = [sys.executable, "-m", "simile_plugin"]
    packed = gzip.compress((TEXT + TEXT).encode())
    (tmp_path / "twice.tsv.gz").write_bytes(packed)
    filtering = [*simile, "filter-pairs", str(tmp_path / "twice.tsv.gz")]
    kept = subprocess.run(filtering, capture_output=True, check=True)
    assert kept.stdout.decode() == TEXT
    assert "removed: duplicate" in kept.stderr.decode()
    out = tmp_path / "out"
    binarizing = [*simile, "binarize-pairs", "-", "--output", str(out), "--workers", "2"]
    subprocess.run([*binarizing, "--sentencepiece", str(model)], input=kept.stdout, check=True)
    assert run("binarize-pairs", tsv, "--output", tmp_path / "b", "--sentencepiece", model) == 0
    assert np.array_equal(open_binarized(out)[0].ids, open_binarized(tmp_path / "b")[0].ids)
    assert read_manifest(out) == read_manifest(tmp_path / "b")


def test_filter(tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tsv.write_text(
        TEXT + "A long, long day.\tA long, long day!\nalone\nthe baker sleeps\tHe does.\n"
    )
    (tmp_path / "STS.input.x.txt").write_text("The baker sleeps!\tAnything at all\n")
    out = tmp_path / "kept.tsv.gz"
    command = ["filter-pairs", tsv, "--output", out, "--exclude", tmp_path / "STS.input.x.txt"]
    assert run(*command, "--json") == 0
    shown = capsys.readouterr()
    kept = "".join(TEXT.splitlines(keepends=True)[i] for i in (0, 1, 3))
    assert gzip.decompress(out.read_bytes()).decode() == kept
    assert json.loads(shown.out) == {
        "read": 6,
        "kept": 3,
        "removed": {"overlap": 1, "excluded": 2, "duplicate": 0},
        "skipped_lines": {"no second column": 1},
    }
    assert f"warning: 1 lines skipped (1 no second column): {tsv}:6" in shown.err
    table = [line.split() for line in shown.err.splitlines()[-5:]]
    assert table == [
        ["pairs", "read", "6", "100.0", "%"],
        ["removed:", "overlap", "1", "16.7", "%"],
        ["removed:", "excluded", "2", "33.3", "%"],
        ["removed:", "duplicate", "0", "0.0", "%"],
        ["pairs", "kept", "3", "50.0", "%"],
    ]


def test_wrong_flags_of_filter(tsv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[tuple[list[object], str]] = [
        (["--json"], "--json: the pairs go to standard output already; add --output FILE"),
        (["--output", "-"], "--output: got -, which only inputs can be; name another place"),
        (["--exclude", tsv.parent], "is a folder, expected a TSV file"),
        (["--exclude", "sts.csv.gz"], "got .csv, whose sentences would not be found; expected"),
        (["--min-score", "0.3"], "--min-score: is for a score, and a score for it"),
        (
            ["--score-column", "3", "--min-score", "inf"],
            "--min-score: got inf, expected a finite number",
        ),
    ]
    for flags, message in wrong:
        assert message in error_of(capsys, "filter-pairs", tsv, *flags)


def test_an_output_over_an_input(
    tsv: Path, model: Path, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link, folder = tmp_path / "link.tsv", tmp_path / "pairs"
    link.symlink_to(tsv)
    binarizing = ["binarize-pairs", tsv, "--output", folder, "--sentencepiece", model]
    assert run(*binarizing) == 0
    inside = folder / "own.tsv"
    inside.write_text(TEXT)
    before = sorted(path.name for path in folder.iterdir())
    commands: list[list[object]] = [
        ["filter-pairs", tsv, "--output", tsv],
        ["filter-pairs", link, "--output", tsv],
        ["filter-pairs", model, "--exclude", tsv, "--output", link],
        ["binarize-pairs", tsv, "--output", tsv],
        ["binarize-pairs", inside, "--output", folder, "--overwrite"],
        ["convert-encoder", "--from", encoder_folder, "--output", encoder_folder],
    ]
    for command in commands:
        message = error_of(capsys, *command)
        assert "--output: " in message and "an input of this command; name another" in message
    assert tsv.read_text() == TEXT
    assert sorted(path.name for path in folder.iterdir()) == before


NO_TORCH = """
import sys
from simile_plugin.cli import main
status = main(sys.argv[1:])
assert "torch" not in sys.modules
sys.exit(status)
"""


def test_torch_is_not_imported(tsv: Path, model: Path, tmp_path: Path) -> None:
    """Only --encoder needs it; every worker would take its memory and its seconds."""
    out = str(tmp_path / "out")
    binarizing = ["binarize-pairs", str(tsv), "--sentencepiece", str(model), "--output", out]
    for command in (binarizing, ["filter-pairs", str(tsv), "--near-duplicates"]):
        subprocess.run([sys.executable, "-c", NO_TORCH, *command], check=True, capture_output=True)

"""The commands of simile contrib, and flags of simile eval-encoder."""

import json
from pathlib import Path

import pytest

from simile_plugin.cli import main
from tests.evaluation.test_sts import PAIRS, write_set

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
def labelled(tmp_path: Path) -> Path:
    rows = [f"{a}\t{b}\t1" for a, b in zip(LEFT, RIGHT, strict=True)]
    rows += [f"{a} now\t{b} again\t0" for a, b in zip(LEFT, RIGHT[1:] + RIGHT[:1], strict=True)]
    path = tmp_path / "labelled.tsv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def bucc(tmp_path: Path) -> list[object]:
    for name, lines in (("source", LEFT), ("target", [*reversed(RIGHT)])):
        text = "".join(f"{name}-{i}\t{line}\n" for i, line in enumerate(lines))
        (tmp_path / name).write_text(text)
    (tmp_path / "gold").write_text("".join(f"source-{i}\ttarget-{7 - i}\n" for i in range(6)))
    return ["--source", tmp_path / "source", "--target", tmp_path / "target"]


# --- detect ---


def test_detection_with_a_test_file_and_by_folds(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, labelled: Path
) -> None:
    flags = ("--train", labelled, "--seeds", 2, "--epochs", 2, "--resamples", 40)
    test = labelled.with_name("test")
    test.write_bytes(labelled.read_bytes())
    out = run(capsys, "contrib", "detect", encoder_folder, *flags, "--test", test)
    assert f"trained on {labelled}, tested on {test}" in out
    assert "all paraphrases           50.0" in out
    assert "mean of 2 seeds" in out
    found = json.loads(
        run(capsys, "contrib", "detect", encoder_folder, *flags, "--folds", 4, "--json")
    )
    assert found["protocol"].startswith("4-fold cross-validation")
    assert len(found["perceptron"]) == 2
    assert found["auc"] > 90  # the paraphrases share all but one word
    assert found["majority"] == 50


def test_detection_refuses_what_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, labelled: Path, tmp_path: Path
) -> None:
    one_class = tmp_path / "one"
    one_class.write_text("a\tb\t1\nc\td\t1\n")
    start = ("contrib", "detect", encoder_folder, "--train")
    assert "every one of its 2 pairs is a paraphrase" in fails(capsys, *start, one_class)
    assert "--folds: got 1, expected a whole number of at least 2" in fails(
        capsys, *start, labelled, "--folds", 1
    )
    assert "--folds: got 4 with --test" in fails(
        capsys, *start, labelled, "--test", labelled, "--folds", 4
    )
    assert "--folds: 99 folds" in fails(capsys, *start, labelled, "--folds", 99)
    error = fails(capsys, *start, labelled, "--test", labelled.parent / "." / labelled.name)
    assert "which is --train's file too; give other pairs" in error
    error = fails(capsys, *start, one_class, "--negative-to", "-1e-3")
    assert "one: every one of its 2 pairs" in error  # the number was read
    error = fails(capsys, *start, labelled, "--negative-to", 3)
    assert "--negative-to: got 3, expected less than --positive-from 3" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--resamples", "0"], "--resamples: got 0, expected a whole number from 40 to 100000"),
        (["--resamples", "100000000"], "--resamples: got 100000000, expected a whole number"),
        (["--seed", "1" * 23], "--seed: got 11111"),
        (["--seed", "-1"], "--seed: got -1, expected a whole number from 0"),
        (["--device", "banana"], "--device: got 'banana', which cannot be used here"),
        (["--device", "cuda:-3"], "--device: got 'cuda:-3', which cannot be used here"),
    ],
)
@pytest.mark.parametrize("command", ["detect", "eval-encoder"])
def test_flags_of_both(
    capsys: pytest.CaptureFixture[str],
    encoder_folder: Path,
    labelled: Path,
    tmp_path: Path,
    command: str,
    flags: list[str],
    message: str,
) -> None:
    write_set(tmp_path, "own", PAIRS, "5\n0.5\n4\n1\n")
    files = {"detect": ["--train", labelled], "eval-encoder": ["--sts", tmp_path]}
    start = ["contrib", "detect"] if command == "detect" else [command]
    assert message in fails(capsys, *start, encoder_folder, *files[command], *flags)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--positive-from", "nan"], "--positive-from: got nan, expected a finite number"),
        (["--negative-to", "-1e999"], "--negative-to: "),
        (["--hidden", "0"], "--hidden: got 0, expected a whole number from 1 to 100000"),
        (["--seeds", "1000000000"], "--seeds: got 1000000000, expected a whole number from 1"),
        (["--epochs", "1.5"], "--epochs: got 1.5, expected a whole number of at least 1"),
    ],
)
def test_flags_of_detection(
    capsys: pytest.CaptureFixture[str], labelled: Path, flags: list[str], message: str
) -> None:
    assert message in fails(capsys, "contrib", "detect", "enc", "--train", labelled, *flags)
    assert "ENCODER: got '', expected the name of a" in fails(
        capsys, "contrib", "detect", "", *flags[:0]
    )


# --- mine-bitext ---


def test_mining_tunes_on_gold_and_tests_elsewhere(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    gold = tmp_path / "gold"
    output = tmp_path / "mined.tsv"
    command = [
        "contrib",
        "mine-bitext",
        encoder_folder,
        *bucc,
        "--gold",
        gold,
        "--margin",
        "ratio",
        "absolute",
    ]
    test = [f"--test-{str(flag)[2:]}" if str(flag)[:2] == "--" else flag for flag in bucc]
    out = run(capsys, *command, *test, "--test-gold", gold, "--output", output)
    assert "threshold tuned on these gold pairs: optimistic" in out
    assert "8 x 8 distinct sentences, 6 gold pairs" in out
    found = json.loads(run(capsys, *command, *test, "--test-gold", gold, "--json"))
    assert found["test"] == found["tuned_on_these_gold_pairs"]  # the same texts
    assert found["test"]["ratio"]["recall"] == 100
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    assert len(rows) == found["test"]["ratio"]["mined"]
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    # The bare command, without a test set, mines the same texts.
    run(capsys, *command, "--output", tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_text() == output.read_text()


def test_mining_with_a_threshold(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    output = tmp_path / "mined.tsv"
    flags = ["--margin", "absolute", "--threshold", "0.5", "--output", output]
    out = run(capsys, "contrib", "mine-bitext", encoder_folder, *bucc, *flags)
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    assert f"{len(rows)} pairs written" in out
    assert all(float(row[0]) >= 0.5 for row in rows)
    assert ["source-0", "target-7", LEFT[0], RIGHT[0]] in [row[1:] for row in rows]


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [
        ("contrib detect", "--train", "--test"),
        ("contrib mine-bitext", "--source", "--target"),
        ("eval-encoder", "--judgements", "--speed"),
    ],
)
def test_standard_input_is_read_once(
    capsys: pytest.CaptureFixture[str], command: str, first: str, second: str
) -> None:
    more = ["--aligned"] if "mine" in command else []
    error = fails(capsys, *command.split(), "enc", first, "-", second, "-", *more)
    assert f"{first} and {second}: only one of them can be - (standard input)" in error


def test_retrieval_of_aligned_lines(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text("\n".join(LEFT) + "\n")
    (tmp_path / "t").write_text("\n".join(RIGHT) + "\n")
    texts = ("--source", tmp_path / "s", "--target", tmp_path / "t", "--aligned")
    out = run(capsys, "contrib", "mine-bitext", encoder_folder, *texts)
    assert "source to target  100.0" in out
    found = json.loads(run(capsys, "contrib", "mine-bitext", encoder_folder, *texts, "--json"))
    assert (found["forward"], found["backward"], found["sentences"]) == (100, 100, 8)
    for flag in (["-k", 2], ["--margin", "absolute"], ["--strategy", "max"]):
        error = fails(capsys, "contrib", "mine-bitext", encoder_folder, *texts, *flag)
        assert "does nothing with --aligned" in error
    (tmp_path / "t").write_text("\n".join(RIGHT[1:]) + "\n")
    assert "has 8 lines but" in fails(capsys, "contrib", "mine-bitext", encoder_folder, *texts)


def test_mining_refuses_what_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    gold = tmp_path / "gold"
    start = ["contrib", "mine-bitext", encoder_folder, *bucc]
    assert "needs --output" in fails(capsys, *start, "--threshold", 1)
    error = fails(capsys, *start, "--gold", gold, "--test-gold", gold)
    assert "a test set needs --test-source, --test-target and --test-gold" in error
    gold.write_text("source-0\ttarget-0\n")
    wrong = [*start, "--gold", gold, "--margin", "absolute"]
    assert "none of the 1 gold pairs is among" in fails(capsys, *wrong)
    foreign = tmp_path / "foreign"
    foreign.write_text("a\tдождь идёт\nb\tснег\n")
    error = fails(
        capsys,
        *(
            "contrib",
            "mine-bitext",
            encoder_folder,
            "--source",
            foreign,
            "--target",
            tmp_path / "target",
        ),
        *("--threshold", 1, "--output", tmp_path / "o"),
    )
    assert "the encoder knows no piece of any sentence" in error
    assert not (tmp_path / "o").exists()
    (tmp_path / "test.gold").write_text("a\ttarget-0\n")
    test = ["--test-source", foreign, "--test-target", tmp_path / "target"]
    error = fails(capsys, *start, "--gold", gold, *test, "--test-gold", tmp_path / "test.gold")
    assert f"--test-source: {foreign}: the encoder knows no piece" in error
    for flags, message in (
        (["--threshold", "nan", "--output", "o"], "--threshold: got nan, expected a finite number"),
        (["--gold", gold, "-k", 0], "--neighbours: got 0, expected a whole number of at least 1"),
        (["--gold", gold, "--device", "banana"], "--device: got 'banana', which cannot be used"),
        (["--gold", gold, "--output", ""], "--output: got '', expected the name of a file"),
        (["--gold", gold, "--output", gold], f"--output: {gold} is an input of this command"),
        (["--gold", gold, "--output", "no/where"], "--output: no folder for no/where"),
    ):
        assert message in fails(capsys, *start, *flags)
    assert gold.read_text() == "source-0\ttarget-0\n"


# --- eval-encoder ---


def test_hard_pairs_and_speed(
    capsys: pytest.CaptureFixture[str],
    encoder_folder: Path,
    tmp_path: Path,
) -> None:
    write_set(tmp_path, "own", PAIRS, "5\n0.5\n4\n1\n")
    lines = tmp_path / "lines.txt"
    lines.write_text("the red house\nsnow on the line\n")
    flags = ("--sts", tmp_path, "--resamples", 40, "--speed", lines)
    out = run(capsys, "eval-encoder", encoder_folder, *flags)
    assert "sentences a second (" in out
    found = json.loads(run(capsys, "eval-encoder", encoder_folder, *flags, "--json"))
    hard = ("contrib", "hard-sts", encoder_folder, "--sts", tmp_path)
    assert "all distinct pairs      4" in run(capsys, *hard)
    of_hard = json.loads(run(capsys, *hard, "--json"))["hard"]
    assert of_hard["pairs"] == {"all distinct pairs": 4}
    sim = of_hard["pearson"]["all distinct pairs"]["SIM"]
    assert sim == pytest.approx(found["sts"][0]["pearson"]["own"])
    speed = found["speed"]["enc"]
    assert (speed["sentences"], speed["batch"]) == (128_000, 128)
    alone = run(capsys, "eval-encoder", encoder_folder, "--speed", lines)
    assert "Metric quality" not in alone
    assert "--simile-alpha: got -1, expected a number of at least 0" in fails(
        capsys, "eval-encoder", encoder_folder, "--sts", tmp_path, "--simile-alpha", -1
    )
    assert "ENCODER: got '', expected an encoder folder" in fails(
        capsys, "eval-encoder", "", "--sts", tmp_path
    )
    assert "the following arguments are required: --sts" in fails(capsys, *hard[:-2])

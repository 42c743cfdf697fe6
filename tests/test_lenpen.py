"""Translations of every length penalty out of lists that were searched once."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from recipes import lenpen
from tests.fairseq_models import make_model, make_sample

# Two sentences; log-probabilities -4 of 2 tokens and -5 of 4: the second wins from lenpen 0.33 on.
VALID = """\
S-1\tzwei
T-1\tthe red boat leaves
H-1\t-2.0\tboat
D-1\t-2.0\tthe boat
P-1\t-1.5 -2.5
D-1\t-1.25\tthe red boat leaves
P-1\t-1.0 -2.0 -1.0 -1.0
T-0\tone two three four five
D-0\t-1\tone two three four five
P-0\t-0.5 -0.5
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "valid.log").write_text(VALID, encoding="utf-8")
    (tmp_path / "test.log").write_text(VALID.replace("leaves", "sails"), encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script as its own process would end, in this one."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["lenpen.py", *arguments])
        status = lenpen.main()
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def test_by_hand(files: Path) -> None:
    lists, refs = lenpen.read_lists(str(files / "valid.log"))
    assert [*lists] == [0, 1] and refs[0] == "one two three four five"
    assert lists[1] == [(-4.0, 2, "the boat"), (-5.0, 4, "the red boat leaves")]
    assert [lenpen.choose(lists, a)[1] for a in (0, 0.3, 0.4, 1)] == [
        *("the boat", "the boat"),  # -4 / 2 ** 0.3 = -3.25 above -5 / 4 ** 0.3 = -3.30
        *("the red boat leaves", "the red boat leaves"),
    ]
    best, bleu = lenpen.tune(lists, refs)
    assert best == 1.0 and bleu[best] == pytest.approx(100) and bleu[0.0] < 90


def test_the_command(files: Path) -> None:
    found = run(files, "--valid", "valid.log", "--test", "test.log", "--out", "out.txt")
    assert found.stdout == "lenpen 1: validation BLEU 100.00 (100.00 at 1)\n"
    out = (files / "out.txt").read_text(encoding="utf-8").splitlines()
    assert out == ["one two three four five", "the red boat sails"]
    (files / "test.log").write_text("D-0\t-1\talone\n", encoding="utf-8")
    found = run(files, "--valid", "valid.log", "--test", "test.log", "--out", "new.txt")
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert "test.log: got D- lines of 1, P- lines of 0" in found.stderr
    assert not (files / "new.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "o", "--valid-out", "link"], "--valid-out: link is an input of this command"),
        (["--out", "o", "p"], "got 1 --test and 2 --out; expected pairs"),
    ],
)
def test_outputs_that_cannot_be_meant(files: Path, arguments: list[str], message: str) -> None:
    (files / "link").symlink_to("valid.log")
    before = {path: path.read_text() for path in files.glob("*.log")}
    found = run(files, "--valid", "valid.log", "--test", "test.log", *arguments)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"lenpen.py: error: {message}")
    assert {path: path.read_text() for path in files.glob("*.log")} == before
    assert not (files / "o").exists()


def test_scores_that_are_none(files: Path) -> None:
    text = VALID.replace("P-0\t-0.5 -0.5", "P-0\t-0.5 nan")
    (files / "test.log").write_text(text, encoding="utf-8")
    found = run(files, "--valid", "valid.log", "--test", "test.log", "--out", "out.txt")
    assert found.returncode == 2 and found.stderr == (
        "lenpen.py: error: test.log:10: got 'nan' in a P- line, expected the log-probability of "
        "each token; if the log is cut, generate again\n"
    )
    assert not (files / "out.txt").exists()


@pytest.mark.parametrize("penalty", [0.4, 2.0])
def test_fairseqs_own_search_with_that_penalty(task, penalty: float) -> None:
    model = make_model("transformer_tiny", task).eval()
    with torch.no_grad():  # candidates of several lengths
        model.decoder.output_projection.weight[task.target_dictionary.eos()] *= 4
    sample = make_sample(task, lengths=((5, 4), (7, 6), (3, 2), (6, 3)))

    def search(len_penalty: float) -> list[list[dict[str, torch.Tensor]]]:
        generator = SequenceGenerator(
            [model], task.target_dictionary, beam_size=5, len_penalty=len_penalty
        )
        return generator.generate([model], sample)

    lists = {
        i: [
            (float(one["positional_scores"].sum()), len(one["tokens"]), str(one["tokens"].tolist()))
            for one in hypos
        ]
        for i, hypos in enumerate(search(1.0))
    }
    assert any(len({tokens for _, tokens, _ in own}) > 1 for own in lists.values())
    expected = [str(hypos[0]["tokens"].tolist()) for hypos in search(penalty)]
    assert lenpen.choose(lists, penalty) == expected

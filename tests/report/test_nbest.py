"""Scores against the number of candidates: a folder of outputs, read and drawn."""

from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from simile_plugin.report.answer import Data
from simile_plugin.report.questions import nbest
from tests.report.test_html import inputs_of

from .test_results import REFS, noisy

OUTPUTS = {
    "mle.txt": noisy(0.4, 1),
    "simile.n2.1.txt": noisy(0.3, 2),
    "simile.n2.2.txt": noisy(0.3, 3),
    "simile.n16.1.txt": noisy(0.1, 4),
    "simile.n16.2.txt": noisy(0.1, 5),
    "bleu.n2.txt": noisy(0.2, 6),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six outputs, and files that are none."""
    for name, lines in OUTPUTS.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "simile.n2.1.txt.log").write_text("INFO", encoding="utf-8")
    (tmp_path / "simile.n2.1").mkdir()
    return tmp_path


@pytest.fixture
def result(folder: Path) -> Data:
    return data_of(folder)


def data_of(folder: Path) -> Data:
    ref = folder.parent / "ref.txt"
    ref.write_text("".join(f"{line}\n" for line in REFS), encoding="utf-8")
    return nbest.ask(inputs_of(f"--ref={ref}", f"--nbest-folder={folder}")).data


def test_points_are_sorted_and_scored_as_sacrebleu_does(result: Data) -> None:
    assert {name: [p["n"] for p in own] for name, own in result["points"].items()} == {
        **{"bleu": [2], "simile": [2, 16]},
    }
    points = result["points"]
    for point in (*points["simile"], *points["bleu"], result["baseline"]):
        outputs = [OUTPUTS[Path(path).name] for path in point["files"]]
        expected = [BLEU().corpus_score(list(output), [REFS]).score for output in outputs]
        assert point["scores"]["bleu"] == pytest.approx(expected)
    assert result["notes"] == ["bleu: no output for N = 16"]


def test_outputs_that_are_not_parallel_are_refused(folder: Path) -> None:
    (folder / "simile.n4.1.txt").write_text("one\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"n4.1.txt has 1 sentences but --ref .*ref.txt has 80"):
        data_of(folder)


def test_folders_without_outputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no outputs; expected NAME\.nN\.txt or"):
        data_of(tmp_path)

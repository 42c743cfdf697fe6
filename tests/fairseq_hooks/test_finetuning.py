"""What a run's folder may hold, and when a run goes on; tests/system has the command lines."""

from pathlib import Path

import pytest

from simile_plugin.fairseq_hooks.finetuning import (
    check_begun,
    digest_of_data,
    refuse_foreign_checkpoints,
    value_of,
)
from simile_plugin.files import InputError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("dict.en.txt", "train.de-en.en.bin", "valid.de-en.en.bin", "test.de-en.en.bin"):
        (folder / name).write_text(name)
    return folder


def test_checkpoints_of_others_are_refused(tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "mle.pt"
    refuse_foreign_checkpoints(run, str(model))  # a new folder
    run.mkdir()
    model.write_text("model")
    (run / "notes.txt").write_text("kept")
    refuse_foreign_checkpoints(run, str(model))
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint_1_100.pt"):
        (run / name).write_text("foreign")
        with pytest.raises(InputError, match=f"--output: .*{name} is not of a run of simile"):
            refuse_foreign_checkpoints(run, str(model))
        (run / name).unlink()
    (run / "mle.sha256").write_text("0 half\n")
    (run / "checkpoint_best.pt").hardlink_to(model)  # also in a folder of ours
    with pytest.raises(InputError, match="MLE.pt, .*mle.pt, is .*checkpoint_best.pt, which the"):
        refuse_foreign_checkpoints(run, str(model))


def test_data_are_those_of_training_and_validation(data: Path) -> None:
    before = digest_of_data(str(data))
    (data / "test.de-en.en.bin").write_text("another test set")
    assert digest_of_data(str(data)) == before
    for name in ("dict.en.txt", "train.de-en.en.bin", "valid.de-en.en.bin"):
        (data / name).write_text("other")
        assert digest_of_data(str(data)) != before
        (data / name).write_text(name)
    assert digest_of_data(str(data)) == before


def test_a_run_goes_on_with_its_data(data: Path, tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "mle.pt"
    run.mkdir()
    model.write_text("model")
    (run / "checkpoint_last.pt").write_text("of the run")
    for _ in range(2):
        check_begun(run, str(model), [str(data), "--reward=half"])
    mark = run / "mle.sha256"
    first, sentences, sources = mark.read_text().splitlines()
    for lines in (f"{first}\n", f"{first}\n{sentences}\n"):  # as earlier versions wrote it
        mark.write_text(lines)
        check_begun(run, str(model), [str(data), "--reward=half"])
        assert mark.read_text().splitlines() == [first, sentences, sources]
    (data / "valid.de-en.en.bin").write_text("other")
    with pytest.raises(InputError, match="has other sentences or dictionaries than .*bin; give"):
        check_begun(run, str(model), [str(data), "--reward=half"])
    assert mark.read_text().splitlines() == [first, sentences, sources]


def test_a_run_goes_on_with_its_sources_without_references(data: Path, tmp_path: Path) -> None:
    run, model, others = tmp_path / "run", tmp_path / "mle.pt", tmp_path / "others"
    for folder in (run, others):
        folder.mkdir()
    model.write_text("model")
    (run / "checkpoint_last.pt").write_text("of the run")
    (others / "train.de-en.de.bin").write_text("sources")
    (others / "train2.de-en.de.bin").write_text("of another prefix")
    given = [str(data), f"--risk-monolingual={others / 'train'}"]

    def refused(*flags: str) -> None:
        with pytest.raises(InputError, match="--monolingual: the training in .*run has other sou"):
            check_begun(run, str(model), flags)

    check_begun(run, str(model), given)
    refused(str(data))
    refused(*given, "--risk-monolingual-share", "0.2")
    (others / "train2.de-en.de.bin").write_text("changed")
    check_begun(run, str(model), given)
    (others / "train.de-en.de.bin").write_text("changed")
    refused(*given)


def test_the_last_value_of_a_flag_counts() -> None:
    flags = ["bin", "--reward=bleu", "--reward", "sim", "--fp16", "--rewards=x"]
    assert value_of(flags, "--reward", "half") == "sim"
    assert value_of(flags[:2], "--reward", "half") == "bleu"
    assert value_of(flags[:1], "--reward", "half") == "half"

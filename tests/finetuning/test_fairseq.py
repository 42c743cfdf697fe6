"""The flags of fairseq-train, what its folder may hold, and what a run there was begun with."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simile_plugin.files import InputError
from simile_plugin.finetuning.begun import Begun, read_record, update_record
from simile_plugin.finetuning.fairseq import (
    FairseqFinetuning,
    fairseq_flags,
    refuse_foreign_checkpoints,
    value_of,
)
from simile_plugin.finetuning.options import FairseqOptions
from simile_plugin.finetuning.story import RunStory
from simile_plugin.risk import RiskSettings


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("dict.en.txt", "train.de-en.en.bin", "valid.de-en.en.bin", "test.de-en.en.bin"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def finetuning(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FairseqFinetuning:
    model, run = tmp_path / "mle.pt", tmp_path / "run"
    model.write_text("model")
    run.mkdir()
    monkeypatch.setattr("simile_plugin.finetuning.fairseq.read_model_flags", lambda *_: ["--arch"])
    options = FairseqOptions(data=str(data), model=str(model), output=str(run))
    return FairseqFinetuning(options, RiskSettings(reward="half"), "half", "user_dir")


def begin(finetuning: FairseqFinetuning, *flags: str, goes_on: bool = True) -> None:
    begun = Begun(Path(finetuning.options.output), goes_on)
    now = finetuning._settings([finetuning.options.data, "--reward=half", *flags])
    begun.check(now)
    begun.note(now)


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
    update_record(run, begun={})
    (run / "checkpoint_best.pt").hardlink_to(model)  # also in a folder of ours
    with pytest.raises(InputError, match="MLE.pt, .*mle.pt, is .*checkpoint_best.pt, which the"):
        refuse_foreign_checkpoints(run, str(model))


def test_data_are_those_of_training_and_validation(
    finetuning: FairseqFinetuning, data: Path
) -> None:
    begin(finetuning, goes_on=False)
    (data / "test.de-en.en.bin").write_text("another test set")
    begin(finetuning)
    for name in ("dict.en.txt", "train.de-en.en.bin", "valid.de-en.en.bin"):
        (data / name).write_text("other")
        with pytest.raises(InputError, match="other sentences or dictionaries than .*bin .DAT"):
            begin(finetuning)
        (data / name).write_text(name)
    begin(finetuning)


def test_the_model_and_the_reward_are_the_same(finetuning: FairseqFinetuning) -> None:
    begin(finetuning, goes_on=False)
    with pytest.raises(InputError, match="begun with --reward half, got --reward bleu; give the s"):
        begin(finetuning, "--reward", "bleu")
    Path(finetuning.options.model).write_text("other")
    with pytest.raises(InputError, match="begun with another model than .*mle.pt; give the same"):
        begin(finetuning)


def test_what_a_validation_measures_is_the_same(
    finetuning: FairseqFinetuning, encoder_folder: Path, tmp_path: Path
) -> None:
    given = [f"--simile-encoder={encoder_folder}", "--simile-alpha=0.25"]
    begin(finetuning, *given, goes_on=False)
    moved = shutil.copytree(encoder_folder, tmp_path / "moved")
    begin(finetuning, f"--simile-encoder={moved}")
    with pytest.raises(InputError, match="begun with another --encoder than default; give the s"):
        begin(finetuning, "--simile-encoder", "default")
    with pytest.raises(InputError, match="begun with another --encoder than none; give the same"):
        begin(finetuning)
    for flag, before, now in (
        ("--simile-alpha", "0.25", "0.5"),
        ("--risk-bleu-tokenize", "13a", "char"),
        ("--valid-subset", "valid", "test"),
        ("--max-valid-steps", "none", "3"),
        ("--risk-detok", "none", "moses"),
    ):
        with pytest.raises(InputError, match=f"begun with {flag} {before}, got {flag} {now}; give"):
            begin(finetuning, *given, f"{flag}={now}")
    begin(finetuning, *given, "--risk-alpha=0.1", "--batch-size=9", "--fp16")


def test_a_record_of_before_says_nothing_of_what_is_measured(
    finetuning: FairseqFinetuning, encoder_folder: Path
) -> None:
    run = Path(finetuning.options.output)
    update_record(run, begun={"--reward": "half"})
    begin(finetuning, f"--simile-encoder={encoder_folder}", "--simile-alpha=0.5")
    with pytest.raises(InputError, match="begun with --simile-alpha 0.5, got --simile-alpha 0.25"):
        begin(finetuning, f"--simile-encoder={encoder_folder}")


def test_seeds_that_are_done_are_averaged_with_those_of_their_objective(
    finetuning: FairseqFinetuning, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trained: list[str] = []

    def run_fairseq_train(run: Path, *_: Any) -> None:
        (run / "checkpoint_last.pt").write_text("")
        trained.append(run.name)

    room = "simile_plugin.finetuning.fairseq"
    monkeypatch.setattr(f"{room}.run_fairseq_train", run_fairseq_train)
    monkeypatch.setattr(f"{room}.count_sentences", lambda *_: 60)
    run = Path(finetuning.options.output) / "seed.1"
    finetuning.train(run, 1)
    before = read_record(run)
    finetuning.risk = replace(finetuning.risk, risk_cost_scale=100.0)
    finetuning.options = replace(finetuning.options, batch_size=8)
    finetuning.train(run, 1)
    assert caplog.messages == [
        "--batch-size: this run had 30 and has ended; for 8 name another --output",
        "--risk-cost-scale: this run had 10.0 and has ended; for 100.0 name another --output",
    ]
    finetuning.options = replace(finetuning.options, seeds=3)
    with pytest.raises(InputError) as caught:
        finetuning.train(run, 1)
    assert str(caught.value) == (
        f"--output: the run in {run} was begun with --risk-cost-scale 10.0, got --risk-cost-scale "
        "100.0; give the same, or name another folder"
    )
    assert read_record(run) == before and trained == ["seed.1"]
    finetuning.train(run.with_name("seed.2"), 2)
    finetuning.options = replace(finetuning.options, seeds=1, max_updates=900)
    finetuning.train(run, 1)  # goes on; fairseq-train warns of it
    assert read_record(run)["begun"]["--risk-cost-scale"] == "100.0"
    assert trained == ["seed.1", "seed.2", "seed.1"]


def test_a_run_goes_on_with_its_sources_without_references(
    finetuning: FairseqFinetuning, tmp_path: Path
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "train.de-en.de.bin").write_text("sources")
    (others / "train2.de-en.de.bin").write_text("of another prefix")
    given = f"--risk-monolingual={others / 'train'}"

    def refused(*flags: str) -> None:
        with pytest.raises(InputError, match="other sources without references .--monolingual"):
            begin(finetuning, *flags)

    begin(finetuning, given, goes_on=False)
    refused()
    refused(given, "--risk-monolingual-share", "0.2")
    (others / "train2.de-en.de.bin").write_text("changed")
    begin(finetuning, given)
    (others / "train.de-en.de.bin").write_text("changed")
    refused(given)


def test_the_last_value_of_a_flag_counts() -> None:
    flags = ["bin", "--reward=bleu", "--reward", "sim", "--fp16", "--rewards=x"]
    assert value_of(flags, "--reward", "half") == "sim"
    assert value_of(flags[:2], "--reward", "half") == "bleu"
    assert value_of(flags[:1], "--reward", "half") == "half"


def test_lines_of_the_log_come_as_often_as_asked() -> None:
    options = FairseqOptions(data="bin", model="mle.pt", output="run")
    for given, expected in ((options, "5"), (replace(options, log_interval=50), "50")):
        flags = fairseq_flags(given, RiskSettings(), 600, valid=True)
        assert value_of(flags, "--log-interval", "none") == expected


def test_ends_of_epochs_are_not_validated_but_the_last_one() -> None:
    for given, expected in (
        ("", "1000000000"),
        ("--max-epoch=3", "3"),
        ("--max-epoch 0", "1000000000"),
        ("--max-epoch=3 --validate-interval=1 --save-interval 1", "1"),  # the last word
    ):
        options = FairseqOptions(data="bin", model="mle.pt", output="run", fairseq_flags=given)
        flags = fairseq_flags(options, RiskSettings(), 600, valid=True)
        for name in ("--validate-interval", "--save-interval"):
            assert value_of(flags, name, "none") == expected
        assert value_of(flags, "--validate-interval-updates", "none") == "100"


def test_the_mean_is_validated_on_one_gpu(
    finetuning: FairseqFinetuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On several fairseq-validate cannot gather what they log: more than 16384 bytes."""
    asked: list[str] = []

    def run_fairseq(command: Sequence[str], story: RunStory, *_: Any) -> tuple[str, int]:
        asked.extend(command)
        story.validation(0, {"cost": 0.5, "bleu": 31.0})
        return "", 0

    monkeypatch.setattr("simile_plugin.finetuning.fairseq.run_fairseq", run_fairseq)
    assert finetuning.validate(tmp_path / "mean.pt", tmp_path) == {"cost": 0.5, "bleu": 31.0}
    assert value_of(asked, "--distributed-world-size", "all") == "1"

"""What a run's folder may hold, and when a run goes on; tests/system has the command lines."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simile_plugin.files import InputError
from simile_plugin.finetuning.begun import (
    Begun,
    Setting,
    digest_of_files,
    read_record,
    settings_of_objective,
    settings_of_updates,
    update_record,
)
from simile_plugin.finetuning.options import Options
from simile_plugin.risk import RiskSettings


def settings(**values: str) -> dict[str, Setting]:
    return {f"--{name}": Setting(value) for name, value in values.items()}


def begin(run: Path, now: dict[str, Setting], goes_on: bool) -> None:
    begun = Begun(run, goes_on)
    begun.check(now)
    begun.note(now)


def test_a_run_goes_on_with_what_it_was_begun_with(tmp_path: Path) -> None:
    begin(tmp_path, settings(reward="half"), goes_on=False)
    begin(tmp_path, settings(reward="half", train="a"), goes_on=True)  # a flag of a later version
    assert read_record(tmp_path)["begun"] == {"--reward": "half", "--train": "a"}
    with pytest.raises(InputError) as caught:
        begin(tmp_path, settings(reward="bleu", train="a"), goes_on=True)
    assert str(caught.value) == (
        f"--output: the run in {tmp_path} was begun with --reward half, got --reward bleu; give "
        "the same, or name another folder"
    )
    with pytest.raises(InputError, match="begun with --train a, got --train none; give the same"):
        begin(tmp_path, settings(reward="half", train=""), goes_on=True)
    assert read_record(tmp_path)["begun"] == {"--reward": "half", "--train": "a"}
    begin(tmp_path, settings(reward="bleu"), goes_on=False)  # it ended before its first checkpoint
    assert read_record(tmp_path)["begun"] == {"--reward": "bleu"}


def test_a_file_is_named_in_words(tmp_path: Path) -> None:
    begin(tmp_path, {"MLE.pt": Setting("1f", "another model than mle.pt")}, goes_on=False)
    with pytest.raises(InputError, match=f"{tmp_path} was begun with another model than o.pt; giv"):
        begin(tmp_path, {"MLE.pt": Setting("2e", "another model than o.pt")}, goes_on=True)


def test_what_does_not_bind_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    begin(tmp_path, {"--seed": Setting("1", binding=False)}, goes_on=False)
    with caplog.at_level(logging.WARNING):
        begin(tmp_path, {"--seed": Setting("2", binding=False)}, goes_on=True)
    assert caplog.messages == ["--seed: this run had 1, it goes on with 2"]
    assert read_record(tmp_path)["begun"] == {"--seed": "2"}


def test_how_updates_are_made_does_not_bind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = Options(output=str(tmp_path))
    begin(tmp_path, settings_of_updates(options), goes_on=False)
    changed = replace(options, batch_size=8, schedule="constant", seed=2, valid_interval=7)
    with caplog.at_level(logging.WARNING):
        begin(tmp_path, settings_of_updates(changed), goes_on=True)
    assert caplog.messages == [
        "--batch-size: this run had 30, it goes on with 8",
        "--schedule: this run had linear, it goes on with constant",
        "--seed: this run had 1, it goes on with 2",
    ]


def test_what_a_run_that_has_ended_does_not_heed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def objective(averaged: bool, **changed: Any) -> dict[str, Setting]:
        return settings_of_objective(vars(RiskSettings(**changed)), averaged)

    begin(tmp_path, objective(averaged=False), goes_on=False)
    with caplog.at_level(logging.WARNING):
        begun = Begun(tmp_path, goes_on=True)
        begun.check(objective(averaged=True), ended=True)
        begun.check(objective(averaged=True, risk_max_tokens=99, risk_max_skipped=5), ended=True)
        assert not caplog.messages
        begun.check(objective(averaged=False, risk_alpha=0.3, mle_weight=0.2), ended=True)
    assert caplog.messages == [
        "--mle-weight: this run had 0.3 and has ended; for 0.2 name another --output",
        "--risk-alpha: this run had 1.0 and has ended; for 0.3 name another --output",
    ]
    with pytest.raises(InputError, match="with --risk-alpha 1.0, got --risk-alpha 0.3; give the s"):
        begun.check(objective(averaged=True, risk_alpha=0.3), ended=True)


def test_the_record_keeps_what_else_is_in_it(tmp_path: Path) -> None:
    assert read_record(tmp_path) == {}
    update_record(tmp_path, known=0.75)
    begin(tmp_path, settings(reward="half"), goes_on=False)
    record = {"format_version": 1, "known": 0.75, "begun": {"--reward": "half"}}
    assert json.loads((tmp_path / "finetuning.json").read_text()) == record
    for text, expected in (("{", "cannot be read"), ("[]", "cannot be read")):
        (tmp_path / "finetuning.json").write_text(text)
        with pytest.raises(InputError, match=f"finetuning.json: {expected}.*; name another --outp"):
            read_record(tmp_path)
    (tmp_path / "finetuning.json").write_text('{"format_version": 2}')
    with pytest.raises(InputError, match="format_version 2 is newer than 1, the newest this vers"):
        Begun(tmp_path, goes_on=True)


def test_a_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    for name in ("dict.en.txt", "train.bin"):
        (tmp_path / name).write_text(name)
    files = [*tmp_path.iterdir()]
    before = digest_of_files(files)
    assert digest_of_files(reversed(files)) == before
    assert digest_of_files([*files, tmp_path]) == before  # a folder is passed over
    assert digest_of_files(files[:1]) != before
    (tmp_path / "train.bin").write_text("other")
    assert digest_of_files(files) != before

"""Was a run begun with the same settings? Its folder has a record that says with which.

A trainer would go on with what is there and not look at the other model, data or reward: one table
would have the costs of two rewards, or the validations of two sets.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from simile_plugin.files import InputError, atomic_write, flag_name
from simile_plugin.finetuning.options import Options
from simile_plugin.finetuning.story import RunStory
from simile_plugin.risk import RiskSettings, encoder_identity

logger = logging.getLogger(__name__)

RECORD = "finetuning.json"
FORMAT_VERSION = 1
# Settings of the risk that are compared as what costs are, or are no part of what is optimised.
MEASURES = {"reward", "simile_encoder", "simile_alpha", "risk_bleu_tokenize"}
NOT_OBJECTIVE = MEASURES | {"risk_max_tokens", "risk_max_skipped", "risk_length_band"}


@dataclass(frozen=True)
class Setting:
    """The value of a flag that a run was begun with.

    Attributes:
        value: as given; of a file or model a digest of its content.
        other: what a message calls a file or model that is not the same, such as "another model
            than mle.pt"; "" where the value itself can be shown.
        binding: whether a run must go on with the same; else a change is warned of.
    """

    value: str
    other: str = ""
    binding: bool = True


class Begun:
    """The record of a run's folder, RUN/finetuning.json.

    Args:
        run: the folder.
        goes_on: whether it has a checkpoint to go on from; the record of a run that ended before
            its first checkpoint says nothing.

    Raises:
        InputError: for a record that cannot be read.
    """

    def __init__(self, run: Path, goes_on: bool) -> None:
        self.run = run
        record = read_record(run) if goes_on else {}
        self.before: dict[str, str] = record.get("begun", {})

    def check(self, now: Mapping[str, Setting], ended: bool = False) -> None:
        """Refuse to go on with other settings than the run was begun with.

        Args:
            now: by flag. A flag that the record does not have is not compared.
            ended: nothing is trained any more, so that what does not bind changes nothing.

        Raises:
            InputError: naming the folder, and the first flag that differs.
        """
        for flag, setting in now.items():
            before = self.before.get(flag, setting.value)
            if before == setting.value:
                continue
            if not setting.binding:
                had, given = before or "none", setting.value or "none"
                logger.warning(
                    f"{flag}: this run had {had} and has ended; for {given} name another --output"
                    if ended
                    else f"{flag}: this run had {had}, it goes on with {given}"
                )
                continue
            difference = f"{flag} {before or 'none'}, got {flag} {setting.value or 'none'}"
            raise InputError(
                f"--output: the run in {self.run} was begun with {setting.other or difference}; "
                "give the same, or name another folder"
            )

    def note(self, now: Mapping[str, Setting]) -> None:
        """Write down what the run is begun with, or goes on with."""
        update_record(self.run, begun={flag: setting.value for flag, setting in now.items()})


def settings_of_objective(risk: Mapping[str, Any], averaged: bool) -> dict[str, Setting]:
    """Return what is optimised, beside the reward.

    Args:
        risk: values of its settings, by field.
        averaged: with the models of other seeds, which must optimise the same.
    """
    names = [field.name for field in fields(RiskSettings) if field.name not in NOT_OBJECTIVE]
    return {flag_name(name): Setting(str(risk[name]), binding=averaged) for name in names}


def settings_of_updates(options: Options) -> dict[str, Setting]:
    """Return how updates are made, which a run may change on its way, and is warned of."""
    names = ("batch_size", "update_freq", "schedule", "max_grad_norm", "seed", "bf16", "fp16")
    values = {flag_name(name): str(getattr(options, name)) for name in names}
    return {flag: Setting(value, binding=False) for flag, value in values.items()}


def settings_of_measures(reward: str, risk: Mapping[str, Any]) -> dict[str, Setting]:
    """Return what the costs and the BLEU of a run are, which stays the same from end to end.

    Args:
        reward: identity of what is trained on, see `check_reward`.
        risk: values of its settings, by field.

    Raises:
        InputError: for an encoder that cannot be read.
    """
    encoder = risk["simile_encoder"]
    return {
        "--reward": Setting(reward),
        "--encoder": Setting(
            encoder_identity(encoder), f"another --encoder than {encoder or 'none'}"
        ),
        "--simile-alpha": Setting(str(risk["simile_alpha"])),
        "--risk-bleu-tokenize": Setting(risk["risk_bleu_tokenize"]),
    }


def read_record(run: Path) -> dict[str, Any]:
    """Return the record of a run's folder; {} where there is none.

    Raises:
        InputError: for one that is no JSON, or of a newer version.
    """
    path = run / RECORD
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        version = record["format_version"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); name another --output, or remove this one"
        ) from error
    if version > FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version {version} is newer than {FORMAT_VERSION}, the newest this "
            "version reads; update simile-plugin"
        )
    return record


def has_ended(run: Path, updates: int, patience: int) -> bool:
    """Return whether a run has had so many updates, or was ended by as much patience."""
    record = read_record(run)
    ended_by = record.get("patience", 0)
    return record.get("ended", 0) >= updates and (not ended_by or 0 < patience <= ended_by)


def note_end(run: Path, story: RunStory, patience: int) -> None:
    """Write down that a training has ended, and the patience that ended it, 0 for none."""
    ended_by = patience if story.ended_early(patience) else 0
    update_record(run, ended=story.updates, patience=ended_by)


def update_record(run: Path, **values: Any) -> None:
    """Write values into the record of a run's folder, beside those that it has."""
    record = {"format_version": FORMAT_VERSION, **read_record(run), **values}
    with atomic_write(run / RECORD) as stream:
        json.dump(record, stream, indent=2, ensure_ascii=False)


def digest_of_files(paths: Iterable[Path]) -> str:
    """Return a digest of the names and contents of files, in whatever order they come."""
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{path.name} {content}\n".encode())
    return digest.hexdigest()

"""How `simile finetune` and `simile finetune-hf` read their flags."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, TypeVar

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.finetuning import PRESETS, Options

if TYPE_CHECKING:
    from simile_plugin.risk import RiskSettings

RISK = "risk training (as --criterion simile_risk)"
OF_PRESETS = [field.name for field in dataclasses.fields(PRESETS["short"])]
T = TypeVar("T", bound=Options)


def add_options(parser: argparse.ArgumentParser, options: type[Options]) -> None:
    """Declare the flags of a fine-tuning, and those of the risk as their settings have them.

    A flag of the presets that is not given is None until `read_options`.
    """
    from simile_plugin.risk import RiskSettings

    add_flags(parser, options, by_preset=OF_PRESETS)
    risk = parser.add_argument_group(RISK)
    add_flags(risk, RiskSettings, {"simile_encoder": "--encoder"}, by_preset=OF_PRESETS)


def read_options(
    args: argparse.Namespace, kind: type[T], pretrained: bool = False, adapters: bool = False
) -> tuple[T, RiskSettings]:
    """Return the options and the settings of the risk: what was given, else what the preset has.

    pretrained, adapters: see `Preset.flags`.
    """
    from simile_plugin.risk import RiskSettings

    given = {name: value for name, value in vars(args).items() if value is not None}
    preset = PRESETS[args.preset].flags(pretrained, adapters)
    both = argparse.Namespace(**vars(args) | preset | given)
    return read_flags(both, kind), read_flags(both, RiskSettings)

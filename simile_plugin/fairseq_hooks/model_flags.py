"""The fairseq-train flags of the model in a checkpoint.

fairseq-train --finetune-from-model needs the architecture's flags again: the checkpoint's weights
are loaded into a model that the command line describes.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import Any

from simile_plugin.fairseq_hooks.torch_load import read_checkpoint
from simile_plugin.files import InputError

# Where the files of another run lay; the weights come from the checkpoint anyway.
FILE_FLAGS = {"encoder_embed_path", "decoder_embed_path", "pretrained_checkpoint"}
# Flags of the task, with their default, that size an fconv's embeddings of positions.
POSITIONS = {"--max-source-positions": 1024, "--max-target-positions": 1024}


def read_model_flags(path: str, user_dir: str) -> list[str]:
    """Return --arch and each model flag whose value differs from the architecture's own.

    Args:
        user_dir: registers our architectures; torch reads fairseq's checkpoints from then on.

    Raises:
        InputError: if the file is no fairseq checkpoint of a registered architecture.
    """
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # of what it lacks for speech
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what fairseq uses and torch is going to drop
        from fairseq.models import ARCH_MODEL_REGISTRY
        from fairseq.utils import import_user_module

    import_user_module(argparse.Namespace(user_dir=user_dir))
    state = read_checkpoint(path)
    arguments: Any = (state.get("cfg") or {"model": state.get("args")}).get("model")
    if isinstance(arguments, dict):
        arguments = argparse.Namespace(arch=arguments.get("_name"), **arguments)
    if getattr(arguments, "arch", None) not in ARCH_MODEL_REGISTRY:
        raise InputError(
            f"{path}: holds no model of a registered architecture; expected a checkpoint of "
            "fairseq-train (a Hugging Face model is trained by simile finetune-hf)"
        )
    return model_flags(arguments)


def model_flags(arguments: argparse.Namespace) -> list[str]:
    """Return the flags of a model's arguments as fairseq saved them."""
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, allow_abbrev=False)
    ARCH_MODEL_REGISTRY[arguments.arch].add_args(parser)
    for name, default in POSITIONS.items():
        if name not in parser._option_string_actions:  # a transformer has them itself
            parser.add_argument(name, default=default)
    defaults = argparse.Namespace()
    ARCH_CONFIG_REGISTRY[arguments.arch](defaults)
    flags = [f"--arch={arguments.arch}"]
    for action in parser._actions:
        value = getattr(arguments, action.dest, None)
        default = getattr(defaults, action.dest, action.default)
        if value is None or value == default or action.dest in FILE_FLAGS:
            continue
        flags += [flag_of(action, value)]
    return flags


def flag_of(action: argparse.Action, value: Any) -> str:
    """Return one flag as the command line writes it.

    Raises:
        InputError: for a value of several lines.
    """
    name = action.option_strings[-1]
    if len(str(value).splitlines()) > 1:  # would be read as one more flag: --user-dir, say
        raise InputError(f"{name}: got {str(value)[:200]!r}; expected one line")
    return name if action.nargs == 0 else f"{name}={value}"

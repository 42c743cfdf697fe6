"""Print the fairseq-train flags of the model in a checkpoint, one a line.

fairseq-train --finetune-from-model needs the architecture's flags again: the checkpoint's weights
are loaded into a model that the command line describes.

    model_flags.py MLE.pt
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.utils import import_user_module

from simile_plugin.fairseq_hooks import read_checkpoint
from simile_plugin.files import InputError, as_script

USER_DIR = Path(__file__).resolve().parents[1] / "user_dir"
# Where the files of another run lay; the weights come from the checkpoint anyway.
FILE_FLAGS = {"encoder_embed_path", "decoder_embed_path", "pretrained_checkpoint"}
# Flags of the task, with their default, that size an fconv's embeddings of positions.
POSITIONS = {"--max-source-positions": 1024, "--max-target-positions": 1024}


def saved_arguments(path: str) -> argparse.Namespace:
    """The model's arguments as fairseq saved them.

    Raises:
        InputError: if the file is no fairseq checkpoint of a registered architecture.
    """
    # Our architectures, and torch may read fairseq's checkpoints.
    import_user_module(argparse.Namespace(user_dir=str(USER_DIR)))
    state = read_checkpoint(path)
    arguments: Any = (state.get("cfg") or {"model": state.get("args")}).get("model")
    if isinstance(arguments, dict):
        arguments = argparse.Namespace(arch=arguments.get("_name"), **arguments)
    if getattr(arguments, "arch", None) not in ARCH_MODEL_REGISTRY:
        raise InputError(f"{path}: holds no model of a registered architecture")
    return arguments


def model_flags(arguments: argparse.Namespace) -> list[str]:
    """--arch and each model flag whose value differs from the architecture's own."""
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
    """One flag as the command line writes it.

    Raises:
        InputError: for a value of several lines.
    """
    name = action.option_strings[-1]
    if len(str(value).splitlines()) > 1:  # would be read as one more flag: --user-dir, say
        raise InputError(f"{name}: got {str(value)[:200]!r}; expected one line")
    return name if action.nargs == 0 else f"{name}={value}"


@as_script
def main() -> None:
    """Print the flags; exit status 2 and one line for a file that is no checkpoint."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", help="fairseq checkpoint of an encoder-decoder model")
    path = parser.parse_args().checkpoint
    print("\n".join(model_flags(saved_arguments(path))))


if __name__ == "__main__":
    raise SystemExit(main())

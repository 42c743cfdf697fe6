"""Fine-tuning from files: presets, a run that goes on with what it was begun with, its story.

`finetune` is a fine-tuning, whichever framework trains; `FairseqFinetuning` and
`HuggingFaceFinetuning` are the frameworks. Nothing here waits for one that is not asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simile_plugin.finetuning.options import FairseqOptions, HuggingFaceOptions, Options
from simile_plugin.finetuning.presets import LORA_RATE, PRESETS, PRESETS_HELP

if TYPE_CHECKING:
    from simile_plugin.finetuning.average import Averager, average_checkpoints, average_folders
    from simile_plugin.finetuning.fairseq import FairseqFinetuning
    from simile_plugin.finetuning.hugging_face import HuggingFaceFinetuning
    from simile_plugin.finetuning.run import check_reward, finetune

__all__ = [
    "LORA_RATE",
    "PRESETS",
    "PRESETS_HELP",
    "Averager",
    "FairseqFinetuning",
    "FairseqOptions",
    "HuggingFaceFinetuning",
    "HuggingFaceOptions",
    "Options",
    "average_checkpoints",
    "average_folders",
    "check_reward",
    "finetune",
]

# A framework is imported where it is asked for: the other one may not be installed.
MODULES = {
    "Averager": "average",
    "FairseqFinetuning": "fairseq",
    "HuggingFaceFinetuning": "hugging_face",
    "average_checkpoints": "average",
    "average_folders": "average",
    "check_reward": "run",
    "finetune": "run",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)

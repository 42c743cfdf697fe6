#!/usr/bin/env python3
"""The mean of models that were trained from one and the same model.

    python recipes/average.py risk.1/checkpoint_last.pt risk.2/checkpoint_last.pt --output mean.pt
    python recipes/average.py hf.1 hf.2 hf.3 --output hf.mean      # folders of Hugging Face models

Risk training is noisy: seeds of one training differ by half a point of BLEU. The mean of their
weights is one model, as fast as each, and on Multi30k better than they are on average (Wortsman et
al. 2022, "Model soups"; recipes/evidence/results.md has figures). Models trained by different
rewards can be averaged, too (Rame et al. 2023, "Rewarded soups"). --weights 1 1 2 counts the third
model twice.

Only models that started from the same weights have a mean that translates; of others it is warned.
What is written is fairseq's checkpoint without optimizer state, for fairseq-generate or
--finetune-from-model; beside the weights, all is that of the first model.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from simile_plugin.files import (
    InputError,
    as_script,
    check_outputs,
    refuse_twice,
    refuse_unasked_overwrite,
)
from simile_plugin.finetuning import Averager, average_checkpoints, average_folders

# Of the norm of the mean. Seeds are a few hundredths away from it; models that were initialised
# apart, nearly 1 and more.
FAR = 0.5
CONFIG = "config.json"


@as_script
def main() -> None:
    """Average, write, and say how far each is; exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    text = "two or more fairseq checkpoints, or folders of Hugging Face models"
    parser.add_argument("models", nargs="+", metavar="MODEL", help=text)
    parser.add_argument("--output", required=True, metavar="PATH", help="checkpoint, or folder")
    text = "of the models, in their order (default: all the same); only their ratios count"
    parser.add_argument("--weights", nargs="+", type=float, metavar="W", help=text)
    text = "replace a folder that holds a model"
    parser.add_argument("--overwrite", action="store_true", help=text)
    args = parser.parse_args()
    models, output = args.models, args.output
    weights = args.weights or [1.0] * len(models)
    if len(models) < 2:
        raise InputError("got 1 MODEL; expected two or more")
    if len(weights) != len(models):
        raise InputError(f"--weights: got {len(weights)} for {len(models)} models")
    if not all(map(math.isfinite, weights)) or math.fsum(weights) <= 0:
        raise InputError(f"--weights: got {weights}; expected numbers with a sum above 0")
    refuse_twice(models, "MODEL")
    folders = [Path(model).is_dir() for model in models]
    if any(folders) != all(folders):
        raise InputError("got checkpoints and folders; expected models of one kind")
    check_outputs({"--output": output}, models, folders=folders[0])
    if folders[0]:
        refuse_unasked_overwrite(output, CONFIG, "a model", args.overwrite)
    average = Averager(models, weights)
    (average_folders if folders[0] else average_checkpoints)(models, average, output)
    distances = average.distances()
    for model, distance in zip(models, distances, strict=True):
        print(f"{model}: {distance:.3f} of the mean's norm away from it")
    if max(distances) > FAR:
        print(
            "average.py: warning: these models are far from one another; were they trained from "
            "one and the same model? The mean of others does not translate",
            file=sys.stderr,
        )


if __name__ == "__main__":
    raise SystemExit(main())

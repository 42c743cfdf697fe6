"""COMET (Rei et al. 2020) as the reward of a training, and as a judge of translations.

PYTHONPATH=recipes/reward fairseq-train ... --reward comet_reward:score
python recipes/reward/comet_reward.py SOURCES OUTPUT REFERENCES >output.comet

The second prints a score a line, for simile report --sentence-scores COMET:NAME=output.comet.
COMET_MODEL is the folder of COMET or CometKiwi as Hugging Face's hub has it, which the package
lightyear reads beside transformers 5; or a model of the hub (default: Unbabel/wmt22-comet-da) or
the path of a checkpoint, for the package unbabel-comet, which wants transformers 4 and numpy 1. It
runs on the GPU where there is one.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from simile_plugin.evaluation import load_comet
from simile_plugin.files import InputError, as_script, read_parallel

AT_ONCE = 64  # sentences

Triple = tuple[str, str, str]  # source, translation, reference


@functools.cache
def load() -> Callable[[list[Triple]], dict[Triple, float]]:
    """The model: distinct triples -> the score of each."""
    name = os.environ.get("COMET_MODEL", "Unbabel/wmt22-comet-da")
    if os.path.isdir(name):
        return load_comet(name, "COMET_MODEL").scores
    from comet import download_model, load_from_checkpoint

    path = name if os.path.isfile(name) else download_model(name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return functools.partial(predict, load_from_checkpoint(path).eval().to(device))


@torch.inference_mode()
def predict(model: Any, distinct: list[Triple]) -> dict[Triple, float]:
    """The score of each triple by a model of unbabel-comet."""
    triples, scores = sorted(distinct, key=lambda t: (len(t[1]), t)), []  # little padding
    for start in range(0, len(triples), AT_ONCE):
        names = ("src", "mt", "ref")
        batch = [
            dict(zip(names, triple, strict=True)) for triple in triples[start : start + AT_ONCE]
        ]
        inputs = model.prepare_for_inference(batch)
        scores += model.predict_step(on_device(inputs, model.device)).scores.tolist()
    return dict(zip(triples, scores, strict=True))


def on_device(inputs: Any, device: Any) -> Any:
    """Inputs of a model; XCOMET has several."""
    if isinstance(inputs, tuple):
        return tuple(on_device(part, device) for part in inputs)
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def score(hyps: list[list[str]], refs: list[str], srcs: list[str]) -> list[list[float]]:
    """COMET of B x N hypotheses; an empty one has 0, equal ones are scored once."""
    lists = [
        [(src, hyp, ref) for hyp in row] for src, row, ref in zip(srcs, hyps, refs, strict=True)
    ]
    distinct = {triple for row in lists for triple in row if triple[1].strip()}
    found = load()([*distinct])
    return [[found.get(triple, 0.0) for triple in row] for row in lists]


@as_script
def main(arguments: list[str]) -> None:
    """Print a score a line; exit status 2 and one line for bad input."""
    if len(arguments) != 3:
        raise InputError("expected SOURCES OUTPUT REFERENCES")
    names = ("sources", "output", "references")
    srcs, hyps, refs = read_parallel(list(zip(arguments, names, strict=True)))
    for (value,) in score([[hyp] for hyp in hyps], refs, srcs):
        print(f"{value:.6f}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

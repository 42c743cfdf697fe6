#!/usr/bin/env python3
"""Kills risk trainings at random moments, starts them again, and compares what they end with.

    kills.py --work DIR --kills 40 [--seed 1]

Each chain of runs trains a tiny model by the same command again and again until it is done: its
weights, optimizer states, metrics and logged numbers must be those of a run that nobody killed,
bit for bit. Faults are SIGKILLs after a random time, or before or after a random call of a
function that trains, validates, or writes a file.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from recipes.reliability.trainings import RISK, Fault, Job, Trainings, prepare
from simile_plugin import fairseq_hooks

TIMES = re.compile(
    r"(train_|valid_|train_inner_)?(wall|train_wall|ups|wps|sents_s|hyps_s|peak_gb|ms_\w+)"
)
# Where a run strikes itself: functions, and how often a whole run calls them at least.
POINTS = {
    "os:replace": 12,
    "os:fsync": 24,
    "torch:save": 4,
    "shutil:copyfileobj": 6,
    "fairseq_cli.train:validate": 4,
    "fairseq.trainer:Trainer.train_step": 12,
    "fairseq.trainer:Trainer.valid_step": 4,
    "simile_plugin.fairseq_training.translator:FairseqTranslator.texts": 16,
}
VARIANTS = {
    "beam": "--update-freq 2 --log-interval 2",
    "sampling": "--update-freq 1 --risk-search sampling",
    "monolingual": "--reward noise --risk-monolingual others/train --risk-monolingual-share 0.2",
}
LENGTH = "--max-update 12 --save-interval-updates 3 --keep-interval-updates 1 --patience 50"


def flags_of(variant: str, name: str) -> str:
    """fairseq-train's flags of a run that saves to the folder ``name``."""
    return f"{RISK} {LENGTH} {VARIANTS[variant]} --save-dir {name}"


def random_fault(chance: random.Random, seconds: float) -> Fault:
    """A kill at a random moment of a run that takes ``seconds``."""
    if chance.random() < 0.5:
        return Fault(signal.SIGKILL, seconds=chance.uniform(0.0, seconds))
    function = chance.choice(sorted(POINTS))
    call = chance.randint(1, POINTS[function])
    return Fault(signal.SIGKILL, function=function, call=call, after=chance.random() < 0.5)


def chain(
    trainings: Trainings, variant: str, name: str, faults: Iterator[Fault | None]
) -> list[tuple[Fault, str]]:
    """Run a training until it ends well; the faults that struck, and the last update before each.

    Raises:
        SystemExit: if a run ends by itself with an error.
    """
    struck: list[tuple[Fault, str]] = []
    log = trainings.folder / f"{name}.log"
    while True:
        fault = next(faults)
        status = trainings.run(Job(flags_of(variant, name), log.name, fault))[0]
        if status == 0:
            return struck
        if fault is None or status != -fault.signal:
            raise SystemExit(f"{name}: ended with {status}:\n{log.read_text()[-2000:]}")
        struck.append((fault, last_event(log)))


def last_event(log: Path) -> str:
    """What the log said last, for the record of a kill."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " | ".join(lines[-1].split(" | ")[3:])[:60] if lines else "nothing yet"


def differences(folder: Path, one: str, other: str) -> list[str]:
    """Where a run differs from a whole ``one``, but for times: checkpoints and logged numbers."""
    found = []
    for file in ("checkpoint_last.pt", "checkpoint_best.pt"):
        states = [torch.load(folder / run / file) for run in (one, other)]
        found += compare(plain(states[0]), plain(states[1]), file)
    logs = [numbers(folder / f"{run}.log") for run in (one, other)]
    for end in {key for key in logs[0] if key.startswith("train ")} - logs[1].keys():
        del logs[0][end]  # killed between a checkpoint and the line that sums up its epoch
    names = [sorted(p.name for p in (folder / run).iterdir()) for run in (one, other)]
    if len(names[1]) == len(names[0]) + 1:  # killed before --keep-interval-updates took effect
        older = (name for name in names[1] if re.fullmatch(r"checkpoint_\d+_9\.pt", name))
        names[1].remove(next(older, names[1][0]))
    return found + compare(logs[0], logs[1], "log") + compare(names[0], names[1], "files")


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint without times, the name of its folder, and the number of its restarts.

    fairseq's aggregators "default" and "valid" are left out too: they hold sums over the life of a
    process, which nothing shows.
    """
    state = dict(state)
    state["optimizer_history"] = state["optimizer_history"][-1]
    del state["cfg"]  # names the folder
    extra = dict(state["extra_state"])
    extra.pop("previous_training_time")
    extra["metrics"] = {
        name: {meter[1]: meter[2:] for meter in meters if not TIMES.fullmatch(meter[1])}
        for name, meters in extra["metrics"].items()
        if name in ("train", "train_inner")
    }
    state["extra_state"] = extra
    return state


def numbers(log: Path) -> dict[str, dict[str, Any]]:
    """The last record of each kind and update in a JSON log, but for times."""
    found = {}
    for line in log.read_text(errors="replace").splitlines():
        kind, _, content = line.partition(' | {"')
        if content and line.endswith("}"):
            record = json.loads('{"' + content)
            kind = kind.rsplit(" ", 1)[-1]
            update = record.get("num_updates") or record.get(f"{kind}_num_updates")
            found[f"{kind} {update}"] = {
                key: value for key, value in record.items() if not TIMES.fullmatch(key)
            }
    return found


def compare(one: Any, other: Any, where: str) -> list[str]:
    """Paths at which two nested structures are not equal, bit for bit."""
    if type(one) is not type(other):
        return [f"{where}: {type(one).__name__} and {type(other).__name__}"]
    if isinstance(one, dict):
        keys = [f"{where}: {key} in one only" for key in one.keys() ^ other.keys()]
        same = [key for key in one if key in other]
        return keys + [w for key in same for w in compare(one[key], other[key], f"{where}/{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} items"]
        pairs = enumerate(zip(one, other, strict=True))
        return [w for i, (a, b) in pairs for w in compare(a, b, f"{where}/{i}")]
    equal = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    return [] if equal else [f"{where}: {str(one)[:60]} and {str(other)[:60]}"]


def tiny_encoder(folder: Path) -> None:
    """A reward encoder with random weights."""
    from recipes.quickstart import toy
    from simile_plugin.encoder import Encoder, Preprocessing, Segmenter, save_encoder
    from simile_plugin.encoder_training import train_sentencepiece

    sizes = "--train 100 --valid 1 --test 1 --pairs 1 --words 3 --seed 3"
    toy.main(["generate", "--out", str(folder / "encoder-text"), *sizes.split()])
    text = (folder / "encoder-text/train.en").read_text().splitlines()
    segmenter = Segmenter(train_sentencepiece(text, Preprocessing(), 200), Preprocessing())
    weight = torch.randn(len(segmenter), 16, generator=torch.Generator().manual_seed(3))
    save_encoder(folder / "tiny-encoder", Encoder(weight, segmenter))


def main(argv: list[str] | None = None) -> int:
    """Kill until the number is reached; 1 if any chain differs from the run that was not killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder, made anew")
    parser.add_argument("--kills", type=int, default=40, help="SIGKILLs in all")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    tiny_encoder(args.work)
    fairseq_hooks.allow_fairseq_checkpoints()
    chance, kills, chains, wrong = random.Random(args.seed), 0, 0, 0
    with Trainings(args.work) as trainings:
        prepare(trainings, args.work.resolve() / "tiny-encoder")
        for variant in VARIANTS:
            started = time.monotonic()
            chain(trainings, variant, f"whole-{variant}", iter([None]))
            seconds = time.monotonic() - started  # the first one is slower: it imports more
        while kills < args.kills:
            variant = list(VARIANTS)[chains % len(VARIANTS)]
            chains += 1
            name = f"killed-{chains}"
            faults = iter(lambda: random_fault(chance, seconds), None)
            struck = chain(trainings, variant, name, faults)
            kills += len(struck)
            found = differences(args.work, f"whole-{variant}", name)
            wrong += bool(found)
            for fault, event in struck:
                at = fault.function and f"{fault.function} {fault.call}"
                print(f"  {at or f'{fault.seconds:.2f} s'}: {event}", flush=True)
            print(f"{variant}, {len(struck)} kills: {'; '.join(found[:5]) or 'equal'}", flush=True)
    print(f"{kills} kills in {chains} trainings; {wrong} ended differently")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

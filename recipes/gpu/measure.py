"""Parts of recipes/gpu/run.sh: their cells, into WORK/results.json.

python -m recipes.gpu.measure PART... --work DIR [--budget SECONDS] [--rehearse]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from recipes.benchmarks import encoder_training, update
from recipes.benchmarks.encoder_training import resident
from recipes.gpu.cells import Cell, run_cells
from recipes.gpu.commands import ROOT, output_of, write_bitext
from simile_plugin.files import InputError

PAPER_PAIRS, PAPER_EPOCHS = 16_770_000, 10  # recipes/encoder/beyond-bleu.flags
NEWS = ("news-test2008", "newssyscomb2009", *(f"newstest20{year:02}" for year in range(9, 15)))
TRAIN = (
    *(f"newstest/de-en/{name}" for name in NEWS),
    *("tatoeba-de-en/train", "europarl20k-de-en/train", "multi30k/task1/train"),
)
# Model, precision, B, N of the cells of the update's benchmark, the most telling ones first.
UPDATES = (
    ("base", "bf16", 256, 8),
    ("base", "bf16", 64, 8),
    ("small", "fp32", 30, 8),
    ("small", "fp32", 256, 8),
    ("base", "fp32", 256, 8),
    ("base", "bf16", 1024, 8),
    ("base", "bf16", 256, 32),
    ("iwslt", "bf16", 256, 8),
    ("big", "bf16", 256, 8),
)
TESTS = {
    "on the device": ("tests/other_device/cases.py",),
    "fast": ("-m", "not slow", "tests"),
}
DEVICE_PROCESSES = 4  # the others run the fast tests


@dataclass(frozen=True)
class Scale:
    """How large everything is: for a GPU, or in miniature.

    Attributes:
        lines: of each text of the bitext (0: all).
        hugging_face: flags of recipes/benchmarks/hf_update.py.
        crowd: sentences of a batch that does not fit.
    """

    lines: int
    pieces: int
    pairs: int
    seconds: float
    updates: tuple[tuple[str, str, int, int], ...]
    repeats: int
    candidate_tokens: int
    tests: dict[str, tuple[str, ...]]
    hugging_face: str
    crowd: int


FULL = Scale(
    lines=0,
    pieces=32_000,
    pairs=200_000,
    seconds=20,
    updates=UPDATES,
    repeats=3,
    candidate_tokens=30,
    tests=TESTS,
    hugging_face="--layers 6 --width 512 --vocabulary 32000 --batch 64 --length 25",
    crowd=2048,
)
MINI = Scale(
    lines=120,
    pieces=200,
    pairs=400,
    seconds=0.2,
    updates=(("small", "bf16", 4, 2),),
    repeats=1,
    candidate_tokens=4,
    tests={"on the device": ("tests/other_device/cases.py", "-k", "test_mining")},
    hugging_face="--layers 1 --width 64 --vocabulary 40 --batch 2 --length 5",
    crowd=8,
)


class Parts:
    """The cells of every part.

    Args:
        work: folder of all that is made.
        scale: FULL or MINI.
        device: on which to measure.
        budget: seconds from now in which all of it shall end.
    """

    def __init__(self, work: Path, scale: Scale, device: torch.device, budget: float) -> None:
        self.work, self.scale, self.device = work, scale, device
        self.deadline = time.monotonic() + budget
        self.encoder = os.environ.get("ENCODER") or "default"

    def install(self) -> dict[str, Cell]:
        """What the machine is."""
        return {"machine": machine}

    def tests(self) -> dict[str, Cell]:
        """Tests on the device and, at the same time, the fast tests on the other cores."""
        return {"tests": self._tests}

    def _tests(self) -> dict[str, Any]:
        kind = "cuda" if self.device.type == "cuda" else "elsewhere"
        cores = max(2, (os.cpu_count() or 8) - DEVICE_PROCESSES)
        now = time.monotonic()
        end = now + (self.deadline - now) / 2  # the other half is for what is measured
        running, found = {}, dict[str, dict[str, Any]]()
        for name, words in self.scale.tests.items():
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
            if importlib.util.find_spec("xdist") and self.scale is FULL:
                command += ["-n", str(DEVICE_PROCESSES if "device" in name else cores)]
            log = self.work / "logs" / f"tests-{name}.log"
            log.parent.mkdir(exist_ok=True)
            with open(log, "w", encoding="utf-8") as out:
                running[name, log] = subprocess.Popen(
                    command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
                    env=os.environ | {"SIMILE_TEST_DEVICE": kind, "OMP_NUM_THREADS": "1"},
                )  # fmt: skip
        for (name, log), process in running.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(None if math.isinf(end) else max(1.0, end - time.monotonic()))
            process.kill()
            lines = log.read_text("utf-8").splitlines()
            counts = list[tuple[str, str]]()
            for line in lines:  # the last such line counts; a notice may stand below it
                counts = re.findall(r"(\d+) (passed|failed|skipped|error)", line) or counts
            found[name] = {what: int(count) for count, what in counts}
            found[name]["failures"] = [line for line in lines if line.startswith("FAILED")]
        return found

    def data(self) -> dict[str, Cell]:
        """German-English bitext."""
        return {"bitext": self._bitext}

    def _bitext(self) -> dict[str, Any]:
        source, raw = Path(os.environ.get("SIMILE_DATA", "")), self.work / "raw"
        if not (source / "newstest" / "de-en").is_dir():
            raise InputError(
                f"SIMILE_DATA: no newstest/de-en in '{source}'; name the data's folder"
            )
        raw.mkdir(parents=True, exist_ok=True)
        there = [source / part for part in TRAIN]
        missing = [str(part) for part in there if not Path(f"{part}.de.gz").exists()]
        if missing:
            raise InputError(f"SIMILE_DATA: {missing[0]}.de.gz is not there")
        count = write_bitext(there, raw / "train", self.scale.lines)
        bpe = [sys.executable, ROOT / "recipes" / "bpe.py"]
        model = self.work / "nmt.model"
        texts = [raw / f"train.{side}" for side in ("de", "en")]
        flags = ["--model", model, "--vocab-size", self.scale.pieces]
        output_of([*bpe, "train", *flags, *texts], self.work / "logs" / "bpe.log")
        for side, text in zip(("de", "en"), texts, strict=True):
            with text.open("rb") as read, (self.work / f"train.{side}").open("wb") as pieces:
                encode = [*map(str, bpe), "encode", "--model", str(model)]
                subprocess.run(encode, stdin=read, stdout=pieces, check=True)
        command = [Path(sys.executable).with_name("fairseq-preprocess"), "-s", "de", "-t", "en"]
        command += ["--joined-dictionary", f"--destdir={self.work / 'bin'}"]
        output_of([*command, f"--trainpref={self.work / 'train'}"], self.work / "logs/bin.log")
        return {"train": count}

    def update(self) -> dict[str, Cell]:
        """Ours, the plain port and the floor, by phase."""
        return {
            f"{model}, {precision}, B = {size}, N = {count}": partial(
                self._update, model, precision, size, count
            )
            for model, precision, size, count in self.scale.updates
        }

    def _update(self, model: str, precision: str, size: int, count: int) -> dict[str, Any]:
        words = (
            f"--data {self.work / 'bin'} --encoder {self.encoder} --model {model} "
            f"--precision {precision} --sentences {size} --updates {self.scale.repeats} "
            f"--max-len {self.scale.candidate_tokens}"
        )
        args = update.parse(words.split())
        task = update.load_task(args)
        bench = update.make_bench(args, task, count, self.device)
        samples = update.batches(args, task, self.device)
        found = update.measure(bench, samples, memory=True)
        if found["ours"] is None:
            return {"sides": found}
        assert all(bool(p.isfinite().all()) for p in bench.model.parameters())
        total = found["ours"]["total"]
        tokens = sum(int(sample["ntokens"]) for sample in samples) / len(samples)
        last = sum(bench.update("ours", samples[-1]).values())
        busy = update.busy_seconds(bench, samples[-1])
        del bench
        free_memory()
        return {
            "sides": found,
            "sentences/s": size / total,
            "reference tokens/s": tokens / total,
            "text and reward": (found["ours"]["text"] + found["ours"]["reward"]) / total,
            "GPU idle": 1 - busy / last if busy else None,
        }

    def hugging_face(self) -> dict[str, Cell]:
        """An update of transformers' models, ours and a plain port."""
        models = ("marian", "t5") if self.scale is FULL else ("t5",)
        return {model: partial(self._hugging_face, model) for model in models}

    def _hugging_face(self, model: str) -> dict[str, Any]:
        from recipes.benchmarks import hf_update

        words = f"--model {model} --device {self.device} {self.scale.hugging_face}"
        found: dict[str, Any] = {}
        for way in ("ours", "plain"):
            free_memory()
            found[way] = hf_update.measure(way, hf_update.parse(words.split()))
        return found | {"ours / plain": found["ours"]["seconds"] / found["plain"]["seconds"]}

    def encoder_training(self) -> dict[str, Cell]:
        """Pairs and sentences a second of the reward encoder."""
        return {"training": self._train_encoder, "sentences": self._embed}

    def _train_encoder(self) -> dict[str, Any]:
        free_memory()
        folder = self.work / "made-up-pairs"
        if not (folder / "manifest.json").exists():
            encoder_training.make(str(folder), self.scale.pairs)
        if self.scale is MINI:  # minibatches that so few pairs can fill
            encoder_training.BATCH, encoder_training.MEGABATCH = 8, 4
        args = argparse.Namespace(
            folder=str(folder), device=str(self.device), seconds=self.scale.seconds
        )
        found = encoder_training.simile(args)
        hours = PAPER_PAIRS * PAPER_EPOCHS / found["pairs/s"] / 3600
        return found | {"hours of the paper's run, extrapolated": hours} | self._peak()

    def _embed(self) -> dict[str, Any]:
        from simile_plugin.encoder import load_encoder

        free_memory()  # or the peak would be the training's
        encoder = load_encoder(self.encoder, self.device)
        largest = max((self.work / "raw").glob("*.en"), key=lambda path: path.stat().st_size)
        text = largest.read_text("utf-8").split("\n")[:-1]
        encoder.embed_text(text[:100])
        begin = time.perf_counter()
        vectors = encoder.embed_text(text)
        float(vectors.sum())  # waits for the device
        return {"sentences/s": len(text) / (time.perf_counter() - begin)} | self._peak()

    def _peak(self) -> dict[str, Any]:
        if self.device.type != "cuda":
            return {"peak GB": resident("VmHWM") / 1e9}
        return {"peak GB": torch.cuda.max_memory_allocated(self.device) / 1e9}

    def memory(self) -> dict[str, Cell]:
        """A batch that does not fit."""
        return {"a batch that does not fit": self._crowded}

    def _crowded(self) -> dict[str, Any]:
        model = "base" if self.scale is FULL else "small"
        words = (
            f"--data {self.work / 'bin'} --encoder {self.encoder} --model {model} --updates 1 "
            f"--sentences {self.scale.crowd} --max-len {self.scale.candidate_tokens}"
        )
        args = update.parse(words.split())
        task = update.load_task(args)
        bench = update.make_bench(args, task, 8, self.device)
        (sample,) = update.batches(args, task, self.device)
        with little_memory(bench.model, self.device, self.scale.crowd):
            seconds = sum(bench.update("ours", sample).values())
        assert all(p.grad is not None and p.grad.isfinite().all() for p in bench.model.parameters())
        return {
            "sentences": self.scale.crowd,
            "--risk-max-tokens after it": bench.criterion.portions.max_tokens,
            "update, s": seconds,
        } | self._peak()


PARTS = {
    "install": Parts.install,
    "tests": Parts.tests,
    "data": Parts.data,
    "update": Parts.update,
    "hugging_face": Parts.hugging_face,
    "encoder": Parts.encoder_training,
    "memory": Parts.memory,
}


def machine() -> dict[str, Any]:
    """Versions, and the device."""
    packages = ("torch", "numpy", "fairseq-fixed", "simile-plugin", "sentencepiece", "sacrebleu")
    facts: dict[str, Any] = {"Python": platform.python_version(), "cores": os.cpu_count()}
    facts |= {name: importlib.metadata.version(name) for name in packages}
    facts |= {"CUDA": torch.version.cuda, "device": "CPU"}
    if torch.cuda.is_available():
        held = torch.cuda.get_device_properties(0)
        facts |= {"device": held.name, "device's GB": round(held.total_memory / 1e9, 1)}
    return facts


def free_memory() -> None:
    """Give back what no tensor holds any more, for the next cell."""
    import gc

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


@contextmanager
def little_memory(model: Any, device: torch.device, sentences: int) -> Iterator[None]:
    """Within the block memory runs out in a batch of so many sentences, and not in half of it.

    A GPU gets a limit of what it holds now and 16 GB; without one the model refuses.
    """
    if device.type == "cuda":
        limit = torch.cuda.memory_reserved(device) + 16e9
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
        yield
        torch.cuda.set_per_process_memory_fraction(1.0, device)
        return

    def refuse(module: Any, arguments: Any, named: dict[str, Any]) -> None:
        if len(named["src_tokens"]) == sentences:
            raise torch.OutOfMemoryError("no memory for so many sentences")

    with model.register_forward_pre_hook(refuse, with_kwargs=True):
        yield


def main(argv: list[str] | None = None) -> int:
    """Run parts; 0: all of them are done, 1: a cell failed, 3: a budget is spent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("parts", nargs="+", choices=PARTS)
    add("--work", type=Path, required=True, help="folder of all that is made")
    add("--budget", type=float, default=math.inf, help="seconds of all parts together")
    add("--rehearse", action="store_true", help="everything in miniature, on the CPU")
    args = parser.parse_args(argv)
    there = torch.cuda.is_available()
    if not args.rehearse and not there and args.parts != ["data"]:
        raise InputError("no CUDA GPU here; --rehearse runs everything in miniature on the CPU")
    args.work.mkdir(parents=True, exist_ok=True)
    # torch's limit of memory asks for a number.
    device = torch.device("cuda:0" if there and not args.rehearse else "cpu")
    parts = Parts(args.work.resolve(), MINI if args.rehearse else FULL, device, args.budget)
    ends = {
        run_cells(args.work / "results.json", part, PARTS[part](parts), parts.deadline)
        for part in args.parts
    }
    print(f"results: {args.work / 'results.json'}")
    return 1 if "failed" in ends else 3 if "stopped" in ends else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"measure: error: {error}")

"""Parts of recipes/gpu/run.sh: their cells, into WORK/PART.json.

python -m recipes.gpu.measure PART --work DIR [--budget SECONDS] [--rehearse]
python -m recipes.gpu.measure page --work DIR
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from recipes.benchmarks import encoder_training, update
from recipes.benchmarks.encoder_memory import resident
from recipes.gpu.cells import Cell, run_cells
from recipes.gpu.commands import ROOT, fairseq, output_of, progress, write_bitext
from recipes.gpu.page import write_page
from simile_plugin.files import InputError

SECONDS_AROUND_TRAINING = 60  # loading, validations, saving, translating
PAPER_PAIRS, PAPER_EPOCHS = 16_770_000, 10  # recipes/encoder/beyond-bleu.flags
NEWS = ("news-test2008", "newssyscomb2009", *(f"newstest20{year:02}" for year in range(9, 15)))
TRAIN = (
    *(f"newstest/de-en/{name}" for name in NEWS),
    *("tatoeba-de-en/train", "europarl20k-de-en/train", "multi30k/task1/train"),
)
# Model, precision, B, N of the cells of the update's benchmark, the most telling ones first.
UPDATES = (
    ("base", "bf16", 256, 8),
    ("small", "fp32", 256, 8),
    ("base", "fp32", 256, 8),
    ("base", "bf16", 64, 8),
    ("base", "bf16", 1024, 8),
    ("base", "bf16", 256, 32),
    ("iwslt", "bf16", 256, 8),
    ("big", "bf16", 256, 8),
    ("base", "fp16", 256, 8),
)
TESTS = {
    "updates, lists, precisions on the device": (
        "tests/other_device/cases.py",
        "-k",
        "not encoder",
    ),
    "encoders on the device": ("tests/other_device/cases.py", "-k", "encoder"),
    "criterion": ("tests/fairseq_training/test_criterion.py",),
    "half precision": ("tests/fairseq_training/test_half_precision.py",),
    "reward": ("tests/reward",),
    "encoder": ("tests/encoder",),
}


@dataclass(frozen=True)
class Scale:
    """How large everything is: for a GPU, or in miniature.

    Attributes:
        lines: of each text of the bitext (0: all).
        model: flags of the job's model; mle: of its MLE training.
        mle_hours, risk_hours: at which a training stops by itself.
    """

    lines: int
    pieces: int
    encoder: str
    pairs: int
    seconds: float
    updates: tuple[tuple[str, str, int, int], ...]
    repeats: int
    candidate_tokens: int
    tests: dict[str, tuple[str, ...]]
    model: str
    mle: str
    risk: str
    rewards: tuple[str, ...]
    mle_hours: float
    risk_hours: float
    crowd: int


FULL = Scale(
    lines=0,
    pieces=32_000,
    encoder="--vocab-size 20000 --dim 300 --steps 20000",
    pairs=200_000,
    seconds=20,
    updates=UPDATES,
    repeats=3,
    candidate_tokens=30,
    tests=TESTS,
    model="--arch transformer --share-all-embeddings --dropout 0.3",
    mle="--lr 7e-4 --warmup-updates 1000 --max-tokens 16384 --bf16",
    risk="--lr 2e-5 --batch-size 256 --risk-generation-dtype bf16 --bf16",
    rewards=("bleu", "half", "simile"),
    mle_hours=5.5 / 60,
    risk_hours=1.5 / 60,
    crowd=2048,
)
MINI = Scale(
    lines=120,
    pieces=200,
    encoder="--vocab-size 150 --dim 16 --steps 20 --batch-size 8 --megabatch 2",
    pairs=400,
    seconds=0.2,
    updates=tuple(("small", precision, 4, 2) for precision in ("fp32", "bf16", "fp16")),
    repeats=1,
    candidate_tokens=4,
    tests={"updates on a made-up device": ("tests/other_device/cases.py", "-k", "made_up")},
    model="--arch transformer_tiny --share-all-embeddings",
    mle="--lr 1e-3 --warmup-updates 4 --max-tokens 400 --max-update 6 --bf16",
    risk="--lr 1e-4 --batch-size 6 --max-update 2 --risk-generation-dtype bf16 --bf16",
    rewards=("simile",),
    mle_hours=1.0,
    risk_hours=1.0,
    crowd=8,
)


class Parts:
    """The cells of every part.

    Args:
        work: folder of all that is made.
        scale: FULL or MINI.
        device: on which to measure.
    """

    def __init__(self, work: Path, scale: Scale, device: torch.device) -> None:
        self.work, self.scale, self.device = work, scale, device
        self.encoder = Path(os.environ.get("ENCODER") or work / "encoder")

    def install(self) -> dict[str, Cell]:
        """What the machine is, and whether everything is there."""
        return {"machine": machine, "doctor": self._doctor}

    def _doctor(self) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "simile_plugin", "doctor"], capture_output=True, text=True
        )
        return {"status": done.returncode, "said": done.stdout.splitlines()[-1:]}

    def tests(self) -> dict[str, Cell]:
        """Tests on the device and, of Python and torch as they are here, on the CPU."""
        return {name: partial(self._test, name, words) for name, words in self.scale.tests.items()}

    def _test(self, name: str, words: tuple[str, ...]) -> dict[str, Any]:
        kind = "cuda" if self.device.type == "cuda" else "elsewhere"
        variables = {**os.environ, "SIMILE_TEST_DEVICE": kind}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        log = self.work / "logs" / f"{re.sub('[^a-z]+', '-', name)}.log"
        said = output_of(command, log, cwd=ROOT, env=variables)
        found = re.findall(r"(\d+) (passed|skipped|xfailed)", said.splitlines()[-1])
        return {what: int(count) for count, what in found}

    def data(self) -> dict[str, Cell]:
        """German-English bitext, and a reward encoder."""
        return {"bitext": self._bitext, "encoder": self._encoder}

    def _bitext(self) -> dict[str, Any]:
        source, raw = Path(os.environ.get("SIMILE_DATA", "")), self.work / "raw"
        if not (source / "newstest" / "de-en").is_dir():
            raise InputError(
                f"SIMILE_DATA: no newstest/de-en in '{source}'; name the data's folder"
            )
        raw.mkdir(parents=True, exist_ok=True)
        sets = {"train": TRAIN, **{k: (f"newstest/de-en/newstest{y}",) for k, y in YEARS.items()}}
        counts = {}
        for name, parts in sets.items():
            there = [source / part for part in parts]
            missing = [str(part) for part in there if not Path(f"{part}.de.gz").exists()]
            if missing:
                raise InputError(f"SIMILE_DATA: {missing[0]}.de.gz is not there")
            counts[name] = write_bitext(there, raw / name, self.scale.lines)
        bpe = [sys.executable, ROOT / "recipes" / "bpe.py"]
        model = self.work / "nmt.model"
        texts = [raw / f"train.{side}" for side in ("de", "en")]
        flags = ["--model", model, "--vocab-size", self.scale.pieces]
        output_of([*bpe, "train", *flags, *texts], self.work / "logs" / "bpe.log")
        for name in sets:
            for side in ("de", "en"):
                with (
                    open(raw / f"{name}.{side}", "rb") as text,
                    open(self.work / f"{name}.{side}", "wb") as pieces,
                ):
                    encode = [*map(str, bpe), "encode", "--model", str(model)]
                    subprocess.run(encode, stdin=text, stdout=pieces, check=True)
        prefixes = [f"--{name}pref={self.work / name}" for name in sets]
        command = [*fairseq("fairseq-preprocess"), "-s", "de", "-t", "en", "--joined-dictionary"]
        output_of(
            [*command, f"--destdir={self.work / 'bin'}", *prefixes], self.work / "logs/bin.log"
        )
        return counts

    def _encoder(self) -> dict[str, Any]:
        if os.environ.get("ENCODER"):
            return {"given": str(self.encoder)}
        # Both sides of the bitext: an encoder that has seen the English words is enough here.
        pairs = self.work / "pairs.tsv"
        sides = [(self.work / "raw" / f"train.{side}").read_text("utf-8") for side in ("en", "de")]
        lines = zip(*(side.replace("\t", " ").split("\n")[:-1] for side in sides), strict=True)
        pairs.write_text("".join(f"{en}\t{de}\n" for en, de in lines), "utf-8")
        command = [sys.executable, "-m", "simile_plugin", "train-encoder", pairs, "--overwrite"]
        flags = [*self.scale.encoder.split(), "--output", self.encoder, "--device", self.device]
        output_of([*command, *flags], self.work / "logs" / "encoder.log")
        return {"trained": str(self.encoder)}

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

    def encoder_training(self) -> dict[str, Cell]:
        """Pairs and sentences a second of the reward encoder."""
        return {"training": self._train_encoder, "sentences": self._embed}

    def _train_encoder(self) -> dict[str, Any]:
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
        encoder = load_encoder(str(self.encoder), self.device)
        text = (self.work / "raw" / "train.en").read_text("utf-8").split("\n")[:-1]
        encoder.embed_text(text[:100])
        begin = time.perf_counter()
        vectors = encoder.embed_text(text)
        float(vectors.sum())  # waits for the device
        return {"sentences/s": len(text) / (time.perf_counter() - begin)} | self._peak()

    def _peak(self) -> dict[str, Any]:
        if self.device.type != "cuda":
            return {"peak GB": resident("VmHWM") / 1e9}
        return {"peak GB": torch.cuda.max_memory_allocated(self.device) / 1e9}

    def job(self) -> dict[str, Cell]:
        """MLE, then risk training on three rewards; one seed."""
        rewards = self.scale.rewards
        return {
            "MLE": self._mle,
            **{name.upper(): partial(self._risk, name) for name in rewards},
            "scores": partial(self._scores, ["mle", *rewards]),
        }

    def seconds(self) -> dict[str, float]:
        """What the job's cells take: the training's limit, and what is done around it."""
        rest = SECONDS_AROUND_TRAINING
        risk = dict.fromkeys(
            map(str.upper, self.scale.rewards), 3600 * self.scale.risk_hours + rest
        )
        return {"MLE": 3600 * self.scale.mle_hours + rest, **risk, "scores": rest}

    def _training(self, name: str, flags: str) -> list[str]:
        common = (
            f"{self.work / 'bin'} -s de -t en --user-dir {ROOT / 'user_dir'} {self.scale.model} "
            "--optimizer adam --adam-betas (0.9,0.98) --clip-norm 5 --label-smoothing 0.1 "
            "--required-batch-size-multiple 1 --no-epoch-checkpoints --log-format json "
            f"--log-interval 10 --seed 1 --save-dir {self.work / name} {flags}"
        )
        return fairseq("fairseq-train") + common.split() + self._cpu()

    def _cpu(self) -> list[str]:
        return [] if self.device.type == "cuda" else ["--cpu"]

    def _mle(self) -> dict[str, Any]:
        flags = (
            f"--criterion label_smoothed_cross_entropy --lr-scheduler inverse_sqrt "
            f"--stop-time-hours {self.scale.mle_hours} {self.scale.mle}"
        )
        said = output_of(self._training("mle", flags), self.work / "logs" / "mle.log")
        return self._trained("mle", said)

    def _risk_flags(self, reward: str) -> str:
        return (
            f"--criterion simile_risk --reward {reward} --simile-encoder {self.encoder} "
            f"--mle-weight 0.3 --risk-cost-scale 10 --lr-scheduler fixed {self.scale.risk}"
        )

    def _risk(self, reward: str) -> dict[str, Any]:
        flags = (
            f"--finetune-from-model {self.work / 'mle' / 'checkpoint_last.pt'} "
            f"{self._risk_flags(reward)} --stop-time-hours {self.scale.risk_hours}"
        )
        said = output_of(self._training(reward, flags), self.work / "logs" / f"{reward}.log")
        return self._trained(reward, said)

    def _trained(self, name: str, log: str) -> dict[str, Any]:
        """The training's last figures; and its translations of newstest2018."""
        last = progress(log, "train")[-1]
        kept = (
            "num_updates",
            "loss",
            "wps",
            "ups",
            "cost",
            "peak_gb",
            "ms_generation",
            "ms_scoring",
        )
        figures = {key: value for full, value in last.items()
                   if (key := full.removeprefix("train_")) in kept}  # fmt: skip
        command = [
            *fairseq("fairseq-generate"), self.work / "bin", "-s", "de", "-t", "en",
            "--path", self.work / name / "checkpoint_last.pt", "--gen-subset", "test",
            "--beam", "5", "--batch-size", "64", "--required-batch-size-multiple", "1",
            "--remove-bpe", "sentencepiece", "--user-dir", ROOT / "user_dir", *self._cpu(),
        ]  # fmt: skip
        said = output_of(command, self.work / "logs" / f"translate-{name}.log")
        found = {int(n): text for n, text in re.findall(r"^D-(\d+)\t\S+\t(.*)$", said, re.M)}
        text = "".join(f"{found[number]}\n" for number in range(len(found)))
        (self.work / f"{name}.txt").write_text(text, "utf-8")
        return figures

    def _scores(self, names: list[str]) -> dict[str, Any]:
        from simile_plugin.encoder import load_encoder
        from simile_plugin.reward import corpus_bleu, score_outputs

        read = {
            name: (self.work / f"{name}.txt").read_text("utf-8").split("\n")[:-1] for name in names
        }
        refs = (self.work / "raw" / "test.en").read_text("utf-8").split("\n")[:-1]
        found = score_outputs(list(read.values()), refs, load_encoder(str(self.encoder)))
        assert found.simile is not None
        bleu = corpus_bleu(found.bleu_stats.sum(0)).tolist()
        simile = (100 * found.simile.mean(0)).tolist()
        return {
            n.upper(): {"BLEU": b, "SIMILE": s} for n, b, s in zip(names, bleu, simile, strict=True)
        }

    def memory(self) -> dict[str, Cell]:
        """A batch that does not fit, and ranks."""
        cells: dict[str, Cell] = {
            "a batch that does not fit": self._crowded,
            "two ranks on one device, gloo": partial(self._ranks, 2, "gloo"),
        }
        if self.device.type == "cuda":
            cells["one rank, NCCL"] = partial(self._ranks, 1, "nccl")
        return cells

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

    def _ranks(self, size: int, backend: str) -> dict[str, Any]:
        """Two updates from random weights, every rank on the same device."""
        store = (self.work / "store").resolve()
        store.unlink(missing_ok=True)
        name = f"ranks-{size}-{backend}"
        flags = (
            f"{self._risk_flags('simile')} --batch-size {8 // size} --max-update 2 --no-save "
            f"--disable-validation --distributed-world-size {size} --distributed-backend {backend} "
            f"--distributed-init-method file://{store} --distributed-no-spawn --device-id 0 "
            "--ddp-backend legacy_ddp"
        )
        logs = [self.work / "logs" / f"{name}-{rank}.log" for rank in range(size)]
        running = []
        for rank, log in enumerate(logs):
            command = [*self._training(name, flags), "--distributed-rank", str(rank)]
            with open(log, "w", encoding="utf-8") as out:
                running.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
        try:
            statuses = [process.wait(timeout=240) for process in running]
        finally:
            for process in running:
                process.kill()
        if any(statuses):
            tail = logs[0].read_text("utf-8").splitlines()[-15:]
            raise RuntimeError(f"ranks ended with {statuses}; {logs[0]}:\n" + "\n".join(tail))
        last = progress(logs[0].read_text("utf-8"), "train")[-1]
        return {"updates": int(last["train_num_updates"]), "loss": float(last["train_loss"])}


YEARS = {"valid": 2017, "test": 2018}
PARTS = {
    "install": Parts.install,
    "tests": Parts.tests,
    "data": Parts.data,
    "update": Parts.update,
    "encoder": Parts.encoder_training,
    "job": Parts.job,
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
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        return

    def refuse(module: Any, arguments: Any, named: dict[str, Any]) -> None:
        if len(named["src_tokens"]) == sentences:
            raise torch.OutOfMemoryError("no memory for so many sentences")

    handle = model.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def main(argv: list[str] | None = None) -> int:
    """Run parts; 0: all of them are done, 1: a cell failed, 3: a budget is spent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("parts", nargs="+", choices=[*PARTS, "page"])
    add("--work", type=Path, required=True, help="folder of all that is made")
    add("--budget", type=float, default=420, help="seconds of each part (default 420)")
    add("--rehearse", action="store_true", help="everything in miniature, on the CPU")
    args = parser.parse_args(argv)
    if not args.rehearse and args.parts != ["page"] and not torch.cuda.is_available():
        raise InputError("no CUDA GPU here; --rehearse runs everything in miniature on the CPU")
    args.work.mkdir(parents=True, exist_ok=True)
    device = torch.device("cpu" if args.rehearse else "cuda:0")  # torch's limit asks for a number
    parts = Parts(args.work.resolve(), MINI if args.rehearse else FULL, device)
    budget = math.inf if args.rehearse else args.budget
    ends = {
        run_cells(args.work / f"{part}.json", PARTS[part](parts), budget, parts.seconds())
        for part in args.parts
        if part != "page"
    }
    if "page" in args.parts:
        write_page(args.work, list(PARTS), args.rehearse)
    return 1 if "failed" in ends else 3 if "stopped" in ends else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"measure: error: {error}")

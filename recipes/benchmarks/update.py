"""Time and peak memory of one risk-training update, by phase, beside a plain port and a floor.

Three sides see the same model, batches and optimiser, in turns:

    ours    the criterion simile_risk
    plain   what a straightforward port does: fairseq's generator, the source repeated N times,
            full logits, a separate pass for the reference; the rewards in one batch, as ours
    floor   fairseq's beam search of the batch, and one teacher-forced forward and backward pass on
            B x (N + 1) targets: no text, no reward, no risk
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor, nn

from recipes.benchmarks.encoder_training import resident
from simile_plugin.encoder import load_own_encoder
from simile_plugin.fairseq_training import (
    SimileRiskConfig,
    TargetText,
    build_risk_set,
)
from simile_plugin.reward import length_penalty
from simile_plugin.risk import Stopwatch, evaluation_mode, teacher_forcing_input
from simile_plugin.search import Hypotheses
from simile_plugin.significance import markdown_table
from user_dir import criterion as plugin

SIDES = ("ours", "plain", "floor")
PHASES = ("generation", "text", "reward", "scoring", "backward", "optimiser")
FCONV = {"decoder_attention": "True", "encoder_embed_dim": 256, "decoder_embed_dim": 256}
SMALL = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 256, "decoder_embed_dim": 256,
    "encoder_ffn_embed_dim": 512, "decoder_ffn_embed_dim": 512, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "small": ("transformer", SMALL | {"share_all_embeddings": True}),
    "fconv": ("fconv_iwslt_de_en", FCONV),
    "iwslt": ("transformer_iwslt_de_en", {"share_all_embeddings": True}),
    "base": ("transformer", {"share_all_embeddings": True}),
    "big": ("transformer_wmt_en_de_big", {"share_all_embeddings": True}),
}
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def stack_lists(
    lists: list[list[dict[str, Tensor]]], size: int, like: Tensor, pad: int
) -> Hypotheses:
    """Return SequenceGenerator's lists as one block of ``size`` hypotheses a sentence.

    Args:
        like: a tensor with the ids' type and device.
    """
    longest = max((len(h["tokens"]) for hypos in lists for h in hypos[:size]), default=1)
    tokens = like.new_full((len(lists), size, longest), pad)
    scores = torch.full(tokens.shape[:2], -torch.inf, device=like.device)
    for row, hypos in enumerate(lists):
        for column, hypo in enumerate(hypos[:size]):
            tokens[row, column, : len(hypo["tokens"])] = hypo["tokens"]
            scores[row, column] = hypo["score"]
    return Hypotheses(tokens, scores)


class Clock:
    """Seconds of the phases of one update; waits for a GPU at the end of each.

    One CPU thread is timed by its own clock, so that other processes do not count.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        alone = device.type == "cpu" and torch.get_num_threads() == 1
        self.now = time.process_time if alone else time.perf_counter
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        start = self.now()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds[name] += self.now() - start


class Bench:
    """One model with its optimiser, and the three ways to update it."""

    def __init__(self, args: argparse.Namespace, task: Any, model: Any) -> None:
        self.args, self.task, self.model = args, task, model
        self.dictionary = task.target_dictionary
        self.pad = self.dictionary.pad()
        self.device = next(model.parameters()).device
        self.encoder = load_own_encoder(args.encoder).to(self.device)
        self.text = TargetText(self.dictionary)
        flags: dict[str, Any] = {"risk_max_tokens": args.max_tokens}
        if args.max_len:  # random weights hardly ever stop
            flags |= {"risk_max_len_a": 0.0, "risk_max_len_b": args.max_len}
        self.config = SimileRiskConfig(
            simile_encoder=args.encoder, risk_candidates=args.candidates, **flags
        )
        self.criterion = plugin.SimileRiskCriterion(self.config, task)
        # A step so small that all sides see the same model; eps must not vanish in fp16.
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-9, eps=1e-3)

    def update(self, side: str, sample: dict[str, Any]) -> dict[str, float]:
        """One update; seconds by phase."""
        clock = Clock(self.device)
        self.model.train()
        self.optimizer.zero_grad()
        loss = getattr(self, side)(sample, clock)
        with clock.phase("backward"):
            loss.backward()
        with clock.phase("optimiser"):
            self.optimizer.step()
        return clock.seconds

    def ours(self, sample: dict[str, Any], clock: Clock) -> Tensor:
        """The loss of simile_risk; its own clock knows the phases."""
        Stopwatch.now = staticmethod(clock.now)
        loss, size, _ = self.criterion(self.model, sample)
        clock.seconds |= self.criterion.clock.seconds
        return loss / size

    def stock_lists(self, sample: dict[str, Any]) -> list[list[dict[str, Tensor]]]:
        """n-best lists of fairseq's own beam search."""
        config = self.config
        with torch.no_grad(), evaluation_mode(self.model):
            generator = SequenceGenerator(
                [self.model],
                self.dictionary,
                beam_size=config.risk_candidates,
                max_len_a=config.risk_max_len_a,
                max_len_b=config.risk_max_len_b,
            )
            return generator.generate([], sample)

    def decoded(self, sample: dict[str, Any], rows: Tensor, times: int) -> Tensor:
        """Full log-probabilities of target rows; each source is encoded ``times`` times."""
        source = {
            key: sample["net_input"][key].repeat_interleave(times, 0)
            for key in ("src_tokens", "src_lengths")
        }
        previous = teacher_forcing_input(rows, self.dictionary.eos(), self.pad)
        output = self.model(**source, prev_output_tokens=previous)
        return self.model.get_normalized_probs(output, log_probs=True)

    def token_loss(self, lprobs: Tensor, rows: Tensor) -> Tensor:
        """fairseq's label-smoothed loss."""
        loss, _ = label_smoothed_nll_loss(
            lprobs.view(-1, lprobs.size(-1)), rows.flatten().unsqueeze(-1), 0.1, self.pad
        )
        return loss

    def plain(self, sample: dict[str, Any], clock: Clock) -> Tensor:
        """A port of the published code, line by line."""
        with clock.phase("generation"):
            lists = self.stock_lists(sample)
        with clock.phase("text"):
            texts = [self.text.strings([h["tokens"].tolist()])[0] for hs in lists for h in hs]
            refs = self.text.strings(sample["target"].tolist(), reference=True)
        size = self.config.risk_candidates
        with clock.phase("reward"):
            rewards = self.rewards(texts, [ref for ref in refs for _ in range(size)])
        with clock.phase("scoring"):
            rows = stack_lists(lists, size, sample["target"], self.pad).tokens
            lprobs = self.decoded(sample, rows.flatten(0, 1), size)
            values = lprobs.gather(-1, rows.flatten(0, 1).unsqueeze(-1)).view(rows.shape)
            scores = (values * rows.ne(self.pad)).sum(-1)
            cost = 1 - rewards.view(scores.shape)
            risk = (torch.softmax(scores, dim=1) * cost).sum()
            token_loss = self.token_loss(
                self.decoded(sample, sample["target"], 1), sample["target"]
            )
        return 0.3 * token_loss + 0.7 * risk

    def rewards(self, hyps: list[str], refs: list[str]) -> Tensor:
        """SIMILE of each hypothesis."""
        (hyp, hyp_lengths), (ref, ref_lengths) = (
            (found.vectors, found.lengths)
            for found in map(self.encoder.embed_counted, (hyps, refs))
        )
        penalty = length_penalty(ref_lengths, hyp_lengths).to(hyp)
        return penalty**0.25 * torch.cosine_similarity(hyp, ref)

    def floor(self, sample: dict[str, Any], clock: Clock) -> Tensor:
        """Beam search and cross-entropy on all rows."""
        with clock.phase("generation"):
            lists = self.stock_lists(sample)
        with clock.phase("scoring"):
            size, target = self.config.risk_candidates, sample["target"]
            hypotheses = stack_lists(lists, size, target, self.pad)
            eos = self.dictionary.eos()
            rows = build_risk_set(target, hypotheses, self.config, self.pad, eos).tokens
            lprobs = self.decoded(sample, rows.flatten(0, 1), 1 + size)
            return self.token_loss(lprobs, rows)

    def peak(self, side: str, sample: dict[str, Any]) -> float:
        """Bytes that one update needs beyond model, optimiser and batch."""
        if self.device.type == "cuda":
            before = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            self.update(side, sample)
            return float(torch.cuda.max_memory_allocated(self.device) - before)
        return in_child(lambda: self.update(side, sample))


def in_child(work: Callable[[], object]) -> float:
    """Bytes by which the memory of a forked copy of this process grows at most during ``work``."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            ctypes.CDLL(None).malloc_trim(0)  # or memory freed before would be used unnoticed
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            before = resident("VmRSS")
            work()
            os.write(write, str(resident("VmHWM") - before).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        raise OSError("a measured update failed; run with --no-memory to see its error")
    return float(text)


def load_task(args: argparse.Namespace) -> Any:
    """The translation task over a folder of fairseq-preprocess."""
    config = TranslationConfig(
        data=args.data,
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        dataset_impl=None,  # these two refer to a command line that is not here
        required_seq_len_multiple=1,
    )
    task = TranslationTask.setup_task(config)
    for word in range(len(task.target_dictionary), args.vocabulary):
        for dictionary in {
            id(d): d for d in (task.source_dictionary, task.target_dictionary)
        }.values():
            dictionary.add_symbol(f"unused{word}")
    task.load_dataset("train")
    return task


def make_model(args: argparse.Namespace, task: Any) -> nn.Module:
    """The trained model of --checkpoint, or --model with random weights."""
    if args.checkpoint:
        overrides = {"data": args.data}
        models, _, _ = checkpoint_utils.load_model_ensemble_and_task([args.checkpoint], overrides)
        return models[0]
    arch, sizes = MODELS[args.model]
    torch.manual_seed(1)
    flags = Namespace(
        arch=arch, criterion="simile_risk", dropout=0.1, max_source_positions=256,
        max_target_positions=256, **sizes,
    )  # fmt: skip
    ARCH_CONFIG_REGISTRY[arch](flags)
    return ARCH_MODEL_REGISTRY[arch].build_model(flags, task)


def batches(args: argparse.Namespace, task: Any, device: torch.device) -> list[dict[str, Any]]:
    """Batches of sentences of similar length from the middle of the training data."""
    dataset = task.dataset("train")
    order = dataset.ordered_indices()
    found = []
    for number in range(args.updates):
        start = (number + 1) * len(order) // (args.updates + 1)
        rows = [dataset[i] for i in order[start : start + args.sentences]]
        sample = dataset.collater(rows)
        net_input = {key: value.to(device) for key, value in sample["net_input"].items()}
        found.append(sample | {"net_input": net_input, "target": sample["target"].to(device)})
    return found


def measure(bench: Bench, samples: list[dict[str, Any]], memory: bool) -> dict[str, Any]:
    """Mean seconds by side and phase, every side in turn for each batch; None where a GPU's memory
    is too small for a side."""
    peaks: dict[str, float] = {}
    runs: dict[str, list[dict[str, float]]] = {}
    for side in SIDES:
        with suppress(torch.OutOfMemoryError):
            bench.update(side, samples[0])  # warm up; what stays in memory is made here
            peaks[side] = bench.peak(side, samples[-1]) if memory else math.nan
            runs[side] = []
        bench.optimizer.zero_grad()
    for sample in samples:
        for side, found in runs.items():
            found.append(bench.update(side, sample))
    return {side: summary(runs[side], peaks[side]) if side in runs else None for side in SIDES}


def summary(runs: list[dict[str, float]], peak: float) -> dict[str, Any]:
    """Means over the updates of a side."""
    phases = {phase: statistics.mean(run[phase] for run in runs) for phase in PHASES}
    memory = None if math.isnan(peak) else peak / 1e9
    return {"total": sum(phases.values()), **phases, "peak_gb": memory}


def covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, end = 0.0, -math.inf
    for left, right in sorted(spans):
        total += max(0.0, right - max(left, end))
        end = max(end, right)
    return total


def device_spans(events: Iterable[Any]) -> list[tuple[float, float]]:
    """Begin and end of all that a profiled GPU did, in microseconds.

    Among its events are the annotated regions too (the optimiser's step), gaps included.
    """
    there = torch.autograd.DeviceType.CUDA
    mine = [e for e in events if e.device_type == there and not e.is_user_annotation]
    return [(e.time_range.start, e.time_range.end) for e in mine]


def busy_seconds(bench: Bench, sample: dict[str, Any]) -> float:
    """Seconds of an update of ours in which a GPU has something to do; 0 without one."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if bench.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profile:
        bench.update("ours", sample)
    return covered(device_spans(profile.events() or [])) / 1e6


def table(result: dict[str, Any]) -> str:
    """Markdown: one row a side, seconds an update."""
    rows = [["", "update, s", *PHASES, "peak, GB", "ours / it"]]
    ours = result["ours"]
    for side, row in result.items():
        if row is None:
            rows.append([side, "out of memory", *[""] * (len(PHASES) + 2)])
            continue
        cells = [f"{row[key]:.3f}" for key in ("total", *PHASES)]
        peak = "" if row["peak_gb"] is None else f"{row['peak_gb']:.2f}"
        rows.append([side, *cells, peak, f"{ours['total'] / row['total']:.2f}" if ours else ""])
    return markdown_table(rows)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--data", required=True, help="folder made by fairseq-preprocess")
    add("--source-lang", default="de")
    add("--target-lang", default="en")
    add("--encoder", required=True, help="folder of the reward encoder")
    add("--checkpoint", help="a trained model; default: --model with random weights")
    add("--model", choices=MODELS, default="small")
    add("--sentences", type=int, default=30, help="B (default 30)")
    add("--candidates", type=int, nargs="+", default=[8], help="N, one or several (default 8)")
    add("--updates", type=int, default=3, help="batches, each timed once a side (default 3)")
    add("--max-len", type=int, default=0, help="fixed bound on candidate length, in tokens")
    add("--max-tokens", type=int, default=0, help="--risk-max-tokens of our side")
    add("--vocabulary", type=int, default=0, help="add unused words to a vocabulary of this size")
    add("--precision", choices=PRECISIONS, default="fp32", help="of the weights (default fp32)")
    add("--threads", type=int, default=1, help="CPU threads (default 1)")
    add("--no-memory", action="store_true", help="do not measure memory")
    return parser.parse_args(argv)


def make_bench(args: argparse.Namespace, task: Any, size: int, device: torch.device) -> Bench:
    """The sides for N = size."""
    model = make_model(args, task).to(device, PRECISIONS[args.precision])
    return Bench(argparse.Namespace(**vars(args) | {"candidates": size}), task, model)


def main(argv: list[str] | None = None) -> int:
    """Measure, and print a table for each N."""
    args = parse(argv)
    torch.set_num_threads(args.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task = load_task(args)
    for size in args.candidates:
        samples = batches(args, task, device)
        found = measure(make_bench(args, task, size, device), samples, not args.no_memory)
        print(f"\n{args.checkpoint or args.model}, B = {args.sentences}, N = {size}, {device}\n")
        print(table(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

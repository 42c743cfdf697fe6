"""Time and memory of one risk update of a transformers model, beside a plain port.

ours    simile_plugin.hugging_face: its own search, sources encoded once, shared prefixes decoded
        once, no full logits
plain   generate, then one forward pass over sources repeated N + 1 times, with full logits

    python recipes/benchmarks/hf_update.py --model marian       # or m2m100, t5
    python recipes/benchmarks/hf_update.py --model m2m100 --layers 12 --width 1024 --batch 2 \\
        --vocabulary 256206 --target-pieces 20000                # NLLB-600M's shape

Prints a JSON line of seconds and one of MB: median, least and most of --rounds rounds, in each of
which both ways run, each in a process of its own; a ratio is of one round. Random weights and
random sentences; candidates are 8 beams, of up to 1.5 S + 10 tokens for S source tokens. Seconds
are the best of some updates (CPU time; on a GPU, in bfloat16, time by the clock); memory is the
growth of the peak, of the process or of the GPU's tensors, beyond the model and its gradients.
With --adam an update has AdamW's step, and memory counts gradients and moments, too: ours has those
of the rows of target pieces and sources, the plain port those of the whole matrix.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from simile_plugin import hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from simile_plugin.hugging_face import (
    CompactOutput,
    Scorer,
    SpecialTokens,
    TrainedRows,
    known_decoder,
    risk_set_of,
)
from simile_plugin.risk import Objective, RiskSet, RiskSettings


def peak(device: torch.device) -> int:
    """Largest memory so far, of the device's tensors or of this process, in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held(device: torch.device) -> int:
    """Memory now, in bytes; a model's making may have had more than it keeps."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def make(args: argparse.Namespace) -> tuple[Any, SpecialTokens, dict[str, torch.Tensor]]:
    """A model of random weights, and a batch."""
    from transformers import AutoModelForSeq2SeqLM as Model
    from transformers import M2M100Config, MarianConfig, T5Config

    torch.manual_seed(1)
    sides, heads, end, pad = ("encoder", "decoder"), args.width // 64, 0, 1
    # M2M-100 counts its positions from the padding on, so that its decoder must not start in it.
    start = end if args.model == "m2m100" else pad
    ids = {"vocab_size": args.vocabulary, "pad_token_id": pad, "eos_token_id": end}
    ids["decoder_start_token_id"] = start
    if args.model == "t5":
        sizes = {"d_model": args.width, "d_ff": 4 * args.width, "num_heads": heads}
        config = T5Config(**ids, **sizes, num_layers=args.layers)
    else:
        sizes = {"d_model": args.width, "max_position_embeddings": 512}
        sizes |= {f"{side}_layers": args.layers for side in sides}
        sizes |= {f"{side}_ffn_dim": 4 * args.width for side in sides}
        sizes |= {f"{side}_attention_heads": heads for side in sides}
        config = (MarianConfig if args.model == "marian" else M2M100Config)(**ids, **sizes)
    sentences = []
    for pieces in (args.vocabulary, args.target_pieces or args.vocabulary):
        rows = torch.randint(2, pieces, (args.batch, args.length))
        rows[:, -1] = end
        sentences.append(rows)
    inputs = {"input_ids": sentences[0], "attention_mask": torch.ones_like(sentences[0])}
    inputs["labels"] = sentences[1]
    model, device = Model.from_config(config).train().to(args.device), torch.device(args.device)
    if device.type == "cuda":
        model.bfloat16()
    inputs = {name: value.to(device) for name, value in inputs.items()}
    return model, SpecialTokens(start, end, pad, None), inputs


def generated(model: Any, special: SpecialTokens, inputs: Any, settings: RiskSettings) -> RiskSet:
    """The lists of transformers' own search, beside the references."""
    size, sources = settings.risk_candidates, inputs["input_ids"]
    longest = int(settings.risk_max_len_a * sources.size(1) + settings.risk_max_len_b)
    model.eval()
    rows = model.generate(
        sources, attention_mask=inputs["attention_mask"], num_beams=size, early_stopping=True,
        num_return_sequences=size, max_length=1 + longest, suppress_tokens=[special.pad],
        forced_eos_token_id=special.end,
    )[:, 1:].view(len(sources), size, -1)  # fmt: skip
    model.train()
    ended = rows.eq(special.end)
    rows = rows.masked_fill(ended.cumsum(-1) - ended.int() > 0, -100)
    tokens = rows.new_full((len(rows), 1 + size, max(rows.size(2), sources.size(1))), -100)
    tokens[:, 0, : sources.size(1)], tokens[:, 1:, : rows.size(2)] = inputs["labels"], rows
    members = torch.ones(tokens.shape[:2], dtype=torch.bool, device=rows.device)
    members[:, 0] = False
    return RiskSet(tokens, members)


def update(way: str, model, special, inputs, settings, decoder, output) -> None:  # type: ignore[no-untyped-def]
    """Candidates, their scores and the gradient of a loss over made-up rewards."""
    if way == "ours":
        risk_set = risk_set_of(decoder, inputs, settings, special, output)
    else:
        risk_set = generated(model, special, inputs, settings)
    tokens = risk_set.tokens
    if way == "ours":
        lprobs, means = Scorer(model, special)(inputs, risk_set, 0, output)
    else:
        rows = tokens.size(1)
        targets = tokens.flatten(0, 1)
        previous = targets.roll(1, -1)
        previous[:, 0] = special.start
        logits = model(
            input_ids=inputs["input_ids"].repeat_interleave(rows, 0),
            attention_mask=inputs["attention_mask"].repeat_interleave(rows, 0),
            decoder_input_ids=previous.masked_fill(previous.eq(-100), special.pad),
        ).logits
        every = torch.log_softmax(logits, -1)
        own = every.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        lprobs = own.masked_fill(targets.eq(-100), 0.0).view(tokens.shape)
        means = every.mean(-1).view(tokens.shape)[:, 0] * tokens[:, 0].ne(-100)
    generator = torch.Generator().manual_seed(2)
    reward = torch.rand(tokens.shape[:2], generator=generator).to(tokens.device)
    lengths = tokens[:, 0].ne(-100).sum(-1)
    loss, _ = Objective(0.3, 0.1, 10.0).loss(
        token_lprobs=lprobs,
        mean_lprobs=means,
        token_mask=tokens.ne(-100),
        members=risk_set.mask,
        reward=reward,
        length_cost=torch.zeros_like(reward),
        divisors=lengths,
        vocabulary=model.config.vocab_size if output is None else len(output),
    )
    loss.backward()


def measure(way: str, args: argparse.Namespace) -> dict[str, float]:
    """Seconds and bytes of one way, in this process."""
    model, special, inputs = make(args)
    settings = RiskSettings(risk_candidates=args.candidates)
    decoder = known_decoder(model, special)
    output = CompactOutput(model, range(args.target_pieces)) if args.target_pieces else None
    device = torch.device(args.device)
    if not args.adam:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    before, seconds = held(device), []
    recorded = 3 if device.type == "cuda" else 0  # updates until a GPU replays all steps
    with ExitStack() as stack:
        step = optimizer_step(way, model, inputs, output, stack) if args.adam else lambda: None
        for _ in range(recorded + args.updates):
            start = clock()
            update(way, model, special, inputs, settings, decoder, output)
            step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(clock() - start)
    # The kernel counts both to some pages, so that its peak can be below what was held before.
    return {"seconds": min(seconds), "mb": (max(peak(device), before) - before) / 1e6}


def optimizer_step(
    way: str, model: Any, inputs: Any, output: CompactOutput | None, stack: ExitStack
) -> Callable[[], None]:
    """AdamW's step as trainers make it; ours trains rows that occur, while the stack is open."""
    rows = None
    if way == "ours" and output is not None:
        sources = inputs["input_ids"].unique().tolist()
        rows = TrainedRows(model, {*output.place_of, *sources})
        stack.enter_context(output.training(rows))
    adam = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)

    def step() -> None:
        if rows is not None:
            rows.read()
        adam.step()
        if rows is not None:
            rows.write()
        model.zero_grad()

    return step


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for flag, default in (
        *(("--layers", 3), ("--width", 256), ("--vocabulary", 16000), ("--batch", 8)),
        *(("--length", 16), ("--candidates", 8), ("--updates", 2), ("--rounds", 3)),
    ):
        parser.add_argument(flag, type=int, default=default)
    parser.add_argument(
        "--target-pieces", type=int, default=0, help="of the target language, for ours (0: all)"
    )
    parser.add_argument("--adam", action="store_true", help="with gradients and AdamW's step")
    parser.add_argument("--model", choices=["marian", "m2m100", "t5"], default="marian")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--way", choices=["ours", "plain"])
    return parser.parse_args(argv)


def main() -> None:
    """Run both ways in turns and print them, with what each needed at least and at most."""
    args = parse()
    if args.way:
        print(json.dumps(measure(args.way, args)))
        return
    found: dict[str, list[dict[str, float]]] = {"plain": [], "ours": []}
    for _ in range(args.rounds):
        for way, measured in found.items():
            command = [sys.executable, *sys.argv, "--way", way]
            done = subprocess.run(command, check=True, capture_output=True)
            measured.append(json.loads(done.stdout))
    for key in ("seconds", "mb"):
        line: dict[str, Any] = {"model": args.model, "measured": key}
        for way, measured in found.items():
            values = sorted(one[key] for one in measured)
            line[way] = [round(v, 2) for v in (statistics.median(values), values[0], values[-1])]
        ratios = [
            ours[key] / plain[key]
            for plain, ours in zip(found["plain"], found["ours"], strict=True)
        ]
        line["ours / plain"] = [round(f(ratios), 3) for f in (statistics.median, min, max)]
        print(json.dumps(line))


if __name__ == "__main__":
    main()

"""Time and memory of one risk update of a transformers model, beside a plain port.

ours    simile_plugin.hugging_face: sources encoded once, shared prefixes decoded once, no full
        logits
plain   generate, then one forward pass over sources repeated N + 1 times, with full logits

    python recipes/benchmarks/hf_update.py                  # one JSON line a way, then the ratios

Random weights and random sentences; candidates are 8 beams, of up to 1.5 S + 10 tokens for S
source tokens. Each way runs in a process of its own. Seconds are the best of some updates (CPU
time); memory is the growth of the process's peak beyond the model and its gradients.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import torch

from simile_plugin import hugging_face  # noqa: F401 (before transformers, see its torchaudio.py)
from simile_plugin.hugging_face import Scorer, SpecialTokens, risk_set_of
from simile_plugin.risk import Objective, RiskSettings


def peak() -> int:
    """Largest memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def make(args: argparse.Namespace) -> tuple[object, SpecialTokens, dict[str, torch.Tensor]]:
    """A Marian model of random weights, and a batch."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(1)
    layers = {f"{side}_layers": args.layers for side in ("encoder", "decoder")}
    widths = {f"{side}_ffn_dim": 4 * args.width for side in ("encoder", "decoder")}
    heads = {f"{side}_attention_heads": args.width // 64 for side in ("encoder", "decoder")}
    pad = args.vocabulary - 1
    model = MarianMTModel(
        MarianConfig(
            vocab_size=args.vocabulary,
            d_model=args.width,
            pad_token_id=pad,
            eos_token_id=0,
            decoder_start_token_id=pad,
            **{**layers, **widths, **heads},
        )
    )
    length, batch = args.length, args.batch
    ids = torch.randint(2, pad, (batch, length))
    ids[:, -1] = 0
    labels = torch.randint(2, pad, (batch, length))
    labels[:, -1] = 0
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    return model.train(), SpecialTokens(pad, 0, pad, None), inputs


def update(way: str, model, special, inputs, settings) -> None:  # type: ignore[no-untyped-def]
    """Candidates, their scores and the gradient of a loss over made-up rewards."""
    risk_set = risk_set_of(model, inputs, settings, special)
    tokens = risk_set.tokens
    if way == "ours":
        lprobs, means = Scorer(model, special, "prefix trees")(inputs, risk_set)
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
    reward = torch.rand(tokens.shape[:2], generator=generator)
    lengths = tokens[:, 0].ne(-100).sum(-1)
    loss, _ = Objective(0.3, 0.1, 10.0).loss(
        *(lprobs, means, tokens.ne(-100), risk_set.mask, reward, torch.zeros_like(reward)),
        *(lengths, special.pad + 1),
    )
    loss.backward()


def measure(way: str, args: argparse.Namespace) -> dict[str, float | str]:
    """Seconds and bytes of one way, in this process."""
    model, special, inputs = make(args)
    settings = RiskSettings(risk_candidates=args.candidates)
    for parameter in model.parameters():  # type: ignore[attr-defined]
        parameter.grad = torch.zeros_like(parameter)
    before, seconds = peak(), []
    for _ in range(args.updates):
        start = time.process_time()
        update(way, model, special, inputs, settings)
        seconds.append(time.process_time() - start)
    return {"way": way, "seconds": min(seconds), "mb": (peak() - before) / 1e6}


def main() -> None:
    """Run both ways and print them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for flag, default in (
        *(("--layers", 3), ("--width", 256), ("--vocabulary", 16000), ("--batch", 8)),
        *(("--length", 16), ("--candidates", 8), ("--updates", 2)),
    ):
        parser.add_argument(flag, type=int, default=default)
    parser.add_argument("--way", choices=["ours", "plain"])
    args = parser.parse_args()
    if args.way:
        print(json.dumps(measure(args.way, args)))
        return
    found = []
    for way in ("plain", "ours"):
        command = [sys.executable, *sys.argv, "--way", way]
        found.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        print(json.dumps(found[-1]))
    plain, ours = found
    ratios = {key: round(ours[key] / plain[key], 3) for key in ("seconds", "mb")}
    print(json.dumps({"ours / plain": ratios}))


if __name__ == "__main__":
    main()

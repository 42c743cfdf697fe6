"""Peak memory of scoring a risk set with gradient: full logits beside sliced ones.

full    one model call, log-probabilities of all B x (N + 1) x T positions over the vocabulary
ours    simile_plugin.fairseq_training.scoring, everything at once
capped  the same with --risk-max-tokens
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from recipes.benchmarks.steps import make_model
from recipes.benchmarks.update import Clock, in_child
from simile_plugin.fairseq_training import score_rows
from simile_plugin.risk import RiskSet, teacher_forcing_input


def make_risk_set(args: argparse.Namespace, dictionary: Dictionary) -> RiskSet:
    """Random rows; lengths even from half the longest to the longest."""
    shape = (args.sentences, 1 + args.candidates, args.length)
    tokens = torch.randint(dictionary.nspecial, len(dictionary), shape)
    lengths = torch.randint(args.length // 2, args.length + 1, shape[:2]).unsqueeze(-1)
    place = torch.arange(args.length)
    tokens = torch.where(place == lengths - 1, dictionary.eos(), tokens)
    tokens = torch.where(place >= lengths, dictionary.pad(), tokens)
    return RiskSet(tokens, torch.ones(shape[:2], dtype=torch.bool))


def full(model: Any, sample: dict[str, dict[str, Tensor]], risk_set: RiskSet) -> Tensor:
    """Sum of the log-probabilities of all rows, by full logits."""
    rows = risk_set.tokens.flatten(0, 1)
    times = risk_set.tokens.size(1)
    source = {
        key: sample["net_input"][key].repeat_interleave(times, 0)
        for key in ("src_tokens", "src_lengths")
    }
    output = model(**source, prev_output_tokens=teacher_forcing_input(rows, 2, 1))
    lprobs = model.get_normalized_probs(output, log_probs=True)
    return (lprobs.gather(-1, rows.unsqueeze(-1)).squeeze(-1) * rows.ne(1)).sum()


def main(argv: list[str] | None = None) -> int:
    """Print one line a way of scoring."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--vocabulary", type=int, default=40000)
    add("--sentences", type=int, default=64)
    add("--candidates", type=int, default=8)
    add("--length", type=int, default=24, help="tokens of the longest row (default 24)")
    add("--max-tokens", type=int, default=2048, help="--risk-max-tokens of the third line")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    model, dictionary = make_model(2, 256, args.vocabulary)
    model.train()
    risk_set = make_risk_set(args, dictionary)
    source = risk_set.tokens[:, 0].clone().fill_(dictionary.nspecial)
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.full((len(source),), source.size(1)),
        "prev_output_tokens": teacher_forcing_input(risk_set.tokens[:, 0], 2, 1),
    }
    sample = {"net_input": net_input}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    ways = {
        "full": lambda: full(model, sample, risk_set),
        "ours": lambda: score_rows(model, sample, risk_set, 1)[0].sum(),
        "capped": lambda: score_rows(model, sample, risk_set, 1, args.max_tokens)[0].sum(),
    }
    print(f"V = {args.vocabulary}, B = {args.sentences}, N = {args.candidates}, "
          f"T = {args.length}, {int(risk_set.tokens.ne(1).sum())} tokens")  # fmt: skip
    for name, way in ways.items():
        clock = Clock(torch.device("cpu"))

        def work(way=way, clock=clock, name=name) -> None:  # type: ignore[no-untyped-def]
            with clock.phase("scoring"):
                way().backward()
            print(f"{name}: {clock.seconds['scoring']:.1f} s", end=", ", flush=True)

        print(f"peak {in_child(work) / 1e9:.2f} GB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

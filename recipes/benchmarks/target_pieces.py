"""What `--target-pieces` leaves out: probability, and lists of candidates that are other lists.

    python recipes/benchmarks/target_pieces.py MODEL --train train.de train.en --valid dev.de dev.en

Target pieces are chosen by the training's references alone, so that those of --valid show what text
needs that they have not seen. Prints a JSON line: references with a piece outside; the probability
outside, as the mean and the median over targets and its share above 1 %, of references and of the
best candidates; lists and best candidates that are others than over the whole vocabulary.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from simile_plugin.files import InputError
from simile_plugin.hugging_face import (
    CompactOutput,
    SpecialTokens,
    choose_output,
    known_decoder,
    load,
    read_pairs,
    risk_set_of,
    special_tokens,
)
from simile_plugin.risk import RiskSettings, teacher_forcing_input

PADDING = -100


def outside(
    output: CompactOutput, special: SpecialTokens, inputs: dict[str, Tensor], rows: Tensor
) -> list[float]:
    """Probability outside the pieces at each target of rows (B, T), one of each source."""
    previous = teacher_forcing_input(rows, special.start, PADDING)
    logits = output.model(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        decoder_input_ids=previous.masked_fill(previous.eq(PADDING), special.pad),
    ).logits
    inside = logits.double().softmax(-1).index_select(-1, output.ids).sum(-1)
    found: list[float] = (1 - inside).clamp(min=0)[rows.ne(PADDING)].tolist()
    return found


def as_lists(tokens: Tensor) -> list[list[list[int]]]:
    """Return the candidates of each source, without padding."""
    return [[[t for t in row if t != PADDING] for row in rows] for rows in tokens[:, 1:].tolist()]


def summary(probabilities: list[float]) -> dict[str, float]:
    """Return the mean, the median and the share above 1 %."""
    values = torch.tensor(probabilities)
    return {
        "mean": values.mean().item(),
        "median": values.median().item(),
        "above 0.01": values.gt(0.01).double().mean().item(),
    }


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Compare the target pieces with the whole vocabulary."""
    from transformers import DataCollatorForSeq2Seq

    model, tokenizer = load(args.model, args.source_lang, args.target_lang)
    special = special_tokens(model.eval(), tokenizer)
    train, valid = (
        read_pairs(tokenizer, paths, flag, 128)
        for flag, paths in (("--train", args.train), ("--valid", args.valid))
    )
    output = choose_output(args.target_pieces, model, tokenizer, special, [train])
    if output is None:
        raise InputError("--target-pieces: all; expected a FILE where a vocabulary is small")
    decoder, settings = known_decoder(model, special), RiskSettings(risk_candidates=args.candidates)
    references = [valid[index]["labels"] for index in range(len(valid))]
    unknown = sum(bool(output.unknown([reference])) for reference in references)
    of_references, of_best, lists, best = [], [], 0, 0
    batches = DataLoader(valid, args.batch, collate_fn=DataCollatorForSeq2Seq(tokenizer))
    for inputs in batches:
        whole, some = (
            risk_set_of(decoder, inputs, settings, special, pieces).tokens
            for pieces in (None, output)
        )
        with torch.no_grad():
            of_references += outside(output, special, inputs, whole[:, 0])
            of_best += outside(output, special, inputs, whole[:, 1])
        for one, other in zip(as_lists(whole), as_lists(some), strict=True):
            lists, best = lists + (one != other), best + (one[0] != other[0])
    return {
        "pieces": len(output),
        "vocabulary": len(output.places),
        "sentences": len(valid),
        "references with a piece outside": unknown,
        "outside, of references": summary(of_references),
        "outside, of best candidates": summary(of_best),
        "other lists": lists,
        "other best candidates": best,
    }


def main() -> None:
    """Read the flags and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("--train", nargs=2, required=True, metavar=("SRC", "REF"))
    parser.add_argument("--valid", nargs=2, required=True, metavar=("SRC", "REF"))
    parser.add_argument("--target-pieces", default="auto", help="auto or FILE")
    parser.add_argument("--source-lang")
    parser.add_argument("--target-lang")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--batch", type=int, default=20)
    print(json.dumps(measure(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()

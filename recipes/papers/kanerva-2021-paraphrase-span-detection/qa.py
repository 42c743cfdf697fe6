"""The model that the task comes with: an extractive question-answering head (extra [hf]).

    python qa.py train bert-base-cased --squad train.json --setup 2 --output qa
    python qa.py predict qa --squad test.json --setup 2 --output found.json

As in the paper's sections 3 and 4: query and document are one input; a document that is too long is
cut into slices that overlap by 128 tokens, the query never; a span's score is the sum of its first
token's and its last token's logits. A slice that does not hold the answer has the tokenizer's
[CLS] for span. In setup 2 the score of "it is missing" is the least that a slice gives it. The
defaults are the paper's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from measures import evaluate_finding
from questions import Question, Span, read_squad, squad

from simile_plugin.files import (
    InputError,
    Progress,
    as_script,
    atomic_write,
    check_outputs,
)

BATCH_SIZE = {1: 32, 2: 16}  # of a setup
LEARNING_RATE = {1: 3e-5, 2: 2e-5}


@dataclass(frozen=True)
class Slice:
    """A query and a part of a document, as one input.

    Attributes:
        inputs: what the model reads: a list of numbers of each name.
        places: of each token of the document where it begins and ends there; of others None.
        cls: which token stands for "missing".
    """

    inputs: dict[str, list[int]]
    places: list[tuple[int, int] | None]
    cls: int


def slices(tokenizer: Any, question: Question, longest: int, overlap: int) -> list[Slice]:
    """The inputs that a question is cut into.

    Raises:
        InputError: for a query that leaves no room for a slice.
    """
    size = len(tokenizer(question.query, add_special_tokens=False)["input_ids"])
    room = longest - tokenizer.num_special_tokens_to_add(pair=True) - overlap
    if size >= room:
        raise InputError(
            f"question {question.id}: the query has {size} tokens; expected less than {room}, so "
            f"that slices of {longest} tokens can overlap by {overlap} (--longest, --overlap)"
        )
    found = tokenizer(
        question.query,
        question.document,
        truncation=False,
        return_offsets_mapping=True,
        verbose=False,  # of its length: here it is cut, for versions of tokenizers cut differently
    )
    sides = found.sequence_ids()
    begin = sides.index(1) if 1 in sides else len(sides)
    end = begin + sides.count(1)
    whole = {name: found[name] for name in tokenizer.model_input_names if name in found}
    whole["places"] = [
        tuple(place) if side == 1 else None
        for place, side in zip(found["offset_mapping"], sides, strict=True)
    ]
    room = longest - (len(sides) - (end - begin))
    result = []
    for start in range(begin, max(begin + 1, end - overlap), room - overlap):
        stop = min(start + room, end)
        inputs = {k: row[:begin] + row[start:stop] + row[end:] for k, row in whole.items()}
        places, ids = inputs.pop("places"), inputs["input_ids"]
        cls = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else 0
        result.append(Slice(inputs, places, cls))
    return result


def target(question: Question, piece: Slice) -> tuple[int, int]:
    """First and last token of the answer, or twice that of "missing" where it is not all there."""
    if not question.answers:
        return piece.cls, piece.cls
    assert question.start is not None
    text = question.answers[0]  # white space at its edges is no token's
    start = question.start + len(text) - len(text.lstrip())
    end = question.start + len(text.rstrip())
    inside = [
        token
        for token, place in enumerate(piece.places)
        if place and place[0] < end and place[1] > start
    ]
    there = [place for place in piece.places if place]
    if not inside or there[0][0] > start or there[-1][1] < end:
        return piece.cls, piece.cls
    return inside[0], inside[-1]


def best_span(piece: Slice, first: torch.Tensor, last: torch.Tensor) -> Span:
    """The span of a slice with the highest sum of logits, exact, in one pass; -inf of no token.

    Args:
        first, last: (T) logits of each token to be the span's first or last one.
    """
    inside = torch.tensor([place is not None for place in piece.places])
    if not inside.any():
        return Span(0, 0, float("-inf"))
    before, start = first.masked_fill(~inside, float("-inf")).cummax(0)
    sums = before + last.masked_fill(~inside, float("-inf"))
    end = int(sums.argmax())
    left, right = piece.places[int(start[end])], piece.places[end]
    assert left and right
    return Span(left[0], right[1], float(sums[end]))


def merge(
    pieces: Sequence[Slice], logits: Sequence[tuple[torch.Tensor, torch.Tensor]], setup: int
) -> Span:
    """The best span of all slices; in setup 2 its score is what it has more than "missing"."""
    best = max(
        (best_span(piece, *pair) for piece, pair in zip(pieces, logits, strict=True)),
        key=lambda span: span.score,
    )
    if setup == 1:
        return best
    missing = min(
        float(first[piece.cls] + last[piece.cls])
        for piece, (first, last) in zip(pieces, logits, strict=True)
    )
    return Span(best.start, best.end, best.score - missing)


def train(args: argparse.Namespace) -> None:
    """Fine-tune a model; the folder then has model and tokenizer."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    questions = read_questions(args)
    if Path(args.output).exists():
        raise InputError(f"--output: {args.output} is there already; name another folder")
    tokenizer, model = load(args)
    examples = []
    for question in questions:
        for piece in slices(tokenizer, question, args.longest, args.overlap):
            first, last = target(question, piece)
            examples.append(piece.inputs | {"start_positions": first, "end_positions": last})
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            args.output,
            per_device_train_batch_size=args.batch_size or BATCH_SIZE[args.setup],
            learning_rate=args.learning_rate or LEARNING_RATE[args.setup],
            num_train_epochs=args.epochs,
            save_strategy="no",
            seed=args.seed,
            report_to="none",
        ),
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=examples,
    )
    trainer.train()
    trainer.save_model(args.output)


def predict(args: argparse.Namespace) -> None:
    """Find the span of each question, write it in SQuAD's layout, print how good they are."""
    questions = read_questions(args)
    tokenizer, model = load(args)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).eval()
    found = []
    with Progress(len(questions), " questions") as bar, torch.inference_mode():
        for question in questions:
            pieces = slices(tokenizer, question, args.longest, args.overlap)
            logits = []
            for piece in pieces:
                own = model(
                    **{k: torch.tensor([v], device=device) for k, v in piece.inputs.items()}
                )
                logits.append((own.start_logits[0].float().cpu(), own.end_logits[0].float().cpu()))
            found.append(merge(pieces, logits, args.setup))
            bar.update()
    threshold = float("-inf") if args.setup == 1 else 0.0
    with atomic_write(args.output) as stream:
        json.dump(squad(questions, found, threshold), stream, indent=1)
    if all(question.answers is not None for question in questions):
        own = evaluate_finding(questions, found, threshold)
        print(
            f"{own.questions:,} questions, {own.missing:,} missing: exact {own.exact:.1f}, "
            f"F1 {own.f1:.1f}, said missing {own.said_missing:.1f} %"
        )


def read_questions(args: argparse.Namespace) -> list[Question]:
    """The file's questions; in training, and in setup 1, it has to know what it is about."""
    questions = read_squad(args.squad, "--squad")
    for question in questions:
        if args.step == "train" and question.answers is None:
            raise InputError(
                f"--squad: {args.squad}: question {question.id} has no answers and no is_impossible"
            )
        if args.setup == 1 and question.answers == ():
            raise InputError(
                f"--squad: {args.squad}: question {question.id} is not in its document; "
                "expected --setup 2"
            )
    return questions


def load(args: argparse.Namespace) -> tuple[Any, Any]:
    """The tokenizer, which has to say where in a text its tokens are, and the model."""
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer, set_seed

    set_seed(args.seed)  # a head that the model lacks is drawn
    try:
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        model = AutoModelForQuestionAnswering.from_pretrained(args.model)
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0][:300]
        raise InputError(f"MODEL: {args.model} cannot be loaded: {reason}") from error
    if not tokenizer.is_fast:
        raise InputError(f"MODEL: {args.model} has no fast tokenizer, which knows tokens' places")
    return tokenizer, model


@as_script
def main(arguments: Sequence[str] | None = None) -> None:
    """Exit status 2 and one line for bad input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("step", choices=("train", "predict"))
    add("model", metavar="MODEL", help="folder, or name on the hub")
    add("--squad", required=True, metavar="FILE", help="questions in SQuAD's layout")
    add("--output", required=True, metavar="PATH", help="train: folder; predict: JSON")
    add("--setup", type=int, choices=(1, 2), default=2, help="2: answers may be missing (default)")
    add("--longest", type=int, default=512, help="tokens of an input (default 512)")
    add("--overlap", type=int, default=128, help="tokens that slices share (default 128)")
    add("--batch-size", type=int, help="slices an update (default 32 in setup 1, 16 in setup 2)")
    add("--learning-rate", type=float, help="default 3e-5 in setup 1, 2e-5 in setup 2")
    add("--epochs", type=float, default=2, help="default 2")
    add("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    inputs = [args.model, args.squad]
    check_outputs({"--output": args.output}, inputs, folders=args.step == "train")
    import_module("simile_plugin.hugging_face")  # hides a broken torchaudio
    (train if args.step == "train" else predict)(args)


if __name__ == "__main__":
    sys.exit(main())

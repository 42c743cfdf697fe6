"""Count the files and functions of the package that one warm update or command runs through.

    python -m recipes.benchmarks.walk --data BIN --encoder ENCODER --checkpoint MODEL.pt
    python -m recipes.benchmarks.walk --hf MODEL --encoder ENCODER
    python -m recipes.benchmarks.walk --command "score -r REF -i HYP --encoder ENCODER"

The first line walks from a sample of fairseq to its gradient, the second from a batch of
transformers to its gradient; MODEL is a folder with its tokenizer. The third walks through a
`simile` command. The work runs once before, so that what is set up once does not count. A function
counts at its first call. A stay is a run of functions of one file; a return is a stay in a file
that was left before. The last line leaves out what a command does before its work: flags, loading.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Callable, Collection
from io import BytesIO, TextIOWrapper
from itertools import groupby
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "simile_plugin"
SET_UP = {"add_arguments", "read_flags", "Reward.__init__", "load_encoder", "load_learned"}
SET_UP.add("imported_later.<locals>.find")
SOURCES = ("ein hund rennt über die wiese .", "zwei kinder spielen im garten mit einem ball .")
TARGETS = ("a dog runs across the meadow .", "two children play in the garden with a ball .")


def walk(
    work: Callable[[], object], package: Path = PACKAGE, left_out: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Run ``work`` and return (file, function) of the package in the order of first calls.

    Comprehensions and lambdas belong to the function around them.

    left_out: names of functions that are not noted, nor what they call.
    """
    seen: dict[tuple[str, str, int], None] = {}
    folder = f"{package}/"
    inside: FrameType | None = None  # the call that is left out

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal inside
        code = frame.f_code
        if inside is not None:
            inside = None if event == "return" and frame is inside else inside
        elif event == "call" and code.co_filename.startswith(folder) and code.co_name[0] != "<":
            if code.co_qualname in left_out:
                inside = frame
                return
            file = code.co_filename.removeprefix(folder)
            seen.setdefault((file, code.co_qualname, code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return [(file, name) for file, name, _ in seen]


def counts(steps: list[tuple[str, str]]) -> dict[str, int]:
    """Return the numbers of files, functions, and returns to a file left."""
    stays = [file for file, _ in groupby(steps, key=lambda step: step[0])]
    files = len(set(stays))
    return {"files": files, "functions": len(steps), "returns": len(stays) - files}


def fairseq_update(args: argparse.Namespace) -> Callable[[], object]:
    """Return what computes the gradient of one sample."""
    import torch

    from recipes.benchmarks import update

    flags = ["--data", args.data, "--encoder", args.encoder, "--checkpoint", args.checkpoint]
    settings = update.parse([*flags, "--updates", "1", "--sentences", "8"])
    device = torch.device("cpu")
    task = update.load_task(settings)
    bench = update.make_bench(settings, task, 8, device)
    bench.model.train()
    [sample] = update.batches(settings, task, device)
    return lambda: bench.criterion(bench.model, sample)[0].backward()


def hugging_face_update(args: argparse.Namespace) -> Callable[[], object]:
    """Return what computes the gradient of one batch."""
    from simile_plugin import hugging_face  # before transformers: hides a broken torchaudio

    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer  # isort: skip

    model = AutoModelForSeq2SeqLM.from_pretrained(args.hf).train()
    tokenizer = AutoTokenizer.from_pretrained(args.hf)
    settings = hugging_face.SimileRiskArguments(
        tempfile.mkdtemp(), simile_encoder=args.encoder, risk_candidates=8, use_cpu=True,
        report_to=[],
    )  # fmt: skip
    trainer = hugging_face.SimileRiskTrainer(model, settings, processing_class=tokenizer)
    rows = [tokenizer(s, text_target=t) for s, t in zip(SOURCES, TARGETS, strict=True)]
    batch = trainer.data_collator(rows)
    return lambda: trainer.compute_loss(model, batch).backward()


def command_run(line: str) -> Callable[[], object]:
    """Return what runs a `simile` command, whose output is thrown away.

    Raises:
        RuntimeError: when it runs, for a command that fails.
    """
    from simile_plugin.cli import main as simile

    def run() -> None:
        with TextIOWrapper(BytesIO()) as nowhere, contextlib.redirect_stdout(nowhere):
            status = simile(shlex.split(line))
        if status:
            raise RuntimeError(f"simile {line}: exit status {status}")

    return run


def main(argv: list[str] | None = None) -> int:
    """Print the walk, a line for each function, and its counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--command", help="walk through this `simile` command, quoted as one")
    parser.add_argument("--encoder", help="folder of the reward encoder")
    parser.add_argument("--data", help="folder made by fairseq-preprocess")
    parser.add_argument("--checkpoint", help="fairseq's model")
    parser.add_argument("--hf", help="folder of a transformers model; default: walk fairseq")
    args = parser.parse_args(argv)
    if not args.command and not (args.encoder and (args.hf or (args.data and args.checkpoint))):
        parser.error("give --command, or --encoder and --hf, or --encoder, --data and --checkpoint")
    if args.command:
        run = command_run(args.command)
    else:
        run = hugging_face_update(args) if args.hf else fairseq_update(args)
    run()
    steps = walk(run)
    for file, name in steps:
        print(f"{file}\t{name}")
    for start, noted in (("", steps), ("without set-up: ", walk(run, left_out=SET_UP))):
        print(start + ", ".join(f"{number} {what}" for what, number in counts(noted).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

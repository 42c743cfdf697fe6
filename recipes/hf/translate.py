"""Translates a file by a model's `generate`: beam search, one line a sentence.

A source with more tokens than the model can read is cut, and how many are is said.
"""

from __future__ import annotations

import argparse
import math
import sys

import torch

from simile_plugin.files import as_script, atomic_write, read_lines, refuse_overwriting_input

# Before transformers: hides a broken torchaudio.
from simile_plugin.hugging_face import (
    prefix_warning,
    saved_prefix,
    silent_ids,
    special_tokens,
    table_size,
    tag_warning,
)


@as_script
def main() -> None:
    """Read, translate in batches of similar length, write in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("output")
    for side in ("source", "target"):
        text = "where the tokenizer of MODEL was not saved with its languages"
        parser.add_argument(f"--{side}-lang", metavar="CODE", help=text)
    parser.add_argument(
        "--prefix",
        help="put before every source (default: that of finetune-hf, where it made MODEL)",
    )
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=50)
    args = parser.parse_args()
    refuse_overwriting_input(args.output, [args.input, args.model], "output")
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    languages = {"src_lang": args.source_lang, "tgt_lang": args.target_lang}
    given = {name: code for name, code in languages.items() if code is not None}
    tokenizer = AutoTokenizer.from_pretrained(args.model, **given)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model).to(device).eval()
    first = special_tokens(model, tokenizer).first
    prefix = saved_prefix(args.model) if args.prefix is None else args.prefix
    sources = [prefix + line if line.strip() else "" for line in read_lines(args.input, "input")]
    for doubt in filter(None, (prefix_warning(tokenizer, prefix), tag_warning(tokenizer, sources))):
        print(f"translate.py: warning: {doubt}", file=sys.stderr)
    some = [i for i, source in enumerate(sources) if source]  # of an empty line an empty one
    order = sorted(some, key=lambda i: len(sources[i]))
    found, cut = [""] * len(sources), 0
    readable, writable = table_size(model, "encoder"), table_size(model, "decoder")
    silent = silent_ids(tokenizer)
    limit = {} if readable == math.inf else {"truncation": True, "max_length": int(readable)}
    for start in range(0, len(order), args.batch_size):
        rows = order[start : start + args.batch_size]
        texts = [sources[i] for i in rows]
        cut += sum(len(ids) > readable for ids in tokenizer(texts, verbose=False)["input_ids"])
        batch = tokenizer(texts, return_tensors="pt", padding=True, **limit).to(device)
        length = int(min(1.5 * batch["input_ids"].size(1) + 10, writable))
        ids = model.generate(**batch, **first, num_beams=args.beam, max_new_tokens=length)
        # Some configs ask to take the space from "gare ?", which training does not do either.
        flags = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        kept = [[token for token in row if token not in silent] for row in ids.tolist()]
        texts = tokenizer.batch_decode(kept, **flags)
        for i, text in zip(rows, texts, strict=True):
            found[i] = " ".join(text.split())
    if cut:
        print(
            f"translate.py: warning: {args.input}: {cut} of {len(sources)} sentences are longer "
            f"than the {readable} tokens that {args.model} can read; they were cut",
            file=sys.stderr,
        )
    with atomic_write(args.output) as stream:
        stream.write("".join(f"{line}\n" for line in found))


if __name__ == "__main__":
    sys.exit(main())

"""Translates a file by a model's `generate`: beam search, one line a sentence."""

from __future__ import annotations

import argparse

import torch

from simile_plugin import hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from simile_plugin.files import atomic_write, read_lines


def main() -> None:
    """Read, translate in batches of similar length, write in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=50)
    args = parser.parse_args()
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model).to(device).eval()
    sources = read_lines(args.input, "input")
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found = [""] * len(sources)
    for start in range(0, len(order), args.batch_size):
        rows = order[start : start + args.batch_size]
        batch = tokenizer([sources[i] for i in rows], return_tensors="pt", padding=True).to(device)
        length = int(1.5 * batch["input_ids"].size(1) + 10)
        ids = model.generate(**batch, num_beams=args.beam, max_new_tokens=length)
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        for i, text in zip(rows, texts, strict=True):
            found[i] = " ".join(text.split())
    with atomic_write(args.output) as stream:
        stream.write("".join(f"{line}\n" for line in found))


if __name__ == "__main__":
    main()

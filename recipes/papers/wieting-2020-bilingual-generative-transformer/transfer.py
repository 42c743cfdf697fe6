"""Style transfer (thesis, 5.7): write what one sentence says the way another one says it.

transfer.py CHECKPOINT --data BIN --sentencepiece MODEL --side 0 --meaning FILE [--style FILE]

Line i is written from z_sem of line i of --meaning, of either language, and z_language of line i of
--style, which is of the language that is written: --side 0 is that of --source-lang, 1 that of
--target-lang. Without --style the language variable is the prior's mean: a translation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from simile_plugin.contrib.bgt import check_pieces, read_bgt
from simile_plugin.encoder import Preprocessing, Segmenter
from simile_plugin.files import InputError, as_script, read_bytes, read_parallel

BATCH, LONGEST = 64, 100  # sentences written together, pieces of each


def token_ids(model: Any, segmenter: Segmenter, sentences: Sequence[str]) -> Tensor:
    """Ids (B, T) of the model's dictionary, each sentence with its end, padded behind."""
    pieces, dictionary = segmenter.model.pieces, model.dictionary
    rows = [
        torch.tensor([*(dictionary.index(pieces[i]) for i in row), dictionary.eos()])
        for row in segmenter.encode(sentences)
    ]
    return pad_sequence(rows, batch_first=True, padding_value=model.pad)


@torch.no_grad()
def transfer(
    model: Any,
    segmenter: Segmenter,
    meanings: Sequence[str],
    side: int,
    styles: Sequence[str] | None = None,
    *,
    longest: int = LONGEST,
) -> list[str]:
    """The likeliest next piece, again and again, from the means of z.

    Args:
        model: of read_bgt; segmenter: of its training text.
        meanings, styles: a sentence each; no styles make a translation.
        side: language to write, 0 of --source-lang, 1 of --target-lang.

    Raises:
        InputError: if the model cannot do that.
    """
    if side not in model.variant.sides or (styles is not None and not model.variant.language):
        raise InputError(
            f"--bgt-ablation {model.cfg.bgt_ablation}: that model "
            + ("has no language variable" if styles is not None else f"writes no side {side}")
        )
    language = None
    if styles is not None:
        language = model.read(model.language[side], token_ids(model, segmenter, styles)).mean
    semantic = model.read(model.semantic, token_ids(model, segmenter, meanings)).mean
    latent, end = model.beside(semantic, language), model.dictionary.eos()
    written = torch.zeros(len(meanings), 0, dtype=torch.int64)
    ended = torch.zeros(len(meanings), dtype=torch.bool)
    while written.shape[1] < longest and not bool(ended.all()):
        logits = model.write(side, latent, written)[:, -1]
        logits[:, model.pad] = -torch.inf
        following = logits.argmax(1).masked_fill(ended, end)
        ended |= following == end
        written = torch.cat([written, following[:, None]], 1)
    text = [model.dictionary.string(row, "sentencepiece") for row in written]
    return [" ".join(line.split()) for line in text]


@as_script
def main() -> None:
    """Read the flags, print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--data", required=True, metavar="BIN", help="folder it was trained on")
    parser.add_argument("--sentencepiece", required=True, metavar="MODEL", help="of its pieces")
    parser.add_argument("--side", type=int, choices=(0, 1), required=True)
    parser.add_argument("--meaning", required=True, metavar="FILE")
    parser.add_argument("--style", metavar="FILE")
    args = parser.parse_args()
    files = [(args.meaning, "--meaning"), (args.style, "--style")]
    meanings, *styles = read_parallel([file for file in files if file[0] is not None])
    if not meanings:
        raise InputError(f"--meaning: {args.meaning} is empty, expected a sentence a line")
    proto = read_bytes(args.sentencepiece, "--sentencepiece")
    model, segmenter = read_bgt(args.checkpoint, args.data), Segmenter(proto, Preprocessing())
    check_pieces(model.dictionary, segmenter)
    for start in range(0, len(meanings), BATCH):
        part = slice(start, start + BATCH)
        some = (lines[part] for lines in styles)  # none, or of the one file
        print(*transfer(model, segmenter, meanings[part], args.side, *some), sep="\n")


if __name__ == "__main__":
    sys.exit(main())

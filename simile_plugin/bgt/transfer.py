"""Writing a sentence from two others: what one says, the way the other says it (5.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from simile_plugin.bgt.checkpoints import check_pieces
from simile_plugin.encoder import Segmenter
from simile_plugin.files import InputError


class Voices:
    """A BGT that writes from z_sem of one sentence and z_language of another.

    Args:
        model: of read_bgt.
        segmenter: of its training text.

    Raises:
        InputError: if the pieces are not those of the dictionary.
    """

    def __init__(self, model: Any, segmenter: Segmenter) -> None:
        check_pieces(model.dictionary, segmenter)
        self.model, self.segmenter = model, segmenter
        self.end = model.dictionary.eos()

    def ids(self, sentences: Sequence[str]) -> Tensor:
        """Ids (B, T) of the dictionary, each sentence with its end, padded behind."""
        pieces, dictionary = self.segmenter.model.pieces, self.model.dictionary
        rows = [
            torch.tensor([*(dictionary.index(pieces[i]) for i in row), self.end])
            for row in self.segmenter.encode(sentences)
        ]
        return pad_sequence(rows, batch_first=True, padding_value=self.model.pad)

    @torch.no_grad()
    def write(
        self,
        meanings: Sequence[str],
        side: int,
        styles: Sequence[str] | None = None,
        longest: int = 100,
    ) -> list[str]:
        """The likeliest next piece, again and again, from the means of z.

        Args:
            meanings: sentences of either language, for z_sem.
            side: language to write, 0 of --source-lang, 1 of --target-lang.
            styles: sentences of that language, for z_language; None for the prior's mean, which
                makes a translation.
            longest: pieces of a sentence.

        Raises:
            InputError: if the model cannot do that.
        """
        model = self.model
        if side not in model.variant.sides or (styles is not None and not model.variant.language):
            raise InputError(
                f"--bgt-ablation {model.cfg.bgt_ablation}: that model "
                + ("has no language variable" if styles is not None else f"writes no side {side}")
            )
        language = None
        if styles is not None:
            language = model.read(model.language[side], self.ids(styles)).mean
        semantic = model.read(model.semantic, self.ids(meanings)).mean
        latent = model.beside(semantic, language)
        written = torch.zeros(len(meanings), 0, dtype=torch.int64)
        ended = torch.zeros(len(meanings), dtype=torch.bool)
        while written.shape[1] < longest and not bool(ended.all()):
            logits = model.write(side, latent, written)[:, -1]
            logits[:, model.pad] = -torch.inf
            following = logits.argmax(1).masked_fill(ended, self.end)
            ended |= following == self.end
            written = torch.cat([written, following[:, None]], 1)
        text = [model.dictionary.string(row, "sentencepiece") for row in written]
        return [" ".join(line.split()) for line in text]

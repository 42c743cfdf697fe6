"""Scores of lists of candidates, and what is refused as lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder import to_device
from simile_plugin.files import InputError, find_surrogate

# An unknown target token: one mark each, for hypothesis and reference must not match on it, nor in
# its characters. NFKC leaves both alone, and so does sentencepiece, which drops U+FFFD.
UNKNOWN_HYP = "\u241a"
UNKNOWN_REF = "\u2421"


@dataclass
class ListScores:
    """Every score of B lists of N candidates against their references.

    Attributes:
        bleu_stats: (B, N, 10) int64, sacreBLEU's sufficient statistics in its order.
        bleu: (B, N) sentence BLEU in [0, 1], +1 on orders 2 to 4.
        sim: (B, N) cosine in [-1, 1], or None without an encoder.
        simile: (B, N) LP^alpha * SIM, or None without an encoder.
        length_penalty: (B, N) LP in [0, 1], or None without an encoder.
        unknown_pieces: tokens of the references that the encoder does not know; what a model says
            is no sign of its language.
        tokens: all their tokens; not the lengths where those count something else.
        chrf_stats: (B, N, 18 or 24) int64 of :func:`list_chrf_statistics`, or None if not asked
            for; so are the next two.
        chrf: (B, N) chrF in [0, 1].
        chrfpp: (B, N) chrF++ in [0, 1].
        learned: (B, N) the learned reward in [0, 1], or None if not asked for.
        source: (B, N) nearness to the source in [0, 1], or None if not asked for.
    """

    bleu_stats: Tensor
    bleu: Tensor
    sim: Tensor | None = None
    simile: Tensor | None = None
    length_penalty: Tensor | None = None
    unknown_pieces: int = 0
    tokens: int = 0
    chrf_stats: Tensor | None = None
    chrf: Tensor | None = None
    chrfpp: Tensor | None = None
    learned: Tensor | None = None
    source: Tensor | None = None

    @property
    def unknown_share(self) -> float:
        """Share of the references' tokens that the encoder does not know, in [0, 1]."""
        return self.unknown_pieces / max(1, self.tokens)

    def to(self, device: torch.device) -> ListScores:
        """The same on a device, without waiting for it."""
        held = {k: v for k, v in vars(self).items() if isinstance(v, Tensor)}
        tensors: dict[str, Any] = {name: to_device(v, device) for name, v in held.items()}
        return replace(self, **tensors)


def refuse_text(texts: Sequence[Any], what: str) -> None:
    """Raise InputError for one string in place of a list: its letters would be the texts."""
    if isinstance(texts, str):
        raise InputError(f"got {texts[:60]!r} as {what}; expected a list of strings")


def refuse_surrogates(texts: Iterable[str], what: str) -> None:
    """Raise InputError for half of a UTF-16 pair: it is no character, and no text can hold it."""
    for number, text in enumerate(texts, 1):
        if (place := find_surrogate(text)) >= 0:
            raise InputError(
                f"{what}: number {number} has {text[place]!r}, half of a pair of UTF-16, at "
                f"character {place + 1}; expected text, see str.encode(errors='replace')"
            )


def check_lists(hyps: Sequence[Sequence[str]], refs: Sequence[str]) -> None:
    """Raise InputError unless there is a list a reference, and all are of one length."""
    refuse_text(refs, "references")
    for candidates in hyps:
        refuse_text(candidates, "the candidates of a list")
    if len(hyps) != len(refs):
        raise InputError(f"got {len(hyps)} candidate lists for {len(refs)} references")
    if len({len(candidates) for candidates in hyps}) > 1:
        raise InputError("candidate lists differ in length; pad them with empty strings")

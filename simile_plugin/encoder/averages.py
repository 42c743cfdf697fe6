"""From the embeddings of a sentence's tokens to its vector: their mean, or several means mixed.

Unknown tokens have been taken out before. A sentence without a known token is the zero vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simile_plugin.encoder.kinds import find_kind
from simile_plugin.encoder.tokens import MIX
from simile_plugin.files import InputError

MIXTURES = ("add", "concat")


class Composer(nn.Module):
    """Base of all kinds: embeddings of tokens -> the vector of their sentence."""

    kind: str  # a key of kinds.KINDS, or several with + between them
    dim: int  # length D of a sentence vector

    @property
    def is_mean(self) -> bool:
        """True where the vector is the mean and nothing more."""
        return type(self) is Average

    @property
    def settings(self) -> dict[str, Any]:
        """Settings beside the kind, as in `config.json`; make_composer takes them."""
        return {}

    def forward(self, weight: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
        """Return sentence vectors (U, D).

        Args:
            weight: (V, E) embeddings.
            ids: (P,) known tokens of all sentences, one after the other.
            starts: (U,) where each sentence begins among them.
        """
        raise NotImplementedError


class Average(Composer):
    """The mean of the embeddings (SP, WORD, TRIGRAM); subclasses are functions of means."""

    def __init__(self, kind: str, dim: int) -> None:
        super().__init__()
        self.kind, self.dim = kind, dim

    def forward(self, weight: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
        """Return sentence vectors (U, D), as Composer.forward."""
        bags = self.bags(ids, starts)
        means = F.embedding_bag(ids, weight, bags, mode="mean")
        return self.of_means(means, torch.diff(bags, append=bags.new_full((1,), len(ids))))

    def of_means(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Return sentence vectors (U, D).

        Args:
            means: of the bags; an empty bag has mean zero.
            lengths: tokens of each bag.
        """
        return means

    def bags(self, ids: Tensor, starts: Tensor) -> Tensor:
        """Return the start of each bag of which `of_means` needs the mean: of each sentence."""
        return starts


class Mixture(Average):
    """Sum, or concatenation, of the vectors of several bags of tokens of one sentence.

    Its tokens are those of a MixedTokenizer; the tokens of each part are a bag.

    Args:
        parts: composer of each part.
        sizes: number of ids of each part.
        mix: "add" or "concat".
    """

    bounds: Tensor

    def __init__(self, parts: Sequence[Average], sizes: Sequence[int], mix: str) -> None:
        kind = MIX.join(part.kind for part in parts)
        super().__init__(kind, sum(p.dim for p in parts) if mix == "concat" else parts[0].dim)
        self.parts = nn.ModuleList(parts)
        self.mix = mix
        self.register_buffer("bounds", torch.tensor(sizes).cumsum(0)[:-1], persistent=False)

    @property
    def settings(self) -> dict[str, Any]:
        """The mix."""
        return {"mix": self.mix}

    def of_means(self, means: Tensor, lengths: Tensor) -> Tensor:
        """Return sentence vectors (U, D) of the parts' bags in turn, (U * parts, E)."""
        count = len(self.parts)
        vectors = [
            part.of_means(means[number::count], lengths[number::count])  # type: ignore[operator]
            for number, part in enumerate(self.parts)
        ]
        return torch.cat(vectors, 1) if self.mix == "concat" else torch.stack(vectors).sum(0)

    def bags(self, ids: Tensor, starts: Tensor) -> Tensor:
        """Return the starts of the bags (U * parts,): the first sentence's parts, the second's."""
        # In training ids are on the CPU, whatever the device of the weights.
        part_of = torch.bucketize(ids, self.bounds.to(ids.device), right=True)
        # before[n][i]: tokens of parts below n among the first i. They precede a part's bag.
        before = [F.pad((part_of < number).cumsum(0), (1, 0)) for number in range(len(self.parts))]
        ends = torch.cat([starts[1:], starts.new_tensor([len(ids)])])
        return torch.stack([starts + count[ends] - count[starts] for count in before], 1).flatten()


def make_composer(
    kind: str, dim: int, settings: dict[str, Any] | None = None, sizes: Sequence[int] = ()
) -> Composer:
    """Return the composer of a kind.

    Args:
        dim: of the embeddings.
        settings: "mix" of a mixture; other kinds have settings that their `make` reads.
        sizes: number of ids of each part of a mixture.

    Raises:
        InputError: for an unknown kind, or settings that it does not have.
    """
    make, settings = find_kind(kind).make, dict(settings or {})
    if MIX in kind:
        mix = settings.pop("mix", "add")
        if mix not in MIXTURES or settings:
            raise InputError(f"mix: got {mix!r} {settings or ''}, expected {' or '.join(MIXTURES)}")
        parts = [make_composer(part, dim) for part in kind.split(MIX)]
        return Mixture([part for part in parts if isinstance(part, Average)], sizes, mix)
    if make is not None:
        composer: Composer = make(dim, settings)
        return composer
    if settings:
        raise InputError(f"{', '.join(settings)}: no setting of a {kind} encoder")
    return Average(kind, dim)

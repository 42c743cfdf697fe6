"""The fairseq model ``bgt``: three inference networks, two decoders, and its ablations."""

# No "from __future__ import annotations": fairseq reads the config's types at run time.
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn

from simile_plugin.contrib.bgt.elbo import EVALUATION_SEED, Posterior, alternate, chosen
from simile_plugin.contrib.bgt.networks import (
    ATTENTION,
    LOGIT,
    PLACES,
    InferenceNetwork,
    LatentDecoder,
)
from simile_plugin.contrib.encoder_kinds import LONGEST, TransformerComposer
from simile_plugin.files import InputError

SIDES = ("src", "tgt")


@dataclass(frozen=True)
class Variant:
    """Parts of a model (5.6.1).

    Attributes:
        language: whether it has language variables.
        prior: whether posteriors are Gaussians, held to N(0, I).
        sides: which sides it writes, of 0 (source) and 1 (target).
    """

    language: bool
    prior: bool
    sides: tuple[int, ...] = (0, 1)


VARIANTS = {
    "none": Variant(language=True, prior=True),
    "no-prior": Variant(language=True, prior=False),
    "variational": Variant(language=False, prior=True),
    "multilingual-translation": Variant(language=False, prior=False),
    "english-translation": Variant(language=False, prior=False, sides=(1,)),
}


@dataclass(frozen=True)
class Written:
    """Outputs of a model for a batch.

    Attributes:
        generation: (side, logits (B, T, V)) of the lower bound, from samples of z.
        posteriors: (name, q), each held to the prior: "sem", "src", "tgt"; of --bgt-ablation
            variational "sem" of each side.
        translation: (side, logits) from the other side's semantic mean alone.
    """

    generation: list[tuple[int, Tensor]]
    posteriors: list[tuple[str, Posterior]]
    translation: list[tuple[int, Tensor]]


def flag(default: Any, help: str) -> Any:
    """The field of a flag."""
    return field(default=default, metadata={"help": help})


@dataclass
class BgtConfig(FairseqDataclass):
    """Flags of ``--arch bgt``; defaults are the text's, where it has them."""

    bgt_ablation: str = flag(
        "none",
        "none: the BGT; no-prior: without prior and KL; variational: translation both ways with a "
        "prior, no language variables; multilingual-translation: the same without prior; "
        "english-translation: from --source-lang to --target-lang only",
    )
    bgt_dim: int = flag(1024, "embeddings and states (paper: 1024)")
    bgt_latent: int = flag(1024, "length of z_sem and of each language variable")
    bgt_encoder_layers: int = flag(5, "of each inference network (paper: 5)")
    bgt_decoder_layers: int = flag(1, "of each decoder (paper: 1)")
    bgt_ffn: int = flag(2048, "inner size of feedforward layers (paper, for MGT: 2048)")
    bgt_heads: int = flag(16, "of attention (paper, for MGT: 16)")
    bgt_places: str = flag(
        f"{ATTENTION}+{LOGIT}",
        "where decoders take z in, with + between: attention (in place of attention to a source), "
        "logit (before the logits); paper: attention+logit",
    )
    bgt_one_decoder: bool = flag(
        False,
        "MGT (5.11): one decoder, told the language by its first input, and inference networks "
        "that share all layers but the last",
    )
    dropout: float = flag(0.1, "of embeddings, attention and layers")


def check_config(cfg: Any) -> None:
    """Refuse what cannot work.

    Raises:
        InputError: naming the flag, its value and what is expected.
    """
    if cfg.bgt_ablation not in VARIANTS:
        raise InputError(
            f"--bgt-ablation: got {cfg.bgt_ablation!r}, expected one of {', '.join(VARIANTS)}"
        )
    for name in ("dim", "latent", "encoder_layers", "decoder_layers", "ffn", "heads"):
        if (value := getattr(cfg, f"bgt_{name}")) < 1:
            raise InputError(
                f"--bgt-{name.replace('_', '-')}: got {value}, expected a number above 0"
            )
    if cfg.bgt_dim % cfg.bgt_heads:
        raise InputError(f"--bgt-heads: got {cfg.bgt_heads}, expected a divisor of {cfg.bgt_dim}")
    if not 0 <= cfg.dropout < 1:
        raise InputError(f"--dropout: got {cfg.dropout}, expected at least 0, below 1")
    places = cfg.bgt_places.split("+")
    if not set(places) <= set(PLACES):
        raise InputError(
            f"--bgt-places: got {cfg.bgt_places!r}, expected some of {', '.join(PLACES)} with + "
            "between them"
        )


@register_model("bgt", dataclass=BgtConfig)
class BgtModel(BaseFairseqModel):
    """p(x_1 | z_sem, z_1) p(x_2 | z_sem, z_2) N(z; 0, I), and q of all z (5.4, 5.5).

    One table of embeddings serves all networks: both sides have one dictionary.

    Args:
        cfg: BgtConfig.
        dictionary: of both sides.
    """

    def __init__(self, cfg: Any, dictionary: Any) -> None:
        super().__init__()
        check_config(cfg)
        self.cfg, self.variant, self.updates = cfg, VARIANTS[cfg.bgt_ablation], 0
        self.pad, self.dictionary = dictionary.pad(), dictionary
        dim, latent = cfg.bgt_dim, cfg.bgt_latent
        self.embed = nn.Embedding(len(dictionary), dim, self.pad)
        nn.init.normal_(self.embed.weight, std=dim**-0.5)
        nn.init.zeros_(self.embed.weight[self.pad])
        first, *others = [self._network() for _ in range(3 if self.variant.language else 1)]
        if cfg.bgt_one_decoder:
            for composer in (other.composer for other in others):
                composer.layers = nn.ModuleList([*first.composer.layers[:-1], composer.layers[-1]])
        self.semantic, self.language = first, nn.ModuleList(others)
        sizes = dim, cfg.bgt_heads, cfg.bgt_ffn, cfg.bgt_decoder_layers, cfg.dropout
        width = 2 * latent if self.variant.language else latent
        sides = len(self.variant.sides)
        decoders, starts = (1, sides) if cfg.bgt_one_decoder else (sides, 1)
        self.decoders = nn.ModuleList(
            LatentDecoder(*sizes, width, len(dictionary), cfg.bgt_places.split("+"), starts)
            for _ in range(decoders)
        )

    def _network(self) -> InferenceNetwork:
        cfg = self.cfg
        layers = cfg.bgt_encoder_layers, cfg.bgt_heads, cfg.bgt_ffn
        composer = TransformerComposer(cfg.bgt_dim, *layers, cfg.bgt_latent, cfg.dropout)
        return InferenceNetwork(composer, cfg.bgt_dim, self.variant.prior)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "BgtModel":
        """Build a model for a task.

        Raises:
            InputError: for a task whose batches it cannot read.
        """
        name = getattr(getattr(task, "cfg", None), "_name", type(task).__name__)
        if name != "bgt":
            raise InputError(f"--task: got {name}, expected bgt, which --arch bgt needs")
        return cls(cfg, task.source_dictionary)

    def max_positions(self) -> tuple[int, int]:
        """Longest sentences, in tokens with the end."""
        return LONGEST, LONGEST

    def set_num_updates(self, num_updates: int) -> None:
        """Take the number of updates, which fairseq tells before each."""
        self.updates = num_updates

    def read(self, network: nn.Module, tokens: Tensor) -> Posterior:
        """q(z | x) of sentences (B, T) of ids, each with its end, padded behind."""
        return network(self.embed(tokens), tokens.ne(self.pad).sum(1) - 1)

    def write(self, side: int, latent: Tensor, written: Tensor) -> Tensor:
        """Logits (B, T + 1, V) of a side's next token, after each of `written` (B, T)."""
        number = self.variant.sides.index(side)
        decoder, language = (0, number) if self.cfg.bgt_one_decoder else (number, 0)
        return self.decoders[decoder](self.embed(written), latent, language)

    def beside(self, semantic: Tensor, language: Tensor | None = None) -> Tensor:
        """z = [z_sem; z_language]; the prior's mean, 0, for a language variable that is not given.

        Args:
            semantic, language: (B, K).
        """
        if not self.variant.language:
            return semantic
        return torch.cat(
            [semantic, torch.zeros_like(semantic) if language is None else language], 1
        )

    def forward(self, source: Tensor, target: Tensor, translate: bool = True) -> Written:
        """Read and write a batch.

        Args:
            source, target: (B, T) ids, each sentence with its end, padded behind.
            translate: whether to write the translations too (always where nothing else is).
        """
        sides, before = (source, target), (source[:, :-1], target[:, :-1])
        noise = None if self.training else torch.Generator().manual_seed(EVALUATION_SEED)
        # What writes the second side alone reads the first one.
        read = sides[: len(self.variant.sides)]
        semantic = [self.read(self.semantic, tokens) for tokens in read]
        generation, posteriors = [], []
        if self.variant.language:
            turns = alternate(len(source), self.updates if self.training else 0, source.device)
            common = chosen(semantic[0], semantic[1], turns)
            posteriors.append(("sem", common))
            z_sem = common.sample(noise)
            for side, name in enumerate(SIDES):
                own = self.read(self.language[side], sides[side])
                posteriors.append((name, own))
                latent = self.beside(z_sem, own.sample(noise))
                generation.append((side, self.write(side, latent, before[side])))
        elif self.variant.prior:
            posteriors = [("sem", found) for found in semantic]
            for side in self.variant.sides:
                latent = semantic[1 - side].sample(noise)
                generation.append((side, self.write(side, latent, before[side])))
        translation = []
        if translate or not generation:
            for side in self.variant.sides:
                latent = self.beside(semantic[1 - side].mean)
                translation.append((side, self.write(side, latent, before[side])))
        return Written(generation, posteriors, translation)

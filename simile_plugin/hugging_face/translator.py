"""transformers for an update of risk training: the adapter that risk.Translator describes."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from simile_plugin.files import InputError
from simile_plugin.hugging_face.candidates import risk_set_of, warn_of_unheeded
from simile_plugin.hugging_face.compact_output import CompactOutput
from simile_plugin.hugging_face.models import PADDING, SpecialTokens, table_size
from simile_plugin.hugging_face.scoring import Scorer, scored
from simile_plugin.hugging_face.steps import known_decoder
from simile_plugin.hugging_face.target_pieces import check_references
from simile_plugin.hugging_face.text import Text
from simile_plugin.risk import RiskSet, RiskSettings

# Of a model's inputs: what the loss uses, or makes itself, or a tokenizer writes beside it.
USED = {"input_ids", "attention_mask", "labels", "token_type_ids"}
USED |= {"decoder_input_ids", "decoder_attention_mask"}

Inputs = dict[str, Tensor]


class TransformersTranslator:
    """A model and its tokenizer as an update uses them, see risk.Translator.

    Args:
        model: the translation model, without wrappers and adapters.
        accelerator: of the trainer that calls the update.

    Raises:
        InputError: for a model or a tokenizer that cannot work.
    """

    pad = PADDING

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        special: SpecialTokens,
        settings: RiskSettings,
        accelerator: Any,
    ) -> None:
        self.special, self.settings = special, settings
        self.accelerator, self.text = accelerator, Text(tokenizer)
        self.decoder, self.scorer = known_decoder(model, special), Scorer(model, special)
        warn_of_unheeded(model.generation_config)
        self.output: CompactOutput | None = None  # of the target's pieces, in a training
        self.references: list[str] | None = None  # of the batch, where they are not to be decoded
        self.ignored = {*inspect.signature(model.forward).parameters} - USED
        self.positions = {side: table_size(model, side) for side in ("encoder", "decoder")}

    @property
    def output_now(self) -> CompactOutput | None:
        """Return the target's pieces; a validation judges the whole model, which is saved."""
        return self.output if self.decoder.model.training else None

    @property
    def pieces(self) -> str:
        """Return how many pieces a training has of how many, as "20,000 of 256,206" or "all"."""
        whole = self.scorer.head.weight.size(0)
        return "all" if self.output is None else f"{len(self.output):,} of {whole:,}"

    @property
    def vocabulary(self) -> int:
        output = self.output_now
        return int(self.scorer.head.weight.size(0)) if output is None else len(output)

    def candidates(self, model: nn.Module, batch: Inputs) -> RiskSet:
        if ignored := sorted(self.ignored & batch.keys()):
            raise InputError(
                f"{ignored[0]}: candidates and loss do not depend on it, as they do on input_ids "
                "and attention_mask; leave it out of the data"
            )
        if self.special.language is not None:
            check_language(batch["labels"], self.special.language)
        check_length("input_ids", batch["input_ids"].size(1), self.positions["encoder"])
        with self.precision():
            risk_set = risk_set_of(
                self.decoder, batch, self.settings, self.special, self.output_now
            )
        check_length("labels", int(risk_set.lengths(PADDING).max()), self.positions["decoder"])
        return risk_set

    def texts(self, risk_set: RiskSet) -> list[list[str]]:
        rows = risk_set.on_host[0].tolist()
        if self.output_now is not None:
            references = [row[0] for row in rows]
            check_references(self.output_now, references, self.text.tokenizer)
        return self.text.lists(rows, self.references)

    def sources(self, batch: Inputs) -> list[str]:
        return self.text.sources(batch["input_ids"].tolist())

    def counted(self, risk_set: RiskSet) -> Tensor:
        return scored(risk_set.tokens, self.special)

    def some(self, batch: Inputs, rows: slice) -> Inputs:
        return {name: batch[name][rows] for name in ("input_ids", "attention_mask")}

    def score(
        self, model: nn.Module, batch: Inputs, risk_set: RiskSet, max_tokens: int
    ) -> tuple[Tensor, Tensor]:
        lprobs, means = self.scorer(batch, risk_set, max_tokens, self.output_now)
        mask = self.counted(risk_set)
        return torch.where(mask, lprobs, 0.0), torch.where(mask[:, 0], means, 0.0)

    def inputs(self, batch: Inputs) -> dict[str, Any]:
        return dict(batch)

    def precision(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.accelerator.autocast()
        return context


def check_language(labels: Tensor, language: int) -> None:
    """Raise InputError for a reference without the tag that every candidate is made with."""
    if not bool((labels.eq(language).any(-1) | labels.eq(PADDING).all(-1)).all()):
        raise InputError(
            f"labels: a reference does not have the tag of the tokenizer's target language (id "
            f"{language}), in which the candidates are; expected one target language, that of "
            "processing_class"
        )


def check_length(name: str, found: int, most: float) -> None:
    """Raise InputError for a row that is longer than a model's table of positions."""
    if found > most:
        raise InputError(
            f"{name}: got a sentence of {found} tokens, the model has {most} positions; expected "
            f"no more: tokenize with truncation=True, max_length={most}"
        )

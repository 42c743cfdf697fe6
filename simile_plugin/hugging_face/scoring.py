"""The second scoring of a risk set by a transformers model: with gradient, without full logits.

The usual way repeats each source N + 1 times and keeps B x N x T x V log-probabilities. Here each
source is encoded once, a prefix that several rows share is decoded once, padding is never
projected to the vocabulary, and the projection runs in slices.
"""

from __future__ import annotations

import copy
import functools
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from simile_plugin.hugging_face.compact_output import CompactOutput, TakenRows
from simile_plugin.hugging_face.models import (
    PADDING,
    SpecialTokens,
    at_nodes,
    output_bias,
    position_modules,
)
from simile_plugin.risk import (
    Nodes,
    RiskSet,
    choose_tree,
    replaced,
    score_nodes,
    teacher_forcing_input,
    token_lprobs,
)


class Scorer:
    """Log-probabilities of target rows under one model.

    Args:
        model: the translation model, without wrappers, of which `known_decoder` knows the decoder.
        special: its special tokens.
    """

    def __init__(self, model: Any, special: SpecialTokens) -> None:
        self.model, self.special = model, special
        self.head = model.get_output_embeddings()

    def __call__(
        self,
        inputs: dict[str, Tensor],
        risk_set: RiskSet,
        max_tokens: int = 0,
        output: CompactOutput | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Score reference and candidates; each source is encoded once.

        Args:
            inputs: input_ids and attention_mask of B sources.
            risk_set: rows padded by ``PADDING``.
            max_tokens: bound on the padded target tokens decoded at once (0: none); the parts are
                decoded again in the backward pass.
            output: the pieces over which probabilities are normalised, all ids of the risk set
                among them; None: the whole vocabulary.

        Returns:
            (B, 1 + N, T) log-probabilities of the targets, 0 at padding and at candidates outside
            the risk set; (B, T) mean log-probability over the vocabulary at each target of the
            reference. float32, or float64 for a float64 model.
        """
        tokens = risk_set.tokens
        sources = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        taken = None if output is None else TakenRows(output, inputs["input_ids"])
        with ExitStack() as stack:
            if taken is not None:
                taken.encoding(stack)
            encoded = self.model.get_encoder()(**sources, return_dict=True)
        shifted = teacher_forcing_input(tokens, self.special.start, PADDING)
        previous = shifted.masked_fill(shifted.eq(PADDING), self.special.pad)
        share_prefixes = not self._positions_are_lost()
        tree = choose_tree(risk_set, PADDING, share_prefixes, max_tokens)
        features = functools.partial(self._features, encoded, sources, taken)
        project = functools.partial(self._projected, taken)
        scores = score_nodes(features, project, tree, tokens, previous, max_tokens)
        return scores[..., 0], scores[:, 0, :, 1]

    def _positions_are_lost(self) -> bool:
        """Return whether layers that see positions run again in the backward pass."""
        decoder = self.model.get_decoder()
        again = any(
            getattr(module, "gradient_checkpointing", False) for module in decoder.modules()
        )
        if not (self.model.training and again):
            return False
        return any(method == "compute_bias" for _, method in position_modules(decoder))

    def _features(
        self, encoded: Any, sources: dict[str, Tensor], taken: TakenRows | None, nodes: Nodes
    ) -> Tensor:
        """Return what goes into the output layer."""
        with ExitStack() as stack:
            if taken is not None:
                taken.decoding(stack)
            seen = None
            if nodes.allowed is not None:
                seen = nodes.attention_mask(encoded.last_hidden_state).unsqueeze(1)
                modules = position_modules(self.model.get_decoder())
                at_nodes(stack, modules, nodes.depth, nodes.depth, nodes.width)
            inputs = {
                "encoder_outputs": _rows_of(encoded, nodes.source),
                "attention_mask": sources["attention_mask"].index_select(0, nodes.source),
                "decoder_input_ids": nodes.tokens,
                "decoder_attention_mask": seen,
                "use_cache": False,
            }
            found: list[Tensor] = []

            def keep(features: Tensor) -> Tensor:
                found.append(features)
                return features.new_zeros(*features.shape[:-1], 1)

            stack.enter_context(replaced(self.head, "forward", keep))
            if output_bias(self.model) is not None:  # has V numbers: added after all
                none = torch.zeros(1, device=self.head.weight.device)
                stack.enter_context(replaced(self.model, "final_logits_bias", none))
            self.model(**inputs)
        return found[0]

    def _projected(
        self,
        taken: TakenRows | None,
        features: Tensor,
        targets: Tensor,
        positions: Tensor | None,
        starts: list[int] | None,
    ) -> tuple[Tensor, Tensor]:
        """(E,) log-probability of each target, (K,) mean log-probability over the vocabulary."""
        if taken is not None:
            targets = taken.output.places[targets]
            return token_lprobs(features, taken.weight, taken.bias, targets, positions, starts)
        bias, extra = self.head.bias, output_bias(self.model)
        if extra is not None:
            bias = extra if bias is None else bias + extra
        return token_lprobs(features, self.head.weight, bias, targets, positions, starts)


def _rows_of(encoded: Any, rows: Tensor) -> Any:
    """Return what an encoder gave, for some sources, also the same one again."""
    found = copy.copy(encoded)
    found["last_hidden_state"] = encoded.last_hidden_state.index_select(0, rows)
    return found


def scored(tokens: Tensor, special: SpecialTokens) -> Tensor:
    """(B, 1 + N, T) bool: targets that count, which padding and a forced first tag do not."""
    mask = tokens.ne(PADDING)
    if special.tag is not None:
        mask[..., 0] &= tokens[..., 0].ne(special.tag)
    return mask

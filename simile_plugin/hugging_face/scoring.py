"""The second scoring of a risk set by a transformers model: with gradient, without full logits.

The usual way repeats each source N + 1 times and keeps B x N x T x V log-probabilities. Here each
source is encoded once, a prefix that several rows share is decoded once, padding is never
projected to the vocabulary, and the projection runs in slices.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from simile_plugin.files import InputError
from simile_plugin.hugging_face.models import (
    PADDING,
    SpecialTokens,
    at_nodes,
    output_bias,
    position_modules,
    soft_cap,
)
from simile_plugin.risk import (
    Nodes,
    RiskSet,
    choose_tree,
    evaluation_mode,
    replaced,
    score_nodes,
    teacher_forcing_input,
    token_lprobs,
)

logger = logging.getLogger(__name__)

# From the least work to what every model can do: prefixes of a list decoded once; each row by
# itself; each row with the model's own logits.
TREES, ROWS, LOGITS = "prefix trees", "rows", "full logits"


class Scorer:
    """Log-probabilities of target rows under one model.

    Args:
        model: the translation model, without wrappers.
        special: its special tokens.
        way: TREES, ROWS or LOGITS; see :func:`best_way`.
    """

    def __init__(self, model: Any, special: SpecialTokens, way: str) -> None:
        self.model, self.special, self.way = model, special, way
        self.head = model.get_output_embeddings()
        self.cap = soft_cap(model)

    def __call__(
        self, inputs: dict[str, Tensor], risk_set: RiskSet, max_tokens: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Score reference and candidates; each source is encoded once.

        Args:
            inputs: input_ids and attention_mask of B sources.
            risk_set: rows padded by ``PADDING``.
            max_tokens: bound on the padded target tokens decoded at once (0: none); the parts are
                decoded again in the backward pass.

        Returns:
            (B, 1 + N, T) log-probabilities of the targets, 0 at padding and at candidates outside
            the risk set; (B, T) mean log-probability over the vocabulary at each target of the
            reference. float32, or float64 for a float64 model.
        """
        tokens = risk_set.tokens
        sources = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        encoded = self.model.get_encoder()(**sources, return_dict=True)
        shifted = teacher_forcing_input(tokens, self.special.start, PADDING)
        previous = shifted.masked_fill(shifted.eq(PADDING), self.special.pad)
        trees = self.way == TREES and not self._positions_are_lost()
        tree = choose_tree(risk_set, PADDING, int(trees), max_tokens)
        features = functools.partial(self._features, encoded, sources)
        scores = score_nodes(features, self._projected, tree, tokens, previous, max_tokens)
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

    def _features(self, encoded: Any, sources: dict[str, Tensor], nodes: Nodes) -> Tensor:
        """Return what goes into the output layer; the logits where that is not enough."""
        with ExitStack() as stack:
            seen = None
            if nodes.allowed is not None:
                seen = nodes.attention_mask(1, encoded.last_hidden_state).unsqueeze(1)
                modules = position_modules(self.model.get_decoder())
                at_nodes(stack, modules, nodes.depth, nodes.depth, nodes.width)
            inputs = {
                "encoder_outputs": _rows_of(encoded, nodes.source),
                # FSMT looks ahead in targets that come without their sources.
                "input_ids": sources["input_ids"].index_select(0, nodes.source),
                "attention_mask": sources["attention_mask"].index_select(0, nodes.source),
                "decoder_input_ids": nodes.tokens,
                "decoder_attention_mask": seen,
                "use_cache": False,
            }
            if self.way == LOGITS:
                logits: Tensor = self.model(**inputs).logits
                return logits
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
        features: Tensor,
        targets: Tensor,
        positions: Tensor | None,
        starts: list[int] | None,
    ) -> tuple[Tensor, Tensor]:
        """(E,) log-probability of each target, (K,) mean log-probability over the vocabulary."""
        if self.way == LOGITS:
            exact = torch.promote_types(features.dtype, torch.float32)
            lprobs = torch.log_softmax(features, dim=-1, dtype=exact)
            return lprobs.gather(1, targets.unsqueeze(1)).squeeze(1), lprobs.mean(-1)
        bias, extra = self.head.bias, output_bias(self.model)
        if extra is not None:
            bias = extra if bias is None else bias + extra
        edges = (targets, positions, starts)
        return token_lprobs(features, self.head.weight, bias, *edges, self.cap)


def _rows_of(encoded: Any, rows: Tensor) -> Any:
    """Return what an encoder gave, for some sources, also the same one again."""
    found = copy.copy(encoded)
    found["last_hidden_state"] = encoded.last_hidden_state.index_select(0, rows)
    return found


def best_way(model: Any, special: SpecialTokens) -> str:
    """Return the way with the least work that gives the probabilities of the model's own logits.

    Tried on one source and four short rows, in evaluation mode.

    Raises:
        InputError: where a whole target has other probabilities than its tokens one by one, as in
            ProphetNet.
    """
    head = model.get_output_embeddings()
    ways = [LOGITS]
    if type(head) is nn.Linear:  # not an adapter's, which adds something to it
        ways.insert(0, ROWS)
        # An expert takes so many tokens of a sequence and no more; a tree is one sequence.
        limited = getattr(model.config, "expert_capacity", None)
        if position_modules(model.get_decoder()) and not limited:
            ways.insert(0, TREES)
    inputs, risk_set = trial(model, special)
    with torch.no_grad(), evaluation_mode(model), _attention_kept(model.get_encoder()):
        right, right_means = Scorer(model, special, LOGITS)(inputs, risk_set)
        half = model.dtype in (torch.float16, torch.bfloat16)
        least = 0.5 if half else 0.02 if right.dtype == torch.float32 else 1e-6
        far = float((right - _token_by_token(model, special, inputs, risk_set.tokens)).abs().max())
        if not far <= 10 * least:  # NaN is not, either
            raise InputError(
                f"MODEL: log-probabilities of {type(model).__name__} differ by {far:.2g} between a "
                "whole target and its tokens one by one; expected a decoder that looks at earlier "
                "tokens only, and finite numbers (another dtype may help)"
            )
        for way in ways:
            found, means = Scorer(model, special, way)(inputs, risk_set)
            far = float(max((found - right).abs().max(), (means - right_means).abs().max()))
            if far <= least:
                break
            logger.warning(f"{type(model).__name__} cannot be scored by {way}; what is slower can")
    return way


@contextmanager
def _attention_kept(encoder: Any) -> Iterator[None]:
    """BigBird gives up sparse attention for good at the first short source."""
    before = getattr(encoder, "attention_type", None)
    try:
        yield
    finally:
        if before is not None:
            encoder.set_attention_type(before)


def _token_by_token(
    model: Any, special: SpecialTokens, inputs: dict[str, Tensor], tokens: Tensor
) -> Tensor:
    """Return log-probabilities (1, M, T) of one source's targets, each from its prefix alone."""
    rows = tokens.size(1)
    sources = {name: value.expand(rows, -1) for name, value in inputs.items()}
    previous = teacher_forcing_input(tokens[0], special.start, PADDING)
    previous = previous.masked_fill(previous.eq(PADDING), special.pad)
    exact = torch.promote_types(model.dtype, torch.float32)
    found = torch.zeros(tokens[0].shape, device=tokens.device, dtype=exact)
    for t in range(tokens.size(-1)):
        output = model(**sources, decoder_input_ids=previous[:, : t + 1], use_cache=False)
        lprobs = torch.log_softmax(output.logits[:, -1], dim=-1, dtype=exact)
        there = tokens[0, :, t].ne(PADDING)
        own = lprobs.gather(1, tokens[0, :, t : t + 1].clamp(min=0)).squeeze(1)
        found[:, t] = torch.where(there, own, 0.0)
    return found.unsqueeze(0)


def trial(model: Any, special: SpecialTokens) -> tuple[dict[str, Tensor], RiskSet]:
    """Return one source and four short rows that share some of their prefixes."""
    vocabulary = model.get_output_embeddings().weight.size(0)
    some = [token for token in range(3, min(vocabulary, 40)) if token != special.pad]
    a, b, c, d = (some[place % len(some)] for place in (2, 7, 11, 5))
    rows = [[a, b, c, d], [a, b, d, PADDING], [a, c, b, d], [a, b, c, a]]
    tokens = torch.tensor([rows], device=model.device)
    inputs = {"input_ids": torch.tensor([[a, c, d, b, special.end]], device=model.device)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return inputs, RiskSet(tokens, torch.ones(1, 4, dtype=torch.bool, device=model.device))


def scored(tokens: Tensor, special: SpecialTokens) -> Tensor:
    """(B, 1 + N, T) bool: targets that count, which padding and a forced first tag do not."""
    mask = tokens.ne(PADDING)
    if special.tag is not None:
        mask[..., 0] &= tokens[..., 0].ne(special.tag)
    return mask

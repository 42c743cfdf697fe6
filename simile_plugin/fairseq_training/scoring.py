"""The second scoring of a risk set by fairseq's models: with gradient, in one model call.

fairseq's way keeps B x N x T x V log-probabilities in float32 for the backward pass. Here each
source is encoded once, a prefix that several rows share is decoded once (by transformers), padding
is never projected to the vocabulary, and the projection runs in slices.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from fairseq.modules import LayerDropModuleList
from torch import Tensor, nn

from simile_plugin.fairseq_training.decoders import KnownDecoder, known
from simile_plugin.fairseq_training.layers import transformer_features
from simile_plugin.fairseq_training.steps import without_padding
from simile_plugin.risk import (
    Nodes,
    RiskSet,
    choose_tree,
    replaced,
    score_nodes,
    teacher_forcing_input,
    token_lprobs,
    unwrap,
)


def copied(encoder_out: Any) -> Any:
    """Return a copy whose containers ``reorder_encoder_out`` may change in place."""
    if not isinstance(encoder_out, dict):
        return encoder_out
    return {
        key: list(value) if isinstance(value, list) else value for key, value in encoder_out.items()
    }


class _NodeDecoder:
    """A fairseq decoder within one model call, as risk.score_nodes asks it.

    A tree is one sequence of nodes with one encoder output. There is one a row or, where the
    decoder's attention mask can tell rows apart, one a sentence: a node attends to its own
    prefixes, and under dropout the rows that share a prefix share its masks.

    Args:
        model: the fairseq model, unwrapped.
        forward: its decoder's own.
        encoder_out, kwargs: what the model calls the decoder with.
    """

    def __init__(
        self,
        model: Any,
        known: KnownDecoder,
        forward: Any,
        encoder_out: Any,
        kwargs: dict[str, Any],
    ) -> None:
        self.model, self.known, self.forward = model, known, forward
        self.encoder_out, self.kwargs = encoder_out, kwargs
        # Under --decoder-layerdrop each iteration draws: one for all parts.
        self.layers = list(getattr(model.decoder, "layers", []))

    def features(self, nodes: Nodes) -> Tensor:
        """Return what goes into the output layer, or log-probabilities where it is not known."""
        decoder, projection = self.model.decoder, self.known.projection
        if self.known.plain_layers:
            return transformer_features(decoder, self.layers, nodes, self.encoder_out)
        sources = self.model.encoder.reorder_encoder_out(copied(self.encoder_out), nodes.source)
        with ExitStack() as stack:
            # Padding comes last in a row, where no target looks, or not at all.
            stack.enter_context(without_padding(decoder))
            if isinstance(getattr(decoder, "layers", None), LayerDropModuleList):
                stack.enter_context(replaced(decoder, "layers", nn.ModuleList(self.layers)))
            if projection is not None:
                stack.enter_context(replaced(projection.owner, projection.method, lambda x: x))
            output = self.forward(nodes.tokens, encoder_out=sources, **self.kwargs)
        if projection is None:
            lprobs: Tensor = self.model.get_normalized_probs(output, log_probs=True)
            return lprobs
        features: Tensor = output[0]
        return features

    def project(
        self,
        features: Tensor,
        targets: Tensor,
        positions: Tensor | None,
        starts: list[int] | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each target, and its mean at each position."""
        if self.known.projection is None:
            lprobs = features.to(torch.promote_types(features.dtype, torch.float32))
            return lprobs.gather(1, targets.unsqueeze(1)).squeeze(1), lprobs.mean(-1)
        holder = self.known.projection.holder
        bias = getattr(holder, "bias", None)
        return token_lprobs(features, holder.weight, bias, targets, positions, starts)


def score_rows(
    model: nn.Module, sample: dict[str, Any], risk_set: RiskSet, pad: int, max_tokens: int = 0
) -> tuple[Tensor, Tensor]:
    """Score reference and candidates with gradient: one model call, each source encoded once.

    Args:
        model: fairseq's model, in its distributed wrapper if there is one.
        sample: the batch; left as it is.
        pad: id of padding.
        max_tokens: bound on the padded target tokens decoded at once (0: none); the parts are
            decoded again in the backward pass.

    Returns:
        (B, 1 + N, T) log-probabilities of the targets, 0 at padding and at candidates outside the
        risk set; (B, T) mean log-probability over the vocabulary at each target of the reference.
        float32, or float64 for a float64 model.
    """
    tokens, plain = risk_set.tokens, unwrap(model)
    own, decoder_known = plain.decoder.forward, known(plain.decoder)
    tree = choose_tree(risk_set, pad, decoder_known.plain_layers, max_tokens)

    def by_nodes(previous: Tensor, encoder_out: Any = None, **kwargs: Any) -> tuple[Tensor, None]:
        decoder = _NodeDecoder(plain, decoder_known, own, encoder_out, kwargs)
        scores = score_nodes(decoder.features, decoder.project, tree, tokens, previous, max_tokens)
        return scores.flatten(0, -2), None  # as decoders return it: with what BART takes apart

    net_input = dict(sample["net_input"])
    start = net_input["prev_output_tokens"][:, :1].repeat_interleave(tokens.size(1), 0)
    net_input["prev_output_tokens"] = teacher_forcing_input(
        tokens.flatten(0, 1), start.squeeze(1), pad
    )
    with ExitStack() as stack:
        stack.enter_context(replaced(plain.decoder, "forward", by_nodes))
        # transformer_align would decode once more, for alignments alone
        stack.enter_context(replaced(plain, "full_context_alignment", False))
        found = model(**net_input)[0].view(*tokens.shape, 2)
    return found[..., 0], found[:, 0, :, 1]

"""The second scoring of a risk set: with gradient, in one model call, without full logits.

fairseq's way keeps B x N x T x V log-probabilities in float32 for the backward pass. Here each
source is encoded once, a prefix that several rows share is decoded once (by transformers), padding
is never projected to the vocabulary, and the projection runs in slices.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from fairseq.modules import LayerDropModuleList
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from simile_plugin.encoder import to_device
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.steps import without_padding
from simile_plugin.risk import (
    TREE_MASK,
    TREE_SHARE,
    PrefixTree,
    RiskSet,
    attention_mask,
    plan_parts,
    prefix_tree,
    replaced,
    teacher_forcing_input,
    token_lprobs,
    trees_of_rows,
    unwrap,
)


def copied(encoder_out: Any) -> Any:
    """A copy whose containers ``reorder_encoder_out`` may change in place."""
    if not isinstance(encoder_out, dict):
        return encoder_out
    return {
        key: list(value) if isinstance(value, list) else value for key, value in encoder_out.items()
    }


class _TreeDecoder:
    """Stands in for ``decoder.forward`` in one model call: encoder output of B sentences, and
    B x M target rows, to token log-probabilities.

    A tree is one sequence of nodes with one encoder output. There is one a row or, where the
    decoder's attention mask can tell rows apart, one a sentence: a node attends to its own
    prefixes, and under dropout the rows that share a prefix share its masks.

    Args:
        model: the fairseq model, unwrapped.
        tokens: (B, M, T) target rows.
        tree: of the rows of each sentence, or of single rows.
        max_tokens: see :func:`plan_parts`.
    """

    def __init__(self, model: Any, tokens: Tensor, tree: PrefixTree, max_tokens: int) -> None:
        self.model, self.tokens, self.tree, self.max_tokens = model, tokens, tree, max_tokens
        self.known, self.forward = known(model.decoder), model.decoder.forward
        self.rows = tree.node.shape[1]  # of a tree
        self.counts = tree.counts.tolist()
        self.parts = plan_parts(self.counts, max_tokens)
        self.layers: nn.ModuleList | None = None  # what --decoder-layerdrop leaves, once drawn

    def pays(self, targets: int) -> bool:
        """Whether shared prefixes of so many targets are less work than rows, and fit."""
        few = sum(self.counts) <= TREE_SHARE * targets
        largest = max(len(part) * self.counts[part[0]] ** 2 for part in self.parts)
        fits = not self.max_tokens or max(self.counts) <= self.max_tokens
        return few and fits and self.known.heads * largest <= TREE_MASK

    def __call__(
        self, previous: Tensor, encoder_out: Any = None, **kwargs: Any
    ) -> tuple[Tensor, None]:  # as fairseq's decoders return it: with what BART takes apart
        """Log-probabilities (B x M x T, 2): of each target, and their mean over the vocabulary."""
        layers = getattr(self.model.decoder, "layers", None)
        if isinstance(layers, LayerDropModuleList):  # each iteration draws: one for all parts
            self.layers = nn.ModuleList(list(layers))
        padded = sum(len(part) * self.counts[part[0]] for part in self.parts)
        values, places = [], []
        for part in self.parts:
            edges = self.tree.edges(part)
            arguments = (previous, encoder_out, part, edges, kwargs)
            if 0 < self.max_tokens < padded:  # only its inputs are kept for its backward pass
                values.append(checkpoint(self._part, *arguments, use_reentrant=False))
            else:
                values.append(self._part(*arguments))
            places.append(torch.from_numpy(edges[0]))
        found = torch.cat(values)
        index = to_device(torch.cat(places), found.device)
        return found.new_zeros(self.tokens.numel(), 2).index_copy(0, index, found), None

    def _part(
        self,
        previous: Tensor,
        encoder_out: Any,
        part: list[int],
        edges: tuple[Any, Any, list[int]],
        kwargs: Any,
    ) -> Tensor:
        """Log-probabilities (E, 2) of some trees' targets, in the order of their edges."""
        longest, device = self.counts[part[0]], self.tokens.device
        first = to_device(torch.tensor(part), device) * self.rows
        sources = self.model.encoder.reorder_encoder_out(
            copied(encoder_out), first.div(self.tokens.size(1), rounding_mode="floor")
        )
        depth = to_device(self.tree.depth[part, :longest], device)
        rows = first.unsqueeze(1) + to_device(self.tree.row[part, :longest], device)
        inputs = previous.flatten()[rows * previous.size(1) + depth]
        output = self._decoded(inputs, sources, depth, part, kwargs)
        real = [i * longest + k for i, tree in enumerate(part) for k in range(self.counts[tree])]
        nodes = to_device(torch.tensor(real), device)
        places, positions, starts = edges
        targets = self.tokens.flatten()[to_device(places, device)]
        if self.known.projection is None:  # rows: each node has one target
            lprobs = self.model.get_normalized_probs(output, log_probs=True)
            lprobs = lprobs.reshape(-1, lprobs.size(-1)).index_select(0, nodes)
            lprobs = lprobs.to(torch.promote_types(lprobs.dtype, torch.float32))
            own = lprobs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
            return torch.stack([own, lprobs.mean(-1)], dim=-1)
        holder = self.known.projection.holder
        features = output[0].reshape(-1, output[0].size(-1)).index_select(0, nodes)
        positions = to_device(positions, device)
        own, means = token_lprobs(
            features, holder.weight, getattr(holder, "bias", None), targets, positions, starts
        )
        if self.rows > 1:
            means = means.index_select(0, positions)
        return torch.stack([own, means], dim=-1)

    def _decoded(
        self, inputs: Tensor, encoder_out: Any, depth: Tensor, part: list[int], kwargs: Any
    ) -> Any:
        """What the decoder returns, with features in place of logits where it can be helped."""
        decoder, projection = self.model.decoder, self.known.projection
        with ExitStack() as stack:
            # Padding comes last in a row, where no target looks, or not at all.
            stack.enter_context(without_padding(decoder))
            if self.layers is not None:
                stack.enter_context(replaced(decoder, "layers", self.layers))
            if projection is not None:
                stack.enter_context(replaced(projection.owner, projection.method, lambda x: x))
            if self.rows > 1:
                kwargs = kwargs | {"alignment_layer": -1}  # no attention weights for output
                self._follow_tree(stack, inputs, depth, part)
            return self.forward(inputs, encoder_out=encoder_out, **kwargs)

    def _follow_tree(
        self, stack: ExitStack, inputs: Tensor, depth: Tensor, part: list[int]
    ) -> None:
        """Give nodes the positions and the attention of their prefixes."""
        decoder = self.model.decoder
        mask: list[Tensor] = []
        allowed = to_device(self.tree.ancestors(part, inputs.size(1)), inputs.device)

        def future_mask(states: Tensor) -> Tensor:
            if not mask:
                mask.append(attention_mask(allowed, self.known.heads, states))
            return mask[0]

        stack.enter_context(replaced(decoder, "buffered_future_mask", future_mask))
        if decoder.embed_positions is not None:
            line = inputs[:1, :1].expand(1, self.tokens.size(-1))
            found = nn.functional.embedding(depth, decoder.embed_positions(line)[0])
            stack.enter_context(
                replaced(decoder.embed_positions, "forward", lambda *_, **__: found)
            )


def tree_decoder(
    model: Any, risk_set: RiskSet, lengths: NDArray[np.int64], max_tokens: int
) -> _TreeDecoder:
    """What decodes the rows with the least work.

    Args:
        lengths: (B, M) targets of each row, 0 for rows that are not scored.
    """
    tokens = risk_set.tokens
    if known(model.decoder).heads:
        tree = prefix_tree(risk_set.on_host[0], lengths)
        decoder = _TreeDecoder(model, tokens, tree, max_tokens)
        if decoder.pays(int(lengths.sum())):
            return decoder
    return _TreeDecoder(model, tokens, trees_of_rows(lengths, tokens.size(-1)), max_tokens)


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
    tokens, wanted = risk_set.tokens, risk_set.on_host[1].copy()
    wanted[:, 0] = True
    plain = unwrap(model)
    decoder = tree_decoder(plain, risk_set, risk_set.lengths(pad) * wanted, max_tokens)
    net_input = dict(sample["net_input"])
    start = net_input["prev_output_tokens"][:, :1].repeat_interleave(tokens.size(1), 0)
    net_input["prev_output_tokens"] = teacher_forcing_input(
        tokens.flatten(0, 1), start.squeeze(1), pad
    )
    with ExitStack() as stack:
        stack.enter_context(replaced(plain.decoder, "forward", decoder))
        # transformer_align would decode once more, for alignments alone
        stack.enter_context(replaced(plain, "full_context_alignment", False))
        found = model(**net_input)[0].view(*tokens.shape, 2)
    return found[..., 0], found[:, 0, :, 1]

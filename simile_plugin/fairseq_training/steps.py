"""The steps in a search of decoders that are no plain Transformer, by their own code.

S sentences have N hypotheses each, S x N rows; before the first step those of a sentence are one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Self

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor
from torch.nn.utils.weight_norm import WeightNorm

from simile_plugin.fairseq_training.decoders import known
from simile_plugin.risk import replaced
from simile_plugin.search import Steps

NO_TOKEN = -1  # no id of a dictionary


@contextmanager
def decoder_steps(model: Any, net_input: dict[str, Tensor], size: int) -> Iterator[Steps]:
    """Yield the steps of a model's decoder over a batch of sources.

    Args:
        model: an encoder-decoder in eval mode.
        net_input: fairseq's.
        size: N.
    """
    encoder_out = model.encoder.forward_torchscript(net_input)
    sentences = len(net_input["src_tokens"])
    if known(model.decoder).steps:
        with decoding_mode(model.decoder, size):
            yield FairseqSteps(model, encoder_out, sentences, size)
    else:
        yield PrefixSteps(model, encoder_out, sentences, size)


class FairseqSteps:
    """Steps by the decoder's own code and fairseq's incremental state.

    The encoder's output and the attention over it are the same for all hypotheses of a sentence and
    are never reordered. Finished sentences are dropped when hypotheses are reordered, in one copy.

    Attributes:
        taken: tokens so far.
        kept: the sentences that go on at the next `reorder`; None: all.
    """

    key: Hashable = "not recorded"

    def __init__(
        self, model: Any, encoder_out: dict[str, list[Tensor]], sentences: int, size: int
    ) -> None:
        self.model, self.size = model, size
        self.taken = 0
        self.kept: Tensor | None = None
        self.device = next(model.decoder.parameters()).device
        self.state: dict[str, Any] = {}
        order = torch.arange(sentences, device=self.device).repeat_interleave(size)
        self.encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)

    def begin(self) -> None:
        """Do nothing: the first step finds an empty state."""

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        """See search.Steps."""
        self.taken += 1
        # Known decoders read the number of tokens so far and the last one.
        previous = last.unsqueeze(1).expand(-1, self.taken)
        logits: Tensor = self.model.decoder(
            previous, encoder_out=self.encoder_out, incremental_state=self.state
        )[0]
        return logits[:: self.size if first else 1, -1]

    def reorder(self, parents: Tensor) -> None:
        """See search.Steps."""
        kept, self.kept = self.kept, None
        if kept is None and self.size == 1:
            return
        order = _rows(parents, kept, self.size)
        held = {}
        if kept is None:
            names = [name for name in self.state if name.endswith(".encoder_out")]
            held = {name: self.state.pop(name) for name in names}
        else:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, order)
        self.model.decoder.reorder_incremental_state_scripting(self.state, order)
        self.state.update(held)

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> Self:
        """See search.Steps."""
        self.kept = self.kept if kept is None else kept
        return self


class PrefixSteps(FairseqSteps):
    """Steps of a decoder of your own: it sees all tokens so far, and gives its own probabilities.

    What it keeps in its state goes with its hypothesis.
    """

    tokens: Tensor

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        """Return log-probabilities, see search.Steps."""
        last = last.unsqueeze(1)
        self.tokens = last if first else torch.cat([self.tokens, last], dim=1)
        state = {"incremental_state": self.state} if self._is_incremental() else {}
        output = self.model.decoder(self.tokens, encoder_out=self.encoder_out, **state)
        lprobs: Tensor = self.model.get_normalized_probs(output, log_probs=True)
        return lprobs[:: self.size if first else 1, -1]

    def reorder(self, parents: Tensor) -> None:
        """See search.Steps."""
        kept, self.kept = self.kept, None
        order = _rows(parents, kept, self.size)
        self.tokens = self.tokens[order]
        if kept is not None:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, order)
        if self._is_incremental():
            self.model.decoder.reorder_incremental_state_scripting(self.state, order)

    def _is_incremental(self) -> bool:
        return isinstance(self.model.decoder, FairseqIncrementalDecoder)


def _rows(parents: Tensor, kept: Tensor | None, size: int) -> Tensor:
    """Return the rows of the hypotheses to go on with, see FairseqSteps.kept."""
    sentences = torch.arange(len(parents), device=parents.device) if kept is None else kept
    return (sentences.unsqueeze(1) * size + parents).flatten()


@contextmanager
def without_padding(decoder: Any) -> Iterator[None]:
    """Within the block a transformer's decoder takes no token of its input for padding."""
    known_padding = known(decoder).transformer
    with replaced(decoder, "padding_idx", NO_TOKEN) if known_padding else nullcontext():
        yield


@contextmanager
def decoding_mode(decoder: Any, size: int) -> Iterator[None]:
    """Within the block the decoder's steps compute only what the next token needs.

    Attention maps are not averaged for output, attention over the source is shared by the ``size``
    hypotheses of a sentence, weight normalisation is computed once, not at each step, and no beam
    that counts ends in padding.
    """
    with ExitStack() as stack:
        stack.enter_context(without_padding(decoder))
        for module in decoder.modules():
            if getattr(module, "need_attn", False):
                module.need_attn = False
                stack.callback(setattr, module, "need_attn", True)
            stack.enter_context(_weights_computed_once(module))
        if hasattr(decoder, "set_beam_size"):
            before = getattr(decoder, "_beam_size", 1)
            decoder.set_beam_size(size)
            stack.callback(decoder.set_beam_size, before)
        yield


@contextmanager
def _weights_computed_once(module: Any) -> Iterator[None]:
    hooks = {k: h for k, h in module._forward_pre_hooks.items() if isinstance(h, WeightNorm)}
    linearized = hasattr(module, "_get_linearized_weight")  # the fconv's convolutions
    try:
        for key, hook in hooks.items():
            hook(module, None)
            del module._forward_pre_hooks[key]
        if linearized:
            module._linearized_weight = None
            module._linearized_weight = module._get_linearized_weight()
        yield
    finally:
        module._forward_pre_hooks.update(hooks)
        if linearized:
            module._linearized_weight = None

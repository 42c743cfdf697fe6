"""The steps of a transformers decoder in a search, by the library's own modules.

As in scoring, the hypotheses of a sentence are nodes of one sequence, which a mask tells apart: a
source is looked at once for all of them, and what is reordered is the mask.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_outputs import BaseModelOutput

from simile_plugin.files import InputError
from simile_plugin.hugging_face.compact_output import CompactOutput
from simile_plugin.hugging_face.models import (
    PADDING,
    PositionModules,
    SpecialTokens,
    at_nodes,
    position_modules,
    table_size,
)
from simile_plugin.hugging_face.scoring import Scorer
from simile_plugin.risk import RiskSet, evaluation_mode, teacher_forcing_input
from simile_plugin.search import (
    ROOM,
    Hypotheses,
    NodeCache,
    Recorder,
    Rules,
    Unrecorded,
    recorder_for,
    search,
)

SOURCE = 16  # lengths of sources are multiples of it on a GPU, as those of masks must be


@dataclass
class Decoder:
    """Facts about a model whose decoder can take these steps.

    Attributes:
        positions: its modules that see where a token stands.
        longest: tokens that it can write; infinite where no table of positions ends.
        cache: what its forward calls the keys and values of earlier tokens.
        layers, heads, width: shape of those of one token.
    """

    model: Any
    positions: PositionModules
    longest: float
    cache: str
    layers: int
    heads: int
    width: int

    @property
    def forward(self) -> Callable[..., Any]:
        """The model's own, without accelerate's autocast around it: that keeps copies of weights
        which a recorded step must not see again."""
        model = self.model
        found: Callable[..., Any] = getattr(model, "_original_forward", None) or model.forward
        return found

    @functools.cached_property
    def recorder(self) -> Recorder | None:
        """Of the steps, on a GPU; not where a wrapper would keep what it makes within a step."""
        model = self.model
        wrapped = "forward" in vars(model) and not hasattr(model, "_original_forward")
        return None if wrapped or model.device.type != "cuda" else recorder_for(model.device)


class _Held(Cache):
    """Keys and values of all layers, kept by a function of layer, keys and values."""

    def __init__(self, keep: Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        super().__init__(layers=[])
        self.keep = keep

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        return self.keep(layer, keys, values)

    def get_seq_length(self, *_: Any) -> int:
        return 0


class ModelNodes:
    """A model with keys and values in a NodeCache, see search.NodeDecoder.

    Args:
        features: (S, source, width) of the encoder.
        dtype: the type that products have.
        output: the pieces by whose places the search names tokens; None: it names ids.
    """

    def __init__(
        self,
        decoder: Decoder,
        features: Tensor,
        dtype: torch.dtype,
        output: CompactOutput | None = None,
    ) -> None:
        self.decoder, self.features, self.dtype, self.output = decoder, features, dtype, output
        self.shape = (decoder.layers, decoder.heads, decoder.width)
        self.key: Hashable = ("transformers", output is not None)

    def begin(self, cache: NodeCache) -> None:
        # The first step writes the keys and values of the sources. A recorded step must not, or it
        # would whenever it is replayed.
        if cache.recorder.records:
            start = cache.slots.new_zeros(cache.sentences * cache.size)
            cache.logits(start, start[:1], first=False)  # what else it writes is forgotten

    def decode(self, last: Tensor, position: Tensor, cache: NodeCache) -> Tensor:
        size = cache.size
        of_keys = torch.arange(cache.used, device=last.device) // size
        last = last if self.output is None else self.output.ids[last]
        inputs = {
            "encoder_outputs": BaseModelOutput(last_hidden_state=self.features[: cache.sentences]),
            "attention_mask": cache.mask.expand(-1, -1, size, -1),
            "decoder_input_ids": last.view(-1, size),
            "decoder_attention_mask": cache.seen,
            "use_cache": True,
            self.decoder.cache: _library_cache(cache),
        }
        known, width = self.decoder.positions, int(min(cache.room, self.decoder.longest))
        with ExitStack() as stack:
            at_nodes(stack, known, position.view(1, 1), of_keys.unsqueeze(0), width)
            logits: Tensor = self.decoder.forward(**inputs).logits
        return logits.flatten(0, 1)


def _library_cache(cache: NodeCache) -> EncoderDecoderCache:
    """Return the library's view of a cache."""

    def keep(layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return cache.keep(layer, torch.stack([keys, values]))

    held = EncoderDecoderCache(_Held(keep), _Held(cache.keep_source))
    held.cross_attention_cache.layers = [
        SimpleNamespace(keys=keys, values=values) for keys, values in cache.sources
    ]
    held.is_updated = dict.fromkeys(range(len(cache.sources)), cache.has_sources)
    return held


def eager_steps(
    decoder: Decoder,
    features: Tensor,
    attention_mask: Tensor,
    size: int,
    output: CompactOutput | None = None,
) -> NodeCache:
    """Return the steps of a decoder over sources, not to be recorded, see `node_search`."""
    nodes = ModelNodes(decoder, features, _product_type(features), output)
    sentences, source = attention_mask.shape
    cache = NodeCache(Unrecorded(), nodes, size, sentences, source, ROOM, features.device)
    cache.mask.copy_(_mask(attention_mask, nodes.dtype))
    return cache


def _product_type(features: Tensor) -> torch.dtype:
    device = features.device.type
    autocast = torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if autocast else features.dtype


def node_search(
    decoder: Decoder,
    features: Tensor,
    attention_mask: Tensor,
    rules: Rules,
    max_len: int,
    output: CompactOutput | None = None,
) -> Hypotheses:
    """Return the n-best lists of sources, by a model in eval mode.

    Args:
        features: (B, source, width) of the encoder.
        attention_mask: (B, source).
        max_len: tokens of the longest hypothesis, its end not counted.
        output: within its `searching`; rules and lists have places among its pieces, not ids.
    """
    device, recorder = features.device, decoder.recorder
    sentences, source = attention_mask.shape
    if recorder is None:
        steps = eager_steps(decoder, features, attention_mask, rules.size, output)
        return search(steps, rules, sentences, max_len, device, steps.recorder)
    more = [] if output is None else output.watched
    recorder.watch([*decoder.model.parameters(), *decoder.model.buffers(), *more])
    shape = (recorder.compaction.sentences(sentences), -(-source // SOURCE) * SOURCE)
    held = recorder.buffer(
        "transformers features", (*shape, features.size(-1)), features.dtype, device
    )
    held.zero_()
    held[:sentences, :source] = features
    nodes = ModelNodes(decoder, held, _product_type(features), output)
    cache = NodeCache(recorder, nodes, rules.size, *shape, ROOM, device)
    cache.mask.zero_()
    cache.mask[:sentences] = -torch.inf
    cache.mask[:sentences, ..., :source] = _mask(attention_mask, nodes.dtype)
    return search(cache, rules, sentences, max_len, device, recorder)


def _mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    hidden = attention_mask.eq(0)[:, None, None]
    zeros = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    return zeros.masked_fill(hidden, -torch.inf)


def known_decoder(model: Any, special: SpecialTokens) -> Decoder:
    """Return a model's decoder, of which candidates are searched and rows scored as nodes.

    Tried on one source and four short rows, whose probabilities must be those of the model's own
    logits: in steps that change the order of hypotheses, and by prefix trees.

    Raises:
        InputError: where they are not, or a decoder of another make raises whatever it may.
    """
    inputs, risk_set = trial(model, special)
    head, reason = type(model.get_output_embeddings()), ""
    if head is not nn.Linear:  # an adapter's, say, which adds something to it
        reason = f"its output layer is a {head.__name__}"
    elif getattr(model.config, "expert_capacity", None):
        reason = "its experts take so many tokens of a sequence and no more"
    elif not position_modules(model.get_decoder()):
        reason = "its decoder has positions of another kind"
    try:
        with torch.no_grad(), evaluation_mode(model):
            decoder = _decoder(model, inputs)
            right, means = _by_logits(model, inputs, risk_set.tokens, special)
            found, found_means = Scorer(model, special)(inputs, risk_set)
            steps = _by_steps(decoder, inputs, risk_set.tokens, special)
    except Exception as error:
        reason = reason or " ".join(str(error).split())[:200]
    else:
        half = model.dtype in (torch.float16, torch.bfloat16)
        pairs = ((found[0], right), (found_means, means), (steps, right))
        # torch's maximum, not Python's, which would drop NaN
        far = float(torch.stack([(one - other).abs().max() for one, other in pairs]).max())
        if not far <= (0.5 if half else 0.02):  # NaN is not, either
            reason = reason or f"its log-probabilities differ by {far:.2g} from its logits'"
    if reason:
        raise InputError(
            f"MODEL: {type(model).__name__} cannot be trained: {reason}; expected Marian, M2M-100, "
            "NLLB, BART, mBART, T5 or another model with such a decoder"
        )
    return decoder


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


def _previous(rows: Tensor, special: SpecialTokens) -> Tensor:
    previous = teacher_forcing_input(rows, special.start, PADDING)
    return previous.masked_fill(previous.eq(PADDING), special.pad)


def _by_logits(
    model: Any, inputs: dict[str, Tensor], tokens: Tensor, special: SpecialTokens
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (M, T) of one source's targets, and the mean (1, T) of the first."""
    rows = tokens[0]
    sources = {name: value.expand(len(rows), -1) for name, value in inputs.items()}
    logits = model(**sources, decoder_input_ids=_previous(rows, special), use_cache=False).logits
    lprobs = torch.log_softmax(logits.float(), dim=-1)
    own = lprobs.gather(-1, rows.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return own.masked_fill(rows.eq(PADDING), 0.0), lprobs[:1].mean(-1)


def _decoder(model: Any, inputs: dict[str, Tensor]) -> Decoder:
    names = inspect.signature(model.forward).parameters
    cache = "cache" if "cache" in names else "past_key_values"  # before transformers 5.23
    held = EncoderDecoderCache(DynamicCache(), DynamicCache())
    start = {"decoder_input_ids": inputs["input_ids"][:, :1]}
    model(**inputs, **start, **{cache: held}, use_cache=True)
    layers = held.self_attention_cache.layers
    heads, _, width = layers[0].keys.shape[1:]
    modules = position_modules(model.get_decoder())
    longest = table_size(model, "decoder")
    return Decoder(model, modules, longest, cache, len(layers), heads, width)


def _by_steps(
    decoder: Decoder, inputs: dict[str, Tensor], tokens: Tensor, special: SpecialTokens
) -> Tensor:
    """Return log-probabilities (M, T) of one source's targets, in steps that change their order."""
    rows = tokens[0]
    previous = _previous(rows, special)
    features = decoder.model.get_encoder()(**inputs, return_dict=True).last_hidden_state
    steps = eager_steps(decoder, features, inputs["attention_mask"], len(rows))
    steps.begin()
    order, found = torch.arange(len(rows)).to(rows), []
    for t in range(rows.size(1)):
        logits = steps.logits(previous[order, t], rows.new_tensor([t]), first=t == 0)
        lprobs = torch.log_softmax(logits.expand(len(rows), -1).float(), dim=-1)
        own = lprobs.gather(1, rows[order, t].clamp(min=0).unsqueeze(1)).squeeze(1)
        own = own.masked_fill(rows[order, t].eq(PADDING), 0.0)
        found.append(own[order.argsort()])
        order = order.roll(1)
        steps.reorder(torch.arange(len(rows)).to(rows).roll(1).unsqueeze(0))
    return torch.stack(found, dim=1)

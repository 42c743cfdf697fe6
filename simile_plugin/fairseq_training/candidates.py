"""The risk set U(x): n-best lists or samples of the current model, and their second scoring."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from simile_plugin.fairseq_training.beam import BeamOptions, Hypotheses, beam_search
from simile_plugin.files import InputError

logger = logging.getLogger(__name__)

# Decoders whose steps look at the last token and their own state only: our beam search feeds them.
# Subclasses count as long as they inherit that step.
KNOWN_STEPS = {
    "fairseq.models.fconv",
    "fairseq.models.lstm",
    "fairseq.models.transformer.transformer_decoder",
}


@dataclass(frozen=True)
class CandidateOptions:
    """How candidates are made; one field a ``--risk-...`` flag of the criterion."""

    size: int = 8
    search: str = "beam"
    diverse_groups: int = 1
    diverse_strength: float = 0.5
    sampling_topk: int = -1
    sampling_topp: float = -1.0
    temperature: float = 1.0
    lenpen: float = 1.0
    max_len_a: float = 1.5
    max_len_b: int = 10
    dtype: torch.dtype | None = None
    include_reference: bool = False
    dedupe: bool = True


@dataclass
class RiskSet:
    """Reference and candidates of B sentences, in one block.

    Attributes:
        tokens: (B, 1 + N, T) ids, each row ending in eos, padded on the right; the reference is
            row 0, the generator's candidates follow, best first.
        mask: (B, 1 + N) bool, members of the risk set; the reference is one only if asked for.
        tags: tokens that start and end every row of its batch, and are no text.
    """

    tokens: Tensor
    mask: Tensor
    tags: frozenset[int] = frozenset()

    def part(self, rows: slice) -> RiskSet:
        """The lists of some sentences."""
        return replace(self, tokens=self.tokens[rows], mask=self.mask[rows])

    def sentence_tokens(self, pad: int) -> list[int]:
        """Rows x longest row of each sentence, B numbers."""
        longest: list[int] = self.tokens.ne(pad).sum(-1).amax(1).tolist()
        return [self.tokens.size(1) * length for length in longest]


def unwrap(model: nn.Module) -> Any:
    """The fairseq model inside any distributed wrappers."""
    while isinstance(inner := getattr(model, "module", None), nn.Module):
        model = inner
    return model


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode for the block; each module's own mode comes back, also on an exception."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def weights_as(model: nn.Module, dtype: torch.dtype | None) -> Iterator[None]:
    """Within the block the model computes in ``dtype``, on copies of its weights.

    The parameters themselves stay as they are: the gradient, the optimiser and distributed
    wrappers hold on to them. None: nothing is changed.
    """
    if dtype is None:
        yield
        return
    # Plain tensors too: sinusoidal positions take the weights' type and would stay rounded.
    plain = [(m, {k: v for k, v in vars(m).items() if _is_float(v)}) for m in model.modules()]
    owned = [
        (module, name, tensor)
        for module in model.modules()
        for group in (module._parameters, module._buffers)
        for name, tensor in group.items()
        if tensor is not None and _is_float(tensor)
    ]
    lower: dict[Tensor, Any] = {}
    try:
        for module, name, tensor in owned:
            if tensor not in lower:
                copy = tensor.detach().to(dtype)
                parameter = isinstance(tensor, nn.Parameter)
                lower[tensor] = nn.Parameter(copy, requires_grad=False) if parameter else copy
            setattr(module, name, lower[tensor])  # an LSTM notes it in its list of weights, too
        with torch.autocast(next(model.parameters()).device.type, enabled=False):
            yield
    finally:
        for module, name, tensor in owned:
            setattr(module, name, tensor)
        for module, tensors in plain:
            vars(module).update(tensors)


def _is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def part_of(sample: dict[str, Any], rows: slice, pad: int) -> dict[str, Any]:
    """Some sentences of a batch; their sources without the columns that are padding in all of them.

    fairseq's LSTM encoder refuses a batch whose longest source is shorter than the batch is wide.
    """
    size = len(sample["target"])
    if rows == slice(0, size):  # the usual case, without waiting for the device
        return sample

    def cut(value: Any) -> Any:
        return value[rows] if isinstance(value, Tensor) and value.shape[:1] == (size,) else value

    net_input = {key: cut(value) for key, value in sample["net_input"].items()}
    sources = net_input["src_tokens"]
    net_input["src_tokens"] = sources[:, sources.ne(pad).any(0)]
    part = {key: cut(value) for key, value in sample.items() if key != "net_input"}
    return part | {"net_input": net_input}


class _Sampling(search.Sampling):
    """fairseq's sampling, which fails (on a GPU for good) where no token has a probability.

    There the sentence ends; its second scoring is no number, and keeps it out of the risk set.
    """

    def step(self, step: int, lprobs: Tensor, *args: Any, **kwargs: Any) -> Any:
        dead = lprobs.isneginf().all(-1)
        lprobs[..., self.eos] = lprobs[..., self.eos].masked_fill(dead, 0.0)
        return super().step(step, lprobs, *args, **kwargs)


class CandidateGenerator:
    """Makes risk sets by our own search or, for decoders of your own, by fairseq's
    SequenceGenerator; no nn.Module, so that fairseq's trainer neither saves, halves nor optimises
    what hangs in it.

    Args:
        dictionary: target dictionary.
        options: see :class:`CandidateOptions`.

    Raises:
        ValueError: if more candidates are asked for than the vocabulary has tokens.
    """

    def __init__(self, dictionary: Any, options: CandidateOptions) -> None:
        if options.size >= len(dictionary):
            raise InputError(
                f"--risk-candidates: got {options.size}; expected fewer than the "
                f"{len(dictionary)} entries of the target dictionary"
            )
        self.dictionary = dictionary
        self.options = options
        self._generator: SequenceGenerator | None = None
        self._model: nn.Module | None = None

    def __call__(self, model: nn.Module, sample: dict[str, Any]) -> RiskSet:
        """Generate the lists of a batch without gradient and put the references before them."""
        plain = unwrap(model)
        pad = self.dictionary.pad()
        start, end = start_and_end(sample, pad, self.dictionary.eos())
        with torch.no_grad(), evaluation_mode(plain), weights_as(plain, self.options.dtype):
            hypotheses = self._within_memory(plain, sample, start, end)
        risk_set = build_risk_set(sample["target"], hypotheses, self.options, pad, end)
        return replace(risk_set, tags=frozenset((start, end)))

    def _within_memory(
        self, model: Any, sample: dict[str, Any], start: int, end: int
    ) -> Hypotheses:
        """The lists of a batch; of its halves one after the other where memory runs out."""
        size = len(sample["target"])
        try:
            return self._hypotheses(model, sample, start, end)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
        # Here, not above: while an exception is handled, its frames hold on to their tensors.
        logger.warning(f"out of memory; making the lists of {size} sentences in two halves")
        halves = (slice(0, size // 2), slice(size // 2, size))
        pad = self.dictionary.pad()
        found = [
            self._within_memory(model, part_of(sample, half, pad), start, end) for half in halves
        ]
        return joined(found, pad)

    def _hypotheses(self, model: Any, sample: dict[str, Any], start: int, end: int) -> Hypotheses:
        options = self.options
        if steps_are_known(model.decoder):
            beam = BeamOptions(
                size=options.size,
                max_len_a=options.max_len_a,
                max_len_b=options.max_len_b,
                lenpen=options.lenpen,
                temperature=options.temperature,
                diverse_groups=options.diverse_groups,
                diverse_strength=options.diverse_strength,
                sampling=options.search == "sampling",
                topk=options.sampling_topk,
                topp=options.sampling_topp,
            )
            return beam_search(model, sample, beam, self.dictionary, start, end)
        # Without the ids, which fairseq's diverse search would take for rows of the batch.
        batch = {"net_input": sample["net_input"]}
        lists = self._generator_for(model, end).generate([], batch, bos_token=start)
        return stack_lists(lists, options.size, sample["target"], self.dictionary.pad())

    def _generator_for(self, model: nn.Module, end: int) -> SequenceGenerator:
        # SequenceGenerator keeps the model that it was built with and ignores generate's.
        if self._generator is None or self._model is not model or self._generator.eos != end:
            options = self.options
            self._generator = SequenceGenerator(
                [model],
                self.dictionary,
                beam_size=options.size,
                max_len_a=options.max_len_a,
                max_len_b=options.max_len_b,
                len_penalty=options.lenpen,
                temperature=options.temperature,
                search_strategy=self._strategy(),
                eos=end,
            )
            self._model = model
        return self._generator

    def _strategy(self) -> search.Search:
        options = self.options
        if options.search == "sampling":
            return _Sampling(self.dictionary, options.sampling_topk, options.sampling_topp)
        if options.diverse_groups > 1:
            return search.DiverseBeamSearch(
                self.dictionary, options.diverse_groups, options.diverse_strength
            )
        return search.BeamSearch(self.dictionary)


def start_and_end(sample: dict[str, Any], pad: int, eos: int) -> tuple[int, int]:
    """The tokens that the batch's targets start from and end in.

    Both are eos. Multilingual tasks start from the tag of a language, mBART also ends in it.
    """
    start = int(sample["net_input"]["prev_output_tokens"][0, 0])
    if start == eos:
        return eos, eos
    target = sample["target"]
    last = target.gather(1, target.ne(pad).sum(1, keepdim=True) - 1)
    return start, start if bool((last == start).all()) else eos


def steps_are_known(decoder: nn.Module) -> bool:
    """Whether our beam search may drive a decoder."""
    methods = (type(decoder).forward, getattr(type(decoder), "extract_features", None))
    return {method.__module__ for method in methods if method is not None} <= KNOWN_STEPS | {
        "fairseq.models.fairseq_incremental_decoder"  # an extract_features that fconv never calls
    }


def stack_lists(
    lists: list[list[dict[str, Tensor]]], size: int, like: Tensor, pad: int
) -> Hypotheses:
    """SequenceGenerator's lists as one block of ``size`` hypotheses a sentence.

    Args:
        like: a tensor with the ids' type and device.
    """
    longest = max((len(h["tokens"]) for hypos in lists for h in hypos[:size]), default=1)
    tokens = like.new_full((len(lists), size, longest), pad)
    scores = torch.full(tokens.shape[:2], -torch.inf, device=like.device)
    for row, hypos in enumerate(lists):
        for column, hypo in enumerate(hypos[:size]):
            tokens[row, column, : len(hypo["tokens"])] = hypo["tokens"]
            scores[row, column] = hypo["score"]
    return Hypotheses(tokens, scores)


def joined(parts: list[Hypotheses], pad: int) -> Hypotheses:
    """The lists of several batches as those of one."""
    longest = max(part.tokens.size(-1) for part in parts)
    tokens = [
        nn.functional.pad(part.tokens, (0, longest - part.tokens.size(-1)), value=pad)
        for part in parts
    ]
    return Hypotheses(torch.cat(tokens), torch.cat([part.scores for part in parts]))


def build_risk_set(
    target: Tensor, hypotheses: Hypotheses, options: CandidateOptions, pad: int, eos: int
) -> RiskSet:
    """Lay out references (B, T') and n-best lists as one padded block.

    Lists shorter than N, also empty ones, leave rows that are no members. With ``dedupe`` the
    first of equal token sequences is a member and the others are not.
    """
    batch, size, longest = hypotheses.tokens.shape
    width = max(longest, target.size(1))
    tokens = target.new_full((batch, 1 + size, width), pad)
    tokens[:, 0, : target.size(1)] = target
    tokens[:, 1:, :longest] = hypotheses.tokens
    mask = torch.zeros(batch, 1 + size, dtype=torch.bool, device=target.device)
    mask[:, 0] = options.include_reference
    mask[:, 1:] = hypotheses.scores > -torch.inf
    # a row of padding only would make attention, then gradients, NaN
    tokens[:, 1:, 0] = torch.where(mask[:, 1:], tokens[:, 1:, 0], eos)
    if options.dedupe:
        mask &= ~repeats(tokens, mask)
    return RiskSet(tokens, mask)


def repeats(tokens: Tensor, mask: Tensor) -> Tensor:
    """Where a member's tokens stand in an earlier member of its list: (B, M) bool."""
    equal = (tokens.unsqueeze(2) == tokens.unsqueeze(1)).all(-1)
    earlier = torch.ones_like(equal[0]).tril(-1)
    return (equal & earlier & mask.unsqueeze(1)).any(-1)

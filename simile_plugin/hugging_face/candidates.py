"""The risk set U(x) of a transformers model, by its `generate`, without gradient."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
)

from simile_plugin.files import InputError
from simile_plugin.hugging_face.models import PADDING, SpecialTokens, positions
from simile_plugin.hugging_face.scoring import TREES
from simile_plugin.hugging_face.steps import Decoder, known_decoder, node_search
from simile_plugin.risk import RiskSet, RiskSettings, evaluation_mode, layout, weights_as
from simile_plugin.search import Recorder, Rules, recorder_for

GENERATION_DTYPES = {"model": None, "bf16": torch.bfloat16, "fp16": torch.float16}
# Other searches and ends than ours that a model's generation config may ask for.
NOT_OURS = (
    *("num_beam_groups", "diversity_penalty", "penalty_alpha", "prompt_lookup_num_tokens"),
    *("force_words_ids", "constraints", "stop_strings", "max_new_tokens", "max_time"),
)
# What only `generate` does with a distribution, and the value that asks for nothing.
ONLY_GENERATE: dict[str, Any] = {
    **{"repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0},
    **{"encoder_no_repeat_ngram_size": 0, "min_length": 0, "min_new_tokens": 0, "typical_p": 1.0},
    **{"epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "guidance_scale": 1.0, "min_p": None},
    **dict.fromkeys(("top_h", "sequence_bias", "exponential_decay_length_penalty")),
    **dict.fromkeys(("begin_suppress_tokens", "forced_decoder_ids", "watermarking_config")),
    **{"remove_invalid_values": False},
}


class OwnSearch:
    """Our search for the candidates of a model, in place of its `generate`.

    Args:
        decoder: see `known_decoder`.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.copies: dict[Tensor, Any] = {}  # of weights in half precision, where steps expect them

    @functools.cached_property
    def recorder(self) -> Recorder | None:
        """Of the steps, on a GPU; not where a wrapper would keep what it makes within a step."""
        model = self.decoder.model
        wrapped = "forward" in vars(model) and not hasattr(model, "_original_forward")
        return None if wrapped or model.device.type != "cuda" else recorder_for(model.device)


def own_search(model: Any, special: SpecialTokens, way: str = TREES) -> OwnSearch | None:
    """Return the search of a model; None where its candidates are those of its `generate`.

    Args:
        way: of scoring, see `best_way`.
    """
    decoder = known_decoder(model, special, way)
    return None if decoder is None else OwnSearch(decoder)


@contextmanager
def our_search(model: Any) -> Iterator[None]:
    """Leave what of a model's generation config would change or refuse our search out of it."""
    before, model.generation_config = model.generation_config, copy.copy(model.generation_config)
    for name in NOT_OURS:
        setattr(model.generation_config, name, None)
    try:
        yield
    finally:
        model.generation_config = before


def generation_config(
    settings: RiskSettings, special: SpecialTokens, longest: int, most: float = math.inf
) -> Any:
    """Return what `generate` is asked for; what is not said here is the model's own.

    Args:
        longest: tokens of the longest source.
        most: that the model can write.

    Raises:
        InputError: where not even one token is allowed.
    """
    allowed = int(min(settings.risk_max_len_a * longest + settings.risk_max_len_b, most))
    if allowed < 1:
        raise InputError(
            f"--risk-max-len-a, --risk-max-len-b: a source of {longest} tokens gets {allowed}, "
            "expected at least 1; raise them"
        )
    sampling = settings.risk_search == "sampling"
    return GenerationConfig(
        do_sample=sampling,
        num_beams=1 if sampling else settings.risk_candidates,
        num_return_sequences=settings.risk_candidates,
        top_k=max(0, settings.risk_sampling_topk) if sampling else None,
        top_p=settings.risk_sampling_topp if sampling and settings.risk_sampling_topp > 0 else 1.0,
        temperature=settings.risk_temperature if sampling else 1.0,
        length_penalty=settings.risk_lenpen,
        early_stopping=not sampling,  # as soon as N are finished, as in fairseq
        max_length=1 + allowed,  # with the decoder start
        **special.first,
        eos_token_id=special.end,
        pad_token_id=special.pad,
        forced_eos_token_id=special.end,
        suppress_tokens=None if special.pad == special.end else [special.pad],
        use_cache=True,
        return_dict_in_generate=False,
    )


def generate(
    model: Any,
    inputs: dict[str, Tensor],
    settings: RiskSettings,
    special: SpecialTokens,
    search: OwnSearch | None = None,
) -> Tensor:
    """(B, N, T) candidates, best first, without the decoder start, padded by ``PADDING``."""
    longest = int(inputs["attention_mask"].sum(-1).max())  # whatever a batch is padded to
    config = generation_config(settings, special, longest, positions(model, "decoder"))
    processors = LogitsProcessorList()
    # What `generate` would lose beside our configuration, or for want of the sources' tokens.
    own = model.generation_config
    config.suppress_tokens = [*(config.suppress_tokens or []), *(own.suppress_tokens or [])] or None
    if own.encoder_no_repeat_ngram_size:
        size, config.encoder_no_repeat_ngram_size = own.encoder_no_repeat_ngram_size, 0
        processors.append(EncoderNoRepeatNGramLogitsProcessor(size, inputs["input_ids"]))
    if settings.risk_search == "beam" and settings.risk_temperature != 1.0:
        processors.append(_Temperature(settings.risk_temperature))
    rules = None if search is None else _rules(own, config, settings, special)
    dtype = GENERATION_DTYPES[settings.risk_generation_dtype]
    kept = None if search is None or search.recorder is None else search.copies
    with torch.no_grad(), our_search(model), evaluation_mode(model), weights_as(model, dtype, kept):
        encoded = model.get_encoder()(**inputs, return_dict=True)
        mask = inputs["attention_mask"]
        if search is not None and rules is not None:
            features, most = encoded.last_hidden_state, config.max_length - 2
            return node_search(search.decoder, features, mask, rules, most, search.recorder).tokens
        rows = model.generate(
            encoder_outputs=encoded,
            attention_mask=mask,
            generation_config=config,
            logits_processor=processors,
        )
    lists = rows[:, 1:].view(len(mask), settings.risk_candidates, -1)
    return padded_after(lists, special.end)


def _rules(own: Any, asked: Any, settings: RiskSettings, special: SpecialTokens) -> Rules | None:
    """Return what to search for, or None where the model's own config asks for more than that.

    Args:
        asked: see `generation_config`.
    """
    asks = (getattr(own, name, None) not in (None, no) for name, no in ONLY_GENERATE.items())
    words = [word for word in own.bad_words_ids or [] if word != [special.end]]
    if any(asks) or any(len(word) > 1 for word in words):
        return None
    return Rules.of(
        settings,
        PADDING,
        special.start,
        special.end,
        suppressed=tuple(sorted({*(asked.suppress_tokens or []), *itertools.chain(*words)})),
        renormalized=bool(own.renormalize_logits) or settings.risk_temperature != 1.0,
        first=own.forced_bos_token_id if special.tag is None else special.tag,
        as_generate=True,
    )


class _Temperature(LogitsProcessor):
    """Log-probabilities of a beam search divided by the temperature and normalised again."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return torch.log_softmax(scores / self.temperature, dim=-1)


def padded_after(rows: Tensor, end: int) -> Tensor:
    """Return rows of ids (..., T) with ``PADDING`` after their first end of sentence."""
    ended = rows.eq(end).cumsum(-1)
    return rows.masked_fill(ended - rows.eq(end).int() > 0, PADDING)


def references(labels: Tensor, special: SpecialTokens) -> Tensor:
    """(B, T) targets of the references: labels up to their end, the tag of mBART's after it cut."""
    order = labels.eq(PADDING).int().argsort(dim=-1, stable=True)  # some tokenizers pad on the left
    return padded_after(labels.gather(-1, order), special.end)


def risk_set_of(
    model: Any,
    inputs: dict[str, Tensor],
    settings: RiskSettings,
    special: SpecialTokens,
    search: OwnSearch | None = None,
) -> RiskSet:
    """Return the lists of a batch, the references before them.

    Args:
        inputs: input_ids, attention_mask and labels of B sentences.
        search: the model's; without one they are those of its `generate`.
    """
    sources = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    hyps = generate(model, sources, settings, special, search)
    found = hyps[..., 0].ne(PADDING)
    target = references(inputs["labels"], special)
    include, keep = settings.risk_include_reference, settings.risk_keep_duplicates
    return layout(target, hyps, found, include, keep, PADDING, special.end)

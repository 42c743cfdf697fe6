"""The risk set U(x) of a transformers model, by our search, without gradient."""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import Any

import torch
from torch import Tensor

from simile_plugin.files import InputError
from simile_plugin.hugging_face.compact_output import CompactOutput
from simile_plugin.hugging_face.models import PADDING, SpecialTokens, positions
from simile_plugin.hugging_face.steps import Decoder, node_search
from simile_plugin.risk import RiskSet, RiskSettings, evaluation_mode, layout
from simile_plugin.search import Hypotheses, Rules, within_memory

logger = logging.getLogger(__name__)

# What a generation config may ask of a distribution and our search does not do, and the value that
# asks for nothing.
UNHEEDED: dict[str, Any] = {
    **{"repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0},
    **{"encoder_no_repeat_ngram_size": 0, "min_length": 0, "min_new_tokens": 0},
    **dict.fromkeys(("sequence_bias", "exponential_decay_length_penalty")),
    **dict.fromkeys(("begin_suppress_tokens", "forced_decoder_ids")),
}


def warn_of_unheeded(asked: Any) -> None:
    """Say what of a model's generation config has no part in its candidates."""
    found = {name: getattr(asked, name, None) for name in UNHEEDED}
    named = [f"{n} {v}" for n, v in found.items() if v not in (None, UNHEEDED[n])]
    named += [f"bad_words_ids {word}" for word in asked.bad_words_ids or [] if len(word) > 1]
    ends = getattr(asked, "eos_token_id", None)
    if isinstance(ends, list) and len(ends) > 1:  # ours end with the tokenizer's alone
        named.append(f"eos_token_id {ends}")
    if named:
        logger.warning(
            f"generation config: {', '.join(named)}: heeded where the model translates, but not in "
            "the candidates that it is trained on"
        )


def rules_of(asked: Any, settings: RiskSettings, special: SpecialTokens, training: bool) -> Rules:
    """Return what to search for.

    Args:
        asked: the model's generation config, whose suppressed and forced tokens count.
        training: not for a validation, which is by the beam.
    """
    words = [word for word in asked.bad_words_ids or [] if word != [special.end]]
    single = itertools.chain(*(word for word in words if len(word) == 1))
    own = [] if special.pad == special.end else [special.pad]
    return Rules.of(
        settings,
        PADDING,
        special.start,
        special.end,
        training,
        suppressed=tuple(sorted({*own, *(asked.suppress_tokens or []), *single})),
        renormalized=bool(asked.renormalize_logits)
        or (training and settings.risk_temperature != 1.0),
        first=asked.forced_bos_token_id if special.tag is None else special.tag,
        as_generate=True,
    )


def padded_after(rows: Tensor, end: int) -> Tensor:
    """Return rows of ids (..., T) with ``PADDING`` after their first end of sentence."""
    ended = rows.eq(end).cumsum(-1)
    return rows.masked_fill(ended - rows.eq(end).int() > 0, PADDING)


def references(labels: Tensor, special: SpecialTokens) -> Tensor:
    """(B, T) targets of the references: labels up to their end, the tag of mBART's after it cut."""
    order = labels.eq(PADDING).int().argsort(dim=-1, stable=True)  # some tokenizers pad on the left
    return padded_after(labels.gather(-1, order), special.end)


def risk_set_of(
    decoder: Decoder,
    inputs: dict[str, Tensor],
    settings: RiskSettings,
    special: SpecialTokens,
    output: CompactOutput | None = None,
) -> RiskSet:
    """Return the lists of a batch, the references before them.

    Args:
        inputs: input_ids, attention_mask and labels of B sentences.
        output: the pieces that candidates are made of; None: the whole vocabulary.

    Raises:
        InputError: where not even one token is allowed.
    """
    model, mask = decoder.model, inputs["attention_mask"]
    longest = int(mask.sum(-1).max())  # whatever a batch is padded to
    bound = settings.risk_max_len_a * longest + settings.risk_max_len_b
    allowed = int(min(bound, positions(model, "decoder")))
    if allowed < 1:
        raise InputError(
            f"--risk-max-len-a, --risk-max-len-b: a source of {longest} tokens gets {allowed}, "
            "expected at least 1; raise them"
        )
    rules = rules_of(model.generation_config, settings, special, model.training)
    rules = rules if output is None else output.rules(rules)

    def search(rows: slice) -> Hypotheses:
        sources = {"input_ids": inputs["input_ids"][rows], "attention_mask": mask[rows]}
        features = model.get_encoder()(**sources, return_dict=True).last_hidden_state
        return node_search(decoder, features, mask[rows], rules, allowed - 1, output)

    with torch.no_grad(), evaluation_mode(model), contextlib.ExitStack() as stack:
        if output is not None:
            stack.enter_context(output.searching(kept=decoder.recorder is not None))
        hyps = within_memory(search, slice(0, len(mask)), decoder.recorder, PADDING).tokens
    hyps = hyps if output is None else output.full(hyps)
    found = hyps[..., 0].ne(PADDING)
    target = references(inputs["labels"], special)
    include, keep = settings.risk_include_reference, settings.risk_keep_duplicates
    return layout(target, hyps, found, include, keep, PADDING, special.end)

"""The n-best lists that fairseq's SequenceGenerator finds, by our search."""

from __future__ import annotations

from typing import Any

import torch

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.static_steps import static_steps
from simile_plugin.fairseq_training.steps import decoder_steps
from simile_plugin.files import InputError
from simile_plugin.search import AtOnce, Halves, Hypotheses, Recorder, Rules, Unrecorded, search


def beam_search(
    model: Any,
    sample: dict[str, Any],
    cfg: SimileRiskConfig,
    dictionary: Any,
    recorder: Recorder | None = None,
    ends: tuple[int, int] | None = None,
) -> Hypotheses:
    """Return the n-best lists that fairseq's SequenceGenerator finds, for a model in eval mode.

    Args:
        model: an encoder-decoder.
        sample: fairseq's batch.
        cfg: as fairseq's options of these names, N = ``risk_candidates`` being its beam.
        dictionary: target dictionary.
        recorder: for steps of few shapes, where the decoder is known so well.
        ends: first decoder input, and what ends a hypothesis. Default: both are eos.

    Raises:
        InputError: if the longest allowed hypothesis is empty.
    """
    net_input = sample["net_input"]
    source = net_input["src_tokens"]
    longest = source.size(1)
    allowed = int(cfg.risk_max_len_a * longest + cfg.risk_max_len_b)
    max_len = min(allowed, model.decoder.max_positions() - 1)
    if max_len < 1:
        raise InputError(
            f"--risk-max-len-a, --risk-max-len-b: a source of {longest} tokens gets {max_len}, "
            "expected at least 1; raise them"
        )
    eos = dictionary.eos()
    rules = Rules.of(cfg, dictionary.pad(), *(ends or (eos, eos)))
    asked = (rules, len(source), max_len, source.device)
    with torch.no_grad():
        if recorder is not None:
            static = static_steps(recorder, model, net_input, rules.size, max_len + 1)
            if static is not None:
                return search(static, *asked, recorder, Halves())
        with decoder_steps(model, net_input, rules.size, max_len + 1) as steps:
            return search(steps, *asked, Unrecorded(), AtOnce())

"""The n-best lists that fairseq's SequenceGenerator finds, by our search."""

from __future__ import annotations

from typing import Any

import torch

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.steps import decoder_steps
from simile_plugin.fairseq_training.transformer_steps import transformer_steps
from simile_plugin.files import InputError
from simile_plugin.search import Hypotheses, Recorder, Rules, Unrecorded, search


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
        recorder: of a plain Transformer's steps; None: they are not recorded.
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
        if known(model.decoder).plain_layers:
            recorder = recorder or Unrecorded()
            steps = transformer_steps(model, net_input, rules.size, max_len + 1, recorder)
            return search(steps, *asked, recorder)
        with decoder_steps(model, net_input, rules.size) as own_steps:
            return search(own_steps, *asked, Unrecorded())

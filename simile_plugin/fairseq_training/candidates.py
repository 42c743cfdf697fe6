"""The risk set U(x): n-best lists or samples of the current model, by our search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.steps import decoder_steps
from simile_plugin.fairseq_training.transformer_steps import transformer_steps
from simile_plugin.files import InputError
from simile_plugin.risk import RiskSet, evaluation_mode, layout, unwrap
from simile_plugin.search import (
    Hypotheses,
    Recorder,
    Rules,
    Unrecorded,
    recorder_for,
    search,
    within_memory,
)


def part_of(
    sample: dict[str, Any], rows: slice, pad: int, sources: Tensor | None = None
) -> dict[str, Any]:
    """Cut some sentences out of a batch, and the columns that are padding in all their sources.

    fairseq's LSTM encoder refuses a batch whose longest source is shorter than the batch is wide.

    Args:
        sources: all sources on the CPU, so that no device is asked where they end.
    """
    size = len(sample["target"])
    if rows == slice(0, size):  # the usual case, without waiting for the device
        return sample

    def cut(value: Any) -> Any:
        return value[rows] if isinstance(value, Tensor) and value.shape[:1] == (size,) else value

    net_input = {key: cut(value) for key, value in sample["net_input"].items()}
    known_sources = net_input["src_tokens"].cpu() if sources is None else sources[rows]
    used = known_sources.ne(pad).any(0).nonzero().flatten().tolist()  # without gaps
    net_input["src_tokens"] = net_input["src_tokens"][:, used[0] : used[-1] + 1]
    part = {key: cut(value) for key, value in sample.items() if key != "net_input"}
    return part | {"net_input": net_input}


class CandidateGenerator:
    """Makes risk sets by beam search or sampling.

    Args:
        dictionary: target dictionary.
        cfg: as read_config gives it.

    Raises:
        InputError: if the vocabulary has fewer tokens than are asked for.
    """

    def __init__(self, dictionary: Any, cfg: SimileRiskConfig) -> None:
        if cfg.risk_candidates >= len(dictionary):
            raise InputError(
                f"--risk-candidates: got {cfg.risk_candidates}; expected fewer than the "
                f"{len(dictionary)} entries of the target dictionary"
            )
        self.dictionary, self.cfg = dictionary, cfg
        # For a device that is no CPU: what stays in its memory from one search to the next.
        self.recorder: Recorder | None = None

    def __call__(self, model: nn.Module, sample: dict[str, Any]) -> RiskSet:
        """Generate the lists of a batch without gradient and put the references before them."""
        plain = unwrap(model)
        training = plain.training  # before the search's evaluation mode
        pad = self.dictionary.pad()
        ends = start_and_end(sample, pad, self.dictionary.eos())
        device = sample["target"].device
        if self.recorder is None and device.type != "cpu":
            self.recorder = recorder_for(device)

        def lists_of(rows: slice) -> Hypotheses:
            part = part_of(sample, rows, pad)
            return beam_search(
                plain, part, self.cfg, self.dictionary, self.recorder, ends, training
            )

        with torch.no_grad(), evaluation_mode(plain):
            rows = slice(0, len(sample["target"]))
            hypotheses = within_memory(lists_of, rows, self.recorder, pad)
        target = sample["target"]
        risk_set = build_risk_set(target, hypotheses, self.cfg, pad, ends[1])
        risk_set.tags = frozenset(ends)
        # A search on a device does not know how long its longest hypothesis is.
        longest = max(int(risk_set.lengths(pad).max(initial=1)), target.size(1))
        return risk_set.part(slice(None), longest)


def start_and_end(sample: dict[str, Any], pad: int, eos: int) -> tuple[int, int]:
    """Return the tokens that the batch's targets start from and end in.

    Both are eos. Multilingual tasks start from the tag of a language, mBART also ends in it.

    Raises:
        InputError: if the targets do not all start from the same token.
    """
    start, *others = set(sample["net_input"]["prev_output_tokens"][:, 0].tolist())
    if others:
        raise InputError(
            "--lang-pairs: got a batch with several target languages, expected one: its candidates "
            "start from one language's tag; train on one target language"
        )
    if start == eos:
        return eos, eos
    target = sample["target"]
    lengths = target.ne(pad).sum(1, keepdim=True)
    last = target.gather(1, (lengths - 1).clamp(min=0))
    return start, start if bool(((last == start) | (lengths == 0)).all()) else eos


def beam_search(
    model: Any,
    sample: dict[str, Any],
    cfg: SimileRiskConfig,
    dictionary: Any,
    recorder: Recorder | None = None,
    ends: tuple[int, int] | None = None,
    training: bool = True,
) -> Hypotheses:
    """Return the n-best lists that fairseq's SequenceGenerator finds, for a model in eval mode.

    Args:
        model: an encoder-decoder.
        sample: fairseq's batch.
        cfg: as fairseq's options of these names, N = ``risk_candidates`` being its beam.
        dictionary: target dictionary.
        recorder: of a plain Transformer's steps; None: they are not recorded.
        ends: first decoder input, and what ends a hypothesis. Default: both are eos.
        training: not for a validation, which is by the beam whatever ``risk_search`` says.

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
    start, end = ends or (dictionary.eos(), dictionary.eos())
    rules = Rules.of(cfg, dictionary.pad(), start, end, training)
    asked = (rules, len(source), max_len, source.device)
    with torch.no_grad():
        if known(model.decoder).plain_layers:
            recorder = recorder or Unrecorded()
            steps = transformer_steps(model, net_input, rules.size, max_len + 1, recorder)
            return search(steps, *asked, recorder)
        with decoder_steps(model, net_input, rules.size) as own_steps:
            return search(own_steps, *asked, Unrecorded())


def build_risk_set(
    target: Tensor, hypotheses: Hypotheses, cfg: SimileRiskConfig, pad: int, eos: int
) -> RiskSet:
    """Return the lists of a search beside the references (B, T'), see risk.layout."""
    include, keep = cfg.risk_include_reference, cfg.risk_keep_duplicates
    found = hypotheses.scores > -torch.inf
    return layout(target, hypotheses.tokens, found, include, keep, pad, eos)

"""fairseq for an update of risk training: the adapter that risk.Translator describes."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from simile_plugin.fairseq_training.candidates import CandidateGenerator, part_of
from simile_plugin.fairseq_training.config import SimileRiskConfig, settings_of
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.fairseq_training.target_text import (
    TargetText,
    marked_as,
    moses_detokenizer,
    moses_mark,
)
from simile_plugin.risk import RiskSet

logger = logging.getLogger(__name__)


@dataclass
class Batch:
    """fairseq's ``sample``."""

    sample: dict[str, Any]

    @cached_property
    def sources(self) -> Tensor:
        """Return their tokens on the CPU, (B, S)."""
        sources: Tensor = self.sample["net_input"]["src_tokens"].cpu()
        return sources


class FairseqTranslator:
    """The models of a task in an update; risk.Translator describes each method.

    Nothing with parameters hangs in it.

    Args:
        cfg: as read_config gives it.

    Raises:
        InputError: for flags that the dictionaries refuse, naming the flag.
    """

    def __init__(self, cfg: SimileRiskConfig, task: Any) -> None:
        self.generator = CandidateGenerator(task.target_dictionary, cfg)
        self.target_text = text_of(cfg, task, "target", cfg.risk_post_process)
        self.source_text = text_of(cfg, task, "source")
        self.pad = task.target_dictionary.pad()
        describe_text(self.target_text, cfg.risk_detok)

    @property
    def vocabulary(self) -> int:
        return len(self.target_text.symbols)

    def candidates(self, model: nn.Module, batch: Batch) -> RiskSet:
        risk_set = self.generator(model, batch.sample)
        # While the device has nothing to do: later, a copy would wait for all that it does.
        _ = batch.sources
        return risk_set

    def texts(self, risk_set: RiskSet) -> list[list[str]]:
        return self.target_text.lists(risk_set.on_host[0].tolist(), risk_set.tags)

    def sources(self, batch: Batch) -> list[str]:
        return self.source_text.strings(batch.sources.tolist())

    def counted(self, risk_set: RiskSet) -> Tensor:
        return risk_set.tokens.ne(self.pad)

    def some(self, batch: Batch, rows: slice) -> Batch:
        return Batch(part_of(batch.sample, rows, self.pad, batch.sources))

    def score(
        self, model: nn.Module, batch: Batch, risk_set: RiskSet, max_tokens: int
    ) -> tuple[Tensor, Tensor]:
        return score_rows(model, batch.sample, risk_set, self.pad, max_tokens)

    def inputs(self, batch: Batch) -> dict[str, Any]:
        inputs: dict[str, Any] = batch.sample["net_input"]
        return inputs

    def precision(self) -> AbstractContextManager[None]:
        return nullcontext()  # fairseq's trainer has it around the criterion


def describe_text(text: TargetText, detok: str) -> None:
    """Log how target tokens become text, and warn where the dictionary looks otherwise."""
    logger.info(f"target text: post-process {text.post_process}")
    marks = marked_as(text.symbols, text.counts)
    if text.post_process != marks:
        logger.warning(
            f"--risk-post-process {text.post_process}: the target dictionary looks like {marks}; "
            "rewards are computed of the text that comes out"
        )
    mark = moses_mark(text.symbols)
    if mark and detok == "none":
        logger.warning(
            f"the target dictionary has Moses' {mark}, which is scored as it stands; give "
            "--risk-detok moses if the text was tokenised by Moses"
        )


def text_of(cfg: SimileRiskConfig, task: Any, side: str, post_process: str = "auto") -> TargetText:
    """Return how ids become strings, of the side "target" (what is scored) or "source".

    Args:
        post_process: of the target; a source's follows from its dictionary.
    """
    moses = cfg.risk_detok == "moses"
    detokenize = moses_detokenizer(language_of(task, side)) if moses else None
    dictionary = getattr(task, f"{side}_dictionary")
    if side == "target":
        return TargetText(dictionary, post_process, detokenize)
    # A source may be units of speech, or other numbers.
    text = TargetText(dictionary, marked_as(dictionary.symbols, dictionary.count), detokenize)
    text.silent |= language_tags(task)  # a target's are its batch's first and last
    return text


def language_of(task: Any, side: str) -> str:
    """Return a side's language; a multilingual training names it in its --lang-pairs alone."""
    if named := getattr(settings_of(task), f"{side}_lang", None):
        return str(named)
    pairs = getattr(task, "lang_pairs", ())
    return pairs[0].split("-")[side == "target"] if pairs else "en"


def language_tags(task: Any) -> set[int]:
    """Return the tags by which a multilingual task names a source's language, or its target's."""
    dictionary, languages = task.source_dictionary, getattr(task, "langs", ())
    tags = [form.format(language) for language in languages for form in ("__{}__", "[{}]")]
    return {dictionary.index(tag) for tag in tags if tag in dictionary}

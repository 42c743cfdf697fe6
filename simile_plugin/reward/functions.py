"""The reward as a function of TRL's trainers, for decoder-only translation models."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from simile_plugin.encoder import copied_share, language_classifier, split_words
from simile_plugin.files import InputError
from simile_plugin.reward.completions import message_text, strip_answer
from simile_plugin.reward.lists import refuse_surrogates, refuse_text
from simile_plugin.reward.ngrams import repetition
from simile_plugin.reward.scorer import Scorer

LANGUAGE = "language"  # the argument, for messages
# BLEU, chrF and encoders remember words for all calls; verl and OpenRLHF call from several threads.
ONE_AT_A_TIME = threading.Lock()


class CompletionReward:
    """A reward as TRL's GRPO trainers call it: (prompts, completions, **columns) -> floats.

    Args:
        scorer: of the reward.
        references: column of the data set with the reference translations.
        sources: column with the source sentences, for `source` and a reward of your own; default:
            the prompts.
        language: ISO 639-1 code of the target's language, for a gate: a completion that py3langid
            takes for another language is worth 0, unless it takes the reference for one, too.
        strip: score the answer alone, without thoughts, tags and code fence (`strip_answer`).

    Raises:
        InputError: for an unknown language at once; for a missing column when called.

    Attributes:
        __name__: that of the reward, for TRL's logs.
    """

    def __init__(
        self,
        scorer: Scorer,
        references: str = "reference",
        sources: str | None = None,
        language: str | None = None,
        strip: bool = True,
    ) -> None:
        if language:
            language_classifier(language, LANGUAGE)  # fails now rather than after a generation
        self.scorer, self.references, self.sources = scorer, references, sources
        self.language, self.strip = language, strip
        self.__name__ = scorer.reward.spec

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], object] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return what the completions are worth.

        Args:
            prompts, completions: strings, or conversations.
            log_metric: is told the batch's signs of a gamed reward, see :meth:`log_signs`.
            columns: of the data set; what else TRL passes is not read.

        Returns:
            values, higher is better, one a completion; NaN where a reward of your own is not
            finite, None where the row has no reference.
        """
        refuse_text(completions, "completions")
        refs = self._references(columns, len(completions))
        known = ["" if _missing(ref) else ref for ref in refs]
        texts = map(message_text, completions)
        hyps = [strip_answer(text) if self.strip else text.strip() for text in texts]
        of = _column(columns, self.sources, "sources") if self.sources else prompts
        srcs = list(map(message_text, of))
        for texts_of, what in ((hyps, "completions"), (known, "references"), (srcs, "sources")):
            refuse_surrogates(texts_of, what)
        with ONE_AT_A_TIME:
            values = self.scorer.values([[hyp] for hyp in hyps], known, srcs).flatten().tolist()
            foreign = self._foreign(hyps, known)
        if log_metric is not None and hyps:
            self.log_signs(hyps, known, srcs, foreign, log_metric)
        return [
            None if _missing(ref) else min(value, 0.0) if other else value
            for ref, value, other in zip(refs, values, foreign, strict=True)
        ]

    def log_signs(
        self,
        hyps: Sequence[str],
        refs: Sequence[str],
        srcs: Sequence[str],
        foreign: Sequence[bool],
        log_metric: Callable[[str, float], object],
    ) -> None:
        """Log the signs of a gamed reward, as means of a batch.

        length_ratio: words of the completions by those of their references; repetition: share of a
        completion's bigrams that it has said before; copied: share of them that stand in the
        source or prompt; other_language: share of completions that the gate stops, if there is one.
        """
        words = [split_words(hyp) for hyp in hyps]
        if self.scorer.reward.needs_references:
            of_refs = sum(len(split_words(ref)) for ref in refs)
            log_metric("length_ratio", sum(map(len, words)) / max(1, of_refs))
        log_metric("repetition", repetition(words) / len(hyps))
        log_metric("copied", sum(map(copied_share, hyps, srcs)) / len(hyps))
        if self.language:
            log_metric("other_language", sum(foreign) / len(hyps))

    def _references(self, columns: dict[str, Any], count: int) -> list[Any]:
        """Return the column of the references, or empty ones where none is read."""
        if not self.scorer.reward.needs_references:
            return [""] * count
        refs = _column(columns, self.references, "references")
        for number, ref in enumerate(refs, 1):
            if not (isinstance(ref, str) or _missing(ref)):
                raise InputError(
                    f"references: column '{self.references}' has {ref!r} for completion {number}; "
                    "expected one string: the reference translation"
                )
        return refs

    def _foreign(self, hyps: Sequence[str], refs: Sequence[str]) -> list[bool]:
        """Return which completions are in another language, as far as a classifier can tell.

        Of a reference that it takes for another language, a name or a word, it can tell nothing.
        """
        if not self.language:
            return [False] * len(hyps)
        classify = language_classifier(self.language, LANGUAGE)
        other = [bool(hyp) and classify(hyp)[0] != self.language for hyp in hyps]
        return [
            foreign and (not ref or classify(ref)[0] == self.language)
            for foreign, ref in zip(other, refs, strict=True)
        ]


def _column(columns: dict[str, Any], name: str, what: str) -> list[Any]:
    column = columns.get(name)
    if column is None:
        raise InputError(
            f"{what}: the data set has no column '{name}'; it has "
            f"{', '.join(sorted(columns)) or 'none'}"
        )
    refuse_text(column, f"column '{name}'")
    return list(column)


def _missing(reference: Any) -> bool:
    """Say whether there is none: None, or NaN, as pandas writes it."""
    return reference is None or (isinstance(reference, float) and math.isnan(reference))

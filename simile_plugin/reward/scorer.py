"""The one way to score texts: an encoder, a length penalty, a tokeniser, and a reward of them.

Training, validation, every command and the functions for other trainers score by a `Scorer`, so
that one sentence has one score wherever it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from simile_plugin.encoder import RewardEncoder, to_device
from simile_plugin.files import InputError
from simile_plugin.reward.bleu import bleu_signature, list_statistics, sentence_bleu
from simile_plugin.reward.chrf import (
    CHAR_ORDER,
    chrf_signature,
    list_chrf_statistics,
    sentence_chrf,
)
from simile_plugin.reward.learned import LearnedReward
from simile_plugin.reward.lists import ListScores, check_lists, refuse_text
from simile_plugin.reward.simile import SIMILE_ALPHA, add_similarity, signature
from simile_plugin.reward.source import check_source_side, source_scores
from simile_plugin.reward.spec import Reward

SENTENCES_AT_ONCE = 512


@dataclass(frozen=True)
class Scorer:
    """Scores texts against references: BLEU, chrF, SIM, SIMILE, a learned reward, and --reward.

    A list is N candidates of one sentence; B lists have B references, and B sources where the
    source is read. Whoever needs other settings makes another scorer (`dataclasses.replace`).

    Args:
        reward: what :meth:`values` gives; BLEU, which needs no encoder, if none is named.
        encoder: the reward encoder, of SIM, SIMILE, the source and the learned reward; without it
            these are not scored.
        alpha: exponent of SIMILE's length penalty (Wieting et al. 2019, section 3.2: 0.25).
        tokenize: sacreBLEU tokeniser of BLEU.
        learned: a learned reward that is scored beside the others; by default that of `reward`.

    Raises:
        InputError: if the reward needs an encoder and there is none, one of two languages, or the
            encoder of the learned reward's fit, and this is another.
    """

    reward: Reward = field(default_factory=lambda: Reward("bleu"))
    encoder: RewardEncoder | None = None
    alpha: float = SIMILE_ALPHA
    tokenize: str = "13a"
    learned: LearnedReward | None = None

    def __post_init__(self) -> None:
        if self.reward.learned is not None:
            object.__setattr__(self, "learned", self.reward.learned)
        if self.encoder is None:
            self.reward.refuse_missing_encoder("--encoder")
            return
        if self.learned is not None:
            self.learned.use(self.encoder)
        if self.reward.needs_sources:
            check_source_side(self.encoder)

    def lists(
        self,
        hyps: Sequence[Sequence[str]],
        refs: Sequence[str],
        srcs: Sequence[str] | None = None,
        chrf_words: int | None = None,
    ) -> ListScores:
        """Score B lists of N candidates; the encoder reads each distinct string once.

        Args:
            hyps: B lists of N plain strings.
            refs: B plain strings.
            srcs: B sources, for an encoder of two languages; None leaves `source` out.
            chrf_words: the word order, 0 for chrF and 2 for chrF++ beside it; None: what the
                reward reads.

        Raises:
            InputError: if there is not one list a reference, or the lists differ in length.
        """
        check_lists(hyps, refs)
        stats = list_statistics(hyps, refs, self.tokenize)
        scores = ListScores(bleu_stats=stats, bleu=sentence_bleu(stats))
        self._add_encoder_scores(scores, hyps, refs, srcs)
        words = self.reward.chrf_words if chrf_words is None else chrf_words
        if words is not None:
            counts = list_chrf_statistics(hyps, refs, words)
            scores.chrf_stats = torch.from_numpy(counts)
            scores.chrf = sentence_chrf(counts[..., : 3 * CHAR_ORDER])
            scores.chrfpp = sentence_chrf(counts) if words else None
        return scores

    def outputs(
        self,
        outputs: Sequence[Sequence[str]],
        refs: Sequence[str],
        srcs: Sequence[str] | None = None,
        chrf_words: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> ListScores:
        """Score whole system outputs, in memory that does not grow with their length.

        Args:
            outputs: N outputs of B sentences each.
            refs: B references.
            srcs, chrf_words: see :meth:`lists`.
            progress: called with the number of sentences just scored.

        Returns:
            Scores of shape (B, N), on the CPU.

        Raises:
            InputError: as :meth:`lists`, or if an output has not a sentence a reference.
        """
        refuse_text(refs, "references")
        for output in outputs:
            refuse_text(output, "the sentences of an output")
        if any(len(output) != len(refs) for output in outputs):
            sizes = ", ".join(str(len(output)) for output in outputs)
            raise InputError(f"got outputs of {sizes} sentences for {len(refs)} references")
        parts = []
        for start in range(0, len(refs), SENTENCES_AT_ONCE):
            rows = slice(start, start + SENTENCES_AT_ONCE)
            lists = list(zip(*(output[rows] for output in outputs), strict=True))
            srcs_of_rows = None if srcs is None else srcs[rows]
            parts.append(self.lists(lists, refs[rows], srcs_of_rows, chrf_words))
            if progress is not None:
                progress(len(lists))
        if not parts:
            parts.append(self.lists([], [], None if srcs is None else [], chrf_words))
        return _joined(parts)

    def values(
        self,
        hyps: Sequence[Sequence[str]],
        refs: Sequence[str],
        srcs: Sequence[str],
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the reward of B lists of N candidates, and no score beside it: (B, N) float32.

        Args:
            mask: (B, N) bool, True at real candidates, for a user's function; default: all.

        Raises:
            InputError: as :meth:`lists`, for missing sources, and as `Reward.from_function`.
        """
        check_lists(hyps, refs)
        reward = self.reward
        shape = len(hyps), len(hyps[0]) if hyps else 0
        if reward.function is not None:
            mask = torch.ones(shape, dtype=torch.bool) if mask is None else mask
            return reward.from_function([[*row] for row in hyps], [*refs], [*srcs], mask)
        srcs_read = self._sources(srcs, refs)
        if self.encoder is None or "bleu" in reward.weights or reward.chrf_words is not None:
            return reward.from_scores(self.lists(hyps, refs, srcs_read))
        # Without BLEU, which takes most of the time.
        scores = ListScores(torch.zeros(*shape, 10), torch.zeros(shape))
        self._add_encoder_scores(scores, hyps, refs, srcs_read, similar=reward.needs_references)
        return reward.from_scores(scores)

    def values_and_scores(
        self,
        hyps: list[list[str]],
        members: Tensor,
        sources: Callable[[], list[str]],
        device: torch.device,
    ) -> tuple[Tensor, ListScores]:
        """Return what training reads of lists, on a device without waiting for it.

        Args:
            hyps: B lists of 1 + N strings, the reference first.
            members: (B, 1 + N) bool, on the CPU: what a user's function is asked about; it sees
                the references as candidates where one is a member.
            sources: makes the B source sentences, where something asks for them.
            device: of the results; the encoder moves there.

        Returns:
            (B, 1 + N) reward, and every score.
        """
        if self.encoder is not None:
            self.encoder.to(device)  # in place
        refs = [row[0] for row in hyps]
        srcs = self._sources(sources(), refs) if self.reward.needs_sources else None
        scores = self.lists(hyps, refs, srcs).to(device)
        if self.reward.function is None:
            return self.reward.from_scores(scores), scores
        first = 0 if members[:, 0].any() else 1
        lists = [row[first:] for row in hyps]
        values = self.reward.from_function(lists, refs, sources(), members[:, first:])
        return to_device(nn.functional.pad(values, (first, 0)), device), scores

    def signatures(self, *columns: str, sentence: bool = False) -> dict[str, str]:
        """Return what stands behind columns of a table, in sacreBLEU's manner.

        A column that is not scored, as SIM without an encoder, is left out.

        Args:
            columns: BLEU, chrF, LEARNED, or a text that begins with SIM or SOURCE.
            sentence: of sentence BLEU.
        """
        known = {
            "BLEU": bleu_signature(self.tokenize, sentence=sentence),
            "chrF": chrf_signature(),
            "LEARNED": self.learned.signature if self.learned is not None else "",
        }
        of_encoder = signature(self.encoder, self.alpha) if self.encoder is not None else ""
        behind = {column: known.get(column, of_encoder) for column in columns}
        return {column: text for column, text in behind.items() if text}

    def _add_encoder_scores(
        self,
        scores: ListScores,
        hyps: Sequence[Sequence[str]],
        refs: Sequence[str],
        srcs: Sequence[str] | None,
        similar: bool = True,
    ) -> None:
        """Fill in what needs the encoder: SIM and SIMILE if `similar`, learned, source."""
        if self.encoder is None:
            return
        if similar:
            add_similarity(scores, hyps, refs, self.encoder, self.alpha)
        if self.learned is not None and scores.sim is not None:
            scores.learned = self.learned.scores(hyps, refs, self.encoder, scores.sim, srcs)
        if srcs is not None:
            scores.source = source_scores(hyps, srcs, self.encoder, self.alpha)

    def _sources(self, srcs: Sequence[str], refs: Sequence[str]) -> Sequence[str] | None:
        """Return the sources where the reward reads them; InputError where there are none.

        An empty source is worth nothing, and is no error: a batch may well have such lines alone.
        """
        if not self.reward.needs_sources:
            return None
        if not srcs and refs:
            raise InputError(
                f"{self.reward.flag} {self.reward.spec}: got no sources; give them (--src FILE)"
            )
        return srcs


def _joined(parts: Sequence[ListScores]) -> ListScores:
    """Return the scores of consecutive sentences as those of all, on the CPU."""
    tensors: dict[str, Any] = {
        name: None if value is None else torch.cat([getattr(part, name).cpu() for part in parts])
        for name, value in vars(parts[0]).items()
        if name not in ("unknown_pieces", "tokens")
    }
    return ListScores(
        **tensors,
        unknown_pieces=sum(part.unknown_pieces for part in parts),
        tokens=sum(part.tokens for part in parts),
    )

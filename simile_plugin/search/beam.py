"""Beam search and sampling with the results of fairseq's SequenceGenerator,
for a batch of long n-best lists.

What it leaves out: hypotheses are back pointers until the end, so that neither token rows nor
attention maps are copied at each step; the softmax is a log-sum-exp and a top-k; finished
hypotheses are collected by scatter, not one by one in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from simile_plugin.risk import RiskSettings
from simile_plugin.search.continuations import (
    best_continuations,
    best_of_rows,
    block_topk,
    draw,
    leave_out,
)


@dataclass
class Hypotheses:
    """N-best lists of B sentences, best first.

    Attributes:
        tokens: (B, N, T) ids, each row ending in eos, padded on the right.
        scores: (B, N) log-probability / length^lenpen, float32; -inf where a list is shorter.
    """

    tokens: Tensor
    scores: Tensor


@dataclass(frozen=True)
class Rules:
    """The bounds and special tokens of a search.

    Attributes:
        size: N, fairseq's beam.
        sampling: ancestral sampling, not a beam search.
        lenpen, temperature: see RiskSettings.
        pad: what lists are filled up with.
        start: first decoder input.
        end: token that ends a hypothesis.
        suppressed: tokens that are never written.
        renormalized: whether probabilities are those without the suppressed tokens.
        first: token that every hypothesis begins with, at no cost; None: any.
        as_generate: as in transformers a hypothesis may end at once, one that is cut pays nothing
            for its end, and of those that fill a list the best stay; else as in fairseq.
    """

    size: int
    sampling: bool
    lenpen: float
    temperature: float
    pad: int
    start: int
    end: int
    suppressed: tuple[int, ...] = ()
    renormalized: bool = False
    first: int | None = None
    as_generate: bool = False

    @property
    def slots(self) -> int:
        """Finished hypotheses that a sentence may have, and one place more."""
        return 2 * self.size if self.as_generate else self.size + 1

    @classmethod
    def of(
        cls, settings: RiskSettings, pad: int, start: int, end: int, training: bool, **more: Any
    ) -> Rules:
        """Those of a training's settings, with ``more`` of the others.

        A validation is by the beam, also of a training by samples: it judges what a user gets.
        """
        return cls(
            settings.risk_candidates,
            training and settings.risk_search == "sampling",
            settings.risk_lenpen,
            settings.risk_temperature if training else 1.0,
            pad,
            start,
            end,
            **{"suppressed": (pad,), **more},
        )


@dataclass
class Beams:
    """The hypotheses that S sentences go on with, (S, N) each.

    Attributes:
        last: their last tokens.
        scores: their log-probabilities.
        ignored: fillers, which are no hypotheses (SequenceGenerator's cands_to_ignore).
    """

    last: Tensor
    scores: Tensor
    ignored: Tensor

    def begin(self, start: int) -> None:
        """Write what stands before the first step."""
        self.last.fill_(start)
        self.scores.zero_()
        self.ignored.zero_()


@dataclass
class History:
    """The hypotheses of B sentences so far, as back pointers.

    Attributes:
        parents, chosen: (steps, B, N) the beam that each new beam continues, and its new token.
        steps, beams, scores: (B, Rules.slots) ends of finished hypotheses; the last column takes
            what is not kept.
        count: (B,) finished hypotheses.
    """

    parents: Tensor
    chosen: Tensor
    steps: Tensor
    beams: Tensor
    scores: Tensor
    count: Tensor

    def begin(self) -> None:
        """Forget all hypotheses."""
        self.steps.fill_(-1)
        self.scores.fill_(-torch.inf)
        self.beams.zero_()
        self.count.zero_()

    def add(self, rows: Tensor, ended: Tensor, beams: Tensor, scores: Tensor, step: Tensor) -> None:
        """Append to each list, in order, the hypotheses that ended, until it is full."""
        size = self.steps.size(1) - 1
        count = self.count[rows]
        slots = ended.cumsum(1).add_(count.unsqueeze(1) - 1)
        slots = torch.where(ended & (slots < size), slots, size)
        row = rows.unsqueeze(1)
        self.steps[row, slots] = step
        self.beams[row, slots] = beams
        self.scores[row, slots] = scores.to(self.scores.dtype)
        self.count[rows] = (count + ended.sum(1)).clamp_(max=size)

    def hypotheses(self, longest: int, rules: Rules) -> Hypotheses:
        """Follow the back pointers of all finished hypotheses at once.

        Args:
            longest: tokens of a row.
        """
        # Walking from the last step to the first, each hypothesis picks up the token of the beam it
        # stands on and moves to that beam's parent; one that ends later joins at its last step.
        scores, order = self.scores[:, :-1].sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, : rules.size], order[:, : rules.size]
        steps = self.steps[:, :-1].gather(1, order)
        beams = self.beams[:, :-1].gather(1, order)
        tokens = steps.new_full((*steps.shape, longest), rules.pad)
        for step in range(longest - 1, -1, -1):
            inside = steps > step
            ids = torch.where(inside, self.chosen[step].gather(1, beams), rules.pad)
            tokens[..., step] = torch.where(steps == step, rules.end, ids)
            beams = torch.where(inside, self.parents[step].gather(1, beams), beams)
        return Hypotheses(tokens, scores)


@dataclass
class SearchState:
    """A search of B sentences, S of which go on.

    Attributes:
        rules: what is searched for.
        rows: (S,) the rows of the S sentences in the history.
        beams: the hypotheses that the S sentences go on with.
        history: of all B sentences.
    """

    rules: Rules
    rows: Tensor
    beams: Beams
    history: History

    def begin(self) -> None:
        """Write what stands before the first step."""
        self.beams.begin(self.rules.start)
        self.history.begin()

    def advance(
        self, logits: Tensor, step: Tensor, norm: Tensor, first: bool, final: bool
    ) -> Tensor:
        """Go from the logits of a step to the hypotheses of the next one, in place.

        Args:
            logits: (S x N, V), of the first step (S, V); changed in place.
            step: (1,) its number.
            norm: (1,) (step + 1) ** lenpen.
            first: no hypothesis of fairseq's ends at this step.
            final: all hypotheses end at this step.

        Returns:
            (S, N) the hypothesis of before that each new one continues.
        """
        size, beams, rows = self.rules.size, self.beams, self.rows
        best, tokens, origins = continuations(logits, beams.scores, self.rules, first, final)
        # As in SequenceGenerator, an eos counts only among the best N of the 2N continuations: so
        # many are asked for that N go on even if all of the best N end.
        ended = tokens.eq(self.rules.end) & best.ne(-torch.inf)
        top = torch.gt(ended[:, :size], beams.ignored)  # one and not the other
        if self.rules.as_generate:
            top = top & (self.history.count[rows] < size).unsqueeze(1)
        self.history.add(rows, top, origins[:, :size], best[:, :size] / norm, step)
        ended[:, :size] |= beams.ignored
        # The first N candidates that go on; where there are fewer, ended ones fill the beam.
        width = ended.size(1)
        going = torch.add(numbers(width, ended.device), ended, alpha=width)
        places, active = going.topk(size, dim=1, largest=False)
        torch.gather(tokens, 1, active, out=beams.last)
        beams.scores.copy_(best.gather(1, active))
        torch.ge(places, width, out=beams.ignored)
        parents = origins.gather(1, active)
        self.history.parents[step, rows], self.history.chosen[step, rows] = parents, beams.last
        return parents


@cache
def numbers(count: int, device: torch.device) -> Tensor:
    """0, 1, .., count - 1; always the same tensor, which a recorded step may read."""
    return torch.arange(count, device=device)


def continuations(
    logits: Tensor, scores: Tensor, rules: Rules, first: bool, final: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Continuations of each sentence: scores, tokens and beams, best first.

    A search gives 2N of them, sampling N.
    """
    if first:  # all beams of a sentence are one
        scores = scores[:, :1]
    precise = torch.promote_types(logits.dtype, torch.float32)
    if rules.temperature != 1:
        logits = logits.to(precise) / rules.temperature
    # The best k continuations of a sentence are among the best k of each of its beams: a top-k by
    # beam, without normalising the rest of the vocabulary, then one over the beams.
    vocabulary = logits.size(-1)
    wanted = min(2 * rules.size, scores.size(1) * vocabulary - 1)
    left_out = rules.suppressed
    if rules.renormalized:
        leave_out(logits, left_out)
        left_out = ()
    if first and not rules.as_generate:
        left_out = (*left_out, rules.end)
    forced = rules.end if final else rules.first if first else None
    if forced is None and not rules.sampling:
        best, tokens = best_of_rows(logits, min(wanted, vocabulary), left_out)
        return best_continuations(best, tokens, scores, wanted)
    logits = logits.to(precise)
    lprobs = logits - logits.logsumexp(-1, keepdim=True)
    leave_out(lprobs, left_out)
    if forced is not None:
        only = 0.0 if rules.as_generate else lprobs[:, forced].clone()
        lprobs.fill_(-torch.inf)
        lprobs[:, forced] = only
    if rules.sampling:
        return drawn(lprobs, scores, rules)
    lprobs = lprobs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    return best_continuations(*block_topk(lprobs, min(wanted, vocabulary)), scores, wanted)


def drawn(lprobs: Tensor, scores: Tensor, rules: Rules) -> tuple[Tensor, Tensor, Tensor]:
    """One draw for each beam."""
    sentences = len(scores)
    lprobs = lprobs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    # Where no token has a probability the sentence ends: a draw from nothing is an error, on a GPU
    # for good. Its second scoring is NaN too.
    dead = lprobs.isneginf().all(-1)
    lprobs[:, rules.end] = lprobs[:, rules.end].masked_fill(dead, 0.0)
    index = draw(lprobs.exp(), rules.size * sentences // len(lprobs))
    found = lprobs.gather(1, index).view(sentences, -1) + scores
    beams = torch.arange(rules.size, device=scores.device).expand(sentences, -1)
    return found, index.view(sentences, -1), beams * (scores.size(1) > 1)

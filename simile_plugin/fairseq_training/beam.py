"""Beam search and sampling with the results of fairseq's SequenceGenerator,
for a batch of long n-best lists.

What it leaves out: hypotheses are back pointers until the end, so that neither token rows nor
attention maps are copied at each step; the softmax is a log-sum-exp and a top-k; finished
hypotheses are collected by scatter, not one by one in Python; and what steps.py leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder import to_device
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.steps import Steps, decoder_steps
from simile_plugin.files import InputError

# Vocabulary entries of a block of the top-k: the k best entries lie in the k blocks with the
# largest maxima, and a maximum is far cheaper than a selection.
BLOCK = 64


@dataclass
class Hypotheses:
    """N-best lists of B sentences, best first.

    Attributes:
        tokens: (B, N, T) ids, each row ending in eos, padded on the right.
        scores: (B, N) log-probability / length^lenpen, float32; -inf where a list is shorter.
    """

    tokens: Tensor
    scores: Tensor


class _Copy:
    """Values on their way to the host, which goes on meanwhile.

    Args:
        values: of a GPU, or of a device whose copies are always complete.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values.to("cpu", non_blocking=True)
        self.made = torch.cuda.Event() if values.is_cuda else None
        if self.made is not None:
            self.made.record()

    def read(self) -> Tensor:
        """Return the values; waits until they are there."""
        if self.made is not None:
            self.made.synchronize()
        return self.values


@dataclass
class _Found:
    """Ends of finished hypotheses: (B, N + 1), where the last column takes what is not kept."""

    steps: Tensor
    beams: Tensor
    scores: Tensor
    count: Tensor

    def add(self, rows: Tensor, ended: Tensor, beams: Tensor, scores: Tensor, step: int) -> None:
        """Append to each list, in order, the hypotheses that ended, until it has N."""
        size = self.steps.size(1) - 1
        slots = self.count[rows].unsqueeze(1) + ended.cumsum(1) - 1
        slots = torch.where(ended & (slots < size), slots, size)
        row = rows.unsqueeze(1)
        self.steps[row, slots] = step
        self.beams[row, slots] = beams
        self.scores[row, slots] = scores.to(self.scores.dtype)
        self.count[rows] = (self.count[rows] + ended.sum(1)).clamp(max=size)


def beam_search(
    model: Any,
    sample: dict[str, Any],
    cfg: SimileRiskConfig,
    dictionary: Any,
    start: int,
    end: int | None = None,
) -> Hypotheses:
    """Return the n-best lists that fairseq's SequenceGenerator finds, for a model in eval mode.

    Args:
        model: an encoder-decoder.
        sample: fairseq's batch.
        cfg: as fairseq's options of these names, N = ``risk_candidates`` being its beam.
        dictionary: target dictionary.
        start: first decoder input.
        end: what ends a hypothesis. Default: eos.

    Raises:
        InputError: if the longest allowed hypothesis is empty.
    """
    source = sample["net_input"]["src_tokens"]
    longest = source.size(1)
    allowed = int(cfg.risk_max_len_a * longest + cfg.risk_max_len_b)
    max_len = min(allowed, model.decoder.max_positions() - 1)
    if max_len < 1:
        raise InputError(
            f"--risk-max-len-a, --risk-max-len-b: a source of {longest} tokens gets {max_len}, "
            "expected at least 1; raise them"
        )
    with (
        torch.no_grad(),
        decoder_steps(model, sample["net_input"], cfg.risk_candidates, max_len + 1) as steps,
    ):
        return _Search(steps, source, max_len, cfg, dictionary, start, end).run()


class _Search:
    """The state of one search: R = active sentences x N rows."""

    def __init__(
        self,
        steps: Steps,
        source: Tensor,
        max_len: int,
        cfg: SimileRiskConfig,
        dictionary: Any,
        start: int,
        end: int | None,
    ) -> None:
        self.steps, self.max_len, self.cfg = steps, max_len, cfg
        self.pad, self.start = dictionary.pad(), start
        self.eos = dictionary.eos() if end is None else end
        self.size, self.device, self.batch = cfg.risk_candidates, source.device, len(source)
        # Back pointers of every step: the beam that each new beam continues, and its new token.
        shape = (self.max_len + 1, self.batch, self.size)
        self.parents = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.chosen = torch.zeros_like(self.parents)
        ends = torch.full((self.batch, self.size + 1), -1, device=self.device)
        none = torch.full(ends.shape, -torch.inf, device=self.device)
        count = torch.zeros(self.batch, dtype=torch.int64, device=self.device)
        self.found = _Found(ends, ends.clone(), none, count)
        self.look: _Copy | None = None

    def run(self) -> Hypotheses:
        # A finished sentence drops out of the batch: rows has the numbers of the others, and all
        # that a step needs has one entry for each of them.
        rows = torch.arange(self.batch, device=self.device)
        last = rows.new_full((self.batch * self.size,), self.start)
        scores = torch.zeros(self.batch, self.size, device=self.device)
        ignored = torch.zeros(self.batch, self.size, dtype=torch.bool, device=self.device)
        for step in range(self.max_len + 1):
            logits = self._logits(last, step)
            best, tokens, beams = self._candidates(logits, scores, step)
            # As in SequenceGenerator, an eos counts only among the best N of the 2N continuations:
            # so many are asked for that N go on even if all of the best N end.
            ended = tokens.eq(self.eos) & best.ne(-torch.inf)
            ended[:, : self.size] &= ~ignored
            top = ended[:, : self.size]
            norm = (step + 1) ** self.cfg.risk_lenpen
            self.found.add(rows, top, beams[:, : self.size], best[:, : self.size] / norm, step)
            if step == self.max_len:
                break
            kept = self._unfinished(rows)
            if kept is not None:
                if not len(kept):
                    break
                rows, best, tokens, beams = rows[kept], best[kept], tokens[kept], beams[kept]
                ended, ignored = ended[kept], ignored[kept]
            # Fillers of the last step are no hypotheses (SequenceGenerator's cands_to_ignore).
            ended[:, : self.size] |= ignored
            # The first N candidates that go on; where there are fewer, ended ones fill the beam.
            going = torch.arange(ended.size(1), device=self.device) + ended * ended.size(1)
            places, active = going.topk(self.size, dim=1, largest=False)
            ignored = places >= ended.size(1)
            scores, last = best.gather(1, active), tokens.gather(1, active)
            parents = beams.gather(1, active)
            self.parents[step, rows], self.chosen[step, rows] = parents, last
            self.steps.reorder(parents, kept)
            last = last.flatten()
        return self._hypotheses(step + 1)

    def _logits(self, last: Tensor, step: int) -> Tensor:
        logits = self.steps.logits(last, step)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return logits if self.cfg.risk_temperature == 1 else logits / self.cfg.risk_temperature

    def _candidates(
        self, logits: Tensor, scores: Tensor, step: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Continuations of each sentence: scores, tokens and beams, best first.

        A search gives 2N of them, sampling N.
        """
        if step == 0:  # all beams of a sentence are one
            scores = scores[:, :1]
        sums = logits.logsumexp(-1, keepdim=True)
        logits[:, self.pad] = -torch.inf
        if step >= self.max_len:
            only = logits[:, self.eos].clone()
            logits.fill_(-torch.inf)
            logits[:, self.eos] = only
        if step == 0:
            logits[:, self.eos] = -torch.inf
        if self.cfg.risk_search == "sampling":
            return self._drawn(logits - sums, scores)
        return best_continuations(logits, sums, scores, 2 * self.size)

    def _drawn(self, lprobs: Tensor, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One draw for each beam; the score is that of the untruncated distribution."""
        sentences = len(scores)
        topk, topp = self.cfg.risk_sampling_topk, self.cfg.risk_sampling_topp
        lprobs = lprobs.nan_to_num(nan=-torch.inf, neginf=-torch.inf)
        # Where no token has a probability the sentence ends: a draw from nothing is an error, on
        # a GPU for good. Its second scoring is NaN too.
        dead = lprobs.isneginf().all(-1)
        lprobs[:, self.eos] = lprobs[:, self.eos].masked_fill(dead, 0.0)
        tokens = None
        if topp > 0:
            lprobs, tokens = lprobs.sort(descending=True)
            mass = lprobs.exp().cumsum(-1)
            # The token that brings the mass to p is the last one.
            outside = mass.roll(1, dims=-1).ge(topp)
            outside[:, 0] = False
            lprobs = lprobs.masked_fill(outside, -torch.inf)
            if self.device.type == "cpu":  # others would have to say how many are left
                lprobs = lprobs[:, : int((~outside).sum(-1).max())]
        elif topk > 0:
            lprobs, tokens = lprobs.topk(min(topk, lprobs.size(1)))
        index = draw(lprobs.exp(), self.size * sentences // len(lprobs))
        found = lprobs.gather(1, index).view(sentences, -1) + scores
        drawn = (index if tokens is None else tokens.gather(1, index)).view(sentences, -1)
        beams = torch.arange(self.size, device=self.device).expand(sentences, -1)
        return found, drawn, beams * (scores.size(1) > 1)

    def _unfinished(self, rows: Tensor) -> Tensor | None:
        """Indices of the sentences without a full list, or None if nothing is to be removed.

        On a device as they were a step ago: the host prepares the next step while the device is at
        work on this one. A sentence that was finished still is.
        """
        open_ = self.found.count[rows] < self.size
        if self.device.type != "cpu":
            before, self.look = self.look, _Copy(open_)
            if before is None:
                return None
            open_ = before.read()
        kept = open_.nonzero().squeeze(1)
        if len(kept) == len(rows):
            return None
        self.look = None  # at rows that are other ones from here on
        return to_device(kept, self.device)

    def _hypotheses(self, searched: int) -> Hypotheses:
        """Follow the back pointers of all finished hypotheses at once.

        Args:
            searched: steps; on a device the rows are so long, which then need not be asked for.
        """
        # Walking from the last step to the first, each hypothesis picks up the token of the beam it
        # stands on and moves to that beam's parent; one that ends later joins at its last step.
        scores, order = self.found.scores[:, :-1].sort(dim=1, descending=True, stable=True)
        steps = self.found.steps[:, :-1].gather(1, order)
        beams = self.found.beams[:, :-1].gather(1, order)
        longest = searched
        if self.device.type == "cpu":
            longest = int(steps.max()) + 1 if steps.numel() else 0
        tokens = steps.new_full((*steps.shape, max(longest, 1)), self.pad)
        for step in range(longest - 1, -1, -1):
            inside = steps > step
            at = beams.clamp(min=0)
            ids = torch.where(inside, self.chosen[step].gather(1, at), self.pad)
            tokens[..., step] = torch.where(steps == step, self.eos, ids)
            beams = torch.where(inside, self.parents[step].gather(1, at), beams)
        return Hypotheses(tokens, scores)


def best_continuations(
    logits: Tensor, sums: Tensor, scores: Tensor, wanted: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best continuations of each sentence's beams, best first.

    Args:
        logits: (S x beams, V); ``sums``: (S x beams, 1) their log-sum-exp.
        scores: (S, beams) log-probabilities of the beams so far.
        wanted: continuations a sentence; there are at most beams x V - 1.

    Returns:
        (S, wanted) scores, tokens, and beams that they continue.
    """
    # The best k continuations of a sentence are among the best k of each of its beams: a top-k by
    # beam, without normalising the rest of the vocabulary, then one over the beams.
    vocabulary = logits.size(-1)
    wanted = min(wanted, scores.size(1) * vocabulary - 1)
    best, tokens = block_topk(logits, min(wanted, vocabulary))
    best = (best - sums).nan_to_num(nan=-torch.inf, neginf=-torch.inf)
    best = best.view(*scores.shape, -1) + scores.unsqueeze(-1)
    beams = torch.arange(scores.size(1), device=scores.device).view(1, -1, 1).expand_as(best)
    best, index = best.flatten(1).topk(wanted, dim=1)
    tokens = tokens.view(len(scores), -1).gather(1, index)
    return best, tokens, beams.flatten(1).gather(1, index)


def block_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """``values.topk(k)`` of (R, V) rows, by the maxima of blocks first."""
    rows, width = values.shape
    blocks = width // BLOCK
    if blocks <= 4 * k:
        return values.topk(k, dim=1)
    # Each of the k best is the maximum of its block or stands beside a larger one in it, so that
    # their blocks are among the k with the largest maxima; the entries after the last whole block
    # are always looked at.
    whole = values[:, : blocks * BLOCK].view(rows, blocks, BLOCK)
    chosen = whole.amax(-1).topk(k, dim=1, sorted=False).indices
    index = chosen.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=values.device)
    rest = torch.arange(blocks * BLOCK, width, device=values.device).expand(rows, -1)
    index = torch.cat([index.flatten(1), rest], dim=1)
    best, places = values.gather(1, index).topk(k, dim=1)
    return best, index.gather(1, places)


def draw(weights: Tensor, draws: int) -> Tensor:
    """Draw from each row of weights (R, V), with replacement: (R, draws) int64."""
    if weights.device.type == "cpu":
        return torch.multinomial(weights, draws, replacement=True)
    # The first of exponential clocks to ring: multinomial would wait for a check of the weights.
    weights = weights.unsqueeze(1).expand(-1, draws, -1)
    return (weights / torch.empty_like(weights).exponential_()).argmax(-1)

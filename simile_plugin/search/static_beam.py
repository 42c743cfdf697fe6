"""The same search in steps of few shapes, so that each can be recorded once and replayed.

Sentences and tokens come in buckets: finished sentences stay in the batch until half of it is
finished, and room for tokens grows by 16. Everything lies in a recorder's buffers.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from simile_plugin.encoder import to_device
from simile_plugin.search.beam import Beams, History, Hypotheses, Look, Rules, SearchState
from simile_plugin.search.node_cache import ROOM, taken
from simile_plugin.search.recorder import Recorder

LEAST = 8  # sentences: fewer take no less time


class StaticSteps(Protocol):
    """What a search asks of a decoder for S sentences of N hypotheses with room for T tokens.

    All that it holds lies in a recorder's buffers or in the model.
    """

    key: Hashable  # what its shapes follow from, S and T among it

    def begin(self) -> None:
        """Prepare the first step; recorded."""

    def logits(self, last: Tensor, step: Tensor) -> Tensor:
        """Go on by one token; recorded.

        Args:
            last: (S x N,) the hypotheses' last tokens.
            step: (1,) how often this was called before.

        Returns:
            (S x N, V), of the first step too; the search may write into it.
        """

    def reorder(self, parents: Tensor) -> None:
        """Go on with other hypotheses, (S, N); recorded."""

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> StaticSteps:
        """Go on at another shape; not recorded. These steps are no longer used.

        Args:
            kept: (at most sentences,) which sentences go on; None: all.
        """


class _State:
    """The state of a search at one shape; ``step`` and ``trace`` are recorded."""

    def __init__(
        self, recorder: Recorder, steps: StaticSteps, rules: Rules, sentences: int, room: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.recorder, self.steps, self.rules = recorder, steps, rules
        self.sentences, self.room, self.device = sentences, room, device

        def buffer(name: str, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return recorder.buffer(f"search {name}", shape, dtype, device)

        lists = (sentences, rules.size)
        beams = Beams(
            buffer("last", *lists),
            buffer("scores", *lists, dtype=torch.float32),
            buffer("ignored", *lists, dtype=torch.bool),
        )
        history = History(
            buffer("parents", room, *lists),
            buffer("chosen", room, *lists),
            buffer("steps", sentences, rules.slots),
            buffer("beams", sentences, rules.slots),
            buffer("found", sentences, rules.slots, dtype=torch.float32),
            buffer("count", sentences),
        )
        self.search = SearchState(rules, buffer("rows", sentences), beams, history)
        self.number = buffer("step", 1)
        self.open = buffer("open", sentences, dtype=torch.bool)
        self.norms = buffer("norms", room, dtype=torch.float32)
        self.lists = Hypotheses(
            buffer("tokens", *lists, room), buffer("sorted", *lists, dtype=torch.float32)
        )

    def fill(self) -> None:
        """Write what follows from the shape."""
        self.search.rows.copy_(torch.arange(self.sentences, device=self.device))
        norms = [(step + 1) ** self.rules.lenpen for step in range(self.room)]
        self.norms.copy_(to_device(torch.tensor(norms), self.device))

    def begin(self) -> None:
        """Write what stands before the first step."""
        self.search.begin()
        self.search.history.parents.zero_()
        self.search.history.chosen.zero_()
        self.number.zero_()
        self.steps.begin()

    def step(self, first: bool, final: bool) -> None:
        """Take a step."""
        logits = self.steps.logits(self.search.beams.last.flatten(), self.number)
        if first:
            logits = logits[:: self.rules.size]
        norm = self.norms[self.number]
        parents = self.search.advance(logits, self.number, norm, first, final)
        torch.lt(self.search.history.count, self.rules.size, out=self.open)
        self.steps.reorder(parents)
        self.number += 1

    def trace(self) -> None:
        """Write the lists found so far."""
        found = self.search.history.hypotheses(self.room, self.rules)
        self.lists.tokens.copy_(found.tokens)
        self.lists.scores.copy_(found.scores)

    def run(self, name: Hashable, step: partial[None]) -> None:
        """Take a step of this shape by the recorder."""
        self.recorder.run((self.steps.key, self.rules, name), step)

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> _State:
        """Go on at another shape, see StaticSteps."""
        before = [taken(one, dim, kept) for one, dim in self._held()]
        steps = self.steps.moved(kept, sentences, room)
        new = _State(self.recorder, steps, self.rules, sentences, room, self.device)
        new.fill()
        for (one, _), values in zip(new._held(), before, strict=True):
            one.zero_()
            one[tuple(map(slice, values.shape))] = values
        return new

    def _held(self) -> list[tuple[Tensor, int]]:
        """What goes with the sentences, and its dimension of them."""
        history, beams = self.search.history, self.search.beams
        rest = (
            *(history.steps, history.beams, history.scores, history.count),
            *(beams.last, beams.scores, beams.ignored),
        )
        return [(history.parents, 1), (history.chosen, 1), *((one, 0) for one in rest)]


def bucket(count: int) -> int:
    """The least number of sentences with a shape of its own that is at least ``count``.

    There are eight in each power of two, so that at most an eighth of a shape is filling.
    """
    width = max(2, 2 ** (count.bit_length() - 4))
    return max(LEAST, -(-count // width) * width)


def static_search(
    recorder: Recorder, steps: StaticSteps, rules: Rules, sentences: int, max_len: int,
    device: torch.device,
) -> Hypotheses:  # fmt: skip
    """Return the lists of ``beam.search``, but for rounding.

    Args:
        recorder: whose buffers the steps lie in.
        steps: of ``bucket(sentences)`` sentences with room for ROOM tokens; the last ones are
            filling.
        sentences: of which lists are wanted.
        max_len: tokens of the longest hypothesis, its end not counted.
    """
    state = _State(recorder, steps, rules, bucket(sentences), ROOM, device)
    state.fill()
    tokens = state.search.rows.new_full((sentences, rules.size, max_len + 1), rules.pad)
    found = Hypotheses(tokens, tokens.new_zeros(tokens.shape[:2], dtype=torch.float32))
    rows = torch.arange(sentences)  # of the results, by the state's sentences
    state.run("begin", partial(state.begin))
    look: Look | None = None
    for step in range(max_len + 1):
        if step == state.room:
            state = state.moved(None, state.sentences, step + ROOM)
        first, final = step == 0, step == max_len
        state.run((first, final), partial(state.step, first, final))
        # As the lists were a step ago, see search().
        before, look = look, Look(state.open)
        open_ = before.read()[: len(rows)] if before else None
        if final or open_ is None:
            continue
        count = int(open_.sum())
        if not count:
            break
        if count > state.sentences // 2 or state.sentences // 2 < LEAST:
            continue
        _write(state, found, rows)
        kept = open_.nonzero().squeeze(1)
        half = state.sentences // 2
        while count <= half // 2 and half // 2 >= LEAST:
            half //= 2
        rows = rows[kept]
        state = state.moved(to_device(kept, device), half, state.room)
        look = None
    _write(state, found, rows)
    recorder.search_is_over()
    return Hypotheses(found.tokens[..., : step + 1], found.scores)


def _write(state: _State, found: Hypotheses, rows: Tensor) -> None:
    """Copy a state's lists to the results."""
    state.run("trace", partial(state.trace))
    room, there = min(state.room, found.tokens.size(-1)), to_device(rows, state.device)
    found.tokens[there, :, :room] = state.lists.tokens[: len(rows), :, :room]
    found.scores[there] = state.lists.scores[: len(rows)]

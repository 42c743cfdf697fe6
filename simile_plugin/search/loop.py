"""The search: steps of a decoder, one after the other, until each sentence has its list.

All that a step reads and writes lies in a recorder's buffers, so that a GPU may replay it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from simile_plugin.encoder import to_device
from simile_plugin.search.beam import Beams, History, Hypotheses, Rules, SearchState
from simile_plugin.search.node_cache import ROOM, taken
from simile_plugin.search.recorder import Recorder

logger = logging.getLogger(__name__)


class Steps(Protocol):
    """A decoder as a search sees it: S sentences of N hypotheses each, with room for T tokens.

    If steps are recorded, all that they hold lies in the recorder's buffers or in the model.
    """

    key: Hashable  # what their shapes follow from, S and T among it

    def begin(self) -> None:
        """Prepare the first step; recorded."""

    def logits(self, last: Tensor, step: Tensor, first: bool) -> Tensor:
        """Go on by one token; recorded.

        Args:
            last: (S x N,) the hypotheses' last tokens.
            step: (1,) how often this was called before.
            first: this was not called before, so that the hypotheses of a sentence are the same.

        Returns:
            (S x N, V), of the first step (S, V); the search may write into it.
        """

    def reorder(self, parents: Tensor) -> None:
        """Go on with other hypotheses; recorded.

        Args:
            parents: (S, N) the hypothesis of its sentence that each new one continues.
        """

    def moved(self, kept: Tensor | None, sentences: int, room: int) -> Steps:
        """Go on at another shape, not recorded, and `reorder` next. These steps are not used again.

        Args:
            kept: (at most sentences,) which sentences go on; None: all.
        """


class Look:
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


class _Batch:
    """A search at one shape; ``begin``, ``step`` and ``trace`` are recorded.

    Args:
        rows: of the history: one for each sentence of the batch at its beginning, and one more,
            which takes what filling writes.
    """

    def __init__(
        self, recorder: Recorder, steps: Steps, rules: Rules, sentences: int, room: int, rows: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.recorder, self.steps, self.rules, self.device = recorder, steps, rules, device
        self.sentences, self.room, self.rows = sentences, room, rows

        def buffer(name: str, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return recorder.buffer(f"search {name}", shape, dtype, device)

        lists = (sentences, rules.size)
        beams = Beams(
            buffer("last", *lists),
            buffer("scores", *lists, dtype=torch.float32),
            buffer("ignored", *lists, dtype=torch.bool),
        )
        history = History(
            buffer("parents", room, rows, rules.size),
            buffer("chosen", room, rows, rules.size),
            buffer("steps", rows, rules.slots),
            buffer("beams", rows, rules.slots),
            buffer("ends", rows, rules.slots, dtype=torch.float32),
            buffer("count", rows),
        )
        self.state = SearchState(rules, buffer("rows", sentences), beams, history)
        self.parents = buffer("continued", *lists)
        self.number = buffer("step", 1)
        self.open = buffer("open", sentences, dtype=torch.bool)
        self.norms = buffer("norms", room, dtype=torch.float32)
        self.lists = Hypotheses(
            buffer("tokens", rows, rules.size, room),
            buffer("sorted", rows, rules.size, dtype=torch.float32),
        )
        norms = torch.tensor([(step + 1) ** rules.lenpen for step in range(room)])
        self.norms.copy_(to_device(norms, device))

    def begin(self) -> None:
        """Write what stands before the first step."""
        self.state.begin()
        self.state.history.parents.zero_()
        self.state.history.chosen.zero_()
        self.number.zero_()
        self.steps.begin()

    def step(self, first: bool, final: bool) -> None:
        """Take a step."""
        if not first:
            self.steps.reorder(self.parents)
        logits = self.steps.logits(self.state.beams.last.flatten(), self.number, first)
        norm = self.norms[self.number]
        self.parents.copy_(self.state.advance(logits, self.number, norm, first, final))
        count = self.state.history.count[self.state.rows]
        torch.lt(count, self.rules.size, out=self.open)
        self.number += 1

    def trace(self) -> None:
        """Write the lists."""
        hypotheses = self.state.history.hypotheses(self.room, self.rules)
        self.lists.tokens.copy_(hypotheses.tokens)
        self.lists.scores.copy_(hypotheses.scores)

    def run(self, name: Hashable, step: partial[None]) -> None:
        """Take a step of this shape by the recorder."""
        self.recorder.run((self.steps.key, self.rules, self.rows, name), step)

    def with_room(self, room: int) -> _Batch:
        """Go on with room for more tokens."""
        history = self.state.history
        before = history.parents.clone(), history.chosen.clone()
        new = self._moved(None, self.sentences, room)
        history = new.state.history
        for values, old in zip((history.parents, history.chosen), before, strict=True):
            values.zero_()
            values[: len(old)] = old
        return new

    def without_finished(self, kept: Tensor, sentences: int) -> _Batch:
        """Go on with some of the sentences, and filling where ``sentences`` are more."""
        return self._moved(kept, sentences, self.room)

    def _moved(self, kept: Tensor | None, sentences: int, room: int) -> _Batch:
        before = [taken(values, 0, kept) for values in self._by_sentence()]
        steps = self.steps.moved(kept, sentences, room)
        new = _Batch(*(self.recorder, steps, self.rules, sentences, room, self.rows, self.device))
        for values, old in zip(new._by_sentence(), before, strict=True):
            values.zero_()
            values[: len(old)] = old
        new.state.rows[len(before[0]) :] = self.rows - 1
        return new

    def _by_sentence(self) -> list[Tensor]:
        """Return what goes with the sentences."""
        beams = self.state.beams
        return [self.state.rows, self.parents, beams.last, beams.scores, beams.ignored]


def search(
    steps: Steps, rules: Rules, sentences: int, max_len: int, device: torch.device,
    recorder: Recorder,
) -> Hypotheses:  # fmt: skip
    """Return the n-best lists that fairseq's SequenceGenerator finds.

    Args:
        steps: of as many sentences as the recorder's compaction wants, the last ones filling, with
            room for ROOM tokens.
        sentences: of which lists are wanted.
        max_len: tokens of the longest hypothesis, its end not counted.
        recorder: whose buffers the search lies in, and the steps if they are recorded.
    """
    compaction = recorder.compaction
    going, first_shape = sentences, compaction.sentences(sentences)
    batch = _Batch(recorder, steps, rules, first_shape, ROOM, first_shape + 1, device)
    batch.state.rows.copy_(torch.arange(first_shape, device=device))
    batch.run("begin", partial(batch.begin))
    look: Look | None = None
    for step in range(max_len + 1):
        if step == batch.room:
            batch = batch.with_room(step + ROOM)
        first, final = step == 0, step == max_len
        batch.run((first, final), partial(batch.step, first, final))
        # On a device as the lists were a step ago: the host prepares the next step while the device
        # is at work on this one. A sentence that was finished still is.
        before, look = look, Look(batch.open)
        now = look if device.type == "cpu" else before
        if final or now is None:
            continue
        open_ = now.read()[:going]
        count = int(open_.sum())
        if not count:
            break
        fewer = compaction.fewer(count, batch.sentences)
        if fewer is not None:
            kept, going = to_device(open_.nonzero().squeeze(1), device), count
            batch, look = batch.without_finished(kept, fewer), None
    batch.run("trace", partial(batch.trace))
    longest = step + 1
    if device.type == "cpu" and sentences:  # a device is not asked how long they are
        longest = max(1, int(batch.state.history.steps[:sentences, :-1].max()) + 1)
    tokens, scores = batch.lists.tokens[:sentences, :, :longest], batch.lists.scores[:sentences]
    lists = Hypotheses(tokens.clone(), scores.clone())
    recorder.search_is_over()
    return lists


def within_memory(
    search: Callable[[slice], Hypotheses], rows: slice, recorder: Recorder | None, pad: int
) -> Hypotheses:
    """Return the lists of a batch; of its halves one after the other where memory runs out.

    Args:
        search: of some sentences of the batch.
        rows: the sentences wanted.
        recorder: whose memory the search uses.

    Raises:
        torch.OutOfMemoryError: if the list of one sentence does not fit.
    """
    try:
        return search(rows)
    except torch.OutOfMemoryError:
        if rows.stop - rows.start == 1:
            raise
    # Here, not above: while an exception is handled, its frames hold on to their tensors.
    if recorder is not None:
        recorder.clear()
    logger.warning(
        f"out of memory; making the lists of {rows.stop - rows.start} sentences in two halves"
    )
    middle = (rows.start + rows.stop) // 2
    halves = (slice(rows.start, middle), slice(middle, rows.stop))
    return joined([within_memory(search, half, recorder, pad) for half in halves], pad)


def joined(parts: list[Hypotheses], pad: int) -> Hypotheses:
    """Return the lists of several batches as those of one."""
    longest = max(part.tokens.size(-1) for part in parts)
    tokens = [
        nn.functional.pad(part.tokens, (0, longest - part.tokens.size(-1)), value=pad)
        for part in parts
    ]
    return Hypotheses(torch.cat(tokens), torch.cat([part.scores for part in parts]))

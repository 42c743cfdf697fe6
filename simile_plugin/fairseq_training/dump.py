"""Writes the n-best lists that a validation judged: one JSON object a sentence, one a line.

    {"format_version": 1, "id": 7, "source": "...", "ref": "...", "hyps": ["...", ...],
     "scores": [-1.25, ...], "cost_bleu": [0.4, ...], "cost_simile": [0.2, ...]}

scores: log-probability of each candidate in nats, summed over its tokens. Costs are in 0 to 1;
cost_simile is left out where there is no encoder. `simile report --only costs` reads the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from torch import Tensor

from simile_plugin.files import InputError
from simile_plugin.risk import Update

FORMAT_VERSION = 1


class RiskDump:
    """The file of --risk-dump: lists of the validations before the first update.

    Whole lines are appended, so that the workers of a parallel training can share the file. What
    an earlier, interrupted start wrote stays, but for a line that it left unfinished; the reader
    takes a sentence's last line.

    Raises:
        InputError: if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self.descriptor: int | None = os.open(path, flags, 0o644)
            _drop_unfinished_line(path, self.descriptor)
        except OSError as error:
            raise InputError(f"--risk-dump: {path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Write no more: training has begun."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def write(self, ids: Tensor, sources: Sequence[str], update: Update) -> None:
        """Write one line a sentence, until the file is closed.

        Args:
            ids: (B,) indices of the sentences in their dataset.
            sources: B strings.
            update: what was computed of their lists.
        """
        if self.descriptor is None:
            return
        hyps, scores, scored = update.judged.hyps, update.judged.scores, update.scored
        members = scored.members.cpu().clone()
        members[:, 0] = False  # the reference has a line of its own
        # What is no target has a log-probability of 0.
        numbers = {"scores": scored.token_lprobs.sum(-1), "cost_bleu": 1 - scores.bleu}
        if scores.simile is not None:
            numbers["cost_simile"] = 1 - scores.simile
        columns = {name: values.detach().double().cpu() for name, values in numbers.items()}
        lines = []
        for row, sentence in enumerate(ids.tolist()):
            places = members[row].nonzero().flatten().tolist()
            record = {
                "format_version": FORMAT_VERSION,
                "id": sentence,
                "source": sources[row],
                "ref": hyps[row][0],
                "hyps": [hyps[row][place] for place in places],
                **{
                    name: [round(values[row, p].item(), 6) for p in places]
                    for name, values in columns.items()
                },
            }
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        self._append("".join(lines).encode("utf-8"))

    def _append(self, data: bytes) -> None:
        assert self.descriptor is not None
        try:
            written = os.write(self.descriptor, data)
            if written < len(data):  # a full disk takes a part and fails at the rest
                written += os.write(self.descriptor, data[written:])
        except OSError as error:
            raise InputError(
                f"--risk-dump: {self.path}: cannot be written: {error.strerror}; make room and run "
                "the same command again"
            ) from error


def _drop_unfinished_line(path: str, descriptor: int) -> None:
    """Take away the line of ours that a killed writer left unfinished.

    Every rank does so when it builds its criterion, before any of them writes.
    """
    if not os.path.isfile(path):  # a pipe, or a device without an end
        return
    with open(path, "rb") as stream:
        content = stream.read()
    end = content.rfind(b"\n") + 1
    if content[end:].startswith((b'{"format_version": ', b'{"id": ')):
        os.ftruncate(descriptor, end)

"""n-best lists as fairseq-generate prints them, or as the criterion writes them (--risk-dump)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simile_plugin.files import InputError, read_lines

DUMP_VERSION = 1  # newest format of --risk-dump that is read; lines without a number are of it
Read = Callable[[str, str], list[str]]
COSTS = ("cost_bleu", "cost_simile")
REFERENCE_LINE = re.compile(r"T-(\d{1,18})\t(.*)", re.DOTALL)
CANDIDATE_LINE = re.compile(r"D-(\d{1,18})\t(\S+)\t(.*)", re.DOTALL)


@dataclass(frozen=True)
class NbestList:
    """The candidates of one source sentence.

    Attributes:
        hyps: N candidates.
        scores: N numbers of the model, higher is likelier; only their order means something here.
        costs: cost_bleu / cost_simile -> N numbers, where the criterion wrote them.
    """

    sentence: int
    ref: str
    hyps: tuple[str, ...]
    scores: tuple[float, ...]
    costs: dict[str, tuple[float, ...]] = field(default_factory=dict)


def read_nbest_lists(path: str, flag: str, read: Read = read_lines) -> list[NbestList]:
    """Read the lists in a file, in the order of their sentences.

    The file is what `fairseq-generate --nbest N` printed (T- and D- lines; scores are fairseq's,
    base 2 and divided by a power of the length), or what `--risk-dump` wrote (JSON lines). A line
    cut short at the end of the file is passed over. read: reads the lines of a file.

    Raises:
        InputError: naming file and line for lists without reference or with one candidate only.
    """
    lines = read(path, flag)
    first = next((line for line in lines if line.strip()), "")
    lists = _dumped(lines, path, flag) if first.startswith("{") else _generated(lines, path, flag)
    if all(len(found.hyps) < 2 for found in lists):
        raise InputError(
            f"{flag}: {path} has one candidate a sentence; expected n-best lists: "
            "fairseq-generate --beam 8 --nbest 8"
        )
    return lists


def _generated(lines: Sequence[str], path: str, flag: str) -> list[NbestList]:
    refs: dict[int, str] = {}
    found: dict[int, list[tuple[float, str]]] = {}
    for number, line in enumerate(lines, start=1):
        if match := REFERENCE_LINE.fullmatch(line):
            refs[int(match[1])] = match[2]
        elif match := CANDIDATE_LINE.fullmatch(line):
            score = _number(match[2])
            if score is None:
                raise InputError(f"{flag}: {path}:{number}: got score '{match[2]}', not a number")
            found.setdefault(int(match[1]), []).append((score, match[3]))
    if not found:
        raise InputError(
            f"{flag}: {path} has no D- lines among its {len(lines)}; expected what "
            "fairseq-generate --nbest N printed, or a file of --risk-dump"
        )
    without = next((sentence for sentence in sorted(found) if sentence not in refs), None)
    if without is not None:
        raise InputError(
            f"{flag}: {path} has D-{without} but no T-{without}; generate from a test set with "
            "references, and without --quiet"
        )
    return [
        NbestList(sentence, refs[sentence], tuple(h for _, h in hyps), tuple(s for s, _ in hyps))
        for sentence, hyps in sorted(found.items())
    ]


def _dumped(lines: Sequence[str], path: str, flag: str) -> list[NbestList]:
    found: dict[int, NbestList] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            reason = getattr(error, "msg", str(error))
            raise InputError(f"{flag}: {path}:{number}: not JSON: {reason}") from error
        # A start that was interrupted and repeated wrote the same sentences again: the last counts.
        one = _from_json(content, f"{flag}: {path}:{number}")
        found[one.sentence] = one
    if not found:
        raise InputError(f"{flag}: {path} holds no whole line; expected a file of --risk-dump")
    return [found[sentence] for sentence in sorted(found)]


def _from_json(content: Any, where: str) -> NbestList:
    version = content.get("format_version", 1) if isinstance(content, dict) else 1
    if not isinstance(version, int) or version > DUMP_VERSION:
        raise InputError(
            f"{where}: format_version {version} is newer than {DUMP_VERSION}, the newest this "
            "version reads; update simile-plugin"
        )
    try:
        hyps, ref = _strings(content["hyps"]), _strings([content["ref"]])[0]
        columns = {
            key: tuple(float(number) for number in content[key])
            for key in ("scores", *COSTS)
            if key in content
        }
        scores = columns.pop("scores")
        found = NbestList(int(content["id"]), ref, hyps, scores, columns)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{where}: expected id, ref, hyps, scores, cost_bleu and perhaps cost_simile "
            f"({type(error).__name__}: {error})"
        ) from error
    for key, numbers in (("scores", scores), *columns.items()):
        if len(numbers) != len(hyps) or any(_number(str(value)) is None for value in numbers):
            raise InputError(
                f"{where}: {key} has {list(numbers)}; expected {len(hyps)} finite numbers, "
                "one for each of hyps"
            )
    return found


def _strings(values: Any) -> tuple[str, ...]:
    """Sentences; half a surrogate pair, which JSON can hold, is no text."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"got {str(values)[:80]!r} for sentences")
    for value in values:
        value.encode()
    return tuple(values)


def _number(text: str) -> float | None:
    """The number, or None for text that is none and for nan and inf."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None

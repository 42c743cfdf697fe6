"""Lists of candidates of anyone's model: fairseq, Moses and Marian, JSON lines, TSV."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simile_plugin.files import InputError, finite_number, read_lines

DUMP_VERSION = 1  # newest format of --risk-dump that is read; lines without a number are of it
Read = Callable[[str, str], list[str]]
COSTS = ("cost_bleu", "cost_simile")
TEXT_LINE = re.compile(r"([ST])-(\d{1,18})\t(.*)", re.DOTALL)
CANDIDATE_LINE = re.compile(r"D-(\d{1,18})\t(\S+)\t(.*)", re.DOTALL)
TOKENS_LINE = re.compile(r"P-(\d{1,18})\t(.*)")
NUMBERED_LINE = re.compile(r"(\d{1,18})(\t| \|\|\| )")
FORMATS = (
    "what fairseq-generate --nbest N printed, Moses' and Marian's lists (0 ||| text ||| ... ||| "
    'score), JSON lines {"id": 0, "hyps": [...], "scores": [...]}, or id TAB text TAB score'
)


@dataclass(frozen=True)
class NbestList:
    """The candidates of one source sentence.

    Attributes:
        sentence: its line, from 0.
        ref, src: reference and source, where the file has them.
        hyps: N candidates; there may be none.
        scores: N numbers of the model, higher is likelier; only their order means something here.
            Empty where the file has none.
        costs: cost_bleu / cost_simile -> N numbers, where the criterion wrote them.
        lprobs: N log-probabilities in nats, the tokens' added up, where fairseq printed them.
        ranked: the model's choice is the first, whatever the scores: those of --risk-dump are not
            divided by lengths, as those of its search are.
    """

    sentence: int
    ref: str | None
    hyps: tuple[str, ...]
    scores: tuple[float, ...] = ()
    costs: dict[str, tuple[float, ...]] = field(default_factory=dict)
    src: str | None = None
    lprobs: tuple[float, ...] = ()
    ranked: bool = False

    @property
    def first(self) -> int:
        """Place of the model's choice: the highest score, or the first candidate without scores."""
        if self.ranked:
            return 0
        return max(range(len(self.scores)), key=self.scores.__getitem__, default=0)

    def cut(self, n: int) -> NbestList:
        """The first `n` candidates."""
        costs = {name: values[:n] for name, values in self.costs.items()}
        return replace(
            self, hyps=self.hyps[:n], scores=self.scores[:n], costs=costs, lprobs=self.lprobs[:n]
        )


def read_lists(path: str, flag: str, read: Read = read_lines) -> list[NbestList]:
    """Read the lists in a file, in the order of their sentences; see FORMATS.

    Of fairseq's output S-, T-, D- and P- lines are read (D- scores are base 2 and divided by a
    power of the length); JSON lines may have ref and src, as --risk-dump writes them; the ids of
    all formats are lines of the source from 0. A line cut short at the end of the file is passed
    over. read: reads the lines of a file.

    Raises:
        InputError: naming file and line of what cannot be read, or for a file without lists.
    """
    lines = read(path, flag)
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{"):
        return _dumped(lines, path, flag)
    if match := NUMBERED_LINE.match(first):
        return _listed(lines, match[2], path, flag)
    return _generated(lines, path, flag)


def read_nbest_lists(
    path: str,
    flag: str,
    read: Read = read_lines,
    refs: Sequence[str] | None = None,
    ref_flag: str = "--ref",
) -> list[NbestList]:
    """:func:`read_lists` for what compares candidates with references.

    Args:
        refs: a reference for each line of the source, for a file that has none.
        ref_flag: what gives them; "" where nothing does.

    Raises:
        InputError: also for lists without reference or with one candidate only.
    """
    lists = read_lists(path, flag, read)
    if refs is not None and all(found.ref is None for found in lists):
        lists = with_references(lists, refs, f"{flag}: {path}")
    references(lists, f"{flag}: {path}", ref_flag)
    if all(len(found.hyps) < 2 for found in lists):
        raise InputError(
            f"{flag}: {path} has one candidate a sentence; expected n-best lists: "
            "fairseq-generate --beam 8 --nbest 8"
        )
    return [found for found in lists if found.hyps]


def with_references(lists: Sequence[NbestList], refs: Sequence[str], where: str) -> list[NbestList]:
    """The lists with the references of their lines.

    Raises:
        InputError: beginning with `where`, if there is a list beyond the last reference.
    """
    return [replace(found, ref=_line_of(found, refs, "references", where)) for found in lists]


def with_sources(lists: Sequence[NbestList], srcs: Sequence[str], where: str) -> list[NbestList]:
    """The lists with the sources of their lines; raises as :func:`with_references`."""
    return [replace(found, src=_line_of(found, srcs, "sources", where)) for found in lists]


def _line_of(found: NbestList, lines: Sequence[str], what: str, where: str) -> str:
    if found.sentence >= len(lines):
        raise InputError(
            f"{where}: has a list of sentence {found.sentence}, but there are {len(lines)} {what}; "
            "ids are lines of the same test set, from 0"
        )
    return lines[found.sentence]


def references(lists: Sequence[NbestList], where: str, flag: str = "--ref") -> list[str]:
    """The reference of each list; raises InputError, beginning with `where`, if one has none."""
    return _texts([(found.sentence, found.ref) for found in lists], "T", flag, where)


def sources(lists: Sequence[NbestList], where: str, flag: str = "--src") -> list[str]:
    """The source of each list; raises InputError, beginning with `where`, if one has none."""
    return _texts([(found.sentence, found.src) for found in lists], "S", flag, where)


def _texts(found: list[tuple[int, str | None]], letter: str, flag: str, where: str) -> list[str]:
    lacking = next((sentence for sentence, text in found if text is None), None)
    if lacking is not None:
        kind = "reference" if letter == "T" else "source"
        raise InputError(
            f"{where} has candidates of sentence {lacking} but no {kind} (fairseq: no "
            f"{letter}-{lacking}); give {flag and f'{flag} FILE, or '}lists with {kind}s"
        )
    return [text for _, text in found if text is not None]


def _generated(lines: Sequence[str], path: str, flag: str) -> list[NbestList]:
    texts: dict[tuple[str, int], str] = {}
    hyps: dict[int, list[str]] = {}
    scores: dict[int, list[float]] = {}
    lprobs: dict[int, list[float]] = {}
    for number, line in enumerate(lines, start=1):
        if match := TEXT_LINE.fullmatch(line):
            texts[match[1], int(match[2])] = match[3]
        elif match := CANDIDATE_LINE.fullmatch(line):
            score = _score(match[2], f"{flag}: {path}:{number}")
            hyps.setdefault(int(match[1]), []).append(match[3])
            scores.setdefault(int(match[1]), []).append(score)
        elif match := TOKENS_LINE.fullmatch(line):
            tokens = [finite_number(text) for text in match[2].split()]
            total = math.fsum(math.nan if token is None else token for token in tokens)
            lprobs.setdefault(int(match[1]), []).append(total * math.log(2))
    if not hyps:
        raise InputError(
            f"{flag}: {path} has no D- lines among its {len(lines)}; expected {FORMATS}"
        )
    return [
        NbestList(
            sentence,
            texts.get(("T", sentence)),
            tuple(found),
            tuple(scores[sentence]),
            src=texts.get(("S", sentence)),
            lprobs=_whole(lprobs.get(sentence, []), len(found)),
        )
        for sentence, found in sorted(hyps.items())
    ]


def _whole(lprobs: list[float], hyps: int) -> tuple[float, ...]:
    """The log-probabilities, or none of them where one is missing."""
    return tuple(lprobs) if len(lprobs) == hyps and all(map(math.isfinite, lprobs)) else ()


def _listed(lines: Sequence[str], mark: str, path: str, flag: str) -> list[NbestList]:
    """Lists with a candidate a line: Moses' id ||| text ||| features ||| score, or TSV."""
    expected = "id TAB text, or id TAB text TAB score"
    if mark != "\t":
        mark, expected = "|||", "id ||| text ||| features ||| score"
    columns = len(next(line for line in lines if line.strip()).split(mark))
    fits = columns in (2, 3) if mark == "\t" else columns >= 4
    found: dict[int, list[tuple[str, float]]] = {}
    for number, line in enumerate(lines, start=1):
        parts = [part.strip() for part in line.split(mark)]
        if not line.strip() or (len(parts) < columns and number == len(lines) > 1):
            continue
        where = f"{flag}: {path}:{number}"
        if not fits or len(parts) != columns or not re.fullmatch(r"\d{1,18}", parts[0]):
            raise InputError(f"{where}: got {line[:60]!r}; expected {expected}, as in all lines")
        score = math.nan if columns == 2 else _score(parts[2 if mark == "\t" else 3], where)
        found.setdefault(int(parts[0]), []).append((parts[1], score))
    return [
        NbestList(
            sentence,
            None,
            tuple(hyp for hyp, _ in pairs),
            () if columns == 2 else tuple(score for _, score in pairs),
        )
        for sentence, pairs in sorted(found.items())
    ]


def _score(text: str, where: str) -> float:
    value = finite_number(text)
    if value is None:
        raise InputError(f"{where}: got score '{text}', not a number")
    return value


def _dumped(lines: Sequence[str], path: str, flag: str) -> list[NbestList]:
    found: dict[int, NbestList] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not line.rstrip().endswith("}"):  # cut short
                break
            reason = getattr(error, "msg", str(error))
            raise InputError(f"{flag}: {path}:{number}: not JSON: {reason}") from error
        # A start that was interrupted and repeated wrote the same sentences again: the last counts.
        one = _from_json(content, len(found), f"{flag}: {path}:{number}")
        found[one.sentence] = one
    if not found:
        raise InputError(f"{flag}: {path} holds no whole line; expected {FORMATS}")
    return [found[sentence] for sentence in sorted(found)]


def _from_json(content: Any, line: int, where: str) -> NbestList:
    """One JSON line; without an id it is the list of `line`."""
    version = content.get("format_version", 1) if isinstance(content, dict) else 1
    if not isinstance(version, int) or version > DUMP_VERSION:
        raise InputError(
            f"{where}: format_version {version} is newer than {DUMP_VERSION}, the newest this "
            "version reads; update simile-plugin"
        )
    if not isinstance(content, dict) or "hyps" not in content:
        raise InputError(
            f"{where}: has no hyps; expected hyps, and perhaps id, ref, src, scores, cost_bleu, "
            "cost_simile"
        )
    hyps = _strings(content["hyps"], f"{where}: hyps")
    texts = {
        key: _strings([content[key]], f"{where}: {key}")[0]
        for key in ("ref", "src", "source")
        if key in content
    }
    columns = {
        key: _numbers(content[key], f"{where}: {key}")
        for key in ("scores", *COSTS)
        if key in content
    }
    (number,) = _numbers([content.get("id", line)], f"{where}: id")
    if not (0 <= number < 10**18 and number.is_integer()):
        raise InputError(f"{where}: got id {number:g}; expected a line of the source, from 0")
    sentence = int(content.get("id", line))
    for key, numbers in columns.items():
        if len(numbers) != len(hyps) or not all(map(math.isfinite, numbers)):
            raise InputError(
                f"{where}: {key} has {list(numbers)}; expected {len(hyps)} finite numbers, "
                "one for each of hyps"
            )
    scores = columns.pop("scores", ())
    src = texts.get("src", texts.get("source"))  # --risk-dump's name for it
    dumped = "format_version" in content
    return NbestList(sentence, texts.get("ref"), hyps, scores, columns, src, ranked=dumped)


def _strings(values: Any, where: str) -> tuple[str, ...]:
    """Sentences; half a surrogate pair, which JSON can hold, is no text."""
    if not isinstance(values, list):
        raise InputError(f"{where}: got {str(values)[:80]!r}; expected a list of strings")
    for value in values:
        if not isinstance(value, str):
            raise InputError(f"{where}: got {str(value)[:80]!r}; expected text in quotes")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{where}: got {value[:80]!r}; that is no text") from error
    return tuple(values)


def _numbers(values: Any, where: str) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: got {str(values)[:80]!r}; expected numbers") from error

"""Lists of candidates of anyone's model: fairseq, Moses and Marian, JSON lines, TSV."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from simile_plugin.files import InputError, finite_number, read_bytes, split_lines

DUMP_VERSION = 1  # newest format of --risk-dump that is read; lines without a number are of it
Read = Callable[[str, str], bytes]
COSTS = ("cost_bleu", "cost_simile")
# Editors and scripts strip the ends of lines: then an empty text has lost the TAB before it.
TEXT_LINE = re.compile(r"([ST])-(\d{1,18})()(\t.*)?", re.DOTALL)
CANDIDATE_LINE = re.compile(r"([DH])-(\d{1,18})\t(\S+)(\t.*)?", re.DOTALL)
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


def read_lists(path: str, flag: str, read: Read = read_bytes) -> list[NbestList]:
    """Read the lists in a file, in the order of their sentences; see FORMATS.

    Of fairseq's output S-, T-, D- and P- lines are read (D- scores are base 2 and divided by a
    power of the length); JSON lines may have ref and src, as --risk-dump writes them; the ids of
    all formats are lines of the source from 0. Candidates of one id are one list, but a JSON line
    is a whole list, and only of --risk-dump does a later one replace it. A line that the end of
    the file cuts short is passed over, and standard error says so. read: reads a file.

    Raises:
        InputError: naming file and line of what cannot be read, or for a file without lists.
    """
    data = _without_cut_letter(read(path, flag), path, flag)
    lines, ended = split_lines(data, path, flag), data.endswith(b"\n")
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{"):
        return _dumped(lines, ended, path, flag)
    if match := NUMBERED_LINE.match(first):
        return _listed(lines, ended, match[2], path, flag)
    return _generated(lines, ended, path, flag)


def _without_cut_letter(data: bytes, path: str, flag: str) -> bytes:
    """Without the last line where the file ends within a letter, as a killed writer leaves it."""
    start = data.rfind(b"\n") + 1
    try:
        data[start:].decode()
    except UnicodeDecodeError as error:
        if error.end == len(data) - start and error.reason == "unexpected end of data":
            _tell_cut(f"{flag}: {path}:{data.count(10) + 1}")
            return data[:start]
    return data


def read_nbest_lists(
    path: str,
    flag: str,
    read: Read = read_bytes,
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


def generated_line(line: str, ended: bool = True) -> tuple[str, int, str, str] | None:
    """Read a line of fairseq-generate: its letter S, T, H or D, its id, score and text.

    ended: False for a line that the end of the file may have cut; it must have its last TAB.
    """
    match = TEXT_LINE.fullmatch(line) or CANDIDATE_LINE.fullmatch(line)
    if match is None or not (ended or match[4]):
        return None
    return match[1], int(match[2]), match[3], (match[4] or "")[1:]


def _generated(lines: Sequence[str], ended: bool, path: str, flag: str) -> list[NbestList]:
    texts: dict[tuple[str, int], str] = {}
    hyps: dict[int, list[str]] = {}
    scores: dict[int, list[float]] = {}
    lprobs: dict[int, list[float]] = {}
    before: int | None = None  # sentence of a candidate whose P- line has not come yet
    for number, line in enumerate(lines, start=1):
        if parts := generated_line(line, ended or number < len(lines)):
            letter, sentence, score, text = parts
            if letter == "D":
                before = sentence
                hyps.setdefault(sentence, []).append(text)
                value = _score(score, f"{flag}: {path}:{number}")
                scores.setdefault(sentence, []).append(value)
                lprobs.setdefault(sentence, []).append(math.nan)
            elif letter != "H" and texts.setdefault((letter, sentence), text) != text:
                raise InputError(
                    f"{flag}: {path}:{number}: a second {letter}-{sentence} with another text, "
                    "which would mix candidates of two sentences; expected an id for each line of "
                    "the test set: number the logs on before they become one file, or read them "
                    "one by one"
                )
        elif (match := TOKENS_LINE.fullmatch(line)) and int(match[1]) == before:
            tokens = [finite_number(text) for text in match[2].split()]
            total = math.fsum(math.nan if token is None else token for token in tokens)
            lprobs[before][-1] = total * math.log(2)
            before = None
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
            lprobs=_whole(lprobs[sentence]),
        )
        for sentence, found in sorted(hyps.items())
    ]


def _whole(lprobs: list[float]) -> tuple[float, ...]:
    """The log-probabilities, or none of them where one is missing."""
    return tuple(lprobs) if all(map(math.isfinite, lprobs)) else ()


def _listed(lines: Sequence[str], ended: bool, mark: str, path: str, flag: str) -> list[NbestList]:
    """Lists with a candidate a line: Moses' id ||| text ||| features ||| score, or TSV."""
    expected = "id TAB text, or id TAB text TAB score"
    if mark != "\t":
        mark, expected = "|||", "id ||| text ||| features ||| score"
    columns = len(next(line for line in lines if line.strip()).split(mark))
    fits = columns in (2, 3) if mark == "\t" else columns >= 4
    found: dict[int, list[tuple[str, float]]] = {}
    for number, line in enumerate(lines, start=1):
        parts = [part.strip() for part in line.split(mark)]
        where = f"{flag}: {path}:{number}"
        if not line.strip():
            continue
        if len(parts) < columns and number == len(lines) and not ended:
            _tell_cut(where)
            continue
        if not fits or len(parts) != columns or not re.fullmatch(r"\d{1,18}", parts[0]):
            raise InputError(f"{where}: got {line[:60]!r}; expected {expected}, as in all lines")
        score = math.nan if columns == 2 else _score(_score_column(parts, mark), where)
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


def _score_column(parts: Sequence[str], mark: str) -> str:
    """The score: third in TSV; fourth in Moses' lists, perhaps before alignments; last in Marian's.

    Marian with --alignment or --word-scores has more columns between the text and the score.
    """
    if mark == "\t":
        return parts[2]
    return parts[3] if finite_number(parts[3]) is not None else parts[-1]


def _tell_cut(where: str) -> None:
    print(f"{where}: is cut short by the end of the file, and passed over", file=sys.stderr)


def _score(text: str, where: str) -> float:
    value = finite_number(text)
    if value is None:
        raise InputError(f"{where}: got score '{text}', not a number")
    return value


def _dumped(lines: Sequence[str], ended: bool, path: str, flag: str) -> list[NbestList]:
    found: dict[int, NbestList] = {}
    numbered = False  # whether a line had an id: then all have one
    for number, line in enumerate(lines, start=1):
        where = f"{flag}: {path}:{number}"
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not ended and not line.rstrip().endswith("}"):
                _tell_cut(where)
                break
            reason = getattr(error, "msg", str(error))
            raise InputError(f"{where}: not JSON: {reason}") from error
        one = _from_json(content, None if numbered else len(found), where)
        # A training that was killed and started again dumped sentences twice: the last counts.
        if one.sentence in found and not one.ranked:
            raise InputError(
                f"{where}: a second list of id {one.sentence}; expected all candidates of a source "
                "in one line, and an id in every line or in none"
            )
        found[one.sentence] = one
        numbered |= "id" in content
    if not found:
        raise InputError(f"{flag}: {path} holds no whole line; expected {FORMATS}")
    return [found[sentence] for sentence in sorted(found)]


def _from_json(content: Any, line: int | None, where: str) -> NbestList:
    """One JSON line; without an id it is the list of `line`."""
    version = content.get("format_version", 1) if isinstance(content, dict) else 1
    if type(version) is not int or version < 1:
        got = repr(version)[:60]
        raise InputError(f"{where}: got format_version {got}, expected 1 to {DUMP_VERSION}")
    if version > DUMP_VERSION:
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
    for key, numbers in columns.items():
        if len(numbers) != len(hyps) or not all(map(math.isfinite, numbers)):
            raise InputError(
                f"{where}: {key} has {list(numbers)}; expected {len(hyps)} finite numbers, "
                "one for each of hyps"
            )
    sentence = _sentence(content.get("id", line), where)
    scores = columns.pop("scores", ())
    src = texts.get("src", texts.get("source"))  # --risk-dump's name for it
    dumped = "format_version" in content
    return NbestList(sentence, texts.get("ref"), hyps, scores, columns, src, ranked=dumped)


def _sentence(value: Any, where: str) -> int:
    """An id: a whole number, also as 3.0 (what is made of a column with gaps) or "3"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not re.fullmatch(r"\d{1,18}", str(value)):
        raise InputError(
            f"{where}: got id {repr(value)[:60]}; expected a line of the source, from 0"
        )
    return int(value)


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
        if not isinstance(values, list):
            raise TypeError("no list")
        return tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{where}: got {str(values)[:80]!r}; expected numbers") from error

"""Lists of candidates of anyone's model: fairseq, Moses and Marian, JSON lines, TSV."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simile_plugin.files import (
    InputError,
    find_surrogate,
    finite_number,
    read_bytes,
    split_lines,
)

Read = Callable[[str, str], bytes]  # of a file, by path and flag
TEXTS = ("ref", "src", "source")
# Editors and scripts strip the ends of lines: then an empty text has lost the TAB before it.
TEXT_LINE = re.compile(r"([ST])-(\d{1,18})()(\t.*)?", re.DOTALL)
CANDIDATE_LINE = re.compile(r"([DH])-(\d{1,18})\t(\S+)(\t.*)?", re.DOTALL)
TOKENS_LINE = re.compile(r"P-(\d{1,18})\t(.*)")
NUMBERED_LINE = re.compile(r"(\d{1,18})(\t| \|\|\| )")
MODEL_FEATURE = re.compile(r"F0= *(\S+)")  # the log-probability, where Marian ran a single model
UNKNOWN_WORD = "<<unk>>"  # of T- lines: fairseq-generate's name of it in references
# Share of lists whose scores rise from candidate to candidate, above which they are costs. Of a
# beam's lists hardly one rises, of pairs in any order half of them.
RISING = 0.8
# Share of neighbouring scores that rise: none in a beam's lists, all in lists of costs, and about
# half in samples as they were drawn.
UNORDERED = (0.2, 0.8)
COPIES = 0.1  # share of lists with two equal candidates of one score: of a beam none is equal
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
            fairseq prints -inf for a candidate that it ruled out. Empty where the file has none.
        lprobs: N log-probabilities in nats, the tokens' added up, where fairseq or Marian printed
            them.
    """

    sentence: int
    ref: str | None
    hyps: tuple[str, ...]
    scores: tuple[float, ...] = ()
    src: str | None = None
    lprobs: tuple[float, ...] = ()

    @property
    def first(self) -> int:
        """Return the place of the highest score, without scores 0: of a beam the model's choice."""
        return max(range(len(self.scores)), key=self.scores.__getitem__, default=0)

    def cut(self, n: int) -> NbestList:
        """Return the list of the first `n` candidates."""
        return replace(self, hyps=self.hyps[:n], scores=self.scores[:n], lprobs=self.lprobs[:n])


def read_lists(path: str, flag: str, read: Read = read_bytes) -> list[NbestList]:
    """Read the lists in a file, in the order of their sentences; see FORMATS.

    Of fairseq's output S-, T-, D- and P- lines are read (D- scores are base 2 and divided by a
    power of the length); JSON lines may have ref and src; the ids of all formats are lines of the
    source from 0. Candidates of one id are one list, but a JSON line is a whole list.

    Raises:
        InputError: naming file and line of what cannot be read, or for a file without lists.
    """
    data = read(path, flag)
    lines = split_lines(data, path, flag)
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{"):
        return _from_json_lines(lines, path, flag)
    if match := NUMBERED_LINE.match(first):
        return _listed(lines, match[2].strip(" "), path, flag)
    return _generated(lines, data.endswith(b"\n"), path, flag)


def read_nbest_lists(
    path: str,
    flag: str,
    read: Read = read_bytes,
    refs: Sequence[str] | None = None,
    ref_flag: str = "--ref",
) -> list[NbestList]:
    """Read lists by :func:`read_lists` for what compares candidates with references.

    Args:
        refs: a reference for each line of the source, which goes before those of the file.
        ref_flag: what gives them; "" where nothing does.

    Raises:
        InputError: also for lists without reference or with one candidate only.
    """
    lists = read_lists(path, flag, read)
    if refs is not None:
        lists = with_references(lists, refs, f"{flag}: {path}")
    references(lists, f"{flag}: {path}", ref_flag)
    if all(len(one.hyps) < 2 for one in lists):
        raise InputError(
            f"{flag}: {path} has one candidate a sentence; expected n-best lists: "
            "fairseq-generate --beam 8 --nbest 8"
        )
    return [one for one in lists if one.hyps]


def cost_warning(lists: Sequence[NbestList]) -> str:
    """Return what to say of scores that look like costs, of which the lowest is best, or "".

    Decoders print their choice first: then its score is the highest of the list.
    """
    told = [one.scores for one in lists if len(set(one.scores)) > 1]
    rising = sum(list(scores) == sorted(scores) for scores in told)
    if len(told) < 2 or rising <= RISING * len(told):
        return ""
    return (
        f"the scores of {rising} of {len(told)} lists rise from the first candidate to the last, "
        "as negative log-probabilities and other costs do; the highest score is taken for the "
        "model's choice: write scores of which high is good (minus the cost)"
    )


def are_sampled(lists: Sequence[NbestList]) -> bool:
    """Return whether scores say that these are samples, none of which is the model's choice.

    Scores in no order are those of samples as they were drawn; a sampled candidate that came twice
    stands twice with one score, also where the decoder sorted them. Without scores: False.
    """
    scored = [one for one in lists if len(one.scores) > 1]
    steps = [b - a for one in scored for a, b in zip(one.scores, one.scores[1:], strict=False)]
    rising, falling = sum(step > 0 for step in steps), sum(step < 0 for step in steps)
    low, high = UNORDERED
    if rising + falling > 2 and low < rising / (rising + falling) < high:
        return True
    copies = sum(len({*zip(one.hyps, one.scores, strict=True)}) < len(one.hyps) for one in scored)
    return copies > max(1, COPIES * len(scored))


def name_of_first(lists: Sequence[NbestList]) -> str:
    """Return what the first of these lists is: the model's choice, where that is known."""
    if not all(one.scores for one in lists if one.hyps):
        return "first of the list"
    return "highest score" if are_sampled(lists) else "model's choice"


def with_references(lists: Sequence[NbestList], refs: Sequence[str], where: str) -> list[NbestList]:
    """Return the lists with the references of their lines.

    Raises:
        InputError: beginning with `where`, if there is a list beyond the last reference.
    """
    return [replace(one, ref=_line_of(one, refs, "references", where)) for one in lists]


def with_sources(lists: Sequence[NbestList], srcs: Sequence[str], where: str) -> list[NbestList]:
    """Return the lists with the sources of their lines; raises as :func:`with_references`."""
    return [replace(one, src=_line_of(one, srcs, "sources", where)) for one in lists]


def _line_of(one: NbestList, lines: Sequence[str], what: str, where: str) -> str:
    if one.sentence >= len(lines):
        raise InputError(
            f"{where}: has a list of sentence {one.sentence}, but there are {len(lines)} {what}; "
            "ids are lines of the same test set, from 0"
        )
    return lines[one.sentence]


def references(lists: Sequence[NbestList], where: str, flag: str = "--ref") -> list[str]:
    """Return each list's reference.

    Raises:
        InputError: beginning with `where`, if one has none, or one that is not whole.
    """
    refs = [_given(one.ref, one.sentence, "reference", "T", where, flag) for one in lists]
    for one, ref in zip(lists, refs, strict=True):
        if UNKNOWN_WORD in ref:
            raise InputError(
                f"{where}: reference of sentence {one.sentence}: got {ref[:60]!r}, which has "
                f"{UNKNOWN_WORD} for what the dictionary does not know; give "
                f"{flag and f'{flag} FILE, or '}lists with the text itself"
            )
    return refs


def sources(lists: Sequence[NbestList], where: str, flag: str = "--src") -> list[str]:
    """Return each list's source; raises InputError, beginning with `where`, if one has none."""
    return [_given(one.src, one.sentence, "source", "S", where, flag) for one in lists]


def _given(text: str | None, sentence: int, kind: str, letter: str, where: str, flag: str) -> str:
    if text is None:
        raise InputError(
            f"{where} has candidates of sentence {sentence} but no {kind} (fairseq: no "
            f"{letter}-{sentence}); give {flag and f'{flag} FILE, or '}lists with {kind}s"
        )
    return text


def generated_line(line: str, ended: bool = True) -> tuple[str, int, str, str] | None:
    """Read a line of fairseq-generate: its letter S, T, H or D, its id, score and text.

    ended: False for a line that the end of the file may have cut; it must have its last TAB.
    """
    match = TEXT_LINE.fullmatch(line) or CANDIDATE_LINE.fullmatch(line)
    if match is None or not (ended or match[4]):
        return None
    return match[1], int(match[2]), match[3], (match[4] or "")[1:]


def _generated(lines: Sequence[str], ended: bool, path: str, flag: str) -> list[NbestList]:
    """Read what fairseq-generate or fairseq-interactive printed."""
    texts: dict[tuple[str, int], str] = {}
    hyps, scores, lprobs = (defaultdict[int, list[Any]](list) for _ in range(3))
    before: int | None = None  # sentence of a candidate whose P- line has not come yet
    for number, line in enumerate(lines, start=1):
        where = f"{flag}: {path}:{number}"
        if parts := generated_line(line, ended or number < len(lines)):
            letter, sentence, score, text = parts
            if letter == "D":
                before = sentence
                hyps[sentence].append(text)
                scores[sentence].append(-math.inf if score == "-inf" else _score(score, where))
                lprobs[sentence].append(math.nan)
            elif letter != "H" and texts.setdefault((letter, sentence), text) != text:
                raise InputError(
                    f"{where}: a second {letter}-{sentence} with another text, which would mix "
                    "candidates of two sentences; expected an id for each line of the test set: "
                    "number the logs on before they become one file, or read them one by one"
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
            tuple(hyps[sentence]),
            tuple(scores[sentence]),
            src=texts.get(("S", sentence)),
            lprobs=_all_finite(lprobs[sentence]),
        )
        for sentence in sorted(hyps)
    ]


def _listed(lines: Sequence[str], mark: str, path: str, flag: str) -> list[NbestList]:
    """Read a candidate a line: Moses' id ||| text ||| features ||| score, or TSV."""
    hyps, scores, lprobs = (defaultdict[int, list[Any]](list) for _ in range(3))
    columns = len(next(line for line in lines if line.strip()).split(mark))
    expected = "id TAB text TAB score" if mark == "\t" else "id ||| text ||| features ||| score"
    fits = columns in (2, 3) if mark == "\t" else columns >= 4
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where, parts = f"{flag}: {path}:{number}", [part.strip() for part in line.split(mark)]
        if not fits or len(parts) != columns or not re.fullmatch(r"\d{1,18}", parts[0]):
            raise InputError(f"{where}: got {line[:60]!r}; expected {expected}, as in all lines")
        hyps[int(parts[0])].append(parts[1])
        if columns == 3:
            scores[int(parts[0])].append(_score(parts[2], where))
        elif columns > 3:
            # Moses may have alignments behind the score; Marian has it last, perhaps behind them
            score = parts[3] if finite_number(parts[3]) is not None else parts[-1]
            scores[int(parts[0])].append(_score(score, where))
            of_model = [found for part in parts[2:-1] if (found := MODEL_FEATURE.fullmatch(part))]
            lprob = finite_number(of_model[0][1]) if of_model else None
            lprobs[int(parts[0])].append(math.nan if lprob is None else lprob)
    return [
        NbestList(n, None, tuple(hyps[n]), tuple(scores[n]), lprobs=_all_finite(lprobs[n]))
        for n in sorted(hyps)
    ]


def _all_finite(lprobs: Sequence[float]) -> tuple[float, ...]:
    """Return the log-probabilities of a list, none of them where one is missing."""
    return tuple(lprobs) if all(map(math.isfinite, lprobs)) else ()


def _score(text: str, where: str) -> float:
    value = finite_number(text)
    if value is None:
        raise InputError(f"{where}: got score '{text}', not a number")
    return value


def _from_json_lines(lines: Sequence[str], path: str, flag: str) -> list[NbestList]:
    """Read JSON lines."""
    lists: dict[int, NbestList] = {}
    numbered = False  # whether a line had an id: then all have one
    for number, line in enumerate(lines, start=1):
        where = f"{flag}: {path}:{number}"
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON: {getattr(error, 'msg', error)}") from error
        one = _from_json(content, None if numbered else len(lists), where)
        if one.sentence in lists:
            raise InputError(
                f"{where}: a second list of id {one.sentence}; expected all candidates of a source "
                "in one line, and an id in every line or in none"
            )
        lists[one.sentence] = one
        numbered |= "id" in content
    return [lists[sentence] for sentence in sorted(lists)]


def _from_json(content: Any, line: int | None, where: str) -> NbestList:
    """Read one JSON line; without an id it is the list of `line`."""
    if not isinstance(content, dict) or "hyps" not in content:
        raise InputError(f"{where}: has no hyps; expected hyps, and perhaps id, ref, src, scores")
    # 3.0, as pandas writes a column with gaps, and "3" are whole numbers, too
    sentence = str(content.get("id", line)).removesuffix(".0")
    if not re.fullmatch(r"\d{1,18}", sentence):
        raise InputError(f"{where}: got id {sentence[:60]}; expected a line of the source, from 0")
    hyps = _texts(content["hyps"], f"{where}: hyps")
    given = {key: _texts([content[key]], f"{where}: {key}")[0] for key in TEXTS if key in content}
    scores: tuple[float, ...] = ()
    if "scores" in content:
        values = content["scores"]
        try:
            scores = tuple(map(float, values if isinstance(values, list) else ()))
        except (TypeError, ValueError, OverflowError):
            scores = ()
        if len(scores) != len(hyps) or not all(map(math.isfinite, scores)):
            raise InputError(
                f"{where}: scores: got {str(values)[:80]}; expected {len(hyps)} finite numbers, "
                "one for each of hyps"
            )
    return NbestList(
        int(sentence),
        given.get("ref"),
        hyps,
        scores,
        given.get("src", given.get("source")),
    )


def _texts(values: Any, where: str) -> tuple[str, ...]:
    """Return sentences; half a surrogate pair, which JSON can hold, is no text."""
    for value in values if isinstance(values, list) else [None]:
        if not isinstance(value, str) or find_surrogate(value) >= 0:
            raise InputError(f"{where}: got {str(values)[:80]!r}; expected texts in quotes")
    return tuple(values)

"""Target ids of the NMT model -> the plain strings that are scored."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from fairseq.data.encoders.byte_utils import BCHAR_TO_BYTE

from simile_plugin.encoder import SPACE_MARK
from simile_plugin.fairseq_hooks import join_bytes
from simile_plugin.files import InputError
from simile_plugin.reward import UNKNOWN_HYP, UNKNOWN_REF

CONTINUATION = "@@"  # subword-nmt marks a piece that goes on in the next one
BYTES_SPACE = "\u0120"  # GPT-2's byte-level BPE writes a space so
WORDPIECE = "##"  # begins what BERT's pieces go on with
# Of bytes that every text beyond ASCII has and that cannot be printed.
STAND_INS = {letter for letter, byte in BCHAR_TO_BYTE.items() if 0x80 <= byte <= 0xA0}
MOSES_MARKS = ("&apos;", "&quot;", "@-@")  # its tokeniser's ', " and the hyphen within a word


class TargetDictionary(Protocol):
    """The part of fairseq's Dictionary that is used here: symbols, counts and special ids."""

    symbols: list[str]
    count: list[int]

    def pad(self) -> int: ...
    def eos(self) -> int: ...
    def bos(self) -> int: ...
    def unk(self) -> int: ...


def guess_post_process(symbols: Sequence[str], counts: Sequence[int] = ()) -> str:
    """Tell from the target vocabulary how its tokens join to words; see :func:`marked_as`.

    Returns:
        "sentencepiece", "subword_nmt" or "none".

    Raises:
        InputError: for GPT-2's pieces, which a dictionary has as numbers or as bytes, for those of
            fairseq's --bpe bytes and byte_bpe, and for BERT's: no text.
    """
    size, marked = len(symbols), marked_as(symbols, counts)
    strange = ""
    if 2 * sum(symbol.isdecimal() for symbol in symbols) >= size:
        strange = "numbers, as of GPT-2's BPE (fairseq's BART)"
    elif sum(symbol.startswith(WORDPIECE) for symbol in symbols) > size // 100:
        strange = f"pieces that begin with {WORDPIECE}, as BERT's"
    elif marked == "sentencepiece" and _are_bytes(symbols):
        strange = "bytes, as fairseq's --bpe bytes and byte_bpe write them"
    elif marked == "none":
        of_bytes = sum(symbol.startswith(BYTES_SPACE) for symbol in symbols)
        if 10 * of_bytes >= size:  # Maltese has it as a letter
            strange = f"pieces with {BYTES_SPACE}, as of a byte-level BPE"
    if strange:
        raise InputError(
            f"--risk-post-process: the target dictionary is of {strange}, which are not undone; "
            "expected pieces of sentencepiece or subword-nmt; if they are, or are words, name here "
            "which (none: words)"
        )
    return marked


def _are_bytes(symbols: Sequence[str]) -> bool:
    """Return whether all characters stand for bytes: no language has two of STAND_INS."""
    found = set("".join(symbols)) - {SPACE_MARK}
    return found <= BCHAR_TO_BYTE.keys() and len(found & STAND_INS) > 1


def marked_as(symbols: Sequence[str], counts: Sequence[int] = ()) -> str:
    """Tell by the marks of a vocabulary's tokens how they join, as :func:`guess_post_process`.

    Args:
        counts: how often each token occurs in the training text; default: each as often.
    """
    marked = sum(SPACE_MARK in symbol for symbol in symbols)
    continued = sum(symbol.endswith(CONTINUATION) for symbol in symbols)
    few = max(1, len(symbols) // 100)  # a stray mark in a word vocabulary decides nothing
    if max(marked, continued) < few:
        # Of text without spaces, or of single characters, the bare mark may be the only one. It
        # begins each sentence: it is at least as frequent as the tokens are on average.
        bare = symbols.index(SPACE_MARK) if SPACE_MARK in symbols else -1
        often = bare >= 0 and (not counts or counts[bare] * len(counts) >= sum(counts))
        return "sentencepiece" if often else "none"
    return "sentencepiece" if marked >= continued else "subword_nmt"


def join_tokens(tokens: Iterable[str], post_process: str) -> str:
    """Undo the NMT segmentation of one sentence (the inverse named by ``post_process``)."""
    if post_process == "sentencepiece":
        return join_bytes(tokens).replace(SPACE_MARK, " ").strip()
    joined = " ".join(tokens)
    if post_process == "subword_nmt":
        return (joined + " ").replace(CONTINUATION + " ", "").strip()
    return joined


class TargetText:
    """Target ids of the NMT model -> the plain strings that are scored.

    Args:
        dictionary: the task's target dictionary.
        post_process: "auto", "sentencepiece", "subword_nmt" or "none".
        detokenize: applied to each joined string (Moses detokenisation, say), or None.
    """

    def __init__(
        self,
        dictionary: TargetDictionary,
        post_process: str = "auto",
        detokenize: Callable[[str], str] | None = None,
    ) -> None:
        self.symbols, self.counts = dictionary.symbols, dictionary.count
        if post_process == "auto":
            post_process = guess_post_process(self.symbols, self.counts)
        self.post_process = post_process
        self.detokenize = detokenize
        self.unk = dictionary.unk()
        self.silent = {dictionary.pad(), dictionary.eos(), dictionary.bos()}

    def strings(
        self,
        rows: Iterable[Sequence[int]],
        reference: bool = False,
        tags: frozenset[int] = frozenset(),
    ) -> list[str]:
        """Decode rows of ids; padding, bos and eos are dropped, wherever they stand.

        Args:
            rows: ids of each sentence.
            reference: unknown tokens of a reference never match those of a hypothesis.
            tags: more ids that are dropped.
        """
        silent = self.silent | tags
        unknown = UNKNOWN_REF if reference else UNKNOWN_HYP
        if self.post_process == "sentencepiece":
            unknown = SPACE_MARK + unknown
        sentences = []
        for row in rows:
            tokens = [
                unknown if index == self.unk else self.symbols[index]
                for index in row
                if index not in silent
            ]
            sentence = join_tokens(tokens, self.post_process)
            sentences.append(self.detokenize(sentence) if self.detokenize else sentence)
        return sentences

    def lists(
        self, rows: Sequence[Sequence[Sequence[int]]], tags: frozenset[int] = frozenset()
    ) -> list[list[str]]:
        """Decode B lists of 1 + N rows, each with the reference first; see :meth:`strings`."""
        refs = self.strings([row[0] for row in rows], reference=True, tags=tags)
        hyps = iter(self.strings([hyp for row in rows for hyp in row[1:]], tags=tags))
        return [
            [ref, *itertools.islice(hyps, len(row) - 1)]
            for ref, row in zip(refs, rows, strict=True)
        ]


def moses_mark(symbols: Iterable[str]) -> str:
    """Return the first token that only Moses' tokeniser makes, or ""."""
    return next((symbol for symbol in symbols if symbol.startswith(MOSES_MARKS)), "")


def moses_detokenizer(language: str) -> Callable[[str], str]:
    """Moses' detokeniser of sacremoses, for bitext that was tokenised by Moses.

    Raises:
        InputError: if sacremoses is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise InputError(
            "--risk-detok moses: the package sacremoses is not installed; "
            "install it (pip install sacremoses) or use --risk-detok none"
        ) from error
    detokenizer = MosesDetokenizer(lang=language)
    return lambda sentence: detokenizer.detokenize(sentence.split())

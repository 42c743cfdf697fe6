"""Ids of a tokenizer -> the plain strings that are scored; sentence pairs -> examples."""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch.utils.data import ConcatDataset, Dataset, Subset
from transformers import DataCollatorForSeq2Seq

from simile_plugin.encoder import SPACE_MARK
from simile_plugin.files import InputError
from simile_plugin.hugging_face.models import PADDING, silent_ids
from simile_plugin.reward import UNKNOWN_HYP, UNKNOWN_REF

logger = logging.getLogger(__name__)

SAMPLE = 1000  # sentences that are looked at, about
# How models are told a language in their text: >>eng<<, <2en>, __en__, [en].
TAG = re.compile(r">>[^\s<>]+<<|<[^\s<>]+>|__\w+__|\[\w+\]")


def language_tags(tokenizer: Any) -> dict[str, int]:
    """Return Marian's tags of target languages, as >>fra<<, and their ids; of others none."""
    words = getattr(tokenizer, "encoder", {})
    return {word: i for word, i in words.items() if word.startswith(">>") and word.endswith("<<")}


def tag_warning(tokenizer: Any, sources: Sequence[str]) -> str:
    """Return what to say of a tag that sources begin with and a tokenizer cuts up, or of tags that
    they lack, or ""."""
    sample = sources[:: max(1, len(sources) // SAMPLE)]
    tags = Counter(found[0] for source in sample if (found := TAG.match(source.lstrip())))
    known_tags = language_tags(tokenizer)
    named = ", ".join(itertools.islice(known_tags, 4)) + ", ..." * (len(known_tags) > 4)
    for tag, count in tags.most_common(1):
        pieces = [piece for piece in tokenizer.tokenize(tag) if piece != SPACE_MARK]
        known = len(pieces) == 1 and not _has_unknown(tokenizer, pieces)
        if 100 * count > len(sample) and not known:
            shown = " ".join(pieces)
            return (
                f"sources begin with {tag!r}, which is no token of the model (it reads {shown!r}), "
                "so that it tells the model nothing; expected a tag that it was trained with"
                + (f" ({named})" if named else "")
            )
    if sample and len(known_tags) > 1 and known_tags.keys().isdisjoint(tags):
        return (
            f"no source begins with a tag of a target language, of which the model has "
            f"{len(known_tags)} ({named}); where it was trained with them give the right one, such "
            f"as --prefix '{next(iter(known_tags))} '"
        )
    return ""


def prefix_warning(tokenizer: Any, prefix: str) -> str:
    """Return what to say of a prefix of which a tokenizer does not know all, or ""."""
    pieces = tokenizer.tokenize(prefix)
    if not _has_unknown(tokenizer, pieces):
        return ""
    return (
        f"--prefix: of {prefix!r} the model does not know all (it reads {' '.join(pieces)!r}); "
        "expected the words that it was trained with"
    )


def _has_unknown(tokenizer: Any, pieces: Sequence[str]) -> bool:
    return tokenizer.unk_token_id in tokenizer.convert_tokens_to_ids([*pieces])


class Text:
    """Ids -> text without special tokens; what is unknown stays visible.

    Args:
        tokenizer: of the translation model.

    Attributes:
        prefix: what every source begins with and is no source (T5), as it is decoded.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.prefix = tokenizer, ""
        self.silent = {*silent_ids(tokenizer), PADDING}
        # Marian's `>>eng<<` stands before sources, and is no text of them.
        self.codes = {*language_tags(tokenizer).values()}
        self.unknown = tokenizer.unk_token
        # GPT-2's is its end of sentence, too.
        ends = (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id)
        if tokenizer.unk_token_id in ends:
            self.unknown = None
        else:
            self.silent.discard(tokenizer.unk_token_id)

    def strings(self, rows: Sequence[Sequence[int]], reference: bool = False) -> list[str]:
        """Decode rows of ids.

        Args:
            reference: unknown tokens of a reference never match those of a hypothesis.
        """
        kept = [[token for token in row if token not in self.silent] for row in rows]
        # Some configs ask to take the space from "gare ?" and "do n't", on both sides.
        flags = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        found = self.tokenizer.batch_decode(kept, **flags)
        mark = UNKNOWN_REF if reference else UNKNOWN_HYP
        if self.unknown:
            found = [text.replace(self.unknown, mark) for text in found]
        return [text.strip() for text in found]

    def sources(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Decode rows of sources, without their prefix or tag."""
        rows = [[token for token in row if token not in self.codes] for row in rows]
        if getattr(self.tokenizer, "separate_vocabs", False):  # Marian would decode them as targets
            return self._marian_sources(rows)
        return [text.removeprefix(self.prefix).strip() for text in self.strings(rows)]

    def _marian_sources(self, rows: Sequence[Sequence[int]]) -> list[str]:
        pieces = {token: piece for piece, token in self.tokenizer.encoder.items()}
        pieces[self.tokenizer.unk_token_id] = UNKNOWN_HYP
        kept = [[pieces[token] for token in row if token not in self.silent] for row in rows]
        return [self.tokenizer.spm_source.decode_pieces(row).strip() for row in kept]

    def lists(
        self, rows: Sequence[Sequence[Sequence[int]]], refs: Sequence[str] | None = None
    ) -> list[list[str]]:
        """Decode B lists of 1 + N rows, each with the reference first.

        Args:
            refs: B texts of the references; None decodes them.
        """
        if refs is None:
            refs = self.strings([row[0] for row in rows], reference=True)
        hyps = iter(self.strings([hyp for row in rows for hyp in row[1:]]))
        return [
            [ref, *itertools.islice(hyps, len(row) - 1)]
            for ref, row in zip(refs, rows, strict=True)
        ]


REFERENCE = "reference"  # of an example: its target as text, whole


class WithReferences(Dataset[dict[str, Any]]):
    """Pairs whose examples have their targets' text, too: a validation is scored against it.

    Their labels may be cut, and decoded ids are not always the text (case, characters, spaces).
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        text = " ".join((self.pairs.targets[index] or "").split())
        return self.pairs[index] | {REFERENCE: text}


class Collator(DataCollatorForSeq2Seq):
    """transformers' collator, which takes examples without labels (None, or none in them), too.

    Where others of a batch have labels, theirs are padding alone, which is no reference. Texts of
    references stay strings.
    """

    def __call__(self, features: Any, return_tensors: Any = None) -> Any:
        features = [*map(dict, features)]
        texts = [example.pop(REFERENCE) for example in features if REFERENCE in example]
        if any("labels" in example for example in features):
            for example in features:
                labels = example.get("labels")
                example["labels"] = [PADDING] if labels is None or not len(labels) else labels
        batch = super().__call__(features, return_tensors)
        if len(texts) == len(features):
            batch[REFERENCE] = texts
        return batch


def check_lists(sources: Sequence[str], targets: Sequence[str | None]) -> None:
    """Raise InputError for a string where a list is expected, or for lists of two lengths."""
    for name, found in (("sources", sources), ("targets", targets)):
        if isinstance(found, str):
            raise InputError(
                f"{name}: got {found[:60]!r}, expected a list of sentences; of a file: "
                "simile_plugin.files.read_lines(FILE, NAME)"
            )
    if len(sources) != len(targets):
        raise InputError(
            f"sources, targets: got {len(sources)} and {len(targets)} sentences; expected a target "
            "a source"
        )


class Pairs(Dataset[dict[str, list[int]]]):
    """Sentence pairs as input_ids, attention_mask and labels, made when a batch asks for them: a
    fine-tuning sees few pairs of a large corpus.

    Args:
        targets: None where a source has none; its labels are empty.
        max_length: what is longer, in tokens of the model, is cut.
        where: files of the sources and of the targets, for messages.

    Raises:
        InputError: for an empty sentence, a file's name in place of a list, or lists of different
            lengths.
    """

    def __init__(
        self,
        tokenizer: Any,
        sources: Sequence[str],
        targets: Sequence[str | None],
        max_length: int,
        where: Sequence[str] = ("", ""),
    ) -> None:
        self.tokenizer, self.sources, self.targets = tokenizer, sources, targets
        self.max_length = max_length
        check_lists(sources, targets)
        if doubt := tag_warning(tokenizer, sources):
            logger.warning(f"{where[0] or 'sources'}: {doubt}")
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
            if not source.strip() or not (target is None or target.strip()):
                side = int(bool(source.strip()))
                raise InputError(
                    f"{where[side]}:{number}: the {('source', 'target')[side]} sentence is empty; "
                    "expected text on every line: remove the pair"
                )

    def __len__(self) -> int:
        return len(self.sources)

    def count_cut(self) -> tuple[int, int]:
        """Return how many of a sample of the pairs are longer than `max_length`, and its size."""
        sample = range(0, len(self), max(1, len(self) // SAMPLE))
        return sum(map(self._is_cut, sample)), len(sample)

    def _is_cut(self, index: int) -> bool:
        found = self.tokenizer(self.sources[index], text_target=self.targets[index], verbose=False)
        return any(len(found.get(name, [])) > self.max_length for name in ("input_ids", "labels"))

    def digest(self) -> str:
        """Return twelve digits of the SHA-256 of all sources, then all targets, a line each."""
        text = hashlib.sha256()
        for side in (self.sources, self.targets):
            text.update("".join(f"{line}\n" for line in side).encode())
        return text.hexdigest()[:12]

    def count(self, name: str) -> Counter[int]:
        """Count the ids of all sources ("input_ids") or targets ("labels"), which are not cut."""
        found: Counter[int] = Counter()
        argument = "text_target" if name == "labels" else "text"
        lines = self.targets if name == "labels" else self.sources
        known = [line for line in lines if line is not None]
        for start in range(0, len(known), SAMPLE):
            some = self.tokenizer(**{argument: known[start : start + SAMPLE]}, verbose=False)
            found.update(itertools.chain.from_iterable(some.input_ids))
        return found

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        found = self.tokenizer(
            self.sources[index],
            text_target=self.targets[index],
            truncation=True,
            max_length=self.max_length,
        )
        return {name: found.get(name, []) for name in ("input_ids", "attention_mask", "labels")}


def parts_of(dataset: Any) -> list[Any]:
    """Return the distinct data sets that one is made of: several by name, joined, or a part of one.

    None is none.
    """
    inner: list[Any] = []
    if dataset is None:
        return inner
    if isinstance(dataset, dict):
        inner = [*dataset.values()]
    elif isinstance(dataset, ConcatDataset):
        inner = dataset.datasets
    elif isinstance(dataset, Subset):
        inner = [dataset.dataset]
    elif isinstance(dataset, WithReferences):
        inner = [dataset.pairs]
    else:
        return [dataset]
    found = [part for one in inner for part in parts_of(one)]
    return [*{id(part): part for part in found}.values()]

"""Ids of a tokenizer -> the plain strings that are scored; sentence pairs -> examples."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset
from transformers import DataCollatorForSeq2Seq

from simile_plugin.files import InputError
from simile_plugin.hugging_face.models import PADDING, silent_ids
from simile_plugin.reward import UNKNOWN_HYP, UNKNOWN_REF


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
        """Decode rows of sources, without their prefix."""
        if getattr(self.tokenizer, "separate_vocabs", False):  # Marian would decode them as targets
            return self._marian_sources(rows)
        return [text.removeprefix(self.prefix).strip() for text in self.strings(rows)]

    def _marian_sources(self, rows: Sequence[Sequence[int]]) -> list[str]:
        pieces = {token: piece for piece, token in self.tokenizer.encoder.items()}
        pieces[self.tokenizer.unk_token_id] = UNKNOWN_HYP
        kept = [[pieces[token] for token in row if token not in self.silent] for row in rows]
        return [self.tokenizer.spm_source.decode_pieces(row).strip() for row in kept]

    def lists(self, rows: Sequence[Sequence[Sequence[int]]]) -> list[list[str]]:
        """Decode B lists of 1 + N rows, each with the reference first."""
        refs = self.strings([row[0] for row in rows], reference=True)
        hyps = iter(self.strings([hyp for row in rows for hyp in row[1:]]))
        return [
            [ref, *itertools.islice(hyps, len(row) - 1)]
            for ref, row in zip(refs, rows, strict=True)
        ]


class Collator(DataCollatorForSeq2Seq):
    """transformers' collator, which takes examples without labels (None, or none in them), too.

    Where others of a batch have labels, theirs are padding alone, which is no reference.
    """

    def __call__(self, features: Any, return_tensors: Any = None) -> Any:
        features = [*map(dict, features)]
        if any("labels" in example for example in features):
            for example in features:
                labels = example.get("labels")
                example["labels"] = [PADDING] if labels is None or not len(labels) else labels
        return super().__call__(features, return_tensors)


class Pairs(Dataset[dict[str, list[int]]]):
    """Sentence pairs as input_ids, attention_mask and labels, made when a batch asks for them: a
    fine-tuning sees few pairs of a large corpus.

    Args:
        targets: None where a source has none; its labels are empty.
        max_length: what is longer, in tokens of the model, is cut.
        where: files of the sources and of the targets, for messages.

    Raises:
        InputError: for an empty sentence.
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
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
            if not source.strip() or not (target is None or target.strip()):
                side = int(bool(source.strip()))
                raise InputError(
                    f"{where[side]}:{number}: the {('source', 'target')[side]} sentence is empty; "
                    "expected text on every line: remove the pair"
                )

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        found = self.tokenizer(
            self.sources[index],
            text_target=self.targets[index],
            truncation=True,
            max_length=self.max_length,
        )
        return {name: found.get(name, []) for name in ("input_ids", "attention_mask", "labels")}

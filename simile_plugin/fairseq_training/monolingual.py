"""Sentences of the source language alone beside the bitext: --risk-monolingual.

Their targets are padding alone: none of it is scored, so that the risk is all of their loss.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, ConcatDataset, LanguagePairDataset
from fairseq.tasks.translation import TranslationTask
from numpy.typing import NDArray

from simile_plugin.fairseq_training.config import settings_of
from simile_plugin.files import InputError


class MixedPairs(BaseWrapperDataset):
    """The bitext once an epoch, and as many other sources as make up a share of the epoch.

    Those are taken in a random order, from one epoch to the next, and again when all were there.

    Args:
        bitext: sentence pairs; all is padded and batched as they are.
        monolingual: a data set of the same task without targets.
        share: of the other sources among the sentences of an epoch, above 0 and below 1.
    """

    can_reuse_epoch_itr_across_epochs = False  # an epoch has other sentences than the last

    def __init__(
        self, bitext: LanguagePairDataset, monolingual: LanguagePairDataset, share: float
    ) -> None:
        pairs = copy.copy(bitext)
        missing = [torch.tensor([bitext.tgt_dict.pad()])] * len(monolingual)
        pairs.src = ConcatDataset([bitext.src, monolingual.src])
        pairs.tgt = ConcatDataset([bitext.tgt, missing])
        pairs.src_sizes = np.concatenate([bitext.src_sizes, monolingual.src_sizes])
        pairs.tgt_sizes = np.concatenate([bitext.tgt_sizes, np.ones_like(monolingual.src_sizes)])
        pairs.sizes = np.stack([pairs.src_sizes, pairs.tgt_sizes], axis=1)
        super().__init__(pairs)
        self.epoch, self.pairs = 1, len(bitext)
        self.each = max(1, round(self.pairs * share / (1 - share)))
        self.order = np.random.RandomState(0).permutation(len(monolingual))

    def set_epoch(self, epoch: int) -> None:
        """Choose an epoch's sentences; it depends on nothing else, so that a run can resume."""
        self.epoch = epoch

    def ordered_indices(self) -> NDArray[np.int64]:
        """Return an epoch's sentences by the length of their source, else at random."""
        first = (self.epoch - 1) * self.each
        chosen = self.order[np.arange(first, first + self.each) % len(self.order)]
        mixed = np.random.permutation(np.concatenate([np.arange(self.pairs), self.pairs + chosen]))
        found: NDArray[np.int64] = mixed[np.argsort(self.dataset.src_sizes[mixed], kind="stable")]
        return found


def mix_in(task: Any, prefix: str, share: float) -> None:
    """Let the training data that a task will load have sources of ``prefix`` beside its bitext.

    Args:
        prefix: FOLDER/NAME of the files NAME.SRC-TGT.SRC.{bin,idx} by fairseq-preprocess.
        share: see :class:`MixedPairs`.

    Raises:
        InputError: for a share that is none, or a task of other data than pairs of two languages.
    """
    if not 0 < share < 1:
        raise InputError(
            f"--risk-monolingual-share: got {share}, expected a number above 0 and below 1"
        )
    if not isinstance(task, TranslationTask):
        raise InputError("--risk-monolingual: expected --task translation, or one made of it")
    load, subset = task.load_dataset, settings_of(task).train_subset

    def load_mixed(split: str, *args: Any, **kwargs: Any) -> None:
        load(split, *args, **kwargs)
        if split == subset:
            bitext = task.datasets[split]
            task.datasets[split] = MixedPairs(bitext, load_sources(task, load, prefix), share)

    task.load_dataset = load_mixed


def load_sources(task: Any, load: Any, prefix: str) -> LanguagePairDataset:
    """Load monolingual sources as the task does it with its own, by its ``load_dataset``.

    Raises:
        InputError: for files that are not there, empty, or of another dictionary.
    """
    settings, flag = settings_of(task), f"--risk-monolingual {prefix}"
    source, target = settings.source_lang, settings.target_lang
    wanted = (
        f"expected FOLDER/train, of fairseq-preprocess --only-source -s {source} -t {target} "
        f"--srcdict DATA/dict.{source}.txt --trainpref TEXT --destdir FOLDER"
    )
    folder, name = os.path.split(prefix)
    beside = os.path.join(folder, f"dict.{source}.txt")
    if os.path.isfile(beside):
        own, symbols = task.source_dictionary.symbols, task.load_dictionary(beside).symbols
        if own[: len(symbols)] != symbols:
            raise InputError(f"{flag}: {beside} is not the dictionary of the model; {wanted}")
    before, settings.data = settings.data, folder or "."
    try:
        load(name)
    except FileNotFoundError:
        raise InputError(f"{flag}: no {prefix}.{source}-{target}.{source}.idx; {wanted}") from None
    finally:
        settings.data = before
    found: LanguagePairDataset = task.datasets.pop(name)
    if not len(found):
        raise InputError(f"{flag}: has no sentence; {wanted}")
    return found

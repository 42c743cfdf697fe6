"""The reward: candidate and reference strings -> a B x N tensor of scores.

Training, validation, ``simile score`` and ``simile report`` all call :func:`score_lists`, so that
one sentence has one score wherever it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder, cosine, to_device
from simile_plugin.files import InputError, find_surrogate
from simile_plugin.reward.bleu import list_statistics, sentence_bleu
from simile_plugin.reward.chrf import CHAR_ORDER, list_chrf_statistics, sentence_chrf
from simile_plugin.reward.learned import LearnedReward
from simile_plugin.reward.simile import SIMILE_ALPHA, length_penalty
from simile_plugin.reward.source import source_scores

SENTENCES_AT_ONCE = 512
# An unknown target token: one mark each, for hypothesis and reference must not match on it, nor in
# its characters. NFKC leaves both alone, and so does sentencepiece, which drops U+FFFD.
UNKNOWN_HYP = "\u241a"
UNKNOWN_REF = "\u2421"


@dataclass
class ListScores:
    """Every score of B lists of N candidates against their references.

    Attributes:
        bleu_stats: (B, N, 10) int64, sacreBLEU's sufficient statistics in its order.
        bleu: (B, N) sentence BLEU in [0, 1], +1 on orders 2 to 4.
        sim: (B, N) cosine in [-1, 1], or None without an encoder.
        simile: (B, N) LP^alpha * SIM, or None without an encoder.
        length_penalty: (B, N) LP in [0, 1], or None without an encoder.
        unknown_pieces: tokens of all scored strings that the encoder does not know.
        tokens: all their tokens; not the lengths where those count something else.
        chrf_stats: (B, N, 18 or 24) int64 of :func:`list_chrf_statistics`, or None if not asked
            for; so are the next two.
        chrf: (B, N) chrF in [0, 1].
        chrfpp: (B, N) chrF++ in [0, 1].
        learned: (B, N) the learned reward in [0, 1], or None if not asked for.
        source: (B, N) nearness to the source in [0, 1], or None if not asked for.
    """

    bleu_stats: Tensor
    bleu: Tensor
    sim: Tensor | None = None
    simile: Tensor | None = None
    length_penalty: Tensor | None = None
    unknown_pieces: int = 0
    tokens: int = 0
    chrf_stats: Tensor | None = None
    chrf: Tensor | None = None
    chrfpp: Tensor | None = None
    learned: Tensor | None = None
    source: Tensor | None = None

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that the encoder does not know, in [0, 1]."""
        return self.unknown_pieces / max(1, self.tokens)

    def to(self, device: torch.device) -> ListScores:
        """The same on a device, without waiting for it."""
        held = {k: v for k, v in vars(self).items() if isinstance(v, Tensor)}
        tensors: dict[str, Any] = {name: to_device(v, device) for name, v in held.items()}
        return replace(self, **tensors)


def refuse_text(texts: Sequence[Any], what: str) -> None:
    """Raise InputError for one string in place of a list: its letters would be the texts."""
    if isinstance(texts, str):
        raise InputError(f"got {texts[:60]!r} as {what}; expected a list of strings")


def refuse_surrogates(texts: Iterable[str], what: str) -> None:
    """Raise InputError for half of a UTF-16 pair: it is no character, and no text can hold it."""
    for number, text in enumerate(texts, 1):
        if (place := find_surrogate(text)) >= 0:
            raise InputError(
                f"{what}: number {number} has {text[place]!r}, half of a pair of UTF-16, at "
                f"character {place + 1}; expected text, see str.encode(errors='replace')"
            )


def check_lists(hyps: Sequence[Sequence[str]], refs: Sequence[str]) -> None:
    """Raise InputError unless there is a list a reference, and all are of one length."""
    refuse_text(refs, "references")
    for candidates in hyps:
        refuse_text(candidates, "the candidates of a list")
    if len(hyps) != len(refs):
        raise InputError(f"got {len(hyps)} candidate lists for {len(refs)} references")
    if len({len(candidates) for candidates in hyps}) > 1:
        raise InputError("candidate lists differ in length; pad them with empty strings")


def score_lists(
    hyps: Sequence[Sequence[str]],
    refs: Sequence[str],
    encoder: RewardEncoder | None,
    alpha: float = SIMILE_ALPHA,
    tokenize: str = "13a",
    chrf_words: int | None = None,
    learned: LearnedReward | None = None,
    srcs: Sequence[str] | None = None,
) -> ListScores:
    """Score B lists of N candidates against B references; each distinct string is encoded once.

    Args:
        hyps: B lists of N plain strings.
        refs: B plain strings.
        encoder: the reward encoder, or None for BLEU alone.
        alpha: exponent of the length penalty (the paper: 0.25).
        tokenize: sacreBLEU tokeniser of the BLEU statistics.
        chrf_words: the word order, 0 for chrF and 2 for chrF++ beside it; None leaves both out.
        learned: a learned reward, which needs the encoder of its fit.
        srcs: B sources, for an encoder of two languages; None leaves `source` out.

    Raises:
        InputError: if there is not one list a reference, the lists differ in length, or the
            encoder is not the learned reward's.
    """
    check_lists(hyps, refs)
    stats = list_statistics(hyps, refs, tokenize)
    scores = ListScores(bleu_stats=stats, bleu=sentence_bleu(stats))
    if encoder is not None:
        add_similarity(scores, hyps, refs, encoder, alpha)
        if learned is not None:
            assert scores.sim is not None
            scores.learned = learned.scores(hyps, refs, encoder, scores.sim, srcs)
        if srcs is not None:
            scores.source = source_scores(hyps, srcs, encoder, alpha)
    if chrf_words is not None:
        counts = list_chrf_statistics(hyps, refs, chrf_words)
        scores.chrf_stats = torch.from_numpy(counts)
        scores.chrf = sentence_chrf(counts[..., : 3 * CHAR_ORDER])
        scores.chrfpp = sentence_chrf(counts) if chrf_words else None
    return scores


def add_similarity(
    scores: ListScores,
    hyps: Sequence[Sequence[str]],
    refs: Sequence[str],
    encoder: RewardEncoder,
    alpha: float,
) -> None:
    """Fill in SIM and SIMILE of ``scores``."""
    index: dict[str, int] = {}
    ref_rows = [index.setdefault(ref, len(index)) for ref in refs]
    hyp_rows = [[index.setdefault(hyp, len(index)) for hyp in candidates] for candidates in hyps]
    found = encoder.embed_counted(list(index))
    rows = torch.tensor([*ref_rows, *chain.from_iterable(hyp_rows)], dtype=torch.int64)
    scores.unknown_pieces = int(found.unknown[rows].sum())
    scores.tokens = int(found.tokens[rows].sum())
    vectors, lengths = found.vectors, found.lengths
    rows = to_device(rows, vectors.device)
    ref_index, hyp_index = rows[: len(refs)], rows[len(refs) :].view(scores.bleu.shape)
    scores.sim = cosine(vectors[ref_index].unsqueeze(1), vectors[hyp_index])
    scores.length_penalty = length_penalty(lengths[ref_index].unsqueeze(1), lengths[hyp_index])
    scores.simile = scores.length_penalty**alpha * scores.sim


def score_outputs(
    outputs: Sequence[Sequence[str]],
    refs: Sequence[str],
    encoder: RewardEncoder | None,
    alpha: float = SIMILE_ALPHA,
    tokenize: str = "13a",
    progress: Callable[[int], object] | None = None,
    chrf_words: int | None = None,
    learned: LearnedReward | None = None,
    srcs: Sequence[str] | None = None,
) -> ListScores:
    """Score whole system outputs by :func:`score_lists`, in memory that does not grow with N x D.

    Args:
        outputs: N outputs of B sentences each.
        refs: B references.
        progress: called with the number of sentences just scored.

    Returns:
        Scores of shape (B, N), on the CPU.

    Raises:
        InputError: as `score_lists`, or if an output has not a sentence a reference.
    """
    refuse_text(refs, "references")
    for output in outputs:
        refuse_text(output, "the sentences of an output")
    if any(len(output) != len(refs) for output in outputs):
        sizes = ", ".join(str(len(output)) for output in outputs)
        raise InputError(f"got outputs of {sizes} sentences for {len(refs)} references")
    settings = encoder, alpha, tokenize, chrf_words, learned
    parts = []
    for start in range(0, len(refs), SENTENCES_AT_ONCE):
        rows = slice(start, start + SENTENCES_AT_ONCE)
        lists = list(zip(*(output[rows] for output in outputs), strict=True))
        of_rows = None if srcs is None else srcs[rows]
        parts.append(score_lists(lists, refs[rows], *settings, of_rows))
        if progress is not None:
            progress(len(lists))
    if not parts:
        parts.append(score_lists([], [], *settings, None if srcs is None else []))
    joined: dict[str, Any] = {
        name: None if value is None else torch.cat([getattr(part, name).cpu() for part in parts])
        for name, value in vars(parts[0]).items()
        if name not in ("unknown_pieces", "tokens")
    }
    return ListScores(
        **joined,
        unknown_pieces=sum(part.unknown_pieces for part in parts),
        tokens=sum(part.tokens for part in parts),
    )

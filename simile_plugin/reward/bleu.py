"""BLEU as sacreBLEU counts it: sufficient statistics of whole lists at once, and their scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from simile_plugin.encoder import flat_rows
from simile_plugin.files import InputError
from simile_plugin.reward.ngrams import Ids, TokenWords, common_ngrams

BLEU_ORDER = 4
BLEU_STATS = 2 + 2 * BLEU_ORDER  # sys_len, ref_len, correct of 1..4, total of 1..4


@lru_cache(maxsize=4)
def bleu_tokenizer(name: str) -> Callable[[str], str]:
    """Return sacreBLEU's: a line with a space between its tokens."""
    from sacrebleu.metrics.bleu import BLEU

    tokenizer: Callable[[str], str] = BLEU(tokenize=name).tokenizer
    return tokenizer


def check_tokenizer(name: str, flag: str) -> None:
    """Raise InputError, naming the flag, for a tokeniser that sacreBLEU lacks or cannot run."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise InputError(f"{flag}: got '{name}', expected one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name)
    except (ImportError, OSError, RuntimeError) as error:  # a package or model is missing
        reason = " ".join(str(error).split())
        raise InputError(f"{flag}: sacreBLEU cannot use {name} here: {reason}") from error


@lru_cache(maxsize=4)
def bleu_words(tokenize: str) -> TokenWords:
    """Return what remembers the tokens of words, by one tokeniser, for all calls."""
    tokenizer = bleu_tokenizer(tokenize)
    return TokenWords(lambda word: tokenizer(word).split())


def bleu_token_ids(sentences: Sequence[str], tokenize: str) -> tuple[Ids, Ids]:
    """Return ids of all tokens, comparable within this call, (P,), and the lengths (U,).

    sacreBLEU's default tokeniser 13a looks at neighbouring characters, and a space is no digit and
    no mark: it splits each word of a line as it splits the word alone.
    """
    words = bleu_words(tokenize)
    words.trim()
    # A hyphen before the end of a line goes with it.
    if tokenize == "13a" and not any("\n" in sentence for sentence in sentences):
        return words.flat(sentences)
    return flat_rows([words.token_ids(words.split(text.rstrip())) for text in sentences])


def bleu_units(sentences: Sequence[str], tokenize: str) -> tuple[Ids, Ids]:
    """Return ids of all tokens with 0 after each sentence, as `ngrams` reads them; the lengths."""
    flat, lengths = bleu_token_ids(sentences, tokenize)
    return np.insert(flat, lengths.cumsum(), 0), lengths


def list_statistics(
    hyps: Sequence[Sequence[str]], refs: Sequence[str], tokenize: str = "13a"
) -> Tensor:
    """Count sacreBLEU's sufficient statistics of B lists of N candidates, one reference each.

    Returns:
        (B, N, 10) int64: sys_len, ref_len, matches of orders 1 to 4, candidates of orders 1 to 4.
    """
    width = len(hyps[0]) if hyps else 0
    stats = np.zeros((len(refs), width, BLEU_STATS), dtype=np.int64)
    if stats.size:
        units, lengths = bleu_units([*refs, *chain.from_iterable(hyps)], tokenize)
        sentences = np.concatenate([np.arange(len(refs)), np.arange(len(refs)).repeat(width)])
        matches, totals = common_ngrams(units, sentences, len(refs), BLEU_ORDER)
        columns = [lengths[len(refs) :, None], lengths[sentences[len(refs) :], None]]
        stats = np.hstack([*columns, matches, totals[len(refs) :]]).reshape(stats.shape)
    return torch.from_numpy(stats)


def _brevity_penalty(stats: Tensor) -> Tensor:
    hyp, ref = stats[..., 0], stats[..., 1]
    return torch.exp(1 - ref / hyp.clamp(min=1)).clamp(max=1)  # nothing matches an empty output


def sentence_bleu(stats: Tensor) -> Tensor:
    """Return sentence BLEU with +1 on matches and candidates of orders 2 to 4 (Lin & Och 2004).

    Args:
        stats: (..., 10) from :func:`list_statistics`.

    Returns:
        (...) float32 in [0, 1]; 0 where no word matches.
    """
    stats = stats.double()
    added = torch.tensor([0.0] + [1.0] * (BLEU_ORDER - 1), dtype=torch.float64, device=stats.device)
    matches = stats[..., 2 : 2 + BLEU_ORDER] + added
    totals = stats[..., 2 + BLEU_ORDER :] + added
    precisions = (matches / totals.clamp(min=1)).log().mean(-1).exp()  # log 0 = -inf, exp gives 0
    return (_brevity_penalty(stats) * precisions).float()


def corpus_bleu(stats: Tensor) -> Tensor:
    """Return corpus BLEU with sacreBLEU's default exponential smoothing.

    Args:
        stats: (..., 10) statistics summed over a corpus.

    Returns:
        (...) float64 in [0, 100].
    """
    stats = stats.double()
    matches, totals = stats[..., 2 : 2 + BLEU_ORDER], stats[..., 2 + BLEU_ORDER :]
    missing = (matches == 0) & (totals > 0)
    smoothed = 0.5 ** missing.cumsum(-1)  # the k-th order without a match counts 2^-k matches
    precisions = torch.where(missing, smoothed, matches) / totals.clamp(min=1)
    score = 100 * _brevity_penalty(stats) * precisions.log().mean(-1).exp()
    return torch.where((matches > 0).any(-1), score, torch.zeros_like(score))


def bleu_signature(tokenize: str = "13a", sentence: bool = False) -> str:
    """Return sacreBLEU's signature of :func:`corpus_bleu`, or of :func:`sentence_bleu`.

    sacreBLEU calls the +1 of sentence BLEU add-k.
    """
    import sacrebleu

    smooth = "add-k[1.00]" if sentence else "exp"
    what = "sentence, +1 on orders 2 to 4; " if sentence else ""
    version = sacrebleu.__version__
    return f"{what}nrefs:1|case:mixed|eff:no|tok:{tokenize}|smooth:{smooth}|version:{version}"

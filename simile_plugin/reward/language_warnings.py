"""Text in another language than the one that a reward encoder, or a reward of sources, knows."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from simile_plugin.encoder import RewardEncoder
from simile_plugin.files import mark_warning

# Measured by the encoder `default` on whole files: English news, parliament, captions, tweets and
# questions 0.95 to 1.49, Nigerian Pidgin 1.47 to 1.52; Hausa, French and German 2.38 to 2.63,
# Romanian to Czech 2.8 to 3.8, Yoruba 4.8 to 5.4, Russian 8.3 to 8.6.
MOST_SURPRISE = 1.9
# A name or two decide in little text: the bound rises by so much over its characters. Of 200
# characters it tells 0.02 % of English and 0.0 % of Pidgin, and 72 % of French to all of Russian;
# of 400 characters 99 % or more of each.
SLACK = 100
LEAST_TEXT = 50  # characters
# Mean reward of sources below which it says nothing. References of Multi30k de-en have 0.60 by an
# encoder distilled from 6,000 of its pairs, and 0.00 in the other direction or of French.
LEAST_SOURCE = 0.05
UNKNOWN_LIMIT = 0.05  # share of tokens that an encoder may well not know
SAMPLE = 1000  # sentences that are looked at for unknown tokens, about


def encoder_warning(name: str, encoder: RewardEncoder | None, lines: Sequence[str]) -> str:
    """Return what to say of text of another language or script than the encoder's, or "".

    Marks of formats, which are unknown to any encoder, are told by `mark_warning`.
    """
    if (text := language_warning(name, encoder, lines)) or mark_warning(name, lines):
        return text
    return unknown_warning(name, encoder, lines)


def unknown_warning(name: str, encoder: RewardEncoder | None, lines: Sequence[str]) -> str:
    """Return what to say of text much of which an encoder does not know, or "", by a sample."""
    if encoder is None or not lines:
        return ""
    counted = encoder.embed_counted(lines[:: max(1, len(lines) // SAMPLE)])
    unknown, tokens = int(counted.unknown.sum()), int(counted.tokens.sum())
    if unknown <= UNKNOWN_LIMIT * tokens:
        return ""
    return (
        f"{name}: {unknown / tokens:.0%} of the tokens of {len(counted.unknown)} sentences are "
        "unknown to the encoder and count as nothing in SIM; is it an encoder of this language and "
        "script?"
    )


def language_warning(name: str, encoder: RewardEncoder | None, lines: Sequence[str]) -> str:
    """Return what to say of text in another language than the encoder's, or "".

    Args:
        name: of the text, as the warning begins.
        lines: plain sentences; fewer than ``LEAST_TEXT`` characters of them say nothing.
    """
    size = sum(map(len, lines))
    if encoder is None or size < LEAST_TEXT:
        return ""
    surprise = encoder.surprise(lines)
    if surprise is None or surprise <= MOST_SURPRISE + SLACK / size:
        return ""
    return (
        f"{name} reads like another language than the reward encoder's ({lines[0][:40]!r}): its "
        f"characters are {surprise:.1f} times as unlikely as those of the encoder's training text "
        "(usual: 0.9 to 1.6), so that SIM, SIMILE and LEARNED say little; give an encoder of this "
        "language"
    )


def source_warning(source: Tensor | None) -> str:
    """Return what to say where the reward of sources is next to nothing everywhere, or "".

    Args:
        source: (B, N) nearness of candidates to their sources, in [0, 1]; None without one.
    """
    if source is None or not source.numel() or float(source.mean()) >= LEAST_SOURCE:
        return ""
    return (
        f"--reward source: the first lists are worth {float(source.mean()):.4f} on average, so "
        "that there is next to nothing to learn from; is --encoder of this source and this target "
        "language (simile distil-encoder), in this direction?"
    )

"""Warnings of several commands: text that is not what their scores are made for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.evaluation import Judgements


def warn(command: str, *texts: str) -> None:
    """Print each text that is not empty as a warning of a command."""
    for text in filter(None, texts):
        print(f"simile {command}: warning: {text}", file=sys.stderr)


def warn_of_whole_sentences(command: str, what: str, texts: Sequence[str], tokenize: str) -> None:
    """Say so where BLEU would take a text without spaces for one word."""
    from simile_plugin.reward import GIVE_A_TOKENISER, is_unspaced

    if is_unspaced(texts, tokenize):
        warn(
            command,
            f"--tokenize {tokenize}: {what} have next to no spaces, so that BLEU takes whole "
            f"sentences for words; give {GIVE_A_TOKENISER}",
        )


def warn_of_text(
    command: str,
    texts: Iterable[tuple[str, Sequence[str]]],
    refs: Sequence[str] = (),
    srcs: Sequence[str] = (),
) -> bool:
    """Say so where a text is not the plain one that scores are made for; texts have names.

    refs, srcs: of the same lines, or none.

    Returns:
        Whether anything was said.
    """
    from simile_plugin.reward import warnings_of_text

    doubts = [text for name, own in texts for text in warnings_of_text(name, own, refs, srcs)]
    warn(command, *doubts)
    return bool(doubts)


def warn_of_encoder(
    command: str, name: str, encoder: RewardEncoder | None, texts: Sequence[str]
) -> None:
    """Say so where a text is of another language or script than the encoder's."""
    from simile_plugin.reward import encoder_warning

    warn(command, encoder_warning(name, encoder, texts))


def warn_of_judged_text(command: str, files: Sequence[Judgements]) -> None:
    """Say so where text of judgements is not plain, and where judgements come twice.

    Then intervals and p-values are of more segments than there are.
    """
    from simile_plugin.files import empty_references, file_warning
    from simile_plugin.reward import tokenised_warning

    for file in files:
        rows = [
            "\t".join(map(str, row)) for row in zip(file.hyps, file.refs, file.human, strict=True)
        ]
        name = f"--judgements {file.path}"
        warn(command, file_warning(f"{name} (lines without a header)", rows))
        warn(command, empty_references(name, file.refs))
        texts = {"hypotheses": file.hyps, "references": file.refs, "sources": file.srcs}
        for column, lines in texts.items():
            # A reference comes once for each system, so that the file's order says nothing.
            refs = file.refs if column == "hypotheses" else ()
            warn(command, tokenised_warning(f"{name}: the column of {column}", lines, refs))

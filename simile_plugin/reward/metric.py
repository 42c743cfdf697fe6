"""SIMILE as a metric of sacreBLEU's form, for those who score in Python."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder, load_encoder
from simile_plugin.files import InputError
from simile_plugin.reward.lists import refuse_text
from simile_plugin.reward.scorer import Scorer
from simile_plugin.reward.simile import SIMILE_ALPHA, signature


class SimileScore:
    """A score of sacreBLEU's form: `score` in percent, and a line when printed.

    Args:
        score: 100 * SIMILE.
    """

    name = "SIMILE"

    def __init__(self, score: float) -> None:
        self.score = score

    def __str__(self) -> str:
        return f"{self.name} = {self.score:.2f}"

    __repr__ = __str__


class SIMILE:
    """SIMILE of outputs or sentences, with the methods of sacreBLEU's metrics.

    Of several references the best one counts: SIMILE(h) = max_r SIMILE(r, h).

    >>> metric = SIMILE()
    >>> metric.corpus_score(["he paid in cash"], [["he paid cash"], ["he paid in cash"]])
    SIMILE = 100.00
    >>> metric.get_signature()[:8]
    'nrefs:2|'

    Args:
        encoder: the reward encoder, or a folder or name of one.
        alpha: exponent of the length penalty; 0 makes it SIM.
    """

    def __init__(self, encoder: RewardEncoder | str = "default", alpha: float = SIMILE_ALPHA):
        self.encoder = load_encoder(encoder) if isinstance(encoder, str) else encoder
        self.alpha = alpha
        self.reference_count = 0  # of the last call, for the signature

    def corpus_score(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> SimileScore:
        """Return the mean of the sentences' SIMILE.

        Args:
            hypotheses: N sentences.
            references: as sacreBLEU has them, R lists of N sentences each.

        Raises:
            InputError: for a list of strings in place of such lists, lists of other lengths, or
                none at all.
        """
        if not hypotheses:
            raise InputError("hypotheses: got none; expected a list of sentences")
        return SimileScore(100 * float(self._best(hypotheses, references).double().mean()))

    def sentence_score(self, hypothesis: str, references: Sequence[str]) -> SimileScore:
        """Return SIMILE of a sentence and its R references.

        Raises:
            InputError: for a string in place of a list, or an empty list.
        """
        refuse_text(references, "references")
        return SimileScore(100 * float(self._best([hypothesis], [[ref] for ref in references])[0]))

    def get_signature(self) -> str:
        """Return what stands behind the last score; nrefs is the number of references."""
        return f"nrefs:{self.reference_count}|{signature(self.encoder, self.alpha)}"

    def _best(self, hyps: Sequence[str], references: Sequence[Sequence[str]]) -> Tensor:
        """Return each sentence's SIMILE with its nearest reference: (N,)."""
        refuse_text(references, "references")
        if not references:
            raise InputError("references: got none; expected lists of sentences")
        if isinstance(references[0], str):
            raise InputError(
                f"references: got {references[0][:60]!r} in place of a list; expected a list of "
                "references for each reference translation, as sacreBLEU has them: [refs]"
            )
        self.reference_count = len(references)
        scorer = Scorer(encoder=self.encoder, alpha=self.alpha)
        of_references = []
        for refs in references:
            simile = scorer.outputs([hyps], refs).simile
            assert simile is not None
            of_references.append(simile[:, 0])
        return torch.stack(of_references).amax(0)

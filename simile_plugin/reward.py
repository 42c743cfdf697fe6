"""The reward: candidate and reference strings -> a B x N tensor of scores.

Training, validation, ``simile score`` and ``simile report`` all call :func:`score_lists`, so that
one sentence has one score wherever it is printed.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simile_plugin.bleu import (
    bleu_signature,
    bleu_statistics,
    check_tokenizer,
    corpus_bleu,
    list_statistics,
    sentence_bleu,
)
from simile_plugin.encoder.models import RewardEncoder, cosine

__all__ = [
    "COMPONENTS",
    "SIMILE_ALPHA",
    "ListScores",
    "Reward",
    "bleu_signature",
    "bleu_statistics",
    "check_tokenizer",
    "corpus_bleu",
    "cosine",
    "length_penalty",
    "parse_reward",
    "score_lists",
    "score_outputs",
    "sentence_bleu",
    "signature",
]

logger = logging.getLogger(__name__)

SIMILE_ALPHA = 0.25  # exponent of the length penalty; the paper's value (section 3.2)
SENTENCES_AT_ONCE = 512
SHORTHANDS = {"half": {"simile": 0.5, "bleu": 0.5}}
COMPONENTS = ("simile", "sim", "bleu")

RewardFunction = Callable[[list[list[str]], list[str], list[str]], object]


@dataclass
class ListScores:
    """Every score of B lists of N candidates against their references.

    Attributes:
        bleu_stats: (B, N, 10) int64, sacreBLEU's sufficient statistics in its order.
        bleu: (B, N) sentence BLEU in [0, 1], +1 on orders 2 to 4.
        sim: (B, N) cosine in [-1, 1], or None without an encoder.
        simile: (B, N) LP^alpha * SIM, or None without an encoder.
        length_penalty: (B, N) LP in [0, 1], or None without an encoder.
        hyp_pieces: (B, N) length of each candidate in the encoder's unit (pieces, words,
            characters), or None without an encoder.
        ref_pieces: (B,) length of each reference, or None without an encoder.
        unknown_pieces: tokens of all scored strings that the encoder does not know.
        tokens: all their tokens; not the lengths where those count something else.
    """

    bleu_stats: Tensor
    bleu: Tensor
    sim: Tensor | None = None
    simile: Tensor | None = None
    length_penalty: Tensor | None = None
    hyp_pieces: Tensor | None = None
    ref_pieces: Tensor | None = None
    unknown_pieces: int = 0
    tokens: int = 0

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that the encoder does not know, in [0, 1]."""
        return self.unknown_pieces / max(1, self.tokens)


def length_penalty(ref_lengths: Tensor, hyp_lengths: Tensor) -> Tensor:
    """LP(r, h) = exp(1 - max(|r|, |h|) / min(|r|, |h|)) (Wieting et al. 2019, eq. 2).

    Args:
        ref_lengths, hyp_lengths: numbers of encoder pieces; shapes broadcast.

    Returns:
        Values in [0, 1]: 1 for equal lengths, 0 where either side is empty.
    """
    longer = torch.maximum(ref_lengths, hyp_lengths).double()
    shorter = torch.minimum(ref_lengths, hyp_lengths).double()
    penalty = torch.exp(1 - longer / shorter.clamp(min=1))
    return torch.where(shorter > 0, penalty, torch.zeros_like(penalty)).float()


def score_lists(
    hyps: Sequence[Sequence[str]],
    refs: Sequence[str],
    encoder: RewardEncoder | None,
    alpha: float = SIMILE_ALPHA,
    tokenize: str = "13a",
) -> ListScores:
    """Score B lists of N candidates against B references; each distinct string is encoded once.

    Args:
        hyps: B lists of N plain strings.
        refs: B plain strings.
        encoder: the reward encoder, or None for BLEU alone.
        alpha: exponent of the length penalty (the paper: 0.25).
        tokenize: sacreBLEU tokeniser of the BLEU statistics.

    Raises:
        ValueError: if there is not one list a reference, or the lists differ in length.
    """
    if len(hyps) != len(refs):
        raise ValueError(f"got {len(hyps)} candidate lists for {len(refs)} references")
    if len({len(candidates) for candidates in hyps}) > 1:
        raise ValueError("candidate lists differ in length; pad them with empty strings")
    stats = list_statistics(hyps, refs, tokenize)
    scores = ListScores(bleu_stats=stats, bleu=sentence_bleu(stats))
    if encoder is not None:
        _add_similarity(scores, hyps, refs, encoder, alpha)
    return scores


def _add_similarity(
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
    unknown, tokens = found.unknown.tolist(), found.tokens.tolist()
    scores.unknown_pieces = sum(unknown[i] for rows in (ref_rows, *hyp_rows) for i in rows)
    scores.tokens = sum(tokens[i] for rows in (ref_rows, *hyp_rows) for i in rows)
    vectors, lengths = found.vectors, found.lengths
    device = vectors.device
    ref_index = torch.tensor(ref_rows, dtype=torch.int64, device=device)
    hyp_index = torch.tensor(hyp_rows, dtype=torch.int64, device=device).view(scores.bleu.shape)
    scores.ref_pieces, scores.hyp_pieces = lengths[ref_index], lengths[hyp_index]
    scores.sim = cosine(vectors[ref_index].unsqueeze(1), vectors[hyp_index])
    scores.length_penalty = length_penalty(scores.ref_pieces.unsqueeze(1), scores.hyp_pieces)
    scores.simile = scores.length_penalty**alpha * scores.sim


def parse_reward(spec: str) -> dict[str, float] | RewardFunction:
    """Read ``--reward``: a name, a weighted mix, or a user's ``module:function``.

    Returns:
        Weights by component (summing to 1), or the imported function.

    Raises:
        ValueError: for an unknown name, weights that are not positive or do not sum to 1, or a
            function that cannot be imported.
    """
    if spec in SHORTHANDS:
        return dict(SHORTHANDS[spec])
    if spec in COMPONENTS:
        return {spec: 1.0}
    terms = [term.partition(":") for term in spec.split(",")]
    if all(_is_number(weight) for _, _, weight in terms):
        return _parse_mix(spec, [(name.strip(), float(weight)) for name, _, weight in terms])
    if len(terms) == 1 and terms[0][1]:
        return _import_function(*terms[0][::2])
    raise ValueError(
        f"--reward: got '{spec}'{_suggestion(spec)}; expected one of "
        f"{', '.join((*COMPONENTS, *SHORTHANDS))}, a mix such as simile:0.7,bleu:0.3, "
        "or your own module:function"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, [*COMPONENTS, *SHORTHANDS], n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _parse_mix(spec: str, terms: list[tuple[str, float]]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for name, weight in terms:
        if name not in COMPONENTS:
            raise ValueError(
                f"--reward: got component '{name}' in '{spec}'{_suggestion(name)}; "
                f"expected {', '.join(COMPONENTS)}"
            )
        if name in weights:
            raise ValueError(f"--reward: got component '{name}' twice in '{spec}'; add its weights")
        weights[name] = weight
    total = sum(weights.values())
    if not all(weight > 0 for weight in weights.values()) or abs(total - 1) > 1e-6:
        raise ValueError(
            f"--reward: got weights {', '.join(f'{w:g}' for w in weights.values())} in '{spec}'; "
            "expected positive weights that sum to 1"
        )
    return weights


def _import_function(module_name: str, function_name: str) -> RewardFunction:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(
            f"--reward: cannot import module '{module_name}' ({error}); expected "
            "module:function with the module on PYTHONPATH, or one of "
            f"{', '.join((*COMPONENTS, *SHORTHANDS))}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ValueError(
            f"--reward: module '{module_name}' has no function '{function_name}'; "
            "expected module:function"
        )
    return function


class Reward:
    """A reward chosen by ``--reward``: higher is better, 1 - reward is the cost.

    Args:
        spec: see :func:`parse_reward`. A user's function is code: it is imported and run. It
            receives ``hyps`` (B lists of N strings, short lists padded with ""), ``refs`` and
            ``srcs`` (B strings each) and returns B x N numbers; a candidate that gets no finite
            one is left out.

    Raises:
        ValueError: for a bad spec.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        parsed = parse_reward(spec)
        self.function = parsed if callable(parsed) else None
        self.weights: dict[str, float] = {} if callable(parsed) else parsed
        self.warned = False

    @property
    def needs_encoder(self) -> bool:
        """Whether SIM or SIMILE has a part in it."""
        return bool(self.weights.keys() & {"sim", "simile"})

    def from_scores(self, scores: ListScores) -> Tensor:
        """Weighted sum of the components: (B, N) float32."""
        components = {"bleu": scores.bleu, "sim": scores.sim, "simile": scores.simile}
        device = scores.bleu.device if scores.sim is None else scores.sim.device
        total = torch.zeros(scores.bleu.shape, device=device)
        for name, weight in self.weights.items():
            component = components[name]
            if component is None:
                raise ValueError(
                    f"--reward {self.spec}: needs --simile-encoder DIR, a reward encoder "
                    "(make one by simile train-encoder)"
                )
            total += weight * component.to(device)
        return total

    def from_function(
        self, hyps: list[list[str]], refs: list[str], srcs: list[str], mask: Tensor
    ) -> Tensor:
        """Call the user's function and check what it returns.

        Args:
            mask: (B, N) bool, True at real candidates; values elsewhere are set to 0.

        Returns:
            (B, N) float32, NaN or infinite where the function returned that.

        Raises:
            ValueError: if the result is not B x N numbers, or finite at no candidate.
        """
        assert self.function is not None
        try:
            values = torch.as_tensor(self.function(hyps, refs, srcs), dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"--reward {self.spec}: the function failed: {error}") from error
        values = values.detach().cpu()
        mask = mask.cpu()
        if values.shape != mask.shape:
            raise ValueError(
                f"--reward {self.spec}: the function returned shape {tuple(values.shape)}; "
                f"expected {tuple(mask.shape)} (sentences x candidates)"
            )
        bad = ~torch.isfinite(values) & mask
        if bad.any():
            row, column = (int(i) for i in bad.nonzero()[0])
            found = (
                f"--reward {self.spec}: the function returned {values[row, column].item()} for "
                f"hypothesis {hyps[row][column]!r}; expected a finite number"
            )
            if bool((bad == mask).all()):
                raise ValueError(f"{found}; so it did for all {int(mask.sum())} of the batch")
            if not self.warned:
                logger.warning(f"{found}; it is left out, and counted as nonfinite")
                self.warned = True
        return values.masked_fill(~mask, 0.0)


def signature(encoder: RewardEncoder, alpha: float = SIMILE_ALPHA) -> str:
    """What stands behind a SIM or SIMILE number, in sacreBLEU's manner."""
    from simile_plugin import __version__

    return (
        f"enc:{encoder.fingerprint}|kind:{encoder.kind}|dim:{encoder.dim}|"
        f"text:{encoder.text}|len:{encoder.unit}|alpha:{alpha:g}|version:{__version__}"
    )


def score_outputs(
    outputs: Sequence[Sequence[str]],
    refs: Sequence[str],
    encoder: RewardEncoder | None,
    alpha: float = SIMILE_ALPHA,
    tokenize: str = "13a",
    progress: Callable[[int], object] | None = None,
) -> ListScores:
    """Score whole system outputs by :func:`score_lists`, in memory that does not grow with N x D.

    Args:
        outputs: N outputs of B sentences each.
        refs: B references.
        progress: called with the number of sentences just scored.

    Returns:
        Scores of shape (B, N), on the CPU.
    """
    parts = []
    for start in range(0, len(refs), SENTENCES_AT_ONCE):
        rows = slice(start, start + SENTENCES_AT_ONCE)
        lists = list(zip(*(output[rows] for output in outputs), strict=True))
        parts.append(score_lists(lists, refs[rows], encoder, alpha, tokenize))
        if progress is not None:
            progress(len(lists))
    if not parts:
        parts.append(score_lists([], [], encoder, alpha, tokenize))
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

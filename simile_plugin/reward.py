"""The reward: candidate and reference strings -> a B x N tensor of scores.

Training, validation, ``simile score`` and ``simile report`` all call :func:`score_lists`, so that
one sentence has one score wherever it is printed.
"""

from __future__ import annotations

import difflib
import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from simile_plugin.encoder.models import RewardEncoder

SIMILE_ALPHA = 0.25  # exponent of the length penalty; the paper's value (section 3.2)
BLEU_ORDER = 4
SENTENCES_AT_ONCE = 512
BLEU_STATS = 2 + 2 * BLEU_ORDER  # sys_len, ref_len, correct of 1..4, total of 1..4
SHORTHANDS = {"half": {"simile": 0.5, "bleu": 0.5}}
COMPONENTS = ("simile", "sim", "bleu")

RewardFunction = Callable[[list[list[str]], list[str], list[str]], object]
NgramCounts = Counter[tuple[str, ...]]


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


def cosine(refs: Tensor, hyps: Tensor) -> Tensor:
    """SIM(r, h) = cos(g(r), g(h)), and 0 where either vector is zero.

    Args:
        refs, hyps: (..., D) embeddings; shapes broadcast.

    Returns:
        (...) in [-1, 1].
    """
    dot = (refs * hyps).sum(-1)
    norms = refs.norm(dim=-1) * hyps.norm(dim=-1)
    # cosine_similarity of torch clamps each norm, which bends the value of tiny vectors.
    return torch.where(norms > 0, dot / norms.clamp(min=1e-30), torch.zeros_like(dot)).clamp(-1, 1)


@lru_cache(maxsize=4)
def _bleu_tokenizer(name: str) -> Callable[[str], str]:
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize=name).tokenizer


def check_tokenizer(name: str, flag: str) -> None:
    """Raise ValueError, naming the flag, for a tokeniser that sacreBLEU does not know."""
    from sacrebleu.metrics import BLEU

    if name not in BLEU.TOKENIZERS:
        raise ValueError(f"{flag}: got '{name}', expected one of {', '.join(BLEU.TOKENIZERS)}")


@lru_cache(maxsize=65536)
def _ngram_counts(sentence: str, tokenize: str) -> tuple[NgramCounts, int]:
    tokens = _bleu_tokenizer(tokenize)(sentence.rstrip()).split()
    counts: NgramCounts = Counter()
    for order in range(1, BLEU_ORDER + 1):
        counts.update(zip(*(tokens[start:] for start in range(order)), strict=False))
    return counts, len(tokens)


def bleu_statistics(hyp: str, ref: str, tokenize: str = "13a") -> list[int]:
    """sacreBLEU's sufficient statistics of one sentence with one reference.

    Returns:
        sys_len, ref_len, matches of orders 1 to 4, candidates of orders 1 to 4.
    """
    hyp_counts, hyp_length = _ngram_counts(hyp, tokenize)
    ref_counts, ref_length = _ngram_counts(ref, tokenize)
    matches = [0] * BLEU_ORDER
    for ngram, count in hyp_counts.items():
        if ngram in ref_counts:
            matches[len(ngram) - 1] += min(count, ref_counts[ngram])
    totals = [max(0, hyp_length - order) for order in range(BLEU_ORDER)]
    return [hyp_length, ref_length, *matches, *totals]


def _brevity_penalty(stats: Tensor) -> Tensor:
    hyp, ref = stats[..., 0], stats[..., 1]
    penalty = torch.exp(1 - ref / hyp.clamp(min=1)).clamp(max=1)
    return torch.where(hyp > 0, penalty, torch.zeros_like(penalty))


def sentence_bleu(stats: Tensor) -> Tensor:
    """Sentence BLEU with +1 on matches and candidates of orders 2 to 4 (Lin & Och 2004).

    Args:
        stats: (..., 10) from :func:`bleu_statistics`.

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
    """Corpus BLEU with sacreBLEU's default exponential smoothing.

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
    width = len(hyps[0]) if hyps else 0
    stats = torch.tensor(
        [[bleu_statistics(h, r, tokenize) for h in hs] for hs, r in zip(hyps, refs, strict=True)],
        dtype=torch.int64,
    ).view(len(refs), width, BLEU_STATS)
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
            ``srcs`` (B strings each) and returns B x N finite numbers.

    Raises:
        ValueError: for a bad spec.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        parsed = parse_reward(spec)
        self.function = parsed if callable(parsed) else None
        self.weights: dict[str, float] = {} if callable(parsed) else parsed

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

        Raises:
            ValueError: if the result is not B x N finite numbers at the real candidates.
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
            raise ValueError(
                f"--reward {self.spec}: the function returned {values[row, column].item()} for "
                f"hypothesis {hyps[row][column]!r}; expected a finite number"
            )
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


def bleu_signature(tokenize: str = "13a") -> str:
    """sacreBLEU's signature of :func:`corpus_bleu`."""
    import sacrebleu

    return f"nrefs:1|case:mixed|eff:no|tok:{tokenize}|smooth:exp|version:{sacrebleu.__version__}"

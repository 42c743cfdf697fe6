"""Rewards by the names of --reward: a score, a weighted mix, or a user's function."""

from __future__ import annotations

import importlib
import logging
import traceback
from collections.abc import Callable

import torch
from torch import Tensor

from simile_plugin.files import InputError
from simile_plugin.reward.chrf import WORD_ORDER
from simile_plugin.reward.learned import DEFAULT_LEARNED, LearnedReward, load_learned
from simile_plugin.reward.lists import ListScores

logger = logging.getLogger(__name__)

SHORTHANDS = {"half": {"simile": 0.5, "bleu": 0.5}}
COMPONENTS = ("simile", "sim", "bleu", "chrf", "chrf++", "source")
PACKAGED = "learned"  # the English one that comes with the package
LEARNED = f"{PACKAGED}:"  # and the folder of simile fit-reward
NAMES = ", ".join((*COMPONENTS, *SHORTHANDS, PACKAGED, f"{LEARNED}DIR"))
RewardFunction = Callable[[list[list[str]], list[str], list[str]], object]


def parse_reward(spec: str, flag: str = "--reward") -> dict[str, float] | RewardFunction:
    """Read ``--reward``: a name, a weighted mix, or a user's ``module:function``.

    The name of a learned reward is ``learned``, the package's, or ``learned:DIR``; what stands
    after the last colon is a weight if it is a number: a folder of that name is ``./0.5``. The
    folder cannot have a comma in its name. Errors name the `flag`.

    Returns:
        Weights by component (summing to 1), or the imported function.

    Raises:
        InputError: for an unknown name, weights that are not positive or do not sum to 1, or a
            function that cannot be imported.
    """
    if spec in SHORTHANDS:
        return dict(SHORTHANDS[spec])
    if spec in (*COMPONENTS, PACKAGED):
        return {spec: 1.0}
    terms = [term.strip().rpartition(":") for term in spec.split(",")]
    if all(_is_weight(name, weight) for name, _, weight in terms):
        return _parse_mix(spec, [(name, float(weight)) for name, _, weight in terms], flag)
    if len(terms) == 1 and _is_learned(spec):
        return {spec: 1.0}
    if len(terms) == 1 and terms[0][0] and not spec.startswith("."):
        module, _, function = spec.partition(":")
        return _import_function(module, function, flag)
    raise InputError(
        f"{flag}: got '{spec}'; expected one of {NAMES}, a mix such as simile:0.7,bleu:0.3, or "
        "your own module:function (a folder's name cannot have a comma in it)"
    )


def _is_learned(name: str) -> bool:
    return name == PACKAGED or (name.startswith(LEARNED) and name != LEARNED)


def _is_weight(name: str, text: str) -> bool:
    """Return whether it is a number; nan and inf behind a module are functions of it."""
    if text.isidentifier() and name not in COMPONENTS and not name.startswith(LEARNED):
        return False  # learned:inf is a folder
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse_mix(spec: str, terms: list[tuple[str, float]], flag: str) -> dict[str, float]:
    names, weights = [name for name, _ in terms], [weight for _, weight in terms]
    for name in names:
        if name not in COMPONENTS and not _is_learned(name):
            raise InputError(
                f"{flag}: got component '{name}' in '{spec}'; expected {', '.join(COMPONENTS)}, "
                f"{PACKAGED}, {LEARNED}DIR"
            )
    if len({*names}) < len(names) or sum(map(_is_learned, names)) > 1:
        raise InputError(f"{flag}: got a component, or a learned reward, twice in '{spec}'")
    if not all(weight > 0 for weight in weights) or abs(sum(weights) - 1) > 1e-6:
        raise InputError(
            f"{flag}: got weights {', '.join(f'{w:g}' for w in weights)} in '{spec}'; expected "
            "positive weights that sum to 1"
        )
    return dict(terms)


def _import_function(module_name: str, function_name: str, flag: str) -> RewardFunction:
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"{flag}: cannot import module '{module_name}' ({error}); expected "
            f"module:function with the module on PYTHONPATH, or one of {NAMES}"
        ) from error
    function: RewardFunction | None = getattr(module, function_name, None)
    if not callable(function):
        raise InputError(
            f"{flag}: module '{module_name}' has no function '{function_name}'; "
            "expected module:function"
        )
    return function


HIGHEST = 2.0  # COMET goes a little beyond 1; what goes beyond this is in percent, or a logit


class Reward:
    """A reward chosen by ``--reward``: higher is better, 1 - reward is the cost.

    Args:
        spec: see :func:`parse_reward`. A user's function is code: it is imported and run. It
            receives ``hyps`` (B lists of N strings, short lists padded with ""), ``refs`` and
            ``srcs`` (B strings each) and returns B x N numbers; a candidate that gets no finite
            one is left out.
        flag: where it comes from, for messages.

    Raises:
        InputError: for a bad spec, or a folder of a learned reward that cannot be read.

    Attributes:
        learned: the learned reward, if it has a part in it.
    """

    def __init__(self, spec: str, flag: str = "--reward") -> None:
        self.spec, self.flag = spec, flag
        parsed = parse_reward(spec, flag)
        self.function = parsed if callable(parsed) else None
        self.weights: dict[str, float] = {} if callable(parsed) else parsed
        self.learned: LearnedReward | None = None
        self.identity = spec  # says what is trained on, wherever a folder lies
        self.warned = self.works = False  # whether a function has ever returned a finite number
        for name in filter(_is_learned, [*self.weights]):
            folder = DEFAULT_LEARNED if name == PACKAGED else name.removeprefix(LEARNED)
            self.learned = load_learned(folder, flag)
            # in its place: float sums depend on the order
            parts = [("learned" if p == name else p, weight) for p, weight in self.weights.items()]
            self.weights = dict(parts)
            self.identity = spec.replace(name, f"{LEARNED}{self.learned.fingerprint}")

    @property
    def needs_encoder(self) -> bool:
        """Return whether SIM, SIMILE, the source or a learned reward has a part in it."""
        return bool(self.weights.keys() & {"sim", "simile", "learned", "source"})

    def refuse_missing_encoder(self, flag: str) -> None:
        """Raise InputError, naming the flag that was not given, if it cannot do without."""
        if self.needs_encoder:
            raise InputError(
                f"{flag}: not given, but {self.flag} {self.spec} needs a reward encoder; give "
                "default for English targets, or the folder of one by simile train-encoder"
            )

    @property
    def needs_sources(self) -> bool:
        """Return whether nearness to the source has a part in it."""
        learned = self.learned is not None and self.learned.needs_sources
        return "source" in self.weights or learned

    @property
    def needs_references(self) -> bool:
        """Return whether anything else has: a reward of sources alone never reads a reference."""
        return self.weights.keys() != {"source"}

    @property
    def chrf_words(self) -> int | None:
        """Word order of chrF for `Scorer.lists`: None where it has no part in the reward."""
        if "chrf++" in self.weights:
            return WORD_ORDER
        return 0 if "chrf" in self.weights else None

    def parts(self, scores: ListScores) -> dict[str, Tensor]:
        """Return the components by name, in the order of the weights: (B, N) float32 each."""
        components = {
            "bleu": scores.bleu,
            "sim": scores.sim,
            "simile": scores.simile,
            "chrf": scores.chrf,
            "chrf++": scores.chrfpp,
            "learned": scores.learned,
            "source": scores.source,
        }
        of_encoder = scores.source if scores.sim is None else scores.sim
        device = scores.bleu.device if of_encoder is None else of_encoder.device
        parts = {}
        for name in self.weights:
            component = components[name]
            if component is None and scores.sim is None and "chrf" not in name:
                raise InputError(
                    f"{self.flag} {self.spec}: needs --simile-encoder DIR, a reward encoder "
                    "(make one by simile train-encoder)"
                )
            assert component is not None, "scores of a scorer of another reward"
            parts[name] = component.to(device)
        return parts

    def from_scores(self, scores: ListScores) -> Tensor:
        """Return the weighted sum of the components: (B, N) float32."""
        parts = self.parts(scores)
        total = torch.zeros_like(next(iter(parts.values())))
        for name, weight in self.weights.items():
            total += weight * parts[name]
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
            InputError: if the function fails, in whatever way; if the result is not B x N real
                numbers, or no candidate so far had a finite one.
        """
        assert self.function is not None
        try:
            returned = self.function(hyps, refs, srcs)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise InputError(
                f"{self.flag} {self.spec}: the function failed: {type(error).__name__}: {error} "
                f"({place.filename}:{place.lineno}; SIMILE_TRACEBACK=1 shows all of it)"
            ) from error
        try:
            values = torch.as_tensor(returned)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{self.flag} {self.spec}: the function returned no B x N numbers: {error}"
            ) from error
        values = values.detach().to("cpu", torch.float32)
        mask = mask.cpu()
        if values.shape != mask.shape:
            raise InputError(
                f"{self.flag} {self.spec}: the function returned shape {tuple(values.shape)}; "
                f"expected {tuple(mask.shape)} (sentences x candidates)"
            )
        finite = torch.isfinite(values)
        highest = float(values[finite & mask].abs().max()) if (finite & mask).any() else 0.0
        if highest > HIGHEST and not self.works:
            logger.warning(
                f"{self.flag} {self.spec}: the function returned {highest:.4g}; expected about 0 "
                "to 1, for which --risk-cost-scale and --mle-weight are made: divide by 100, say"
            )
        self.works = self.works or bool((finite & mask).any())
        bad = ~finite & mask
        if bad.any():
            row, column = (int(i) for i in bad.nonzero()[0])
            told = (
                f"{self.flag} {self.spec}: the function returned {values[row, column].item()} for "
                f"hypothesis {hyps[row][column]!r}; expected a finite number"
            )
            if not self.works:
                raise InputError(f"{told}; so it did for all {int(mask.sum())} of the batch")
            if not self.warned:
                logger.warning(f"{told}; it is left out, and counted as nonfinite")
                self.warned = True
        return values.masked_fill(~mask, 0.0)

"""How an encoder is trained: every flag that decides the result, with its default and its range."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from simile_plugin.encoder import COMBINE, MIX, MIXTURES, RECURRENT, TRANSFORMER, check_kind
from simile_plugin.files import InputError

POOLS = ("other", "all")
SCHEDULES = ("linear", "constant")
OBJECTIVES = ("margin", "mnr", "contrastive")
OPTIMIZERS = ("adam", "adagrad")
NEGATIVES = ("max", "mix", "rand")
LARGEST_SEED = 2**32 - 1
EVALUATIONS = 20  # of a run, unless eval_every says otherwise
# Where a kind wants other values than the averages do.
KIND_DEFAULTS = {
    "charagram": {"lr": 1e-3, "init_std": 0.05},
    # init_std 1: with 0.3 all sentences of bitext had one vector for 700 steps (recipes/encoder).
    **{kind: {"lr": 3e-3} for kind in ("lstm", "blstm")},
    "gran": {"lr": 1e-3, "init_std": 0.1},
}


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the result, besides data and sentencepiece model.

    Attributes:
        dim: length of a sentence vector.
        steps: minibatches, one step of the optimizer each; 0 leaves the initial embeddings.
        batch_size: pairs of a minibatch.
        margin: delta of the loss, a difference of cosines.
        megabatch: final M: negatives come from M minibatches of pairs.
        megabatch_anneal: M grows by 1 every so many minibatches, from 1.
        pool: "other" side or "all" sentences of the mega-batch as negatives.
        optimizer: "adam" or "adagrad" (thesis, chapter 3).
        lr: the optimizer's learning rate, at the first step.
        lr_schedule: "linear" to 0 at the last step, or "constant".
        init_std: standard deviation of the initial embeddings; the loss sees only cosines, so
            lr / init_std is what decides how fast they turn.
        dropout: probability of dropping an entry of a token's embedding; for kind "gran" the same
            entries of all tokens of a sentence.
        kind: of encoder, see encoder.kinds.KINDS.
        hidden: size of a recurrent state, 0 for dim.
        combine: of both directions of kind "blstm".
        mix: "add" or "concat" the vectors of the parts of a mixture.
        scramble: probability of shuffling the tokens of a sentence, for kinds that see their order.
        objective: "margin" loss, "mnr", the multiple-negatives ranking loss, or "contrastive",
            that of Sjöblom et al. 2018.
        scale: inverse temperature of mnr.
        negatives: of the margin loss, in a mega-batch: "max" the most similar, "rand" any one,
            "mix" one or the other, evenly.
        mine_per_process: each of several processes searches its own share of a mega-batch only.
        l2_initial: the loss gets this times half the squared distance from the initial embeddings.
        seed: of initial embeddings, order of pairs and dropout.
        eval_every: minibatches between evaluations, 0 for never.
        save_every: minibatches between states to resume from, 0 for never.
        log_every: minibatches summed up in a line of the log.
    """

    steps: int
    dim: int = 300
    batch_size: int = 128
    margin: float = 0.4
    megabatch: int = 20
    megabatch_anneal: int = 500
    pool: str = "other"
    lr: float = 5e-3
    lr_schedule: str = "linear"
    optimizer: str = "adam"
    init_std: float = 1.0
    dropout: float = 0.0
    kind: str = "sp"
    hidden: int = 0
    combine: str = "mean"
    mix: str = "add"
    scramble: float = 0.0
    objective: str = "margin"
    scale: float = 20.0
    negatives: str = "max"
    mine_per_process: bool = False
    l2_initial: float = 0.0
    seed: int = 1
    eval_every: int = 0
    save_every: int = 2000
    log_every: int = 100

    def __post_init__(self) -> None:
        """Raise InputError naming the flag of a value out of range."""
        for name in ("dim", "batch_size", "megabatch", "megabatch_anneal", "log_every"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "1 or more")
        for name in ("steps", "eval_every", "save_every", "hidden"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        _check("seed", self.seed, 0 <= self.seed <= LARGEST_SEED, f"0 to {LARGEST_SEED}")
        for name in ("lr", "init_std", "scale"):
            value = getattr(self, name)
            _check(name, value, 0 < value < math.inf, "a number above 0")
        _check("margin", self.margin, 0 < self.margin <= 2, "above 0, at most 2 (cosines)")
        _check("dropout", self.dropout, 0 <= self.dropout < 1, "at least 0, below 1")
        _check("l2_initial", self.l2_initial, 0 <= self.l2_initial < math.inf, "0 or more")
        for name, choices in (
            ("pool", POOLS),
            ("lr_schedule", SCHEDULES),
            ("optimizer", OPTIMIZERS),
            ("objective", OBJECTIVES),
            ("negatives", NEGATIVES),
            ("combine", COMBINE),
            ("mix", MIXTURES),
        ):
            value = getattr(self, name)
            _check(name, value, value in choices, " or ".join(choices))
        _check("scramble", self.scramble, 0 <= self.scramble <= 1, "a probability")
        self._check_kind()

    def _check_kind(self) -> None:
        """Raise InputError for a wrong kind, and for settings that it does not have."""
        try:
            check_kind(self.kind)
        except ValueError as error:
            raise InputError(f"--{error}") from error
        if self.kind == TRANSFORMER:
            raise InputError(
                f"--kind: got {TRANSFORMER}, which is exported from a BGT "
                "(recipes/papers/wieting-2020*), not trained here; expected another kind"
            )
        if self.mix != "add" and MIX not in self.kind:
            raise InputError(
                f"--mix: got {self.mix}, but --kind {self.kind} is no mixture; expected kinds with "
                "+ between them, or no --mix"
            )
        for name, kinds in (
            ("hidden", RECURRENT),
            ("scramble", RECURRENT),
            ("combine", ("blstm",)),
        ):
            set_here = getattr(self, name) != getattr(TrainingConfig, name)
            if set_here and self.kind not in kinds:
                raise InputError(
                    f"--{name}: got {getattr(self, name)}, which a {self.kind} encoder has no use "
                    f"for; expected --kind {' or '.join(kinds)}, or no --{name}"
                )

    @classmethod
    def of_kind(cls, kind: str, **given: Any) -> TrainingConfig:
        """A configuration with the kind's own defaults for what is not given."""
        return cls(**{**KIND_DEFAULTS.get(kind.partition(MIX)[0], {}), "kind": kind, **given})

    def for_pairs(self, pairs: int, epochs: float | None, evaluated: bool) -> TrainingConfig:
        """With the number of steps, and of those between evaluations, for so many pairs.

        Args:
            epochs: passes over the pairs; None for `steps`.
            evaluated: whether there is something to evaluate on.
        """
        steps, every = self.steps, self.eval_every
        if epochs is not None:
            steps = max(1, round(epochs * max(1, pairs // self.batch_size)))
        if evaluated and not every:
            every = max(1, steps // EVALUATIONS)
        return replace(self, steps=steps, eval_every=every)

    @property
    def composer(self) -> dict[str, Any]:
        """Settings of make_composer."""
        if MIX in self.kind:
            return {"mix": self.mix}
        settings: dict[str, Any] = {"hidden": self.hidden or self.dim}
        if self.kind == "blstm":
            settings["combine"] = self.combine
        return settings if self.kind in RECURRENT else {}

    def lr_at(self, step: int) -> float:
        """Learning rate at a step, counted from 0."""
        return self.lr if self.lr_schedule == "constant" else self.lr * (1 - step / self.steps)


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        raise InputError(f"--{name.replace('_', '-')}: got {value}, expected {expected}")

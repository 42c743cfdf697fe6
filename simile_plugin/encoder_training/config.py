"""Settings of encoder training: flags that decide the result, with defaults and ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from simile_plugin.encoder import find_kind
from simile_plugin.files import SEED, InputError, Range, check_fields, option

POOLS = ("other", "all")
EVALUATIONS = 20  # of a run, unless eval_every says otherwise
COUNT, NOT_NEGATIVE, ABOVE_0 = Range.at_least(1), Range.at_least(0), Range.above(0)
encoder = partial(option, group="encoder")
training = partial(option, group="training")
control = partial(option, group="control")


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides the result, besides data and tokeniser.

    Attributes:
        steps: minibatches, each with a step of the optimizer; 0 keeps the initial embeddings.
    """

    steps: int
    kind: str = encoder(
        "what a sentence is split into, whose mean embedding is its vector: sp (sentencepiece "
        "pieces), word, trigram (of characters), or a mixture as sp+trigram (default %(default)s)",
        "sp",
    )
    mix: str = encoder(
        "the vectors of the parts of a mixture, trained together", "add", choices=("add", "concat")
    )
    dim: int = encoder("length of a vector (default and papers: %(default)s)", 300, range=COUNT)
    batch_size: int = training(
        "pairs of a minibatch (default and the papers' code: %(default)s)", 128, range=COUNT
    )
    margin: float = training(
        "delta of the loss, a difference of cosines (default and papers: %(default)s)",
        0.4,
        range=Range(lambda x: 0 < x <= 2, "above 0, at most 2 (cosines)"),
    )
    megabatch: int = training(
        "M: negatives are the most similar sentences of M minibatches (default %(default)s; "
        "papers: 60)",
        20,
        range=COUNT,
    )
    megabatch_anneal: int = training(
        "M starts at 1 and grows by 1 every so many minibatches; too fast, and the encoder "
        "collapses to one point (default %(default)s; papers: 150)",
        500,
        range=COUNT,
    )
    pool: str = training(
        "where negatives come from: the other side of the pairs, or both sides (default "
        "%(default)s; papers: other for pairs of two languages, all for paraphrases)",
        "other",
        choices=POOLS,
    )
    lr: float = training(
        "Adam's learning rate, at the first step (default %(default)s; papers: 0.001)",
        5e-3,
        range=ABOVE_0,
    )
    lr_schedule: str = training(
        "linear: falls to 0 at the end (default; papers: constant)",
        "linear",
        choices=("linear", "constant"),
    )
    init_std: float = training(
        "standard deviation of the initial embeddings; only lr / init-std counts, for the loss "
        "sees only cosines (default %(default)s, as torch's nn.Embedding)",
        1.0,
        range=ABOVE_0,
    )
    dropout: float = training(
        "drop entries of the token embeddings with this probability (default %(default)s; papers: "
        "0 to 0.3; slower)",
        0.0,
        range=Range(lambda x: 0 <= x < 1, "at least 0, below 1"),
    )
    seed: int = training("of initial embeddings, order and dropout", 1, range=SEED)
    eval_every: int | None = control(
        "minibatches between evaluations (default: 20 evaluations in a run)", None, range=COUNT
    )
    save_every: int = control(
        "minibatches between states in DIR.training to go on from, 0: none (default %(default)s)",
        2000,
        range=NOT_NEGATIVE,
    )
    log_every: int = control(
        "minibatches that a line of the log (DIR/training.jsonl) sums up", 100, range=COUNT
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.steps < 0:
            raise InputError(f"--steps: got {self.steps}, expected 0 or more")
        try:
            trained = find_kind(self.kind).make is None
        except InputError as error:
            raise InputError(f"--{error}") from error
        if not trained:
            raise InputError(
                f"--kind: got {self.kind}, which is no average of embeddings; the recipe that "
                "registers it trains it"
            )
        if self.mix != "add" and "+" not in self.kind:
            raise InputError(
                f"--mix: got {self.mix}, but --kind {self.kind} is no mixture; expected kinds with "
                "+ between them, or no --mix"
            )

    def for_pairs(self, pairs: int, epochs: float | None, evaluated: bool) -> TrainingConfig:
        """Return these settings with the steps of `epochs`, and 20 evaluations if there are any."""
        steps, every = self.steps, self.eval_every or 0
        if epochs is not None:
            steps = max(1, round(epochs * max(1, pairs // self.batch_size)))
        if evaluated and not every:
            every = max(1, steps // EVALUATIONS)
        return replace(self, steps=steps, eval_every=every or None)

    @property
    def composer(self) -> dict[str, Any]:
        """The settings of make_composer."""
        return {"mix": self.mix} if "+" in self.kind else {}

    def lr_at(self, step: int) -> float:
        """Return the learning rate at a step, counted from 0."""
        return self.lr if self.lr_schedule == "constant" else self.lr * (1 - step / self.steps)


@dataclass(frozen=True)
class DistilConfig:
    """Settings of distillation."""

    kind: str = option(
        "what the new table has vectors of; sp+word is the sum of the means of pieces and of words",
        "sp+word",
        choices=["sp", "sp+word", "sp+trigram"],
    )
    vocab_size: int = option("pieces, and as many words or trigrams", 8000, range=COUNT)
    epochs: int = option("passes over the pairs", 25, range=COUNT)
    batch_size: int = option("pairs among which a translation is told", 512, range=COUNT)
    temperature: float = option("of the softmax over cosines", 0.05, range=Range.above(0))
    token_dropout: float = option(
        "share of a target's tokens that are left out at each step",
        0.15,
        range=Range(lambda x: 0 <= x < 1, "{} from 0 to below 1"),
    )
    lr: float = option("of Adam, falling to 0 in a straight line", 5e-3, range=Range.above(0))
    seed: int = option("of initial vectors, order and dropout", 1, range=SEED)

    def __post_init__(self) -> None:
        check_fields(self)

"""How an encoder is trained as only papers do; encoder_objectives does it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from simile_plugin.encoder import find_kind
from simile_plugin.encoder_training import TrainingConfig
from simile_plugin.files import InputError, Range, option

RECURRENT = ("lstm", "blstm", "gran")
# Where a kind wants other values than the averages do.
KIND_DEFAULTS = {
    "charagram": {"lr": 1e-3, "init_std": 0.05},
    # init_std 1: with 0.3 all sentences of bitext had one vector for 700 steps (recipes/encoder).
    **{kind: {"lr": 3e-3} for kind in ("lstm", "blstm")},
    "gran": {"lr": 1e-3, "init_std": 0.1},
}
paper = partial(option, group="papers")


@dataclass(frozen=True)
class PaperConfig(TrainingConfig):
    """TrainingConfig with what the papers' other systems have."""

    hidden: int = paper(
        "size of a recurrent state (default: as --dim; papers: 150 for both directions of blstm, "
        "side by side)",
        0,
        range=Range.at_least(0),
    )
    combine: str = paper("both directions of blstm", "mean", choices=("mean", "concat"))
    scramble: float = paper(
        "shuffle the tokens of a training sentence with this probability, for lstm, blstm and gran "
        "(default %(default)s; Wieting et al. 2019, Simple and Effective: 0.3)",
        0.0,
        range=Range.within(0, 1),
    )
    objective: str = paper(
        "margin: hinge with mined negatives (default); mnr: multiple-negatives ranking, a softmax "
        "over the minibatch, without mining; contrastive: distances of pairs and, squared, of "
        "negatives within the margin (Opusparcus' paper: with --negatives rand)",
        "margin",
        choices=("margin", "mnr", "contrastive"),
    )
    scale: float = paper("of the cosines in mnr's softmax", 20.0, range=Range.above(0))
    negatives: str = paper(
        "max: the most similar of the pool; rand: any of it; mix: one or the other (default max)",
        "max",
        choices=("max", "mix", "rand"),
    )
    optimizer: str = paper("adagrad: PARAGRAM-PHRASE XXL", "adam", choices=("adam", "adagrad"))
    l2_initial: float = paper(
        "add this / 2 times the squared distance from the initial embeddings (slower)",
        0.0,
        range=Range.at_least(0),
    )

    def check_kind(self) -> None:
        """Raise InputError for a kind that is not trained, and for settings it does not have."""
        find_kind(self.kind)
        if self.kind == "transformer":
            raise InputError(
                "kind: got transformer, which is exported from a BGT, not trained here; expected "
                "another kind"
            )
        uses = {"hidden": RECURRENT, "scramble": RECURRENT, "combine": ("blstm",)}
        for name, kinds in uses.items():
            value = getattr(self, name)
            if value != getattr(PaperConfig, name) and self.kind not in kinds:
                raise InputError(
                    f"{name}: got {value}, which a {self.kind} encoder has no use for; expected "
                    f"--kind {' or '.join(kinds)}, or no --{name}"
                )

    @classmethod
    def of_kind(cls, kind: str, **given: Any) -> PaperConfig:
        """Return a configuration with the kind's own defaults for what is not given."""
        return cls(**{**KIND_DEFAULTS.get(kind.partition("+")[0], {}), "kind": kind, **given})

    @property
    def composer(self) -> dict[str, Any]:
        """Settings of make_composer."""
        if self.kind not in RECURRENT:
            return super().composer
        both = {"combine": self.combine} if self.kind == "blstm" else {}
        return {"hidden": self.hidden or self.dim, **both}

"""Flags that `simile finetune` and `simile finetune-hf` share, and presets of them."""

from __future__ import annotations

import argparse
import functools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from simile_plugin.cli._flags import add_flags
from simile_plugin.files import FILE, SEED, Range, option

if TYPE_CHECKING:
    from simile_plugin.risk import RiskSettings, RunStory

RISK = "risk training (as --criterion simile_risk)"
COUNT, NOT_NEGATIVE, ABOVE_0 = Range.at_least(1), Range.at_least(0), Range.above(0)
training = functools.partial(option, group="training")
PAPER_EPOCHS = 10
# Rate of adapters by that of a pretrained model's own weights. Change of cost on validation, small
# Marian, rank 16, 80 updates, one seed: 2e-5 -0.0002, 5e-4 -0.0051, 1e-3 -0.0085, 2e-3 -0.0121,
# 5e-3 -0.0099, 1e-2 -0.0077; all weights at 2e-5 -0.0054. What is kept is the best BLEU: at 1e-3
# +0.32, at 2e-3 -0.01, where nothing would be kept.
LORA_RATE = 50


@dataclass(frozen=True)
class Preset:
    """Values of flags that belong together; what is given on the command line goes first.

    The rate is that of a model of fairseq, trained from scratch; one that came pretrained has a
    tenth of it. Updates: None is as many as `PAPER_EPOCHS` have.
    """

    max_updates: int | None = 600
    learning_rate: float = 2e-4
    schedule: Literal["linear", "constant"] = "linear"
    reward: str = "half"
    risk_alpha: float = 0.3
    risk_cost_scale: float = 30.0
    risk_length_control: float = 1.0
    risk_length_band: float = 1.5


PRESETS = {
    "short": Preset(),
    "long": Preset(max_updates=2400),
    "paper": Preset(None, 1e-4, "constant", "simile", 1.0, 1.0, 0.0, 0.0),
}
PRESETS_HELP = """\
presets, by --preset (a flag that you give goes before the preset's):
  short   600 updates of 30 sentences (10 to 20 minutes of a CPU core for a small model), rate 2e-4
          falling to 0, half SIMILE and half BLEU, --risk-alpha 0.3, --risk-cost-scale 30. Needs no
          judgements. Measured on 18,000 and 29,000 sentences: the BLEU of training on BLEU, and
          more meaning (recipes/evidence; on short sentences at half the rate)
  long    the same in 2,400 updates, an hour of a core: from 29,000 sentences on it gained more
  paper   Beyond BLEU as printed: SIMILE, alpha 1, costs not scaled, lengths not held, 10 epochs
          at a constant rate (of Adam, 1e-4; the paper's optimiser is in recipes/wmt18)
With --encoder default there is a reward fitted to people's judgements of English: --reward learned;
with judged translations of your own, fit another: simile fit-reward, --reward learned:DIR
"""


class OfPreset:
    """Stands for a flag that was not given, in argparse's values and in its help."""

    def __str__(self) -> str:
        return "the preset's"


OF_PRESET = OfPreset()


@dataclass
class Options:
    """Flags of every fine-tuning beside those of the risk."""

    output: str = option(
        "folder of the run; one that was stopped goes on", metavar="RUN", range=FILE
    )
    preset: str = option("settings that belong together", "short", choices=list(PRESETS))
    max_updates: int = training("updates", 600, range=COUNT)
    batch_size: int = training("sentences of a batch on each device", 30, range=COUNT)
    update_freq: int = training("batches an update", 1, range=COUNT)
    learning_rate: float = training("of Adam", 2e-4, range=ABOVE_0)
    schedule: str = training(
        "of the rate: linear falls to 0", "linear", choices=["linear", "constant"]
    )
    max_grad_norm: float = training("clips the gradient's norm (0: never)", 5.0, range=NOT_NEGATIVE)
    valid_interval: int = training(
        "updates between validations, which are saved, too", 100, range=COUNT
    )
    log_interval: int = training("updates between log lines", 10, range=COUNT)
    seed: int = training("of shuffling, dropout and sampling", 1, range=SEED)
    bf16: bool = training("mixed precision", False)
    fp16: bool = training("mixed precision, with a loss scale", False)


def add_options(parser: argparse.ArgumentParser, options: type[Options]) -> None:
    """Declare the flags of a fine-tuning, and those of the risk as their settings have them."""
    from simile_plugin.risk import RiskSettings

    add_flags(parser, options)
    add_flags(parser.add_argument_group(RISK), RiskSettings, {"simile_encoder": "--encoder"})
    parser.set_defaults(**dict.fromkeys(asdict(PRESETS["short"]), OF_PRESET))


def fill_in(args: argparse.Namespace, pretrained: bool = False, adapters: bool = False) -> None:
    """Give the flags that were not given their preset's values.

    max_updates stays None where it depends on the data, see `make_story`.
    """
    values = asdict(PRESETS[args.preset])
    if pretrained:
        values["learning_rate"] /= 10
    if adapters:
        values["learning_rate"] *= LORA_RATE
    for name, value in values.items():
        if getattr(args, name) is OF_PRESET:
            setattr(args, name, value)


def check_reward(risk: RiskSettings) -> None:
    """Refuse a reward that cannot be had, before anything is read or told.

    Raises:
        InputError: naming --reward or --encoder.
    """
    from simile_plugin.reward import Reward
    from simile_plugin.risk import check_settings, read_control

    check_settings(risk)
    _, spec = read_control(risk.reward)
    reward = Reward(spec)
    if not risk.simile_encoder:
        reward.refuse_missing_encoder("--encoder")


def nothing_left(output: str, story: RunStory) -> str:
    """Return why a command that was repeated trained nothing, and what to do for more."""
    return (
        f"nothing was trained: {output} has its {story.updates:,} updates; for more give "
        "--max-updates, for another training another --output"
    )


def make_story(
    options: Options, risk: RiskSettings, sentences: int, validation_set: int
) -> RunStory:
    """Return the plan of a run, ready to tell it, from the numbers of its sentence pairs."""
    from simile_plugin.risk import RunStory

    batch = options.batch_size * options.update_freq
    falling = " falling to 0" if options.schedule == "linear" else ", constant"
    return RunStory(
        reward=f"{risk.reward} (--risk-alpha {risk.risk_alpha:g} --risk-cost-scale "
        f"{risk.risk_cost_scale:g} --mle-weight {risk.mle_weight:g})",
        updates=options.max_updates or -(-PAPER_EPOCHS * sentences // batch),
        batch=batch,
        sentences=sentences,
        rate=f"{options.learning_rate:g}{falling}",
        interval=options.valid_interval,
        validation_set=validation_set,
        say=functools.partial(print, flush=True),
    )

"""Presets: values of flags that belong together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

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

    def flags(self, pretrained: bool = False, adapters: bool = False) -> dict[str, Any]:
        """Return the values by field, with the rate of a pretrained model or its adapters."""
        values = asdict(self)
        if pretrained:
            values["learning_rate"] /= 10
        if adapters:
            values["learning_rate"] *= LORA_RATE
        return values


PRESETS = {
    "short": Preset(),
    "long": Preset(max_updates=2400),
    "paper": Preset(None, 1e-4, "constant", "simile", 1.0, 1.0, 0.0, 0.0),
}
PRESETS_HELP = """\
presets, by --preset (a flag that you give goes before the preset's):
  short   600 updates of 30 sentences (6 to 15 minutes of a CPU core for a small model), rate 2e-4
          falling to 0, half SIMILE and half BLEU, --risk-alpha 0.3, --risk-cost-scale 30. Needs no
          judgements. Measured on 18,000 and 29,000 sentences: the BLEU of training on BLEU, and
          more meaning (recipes/evidence; on short sentences at half the rate)
  long    the same in 2,400 updates, an hour of a core: on 29,000 sentences it gained more, and most
          of all with --seeds 3 (docs/results.md)
  paper   Beyond BLEU as printed: SIMILE, alpha 1, costs not scaled, lengths not held, 10 epochs
          at a constant rate (of Adam, 1e-4; the paper's optimiser is in recipes/wmt18)
With --encoder default there is a reward fitted to people's judgements of English: --reward learned;
with judged translations of your own, fit another: simile fit-reward, --reward learned:DIR
"""

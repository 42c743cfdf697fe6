"""What --user-dir points at in the job's MLE training: a rate that ends with the time there is."""

import time
from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler

from simile_plugin import fairseq_hooks

fairseq_hooks.install()


@dataclass
class ByTimeConfig(FairseqDataclass):
    """Flags of the schedule."""

    seconds: float = field(default=240.0, metadata={"help": "from the start to a rate of 0"})
    warmup_updates: int = field(default=400, metadata={"help": "updates to the full rate"})
    lr: list[float] = "${optimization.lr}"  # type: ignore[assignment] # hydra looks it up


@register_lr_scheduler("by_time", dataclass=ByTimeConfig)
class ByTime(FairseqLRScheduler):
    """Rises by updates and falls by the clock: nobody knows the pace of a lent machine."""

    def __init__(self, cfg: ByTimeConfig, optimizer: object) -> None:
        super().__init__(cfg, optimizer)
        self.began = time.monotonic()
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set the rate of the next update."""
        left = max(0.0, 1 - (time.monotonic() - self.began) / self.cfg.seconds)
        rise = min(1.0, (num_updates + 1) / self.cfg.warmup_updates)
        self.optimizer.set_lr(self.cfg.lr[0] * rise * left)
        return float(self.optimizer.get_lr())

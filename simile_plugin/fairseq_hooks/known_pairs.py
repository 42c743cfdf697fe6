"""Before the first update of a risk run: what do candidates for its training sentences cost?"""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy

from simile_plugin.risk import KNOWN_BY_HEART, RunWatch, draw_sample, what_to_expect

KNOWN_PAIRS = "simile_plugin.known_pairs"  # what the line of JSON is logged as
logger = logging.getLogger(KNOWN_PAIRS)


def tell_known_pairs(cfg: Any, trainer: Any, task: Any, epoch_itr: Any, watch: RunWatch) -> None:
    """Log the cost of a sample of training sentences beside that of validation, and what it means.

    All ranks compute the same sample, so that they make the same calls. A line of JSON is for the
    story of `simile finetune`.
    """
    criterion, first = cfg.criterion, watch.first
    if criterion.mle_weight == 1 or criterion.risk_monolingual or first is None or not first[0]:
        return
    batches = epoch_itr.frozen_batches
    dataset = task.dataset(cfg.dataset.train_subset)
    indices = draw_sample(numpy.concatenate([numpy.asarray(batch) for batch in batches]).tolist())
    size = cfg.dataset.batch_size or min(map(len, batches))
    cost = cost_of(trainer, dataset, indices, size)
    logger.info(json.dumps({"sentences": len(indices), "cost": cost}))
    logger.info(what_to_expect(cost, first[0], len(indices)))
    if cost < KNOWN_BY_HEART * first[0]:
        watch.known = True  # said; the watch need not warn again


def cost_of(trainer: Any, dataset: Any, indices: list[int], size: int) -> float:
    """Return the mean cost of the candidates for some sentences, in batches of a size."""
    from fairseq.logging import metrics

    with metrics.aggregate(new_root=True) as total:
        for start in range(0, len(indices), size):
            sample = dataset.collater([dataset[i] for i in indices[start : start + size]])
            trainer.valid_step(sample)
    return float(total.get_smoothed_values()["cost"])

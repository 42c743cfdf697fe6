"""One training by as many processes as started it; the first writes its parameters.

Arguments: the folder, the encoder, the batch of a process, and --target-pieces.
"""

import json
import sys
from pathlib import Path

import torch

from simile_plugin.hugging_face import (
    Pairs,
    SimileRiskArguments,
    SimileRiskTrainer,
    target_pieces,
)
from tests.hugging_face_models import SOURCES, TARGETS, marian

folder, encoder, batch, pieces = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
target_pieces.FEW = 1.0
torch.set_num_threads(1)
args = SimileRiskArguments(
    str(folder / f"out{batch}"),
    simile_encoder=encoder,
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
    per_device_train_batch_size=batch,
    per_device_eval_batch_size=batch,
    max_steps=3,
    learning_rate=0.01,
    optim="sgd",
    lr_scheduler_type="constant",
    eval_strategy="steps",
    eval_steps=3,
    save_strategy="no",
    logging_steps=1,
    target_pieces=pieces,
    risk_candidates=3,
    risk_max_len_a=0.0,  # a bound by the longest source depends on the batch
    risk_max_len_b=8,
)
# A folder each: what one process reads, no other is writing.
model, tokenizer = marian(folder / f"model{batch}.{args.process_index}")
pairs, valid = (Pairs(tokenizer, SOURCES[:size], TARGETS[:size], 64) for size in (4, 3))
trainer = SimileRiskTrainer(
    model, args, processing_class=tokenizer, train_dataset=pairs, eval_dataset=valid
)
rows = 0 if trainer.rows is None else len(trainer.rows)
trainer.train()
if trainer.is_world_process_zero():
    names = ("eval_cost", "eval_bleu", "eval_loss", "eval_candidates", "cost", "loss")
    logs = [{k: v for k, v in log.items() if k in names} for log in trainer.state.log_history]
    values = torch.cat([p.detach().flatten() for p in trainer.model.parameters()]).tolist()
    found = {"logs": logs, "values": values, "processes": args.world_size, "rows": rows}
    (folder / f"found{batch}.json").write_text(json.dumps(found))

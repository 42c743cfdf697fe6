"""README.md of a model that a training saves: what it was made of, and what changed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import simile_plugin
from simile_plugin.files import atomic_write, flag_name
from simile_plugin.hugging_face.state import rate_of
from simile_plugin.hugging_face.text import Pairs, parts_of
from simile_plugin.reward import signature
from simile_plugin.risk import RiskSettings

NAME = "README.md"
MARK = "<!-- written by simile-plugin; without this line the file is left as it is -->"
# Metrics of a validation, and how they are written.
COLUMNS = {
    **{"cost": ".4f", "bleu": ".2f", "chrf": ".2f", "sim": ".2f", "simile": ".2f"},
    **{"length_ratio": ".3f", "repetition": ".2%"},
}


def write_model_card(trainer: Any, folder: Path) -> None:
    """Write README.md of the trainer's model, unless the folder has one of the user's.

    Args:
        trainer: a SimileRiskTrainer.
    """
    path = folder / NAME
    if path.exists() and MARK not in path.read_text("utf-8", errors="replace"):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        stream.write(model_card(trainer))


def model_card(trainer: Any) -> str:
    """Return the model card of a trainer's model, in Markdown with a header for the hub."""
    base, args = trainer.base_model, trainer.args
    local = Path(base).is_dir()  # a folder says nothing on another machine but its name
    name = Path(base).name if local else base
    header = ["library_name: transformers", "pipeline_tag: translation", "tags: [simile-plugin]"]
    if name and not local:
        header.append(f"base_model: {name}")
    encoder, rate = trainer.reward.scorer.encoder, rate_of(trainer.lr_scheduler, args)
    rows = {
        "base model": f"`{name or type(trainer.model).__name__}`",
        "reward": f"`{trainer.risk_state.objective['--reward']}`",
        "encoder": f"`{signature(encoder, args.simile_alpha)}`" if encoder else "none",
        "training data": described(trainer.train_dataset),
        "validation data": described(trainer.eval_dataset),
        "updates": f"{trainer.state.global_step:,}, rate {rate:g}",
        "target pieces": trainer.translator.pieces,
        "settings": f"`{settings_of(args)}`",
        "simile-plugin": simile_plugin.__version__,
    }
    lines = ["---", *header, "---", MARK, "", "# " + Path(args.output_dir).absolute().name, ""]
    lines.append(
        f"`{name or 'A model'}`, fine-tuned by minimum risk training "
        "([Wieting et al. 2019](https://aclanthology.org/P19-1427/)) with simile-plugin."
    )
    lines += ["", "| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows.items())]
    if table := validation_table(trainer.state, args.load_best_model_at_end):
        lines += ["", "## Validation", "", table]
    if trainer.command:
        lines += ["", "## Command", "", f"    {trainer.command}"]
    return "\n".join([*lines, ""])


def described(dataset: Any) -> str:
    """Return how many sentences a data set has, of `Pairs` with the digest of their text."""
    found = []
    for part in parts_of(dataset):
        if isinstance(part, Pairs):
            kind = "pairs" if any(part.targets) else "sources without references"
            found.append(f"{len(part):,} {kind} (sha256 {part.digest()})")
        else:
            found.append(f"{len(part):,} examples" if hasattr(part, "__len__") else "a stream")
    return ", ".join(found) or "none"


def settings_of(args: RiskSettings) -> str:
    """Return the risk's settings that are not the criterion's defaults, as flags."""
    fields = [field for field in dataclasses.fields(RiskSettings) if field.name != "simile_encoder"]
    differ = [field.name for field in fields if getattr(args, field.name) != field.default]
    return " ".join(f"{flag_name(name)} {getattr(args, name)}" for name in differ) or "defaults"


def validation_table(state: Any, of_best: bool) -> str:
    """Return the first validation beside that of the saved model; "" without two.

    Args:
        of_best: whether the best model by validation is saved, not the last one.
    """
    found = {log["step"]: log for log in state.log_history if "eval_cost" in log}
    if len(found) < 2:
        return ""
    best = state.best_global_step if of_best else None
    steps = [min(found), best if best in found else max(found)]
    known = [name for name in COLUMNS if all(f"eval_{name}" in found[step] for step in steps)]
    rows = [
        f"| update {step:,} | "
        + " | ".join(format(found[step][f"eval_{name}"], COLUMNS[name]) for name in known)
        + " |"
        for step in steps
    ]
    title = "| | " + " | ".join(name.replace("_", " ") for name in known) + " |"
    return "\n".join([title, "|---" * (len(known) + 1) + "|", *rows])

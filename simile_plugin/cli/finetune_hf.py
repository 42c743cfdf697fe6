"""`simile finetune-hf`: minimum risk training of a Hugging Face encoder-decoder."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from dataclasses import dataclass

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import FILE, SEED, Range, option

HELP = "fine-tunes a Hugging Face encoder-decoder (Marian, NLLB, mBART, T5) by the reward"

DESCRIPTION = """\
Fine-tune an encoder-decoder of transformers by minimum risk training, with the loss, the flags and
the logged metrics of fairseq's criterion simile_risk. MODEL is a local folder or a name on the hub.
The files have one sentence a line, source and target in the same order; SRC and TGT are plain text.

Validation (--valid) runs before the first update and every --valid-interval updates; eval_cost is
the expected cost under the trained reward; eval_bleu, eval_sim and eval_simile are those of the
best candidate. The run is repeatable by --seed, and one that was killed goes on when the command is
repeated. Several GPUs: torchrun --no-python --nproc-per-node 2 simile finetune-hf ...

Models of several languages need --source-lang and --target-lang, in the codes of their tokenizer;
T5 needs --prefix. Needs the extra hf: pip install 'simile-plugin[hf]'.
"""

EPILOG = """\
examples:
  simile finetune-hf Helsinki-NLP/opus-mt-de-en --train train.de train.en --valid dev.de dev.en \\
      --simile-encoder ENCODER --output tuned
  simile finetune-hf facebook/nllb-200-distilled-600M --source-lang deu_Latn \\
      --target-lang eng_Latn --lora 16 --train train.de train.en --encoder ENCODER --output tuned
"""

RISK = "risk training (as --criterion simile_risk)"
COUNT, NOT_NEGATIVE = Range.at_least(1), Range.at_least(0)
training = functools.partial(option, group="training")


@dataclass
class Options:
    """Flags of `simile finetune-hf` beside those of the risk."""

    model: str = option("folder, or name of a model on the hub", metavar="MODEL", names=["model"])
    train: tuple[str, str] = option("pairs", metavar=("SRC", "TGT"), range=FILE)
    valid: tuple[str, str] | None = option(
        "validation pairs", None, metavar=("SRC", "TGT"), range=FILE
    )
    output: str = option("the fine-tuned model", metavar="DIR", range=FILE)
    source_lang: str | None = option("language of the sources", None, metavar="CODE")
    target_lang: str | None = option("language of the targets", None, metavar="CODE")
    prefix: str = option("put before every source (T5)", "")
    max_updates: int = training("updates", 500, range=COUNT)
    batch_size: int = training("sentences of a batch on each device", 30, range=COUNT)
    update_freq: int = training("batches an update", 1, range=COUNT)
    learning_rate: float = training(
        "of AdamW, constant: a tenth of what MLE ended with", 2e-5, range=NOT_NEGATIVE
    )
    max_grad_norm: float = training("clips the gradient's norm (0: never)", 5.0, range=NOT_NEGATIVE)
    valid_interval: int = training(
        "updates between validations, which are saved, too", 100, range=COUNT
    )
    log_interval: int = training("updates between log lines", 10, range=COUNT)
    max_length: int = training("tokens of a sentence; what is longer is cut", 128, range=COUNT)
    lora: int = training(
        "rank of adapters that train in place of the model (default 0: none)", 0, range=NOT_NEGATIVE
    )
    seed: int = training("of shuffling, dropout and sampling", 1, range=SEED)
    bf16: bool = training("mixed precision", False)
    fp16: bool = training("mixed precision, with a loss scale", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of the risk are read off their settings."""
    from simile_plugin.risk import RiskSettings

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)
    add_flags(parser.add_argument_group(RISK), RiskSettings, {"simile_encoder": "--encoder"})


def run(args: argparse.Namespace) -> int:
    """Fine-tune, save, and say where; InputError for input that cannot work."""
    import torch

    from simile_plugin.files import check_standard_input, refuse_overwriting_input
    from simile_plugin.hugging_face import Job, SimileRiskArguments, finetune
    from simile_plugin.risk import RiskSettings

    options, risk = read_flags(args, Options), read_flags(args, RiskSettings)
    files = [(path, "--train") for path in options.train]
    files += [(path, "--valid") for path in options.valid or ()]
    check_standard_input(files)
    inputs = [options.model, *(path for path, _ in files), *filter(None, [risk.simile_encoder])]
    refuse_overwriting_input(options.output, inputs)
    fields = [field.name for field in dataclasses.fields(Job)]
    job = Job(**{name: getattr(options, name) for name in fields})
    settings = SimileRiskArguments(
        output_dir=options.output,
        **vars(risk),
        max_steps=options.max_updates,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=options.batch_size,
        gradient_accumulation_steps=options.update_freq,
        learning_rate=options.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=options.max_grad_norm,
        eval_strategy="steps" if options.valid else "no",
        eval_steps=options.valid_interval,
        save_steps=options.valid_interval,
        save_total_limit=3,  # the last one before the two that end a gamed run, too
        logging_steps=options.log_interval,
        seed=options.seed,
        bf16=options.bf16,
        fp16=options.fp16,
        use_cpu=not torch.accelerator.is_available(),  # else transformers refuses bf16 there
        report_to="none",
    )
    print(finetune(job, settings))
    return 0

"""`simile finetune-hf`: minimum risk training of a Hugging Face encoder-decoder."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, get_args

from simile_plugin.cli._types import SEED, file_name, real_number, whole_number

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of the risk are read off their settings."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("model", metavar="MODEL", help="folder, or name of a model on the hub")
    parser.add_argument(
        "--train", required=True, nargs=2, type=file_name, metavar=("SRC", "TGT"), help="pairs"
    )
    parser.add_argument(
        "--valid", nargs=2, type=file_name, metavar=("SRC", "TGT"), help="validation pairs"
    )
    parser.add_argument(
        "--output", required=True, type=file_name, metavar="DIR", help="the fine-tuned model"
    )
    parser.add_argument("--source-lang", metavar="CODE", help="language of the sources")
    parser.add_argument("--target-lang", metavar="CODE", help="language of the targets")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="put before every source (T5)")
    _add_training(parser.add_argument_group("training"))
    _add_risk(parser.add_argument_group(RISK))


def _add_training(group: Any) -> None:
    count, rate = whole_number(1), real_number(0)
    for flag, kind, default, text in (
        ("--max-updates", count, 500, "updates"),
        ("--batch-size", count, 30, "sentences of a batch on each device"),
        ("--update-freq", count, 1, "batches an update"),
        ("--learning-rate", rate, 2e-5, "of AdamW, constant: a tenth of what MLE ended with"),
        ("--max-grad-norm", rate, 5.0, "clips the gradient's norm (0: never)"),
        ("--valid-interval", count, 100, "updates between validations, which are saved, too"),
        ("--log-interval", count, 10, "updates between log lines"),
        ("--max-length", count, 128, "tokens of a sentence; what is longer is cut"),
        (
            "--lora",
            whole_number(0),
            0,
            "rank of adapters that train in place of the model",
        ),
        ("--seed", SEED, 1, "of shuffling, dropout and sampling"),
    ):
        help_text = f"{text} (default %(default)s)"
        group.add_argument(flag, type=kind, default=default, metavar="N", help=help_text)
    precision = group.add_mutually_exclusive_group()
    precision.add_argument("--bf16", action="store_true", help="mixed precision")
    precision.add_argument("--fp16", action="store_true", help="mixed precision, with a loss scale")


def _add_risk(group: Any) -> None:
    from simile_plugin.risk import RiskSettings, flag

    for setting in dataclasses.fields(RiskSettings):
        names = [flag(setting.name)]
        if setting.name == "simile_encoder":
            names.append("--encoder")
        shown = "" if setting.default is None else f" (default {setting.default})"
        text = setting.metadata["help"].replace("%", "%%") + shown
        if setting.type is bool:
            group.add_argument(*names, action="store_true", help=text)
            continue
        kind = next((kind for kind in get_args(setting.type)), setting.type)
        choices = setting.metadata.get("choices")
        options = {"choices": choices} if choices else {"metavar": "X"}
        group.add_argument(*names, type=kind, default=setting.default, help=text, **options)


def run(args: argparse.Namespace) -> int:
    """Fine-tune, save, and say where; InputError for input that cannot work."""
    import torch

    from simile_plugin.files import check_standard_input, refuse_overwriting_input
    from simile_plugin.hugging_face import Job, SimileRiskArguments, finetune
    from simile_plugin.risk import RiskSettings

    files = [(path, "--train") for path in args.train]
    files += [(path, "--valid") for path in args.valid or []]
    check_standard_input(files)
    inputs = [args.model, *(path for path, _ in files), *filter(None, [args.simile_encoder])]
    refuse_overwriting_input(args.output, inputs)
    job = Job(
        *(args.model, tuple(args.train), tuple(args.valid) if args.valid else None),
        *(args.source_lang, args.target_lang, args.prefix, args.max_length, args.lora),
    )
    risk = {field.name: getattr(args, field.name) for field in dataclasses.fields(RiskSettings)}
    settings = SimileRiskArguments(
        output_dir=args.output,
        **risk,
        max_steps=args.max_updates,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size,
        gradient_accumulation_steps=args.update_freq,
        learning_rate=args.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=args.max_grad_norm,
        eval_strategy="steps" if args.valid else "no",
        eval_steps=args.valid_interval,
        save_steps=args.valid_interval,
        save_total_limit=3,  # the last one before the two that end a gamed run, too
        logging_steps=args.log_interval,
        seed=args.seed,
        bf16=args.bf16,
        fp16=args.fp16,
        use_cpu=not torch.accelerator.is_available(),  # else transformers refuses bf16 there
        report_to="none",
    )
    print(finetune(job, settings))
    return 0

"""`simile finetune-hf`: minimum risk training of a Hugging Face encoder-decoder."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass

from simile_plugin.cli._finetuning import (
    COUNT,
    LORA_RATE,
    NOT_NEGATIVE,
    PRESETS_HELP,
    Options,
    add_options,
    check_reward,
    fill_in,
    make_story,
    nothing_left,
    training,
)
from simile_plugin.cli._flags import read_flags
from simile_plugin.files import FILE, Range, option

HELP = "fine-tunes a Hugging Face encoder-decoder (Marian, NLLB, mBART, T5) by the reward"

DESCRIPTION = """\
Fine-tune an encoder-decoder of transformers by minimum risk training: it translates its training
sentences, eight candidates each, and learns to prefer those whose reward is higher. MODEL is a
local folder or a name on the hub. SRC and TGT are plain text, one sentence a line, in one order.

--encoder is a reward encoder of the target language: a folder by simile train-encoder, a
sentence-transformers model in a local folder, or `default`, a small English one that comes with
the package.

Validation (--valid) runs before the first update and every --valid-interval updates, a line each
(all that is logged: RUN/trainer_state.json). RUN then holds the model of the best BLEU, which is
MODEL itself as long as nothing is better; without --valid it holds the last one. With --lora the
adapters are merged into it, and by themselves they are in RUN/adapter. The run is repeatable by
--seed, and one that was killed goes on when the command is repeated. Several GPUs:
torchrun --no-python --nproc-per-node 2 simile finetune-hf ...

Models of several languages need --source-lang and --target-lang, in the codes of their tokenizer;
T5 needs --prefix. Needs the extra hf: pip install 'simile-plugin[hf]'.
"""

EPILOG = f"""\
{PRESETS_HELP}The rate of a pretrained model is a tenth of the preset's: 2e-5. That of --lora is
{LORA_RATE:g} times as much again, as adapters start from nothing.

examples:
  simile finetune-hf Helsinki-NLP/opus-mt-de-en --train train.de train.en --valid dev.de dev.en \\
      --encoder default --output tuned
  simile finetune-hf facebook/nllb-200-distilled-600M --source-lang deu_Latn \\
      --target-lang eng_Latn --lora 16 --train train.de train.en --encoder ENCODER --output tuned
"""


SHARE = Range(lambda x: 0 < x < 1, "a number above 0 and below 1")


@dataclass
class HuggingFaceOptions(Options):
    """Flags of `simile finetune-hf` beside those of the risk."""

    model: str = option("folder, or name of a model on the hub", metavar="MODEL", names=["model"])
    train: tuple[str, str] = option("pairs", metavar=("SRC", "TGT"), range=FILE)
    valid: tuple[str, str] | None = option(
        "validation pairs", None, metavar=("SRC", "TGT"), range=FILE
    )
    monolingual: str | None = option(
        "more sources, without references: only their risk is trained on, by a --reward that reads "
        "none (source, your own function)",
        None,
        range=FILE,
    )
    monolingual_share: float = option(
        "of these sources among all sentences", 0.5, range=SHARE, metavar="SHARE"
    )
    source_lang: str | None = option("language of the sources", None, metavar="CODE")
    target_lang: str | None = option("language of the targets", None, metavar="CODE")
    prefix: str = option("put before every source (T5)", "")
    max_length: int = training("tokens of a sentence; what is longer is cut", 128, range=COUNT)
    lora: int = training(
        "rank of adapters that train in place of the model (default 0: none)", 0, range=NOT_NEGATIVE
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of the risk are read off their settings."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_options(parser, HuggingFaceOptions)


def run(args: argparse.Namespace) -> int:
    """Fine-tune, tell it, save, and say where; InputError for input that cannot work."""
    import torch

    from simile_plugin.files import check_standard_input, refuse_overwriting_input
    from simile_plugin.hugging_face import Job, SimileRiskArguments, finetune
    from simile_plugin.risk import RiskSettings, RunStory

    fill_in(args, pretrained=True, adapters=bool(args.lora))
    options, risk = read_flags(args, HuggingFaceOptions), read_flags(args, RiskSettings)
    check_reward(risk)
    files = [(path, "--train") for path in options.train]
    files += [(path, "--valid") for path in options.valid or ()]
    if options.monolingual:
        files.append((options.monolingual, "--monolingual"))
    check_standard_input(files)
    inputs = [options.model, *(path for path, _ in files), *filter(None, [risk.simile_encoder])]
    refuse_overwriting_input(options.output, inputs)
    fields = [field.name for field in dataclasses.fields(Job)]
    job = Job(**{name: getattr(options, name) for name in fields})
    settings = SimileRiskArguments(
        output_dir=options.output,
        **vars(risk),
        max_steps=options.max_updates or 1,  # until the pairs are counted
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=options.batch_size,
        gradient_accumulation_steps=options.update_freq,
        learning_rate=options.learning_rate,
        lr_scheduler_type=options.schedule,
        max_grad_norm=options.max_grad_norm,
        eval_strategy="steps" if options.valid else "no",
        eval_steps=options.valid_interval,
        save_steps=options.valid_interval,
        save_total_limit=3,  # the last one before the two that end a gamed run, too
        load_best_model_at_end=bool(options.valid),
        metric_for_best_model="bleu",
        greater_is_better=True,
        logging_steps=options.log_interval,
        seed=options.seed,
        bf16=options.bf16,
        fp16=options.fp16,
        use_cpu=not torch.accelerator.is_available(),  # else transformers refuses bf16 there
        report_to="none",
        disable_tqdm=True,
    )
    told: list[RunStory] = []

    def begin(sentences: int, validation_set: int, had: dict[str, str]) -> RunStory:
        kept = float(had.get("--learning-rate", options.learning_rate))  # of a run that goes on
        planned = dataclasses.replace(options, learning_rate=kept)
        told.append(make_story(planned, risk, sentences, validation_set))
        if settings.process_index == 0:
            print(f"model       {options.model}\n{told[0].plan()}\n", flush=True)
        return told[0]

    folder = finetune(job, settings, begin)
    for story in told[: settings.process_index == 0]:
        if not story.trained:
            print(nothing_left(options.output, story))
        if story.validations:
            best = story.best()
            kept = story.best(since=1)
            print(f"\non the validation set:\n{story.table('before', kept)}\n")
            if best == 0:
                print(
                    f"no validation was better than {options.model} itself: {folder} holds that "
                    "model as it was; docs/how-to/bleu-falls.md says what to try"
                )
            else:
                print(f"{folder}: best BLEU on validation, update {kept}")
        print("next: AutoModelForSeq2SeqLM.from_pretrained loads this folder as any other:")
        print(folder)
    return 0

"""`simile finetune-hf`: minimum risk training of a Hugging Face encoder-decoder."""

from __future__ import annotations

import argparse

from simile_plugin.cli._finetuning import add_options, read_options
from simile_plugin.finetuning import LORA_RATE, PRESETS_HELP, HuggingFaceOptions

HELP = "fine-tune a Hugging Face encoder-decoder (Marian, NLLB, mBART, T5) by the reward"

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

Before the first update it measures whether the model knows the training pairs by heart, and says
what gain to expect; after five it says how long it will take. It ends where --patience validations
in a row have no better BLEU.

With --seeds 3 it trains three times, in RUN/seed.1 to seed.3 (what is done is not repeated), writes
the mean of their models to RUN/average, validates it, and says which model to use. The mean is as
fast as one of them; in recipes/evidence it has 0.3 BLEU more than they have on average.

Models of several languages need --source-lang and --target-lang, in the codes of their tokenizer;
T5 needs --prefix, and so does OPUS-MT with several target languages: --prefix '>>fra<< '.
Needs the extra hf: pip install 'simile-plugin[hf]'.
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of the risk are read off their settings."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_options(parser, HuggingFaceOptions)


def run(args: argparse.Namespace) -> int:
    """Fine-tune, tell it, save, and say where; InputError for input that cannot work."""
    from simile_plugin.finetuning import HuggingFaceFinetuning, check_reward, finetune

    options, risk = read_options(
        args, HuggingFaceOptions, pretrained=True, adapters=bool(args.lora)
    )
    finetune(HuggingFaceFinetuning(options, risk, check_reward(risk)))
    return 0

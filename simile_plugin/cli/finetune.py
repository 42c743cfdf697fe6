"""`simile finetune`: minimum risk training of a fairseq model."""

from __future__ import annotations

import argparse

from simile_plugin.cli._finetuning import add_options, read_options
from simile_plugin.finetuning import PRESETS_HELP, FairseqOptions

HELP = "fine-tune a fairseq model (transformer, fconv, lstm, BART) by the reward"

DESCRIPTION = """\
Fine-tune your own fairseq model by minimum risk training: it translates its training sentences,
eight candidates each, and learns to prefer those whose reward is higher.

DATA-BIN is the folder that fairseq-preprocess wrote for the model, with a train and a valid set.
MLE.pt is the checkpoint to begin from; the model's flags are read from it. --encoder is a reward
encoder of the target language: a folder by simile train-encoder, a sentence-transformers model in
a local folder, or `default`, a small English one that comes with the package.

What happens: fairseq-train runs with this Python; validation comes before the first update and
every --valid-interval updates, a line each. RUN gets train.log, checkpoint_best.pt (the best BLEU
on validation; the model of MLE.pt as long as nothing is better) and checkpoint_last.pt. A run that
was stopped goes on when the command is repeated. fairseq takes all GPUs that it sees.

Before the first update it measures whether the model knows the training pairs by heart, and says
what gain to expect; after five (--log-interval) it says how long it will take. It ends where
--patience validations in a row have no better BLEU.

With --seeds 3 it trains three times, in RUN/seed.1 to seed.3 (what is done is not repeated), writes
the mean of their best models to RUN/checkpoint_average.pt, validates it, and says which model to
use. The mean is as fast as one of them; in recipes/evidence it has 0.3 BLEU more than they have on
average. It takes three times as long.
"""

EPILOG = f"""\
{PRESETS_HELP}
examples:
  simile finetune data-bin mle/checkpoint_best.pt --encoder default --output tuned
  simile finetune data-bin mle.pt --encoder ENCODER --preset long --fp16 --output tuned
  simile finetune data-bin mle.pt --reward learned --encoder default --output tuned
  simile finetune data-bin mle.pt --reward learned:DIR --encoder ENCODER --output tuned \\
      --fairseq-flags='--risk-detok moses --tensorboard-logdir tuned/tb'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of the risk are read off their settings."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_options(parser, FairseqOptions)


def run(args: argparse.Namespace) -> int:
    """Fine-tune, tell it, and end with a table; InputError for input that cannot work."""
    from simile_plugin.cli.user_dir import user_dir
    from simile_plugin.finetuning import FairseqFinetuning, check_reward, finetune

    options, risk = read_options(args, FairseqOptions)
    finetune(FairseqFinetuning(options, risk, check_reward(risk), str(user_dir())))
    return 0

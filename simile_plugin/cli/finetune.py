"""`simile finetune`: minimum risk training of a fairseq model."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.cli._finetuning import (
    PRESETS_HELP,
    Options,
    add_options,
    check_reward,
    fill_in,
    make_story,
    nothing_left,
)
from simile_plugin.cli._flags import read_flags
from simile_plugin.files import FILE, InputError, flag_name, option

if TYPE_CHECKING:
    from simile_plugin.risk import RiskSettings

HELP = "fine-tunes a fairseq model (transformer, fconv, lstm, BART) by the reward"

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


@dataclass
class FairseqOptions(Options):
    """Flags of `simile finetune` beside those of the risk."""

    data: str = option("folder by fairseq-preprocess", metavar="DATA-BIN", names=["data"])
    model: str = option("checkpoint to begin from", metavar="MLE.pt", names=["model"], range=FILE)
    monolingual: str | None = option(
        "sources without references (--risk-monolingual of fairseq-train; its share, "
        "--risk-monolingual-share, by --fairseq-flags)",
        None,
        metavar="PREFIX",
    )
    fairseq_flags: str = option(
        "more flags of fairseq-train, which go before those set here, with = and in quotes", ""
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of the risk are read off their settings."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_options(parser, FairseqOptions)


def run(args: argparse.Namespace) -> int:
    """Fine-tune, tell it, and end with a table; InputError for input that cannot work."""
    from simile_plugin.cli.user_dir import user_dir
    from simile_plugin.fairseq_hooks import (
        BEST,
        LAST,
        LOG,
        count_sentences,
        finetune,
        read_model_flags,
    )
    from simile_plugin.risk import RiskSettings

    fill_in(args)
    options, risk = read_flags(args, FairseqOptions), read_flags(args, RiskSettings)
    check_reward(risk)
    for name, path in (("DATA-BIN", options.data), ("--output", options.output)):
        if ":" in path:  # fairseq would see several folders
            raise InputError(f"{name}: got {path}, expected a path without ':'")
    if Path(options.output).is_file():
        raise InputError(f"--output: {options.output} is a file, expected a folder; name one")
    model = read_model_flags(options.model, str(user_dir()))
    sizes = (count_sentences(options.data, split) for split in ("train", "valid"))
    story, output = make_story(options, risk, *sizes), Path(options.output)
    print(f"model       {options.model} ({model[0].removeprefix('--arch=')})")
    print(f"{story.plan()}\nlog         {output / LOG}\n", flush=True)
    flags = [options.data, f"--user-dir={user_dir()}", *model]
    flags += fairseq_flags(options, risk, story.updates, bool(story.validation_set))
    finetune(output, options.model, flags, story)
    if not story.trained:
        print(nothing_left(options.output, story))
    if story.validations:
        best = story.best()
        print(f"\non the validation set:\n{story.table('before', best)}\n")
        print(next_steps(options, output / BEST, output / LOG, best))
    elif story.trained:
        print(f"\nno validation set: {output / LAST} is the model after update {story.done:,}")
    return 0


def fairseq_flags(
    options: FairseqOptions, risk: RiskSettings, updates: int, valid: bool
) -> list[str]:
    """Return the flags of fairseq-train, a word each; those of --fairseq-flags last."""
    found = ["--criterion=simile_risk", "--optimizer=adam", "--adam-betas=(0.9, 0.98)"]
    default = type(risk)()
    for name, value in vars(risk).items():
        if value != getattr(default, name):
            found.append(flag_name(name) if value is True else f"{flag_name(name)}={value}")
    found += [f"--risk-monolingual={options.monolingual}"] * bool(options.monolingual)
    linear = ["--lr-scheduler=polynomial_decay", f"--total-num-update={updates}"]
    found += linear if options.schedule == "linear" else ["--lr-scheduler=fixed"]
    found += [
        f"--lr={options.learning_rate}",
        f"--clip-norm={options.max_grad_norm}",
        f"--batch-size={options.batch_size}",
        "--required-batch-size-multiple=1",
        f"--update-freq={options.update_freq}",
        f"--max-update={updates}",
        f"--seed={options.seed}",
        f"--log-interval={min(options.log_interval, 5)}",
        f"--save-interval-updates={options.valid_interval}",
        "--keep-interval-updates=3",  # the last one before the two that end a gamed run, too
        "--no-epoch-checkpoints",
    ]
    if valid:
        found += [f"--validate-interval-updates={options.valid_interval}"]
    else:
        found += ["--disable-validation"]
    if "--best-checkpoint-metric" not in options.fairseq_flags:  # what maximises is not undone
        found += ["--best-checkpoint-metric=bleu", "--maximize-best-checkpoint-metric"]
    found += ["--fp16"] * options.fp16 + ["--bf16"] * options.bf16
    return found + shlex.split(options.fairseq_flags)


def next_steps(options: FairseqOptions, model: Path, log: Path, best: int) -> str:
    """Return where the model is, and the commands that translate the test set and compare."""
    lines = [f"{model}: best BLEU on validation, update {best}"]
    if best == 0:
        lines = [
            f"no validation was better: {model} is the model of {options.model}",
            "docs/how-to/bleu-falls.md says what to try",
        ]
    split = "test" if [*Path(options.data).glob("test.*.idx")] else "valid"
    dictionary = next(Path(options.data).glob("dict.*.txt"), None)
    joined = dictionary is not None and "\u2581" in dictionary.read_text("utf-8", "replace")[:20000]
    words = [
        *("fairseq-generate", options.data, "--path", str(model)),
        *("--gen-subset", split, "--beam", "5", "--required-batch-size-multiple", "1"),
        *("--remove-bpe", "sentencepiece" if joined else "subword_nmt"),
    ]
    lines += ["next:", f'  {shlex.join(words)} --user-dir "$(simile user-dir)" >{split}.log']
    curve = shlex.quote(f"{options.preset}={log}")
    return "\n".join([*lines, f"  simile report --log {curve} --html report.html"])

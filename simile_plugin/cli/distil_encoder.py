"""`simile distil-encoder`: an encoder of two languages by bitext, or a fast one by text alone."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from simile_plugin.cli._flags import add_flags, file_option, folder_option, read_flags
from simile_plugin.cli._warnings import warn_of_text
from simile_plugin.files import FILE, option

SIDES = ("source", "target")
HELP = (
    "make an encoder of a second language from a few thousand translations, or a fast copy of a "
    "slow encoder"
)

DESCRIPTION = """\
Train an encoder of the language of --target so that a sentence is near TEACHER's vector of its
translation in --source (a softmax over the pairs of a batch, both ways). TEACHER stays as it is and
reads sources; the new table reads targets. A minute for 7,000 pairs. One pair in ten, 300 at most,
is not trained on: how many of these translations the encoder finds is said at the end.

The folder is an encoder of the target's language like any other, for --encoder and
--simile-encoder. Where a command sees sources, it also measures how near a translation is to its
source, without a reference: --reward source, or a mix such as chrf:0.5,source:0.5. It knows what is
usual of the two languages (the ratio of lengths, copies of the source, the pieces of either), so
that a copied source, another language and a text for everything are worth little.
"""

EPILOG = """\
example:
  simile distil-encoder ENCODER --source train.en.gz --target train.hau.gz --output en-hau
  simile score -r ref.hau -i hyp.hau --src src.en --encoder en-hau
  fairseq-train ... --reward chrf:0.5,source:0.5 --simile-encoder en-hau
  simile distil-encoder minilm --source text.en.gz --kind sp --vocab-size 16000 --output fast
"""


@dataclass
class Options:
    """Flags of `simile distil-encoder`; DistilConfig has those of the training."""

    teacher: str = option(
        "encoder of the language of --source (made by simile train-encoder; without --target any)",
        metavar="TEACHER",
        names=["teacher"],
        range=FILE,
    )
    source: list[str] = file_option("sentences that TEACHER can read, one a line", nargs="+")
    target: list[str] = file_option(
        "their translations, file by file and line by line; several languages share a table",
        [],
        nargs="+",
    )
    more_source: list[str] = file_option(
        "the same of other languages: they only help to train the table. Two tables are trained, "
        "with and without them, and the one that finds more held-out translations is kept",
        [],
        nargs="+",
    )
    more_target: list[str] = file_option("the translations of --more-source", [], nargs="+")
    output: str = folder_option("encoder folder to write")
    overwrite: bool = option("replace the encoder that is in --output", False)
    device: str = option("where it is trained: cpu, cuda, cuda:1", "cpu", metavar="DEV")
    json: bool = option("print config.json at the end", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    from simile_plugin.encoder_training import DistilConfig

    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)
    add_flags(parser, DistilConfig)


def run(args: argparse.Namespace) -> int:
    """Train and save; InputError for input that no encoder can be made of."""
    import json

    from simile_plugin.encoder import WEIGHTS, load_encoder, save_encoder, usable_device
    from simile_plugin.encoder_training import DistilConfig, distil_encoder
    from simile_plugin.files import (
        InputError,
        check_outputs,
        check_standard_input,
        read_lines,
        read_parallel,
        refuse_unasked_overwrite,
    )

    options, config = read_flags(args, Options), read_flags(args, DistilConfig)
    inputs = [options.teacher]
    alone = not (options.target or options.more_source)  # text of one language
    for prefix in ("", "more-"):
        left, right = (vars(options)[f"{prefix}{side}".replace("-", "_")] for side in SIDES)
        if len(left) != len(right) and (prefix or not alone):
            raise InputError(
                f"--{prefix}target: got {len(right)} files for {len(left)} of --{prefix}source; "
                "expected one for each"
            )
        inputs += [*left, *right]
    check_standard_input((path, "--source, --target") for path in inputs[1:])
    check_outputs({"--output": options.output}, inputs, folders=True)
    refuse_unasked_overwrite(options.output, WEIGHTS, "an encoder", options.overwrite)

    def read(*files: list[str], prefix: str = "--") -> tuple[list[str], list[str]]:
        found: tuple[list[str], list[str]] = [], []
        for pair in zip(*files, strict=True):
            named = [(path, prefix + side) for path, side in zip(pair, SIDES, strict=True)]
            sides = read_parallel(named)
            for (path, flag), lines, side in zip(named, found, sides, strict=True):
                warn_of_text("distil-encoder", [(f"{flag} {path}", side)])
                lines += side
        return found

    if alone:
        texts = [read_lines(path, "--source") for path in options.source]
        for path, lines in zip(options.source, texts, strict=True):
            warn_of_text("distil-encoder", [(f"--source {path}", lines)])
        sources, targets = [*chain.from_iterable(texts)], None
    else:
        sources, targets = read(options.source, options.target)
    more = read(options.more_source, options.more_target, prefix="--more-")
    teacher = load_encoder(options.teacher, usable_device(options.device))
    encoder = distil_encoder(teacher, sources, targets, config, more)
    save_encoder(options.output, encoder)
    if options.json:
        print(json.dumps(encoder.config))
        return 0
    facts, side = encoder.training_facts, encoder.config.get("source")
    usual = side and (
        f"pairs; usual length {side['length_ratio']:.2f} of the source's, usual copies up to "
        f"{side['usual_copies']:.0%} of the word bigrams"
    )
    print(
        f"{options.output}: encoder {encoder.fingerprint}, {len(encoder.segmenter)} tokens x "
        f"{encoder.dim}, of {facts['pairs']:,} {usual or 'sentences'}\n{_quality(facts)}"
    )
    return 0


def _quality(facts: Mapping[str, Any]) -> str:
    """Say how many held-out translations are found, and which table was kept."""
    if not facts["held_out"]:
        return "no pair could be held out: its quality is not known"
    text = (
        f"{facts['found']} of {facts['held_out']} held-out translations are found "
        f"({facts['found'] / facts['held_out']:.0%}; by chance 1)"
    )
    if "found_alone" not in facts:
        return text
    kept = "shared with --more-source" if facts["more"] else "of this language alone"
    return (
        f"{text}; the table {kept} is kept (alone {facts['found_alone']}, shared "
        f"{facts['found_shared']})"
    )

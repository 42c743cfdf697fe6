"""`simile convert-encoder`: published encoders into our folder, our folder into other libraries."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import add_flags, read_flags
from simile_plugin.files import (
    FILE,
    InputError,
    check_outputs,
    flag_name,
    option,
    read_bytes,
    refuse_unasked_overwrite,
)

if TYPE_CHECKING:
    from simile_plugin.encoder import Encoder

HELP = "read published encoders (.pt), write sentence-transformers and model2vec folders"

DESCRIPTION = """\
Convert an encoder.

--from FILE.pt reads the encoders published with "Beyond BLEU" (sim.pt) and by the trainers of
"Simple and Effective Paraphrastic Similarity" and "Paraphrastic Representations at Scale"; the
sentencepiece model that belongs to it is given by --sentencepiece. The file is a pickle and is read
without running anything in it: tensors, plain containers and a Namespace, all else is refused.
Differences to the original: unknown pieces are always left out of the mean (sentences of nothing
else have cosine 0 with all); piece 0 counts like any other, where Beyond BLEU's code drops it; and
where the original tokenises by Moses or Treebank, ours sets punctuation marks off by spaces, which
differs inside words with apostrophes and hyphens (--no-split-punctuation leaves them in place, for
text that was tokenised before).

--from FOLDER reads an encoder folder of ours.

--to says what is written: simile (an encoder folder, the default), sentence-transformers (a model
with a StaticEmbedding) or model2vec. Cosines stay the same within rounding, but those of sentences
of unknown words alone: ours are 0, theirs of the bare word mark, so that two such sentences are
equal. The length penalty of SIMILE exists in `simile score` only.
"""

EPILOG = """\
examples:
  simile convert-encoder --from sim.pt --sentencepiece sim.sp.30k.model --output ENCODER
  simile convert-encoder --from ENCODER --to sentence-transformers --output FOLDER
  simile convert-encoder --from ENCODER --to model2vec --output FOLDER

then, in Python:
  SentenceTransformer("FOLDER").encode(sentences)
  model2vec.StaticModel.from_pretrained("FOLDER").encode(sentences)
"""


@dataclass
class Options:
    """Flags of `simile convert-encoder`."""

    source: str = option(
        "published .pt, or our folder", names=["--from"], metavar="PATH", range=FILE
    )
    sentencepiece: str | None = option(
        "sentencepiece model of a published .pt", None, metavar="MODEL", range=FILE
    )
    to: str = option(
        "what to write", "simile", choices=("simile", "sentence-transformers", "model2vec")
    )
    output: str = option("folder to write", metavar="DIR", range=FILE)
    overwrite: bool = option("replace the encoder that is in --output", False)
    split_punctuation: bool | None = option(
        "set punctuation of text off by spaces (default: if the published encoder's training flags "
        "say that it tokenises)",
        None,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Convert; exit status 0. Errors are raised as InputError or OSError."""
    from simile_plugin.encoder import WEIGHTS, export_encoder, save_encoder, types_of

    options = read_flags(args, Options)
    inputs = [options.source, options.sentencepiece]
    check_outputs({"--output": options.output}, inputs, folders=True)
    marker = WEIGHTS if options.to == "simile" else "modules.json"
    refuse_unasked_overwrite(options.output, marker, "an encoder", options.overwrite)
    encoder = _read(options)
    if options.to == "simile":
        save_encoder(options.output, encoder)
    else:
        try:
            export_encoder(encoder, options.output, options.to)
        except InputError as error:
            raise InputError(f"--from: {options.source}: {error}") from error
    tokens = f"{len(encoder.segmenter)} {types_of(encoder.segmenter.name)}"
    print(f"{options.output}: {options.to}, {tokens}, {encoder.dim} dimensions")
    return 0


def _read(options: Options) -> Encoder:
    from simile_plugin.encoder import convert_published, load_own_encoder

    if Path(options.source).is_dir():
        for name in ("sentencepiece", "split_punctuation"):
            if getattr(options, name) is not None:
                raise InputError(
                    f"{flag_name(name)}: is for a published .pt; --from {options.source} is ours"
                )
        return load_own_encoder(options.source)
    if not Path(options.source).exists():
        raise InputError(f"--from: {options.source}: no such file or folder")
    if options.sentencepiece is None:
        raise InputError(
            f"--sentencepiece: missing; --from {options.source} is no folder, and a published .pt "
            "needs the sentencepiece model that came with it"
        )
    model = read_bytes(options.sentencepiece, "--sentencepiece")
    try:
        encoder, counts = convert_published(options.source, model, options.split_punctuation)
    except InputError as error:
        if str(error).startswith("--from"):
            raise
        raise InputError(f"--sentencepiece: {options.sentencepiece}: {error}") from error
    encoder.training_facts["from"] = Path(options.source).name
    print(
        f"{options.source}: {counts['with_embedding']} of {counts['pieces']} pieces have an "
        f"embedding; {counts['words_left_out']} words of its vocabulary are no pieces, left out",
        file=sys.stderr,
    )
    return encoder

"""`simile convert-encoder`: published encoders into our folder, our folder into other libraries."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.cli._types import file_name
from simile_plugin.files import InputError, check_outputs

if TYPE_CHECKING:
    from simile_plugin.encoder import Encoder

HELP = "reads published encoders (.pt); writes sentence-transformers and model2vec folders"

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile convert-encoder`."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        type=file_name,
        metavar="PATH",
        help="published .pt, or our folder",
    )
    parser.add_argument(
        "--sentencepiece",
        type=file_name,
        metavar="MODEL",
        help="sentencepiece model of a published .pt",
    )
    parser.add_argument(
        "--to",
        default="simile",
        choices=["simile", "sentence-transformers", "model2vec"],
        help="what to write (default %(default)s)",
    )
    parser.add_argument(
        "--output", required=True, type=file_name, metavar="DIR", help="folder to write"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the encoder that is in --output"
    )
    parser.add_argument(
        "--split-punctuation",
        action=argparse.BooleanOptionalAction,
        help="set punctuation of text off by spaces (default: if the published encoder's training "
        "flags say that it tokenises)",
    )


def run(args: argparse.Namespace) -> int:
    """Convert; exit status 0. Errors are raised as InputError or OSError."""
    from simile_plugin.encoder import MODULES, WEIGHTS, export_encoder, save_encoder, types_of
    from simile_plugin.files import refuse_unasked_overwrite

    check_outputs({"--output": args.output}, [args.source, args.sentencepiece], folders=True)
    marker = WEIGHTS if args.to == "simile" else MODULES
    refuse_unasked_overwrite(args.output, marker, "an encoder", args.overwrite)
    encoder = _read(args)
    if args.to == "simile":
        save_encoder(args.output, encoder)
    else:
        try:
            export_encoder(encoder, args.output, args.to)
        except ValueError as error:
            raise InputError(f"--from: {args.source}: {error}") from error
    tokens = f"{len(encoder.segmenter)} {types_of(encoder.segmenter.name)}"
    print(f"{args.output}: {args.to}, {tokens}, {encoder.dim} dimensions")
    return 0


def _read(args: argparse.Namespace) -> Encoder:
    from simile_plugin.encoder import convert_published, load_own_encoder, read_published
    from simile_plugin.files import read_bytes

    if Path(args.source).is_dir():
        for flag, value in (
            ("--sentencepiece", args.sentencepiece),
            ("--split-punctuation", args.split_punctuation),
        ):
            if value is not None:
                raise InputError(
                    f"{flag}: is for a published .pt, but --from {args.source} is ours"
                )
        return load_own_encoder(args.source)
    if not Path(args.source).exists():
        raise InputError(f"--from: {args.source}: no such file or folder")
    if args.sentencepiece is None:
        raise InputError(
            f"--sentencepiece: missing; --from {args.source} is no folder, and a published .pt "
            "needs the sentencepiece model that came with it"
        )
    published = read_published(args.source)
    model = read_bytes(args.sentencepiece, "--sentencepiece")
    try:
        encoder, counts = convert_published(published, model, args.split_punctuation)
    except ValueError as error:
        raise InputError(f"--sentencepiece: {args.sentencepiece}: {error}") from error
    encoder.training_facts["from"] = Path(args.source).name
    print(
        f"{args.source}: {counts['with_embedding']} of {counts['pieces']} pieces have an "
        f"embedding; {counts['words_left_out']} words of its vocabulary are no pieces, left out",
        file=sys.stderr,
    )
    return encoder

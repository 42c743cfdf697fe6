"""The semantic network of a trained BGT as an encoder folder: the mean of q(z_sem | sentence).

export.py CHECKPOINT --data BIN --sentencepiece MODEL --output ENCODER [--overwrite]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simile_plugin.contrib.bgt import export_encoder, read_bgt
from simile_plugin.encoder import WEIGHTS, save_encoder
from simile_plugin.files import (
    as_script,
    read_bytes,
    refuse_overwriting_input,
    refuse_unasked_overwrite,
)


@as_script
def main() -> None:
    """Read the flags, write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", metavar="CHECKPOINT")
    parser.add_argument("--data", required=True, metavar="BIN", help="folder it was trained on")
    parser.add_argument("--sentencepiece", required=True, metavar="MODEL", help="of its pieces")
    parser.add_argument("--output", required=True, metavar="ENCODER")
    parser.add_argument("--overwrite", action="store_true", help="replace the encoder in --output")
    args = parser.parse_args()
    inputs = [args.checkpoint, args.data, args.sentencepiece]
    refuse_overwriting_input(args.output, inputs)
    refuse_unasked_overwrite(args.output, WEIGHTS, "an encoder", args.overwrite)
    proto = read_bytes(args.sentencepiece, "--sentencepiece")
    model = read_bgt(args.checkpoint, args.data)
    encoder = export_encoder(model, proto, {"checkpoint": Path(args.checkpoint).name})
    save_encoder(args.output, encoder)
    print(f"{args.output}: {encoder.kind}, {encoder.dim} dimensions, {encoder.fingerprint}")


if __name__ == "__main__":
    sys.exit(main())

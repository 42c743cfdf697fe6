"""Write an encoder's embeddings as whole numbers from -127 to 127 and a scale for each piece.

    python recipes/encoder/pack.py ENCODER OUTPUT

A quarter of the size, for the encoder that comes with the package; `load_encoder` reads both.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from simile_plugin.encoder import WEIGHTS, Encoder, load_own_encoder
from simile_plugin.files import as_script


@as_script
def main(source: str, output: str) -> None:
    """Pack, and say how far the packed vectors are from the others."""
    encoder, target = load_own_encoder(source), Path(output)
    weight = encoder.weight.detach()
    scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
    packed = (weight / scale).round().to(torch.int8)
    same = Encoder(packed.float() * scale, encoder.segmenter, encoder.training_facts)
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((Path(source) / "config.json").read_text(encoding="utf-8"))
    config |= {"fingerprint": same.fingerprint}
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    shutil.copy(Path(source) / "sentencepiece.model", target)
    save_file({"embeddings": packed, "embeddings_scale": scale}, target / WEIGHTS)
    used = weight.abs().amax(1) > 0
    least = float(torch.cosine_similarity(weight[used], same.weight.detach()[used]).min())
    print(
        f"{target}: enc:{same.fingerprint}, least cosine of a piece with its old self {least:.5f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="ENCODER")
    parser.add_argument("output", metavar="OUTPUT")
    sys.exit(main(**vars(parser.parse_args())))

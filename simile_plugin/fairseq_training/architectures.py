"""Architectures of the paper's experiments, as fairseq's --arch knows them."""

import argparse

from fairseq.models import register_model_architecture
from fairseq.models.fconv import base_architecture


@register_model_architecture("fconv", "fconv_beyond_bleu")
def fconv_beyond_bleu(args: argparse.Namespace) -> None:
    """Gated convolutions of Beyond BLEU: 4 encoder and 3 decoder layers of 256, width 3."""
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", 256)
    args.encoder_layers = getattr(args, "encoder_layers", "[(256, 3)] * 4")
    args.decoder_embed_dim = getattr(args, "decoder_embed_dim", 256)
    args.decoder_layers = getattr(args, "decoder_layers", "[(256, 3)] * 3")
    args.decoder_out_embed_dim = getattr(args, "decoder_out_embed_dim", 256)
    base_architecture(args)

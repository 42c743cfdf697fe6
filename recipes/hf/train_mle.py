"""Trains a small Marian or M2M-100 model from scratch by transformers' Seq2SeqTrainer; saves it.

A training that was killed goes on after its last epoch when the command is repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from simile_plugin import hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from simile_plugin.files import read_lines
from simile_plugin.hugging_face import Pairs, last_checkpoint

SIDES = ("encoder", "decoder")


def make_sentencepiece(path: Path, files: list[str], size: int) -> list[str]:
    """Train one sentencepiece model of both languages; return its pieces in their order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        input=files,
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.with_suffix(".model").rename(path)
    path.with_suffix(".vocab").unlink()
    pieces = sentencepiece.SentencePieceProcessor(str(path))
    return [pieces.id_to_piece(i) for i in range(len(pieces))]


def write_vocabulary(path: Path, first: list[str], pieces: list[str], last: list[str]) -> None:
    """Write the ids of the pieces between special tokens; unused special pieces are left out."""
    special = {"<s>", "</s>", "<unk>", *first, *last}
    words = [*first, *(piece for piece in pieces if piece not in special), *last]
    path.write_text(json.dumps({word: i for i, word in enumerate(words)}))


def sizes(layers: int, width: int, dropout: float) -> dict[str, Any]:
    """Return the settings that configs of both architectures share."""
    return {
        "d_model": width,
        "dropout": dropout,
        "scale_embedding": True,
        # fairseq's for embeddings; transformers' default is 0.02 at any width.
        "init_std": width**-0.5,
        **{f"{side}_layers": layers for side in SIDES},
        **{f"{side}_ffn_dim": 2 * width for side in SIDES},
        **{f"{side}_attention_heads": 4 for side in SIDES},
    }


def make_marian(
    folder: Path, files: list[str], vocab_size: int, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Return a Marian model and its tokenizer, as OPUS-MT's: one language a side."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    source, target = folder / "source.spm", folder / "target.spm"
    pieces = make_sentencepiece(source, files, vocab_size)
    target.write_bytes(source.read_bytes())
    write_vocabulary(folder / "vocab.json", ["</s>", "<unk>"], pieces, ["<pad>"])
    names = {"source_spm": source, "target_spm": target, "vocab": folder / "vocab.json"}
    tokenizer = MarianTokenizer(**{key: str(path) for key, path in names.items()})
    pad = tokenizer.pad_token_id
    config = MarianConfig(
        vocab_size=pad + 1,
        pad_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        decoder_start_token_id=pad,
        **settings,
    )
    return MarianMTModel(config), tokenizer


def make_m2m100(
    folder: Path, files: list[str], vocab_size: int, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Return an M2M-100 model and its tokenizer: both sides begin with the tag of a language.

    Like the published models' its vocabulary has the tags of 100 languages behind the pieces.
    """
    from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer
    from transformers.models.m2m_100.modeling_m2m_100 import shift_tokens_right

    model, vocabulary = folder / "sentencepiece.bpe.model", folder / "vocab.json"
    pieces = make_sentencepiece(model, files, vocab_size)
    write_vocabulary(vocabulary, ["<s>", "<pad>", "</s>", "<unk>"], pieces, [])
    unused = 8  # rows of the published models that no token has; the tokenizer's default, too
    tokenizer = M2M100Tokenizer(str(vocabulary), str(model), src_lang="de", tgt_lang="en")
    config = M2M100Config(
        vocab_size=len(tokenizer.encoder) + len(tokenizer.lang_token_to_id) + unused,
        # Marian's: no other dropout, and no layer is left out at random.
        attention_dropout=0.0,
        **{f"{side}_layerdrop": 0.0 for side in SIDES},
        **settings,
    )
    found = M2M100ForConditionalGeneration(config)
    # Marian's class has this method, which label smoothing needs; M2M-100's has not.
    found.prepare_decoder_input_ids_from_labels = lambda labels: shift_tokens_right(
        labels, config.pad_token_id, config.decoder_start_token_id
    )
    found.generation_config.forced_bos_token_id = tokenizer.get_lang_id("en")
    return found, tokenizer


MAKERS = {"marian": make_marian, "m2m100": make_m2m100}


def main() -> None:
    """Train, save the best model by validation loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--train", "--valid"):
        parser.add_argument(name, nargs=2, required=True, metavar=("DE", "EN"))
    parser.add_argument("--output", required=True)
    parser.add_argument("--model", choices=list(MAKERS), default="marian", help="architecture")
    for flag, default in (
        *(("--vocab-size", 3000), ("--layers", 2), ("--width", 128), ("--epochs", 5)),
        *(("--batch-size", 64), ("--max-updates", -1), ("--seed", 1)),
    ):
        parser.add_argument(flag, type=int, default=default)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--bf16", action="store_true", help="mixed precision")
    args = parser.parse_args()
    from transformers import (
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        set_seed,
    )

    set_seed(args.seed)
    folder = Path(args.output)
    settings = sizes(args.layers, args.width, args.dropout)
    make = MAKERS[args.model]
    model, tokenizer = make(folder / "tokenizer", args.train, args.vocab_size, settings)
    pairs = []
    for source, target in (args.train, args.valid):
        lines = read_lines(source, "file"), read_lines(target, "file")
        found = Pairs(tokenizer, lines[0], lines[1], 128, (source, target))
        pairs.append([found[i] for i in range(len(found))])  # batches are by length
    arguments = Seq2SeqTrainingArguments(
        str(folder),
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size,
        learning_rate=2e-3,
        warmup_steps=300,
        lr_scheduler_type="linear",
        label_smoothing_factor=0.1,
        max_grad_norm=5.0,
        num_train_epochs=args.epochs,
        max_steps=args.max_updates,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        logging_steps=50,
        seed=args.seed,
        bf16=args.bf16,
        use_cpu=not torch.accelerator.is_available(),  # else transformers refuses bf16 there
        report_to="none",
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        processing_class=tokenizer,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        train_dataset=pairs[0],
        eval_dataset=pairs[1],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    trainer.save_model()


if __name__ == "__main__":
    main()

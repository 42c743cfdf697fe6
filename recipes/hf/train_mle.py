"""Trains a small Marian model from scratch by transformers' own Seq2SeqTrainer; saves a folder.

A training that was killed goes on after its last epoch when the command is repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import sentencepiece
import torch

from simile_plugin import hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from simile_plugin.files import read_lines
from simile_plugin.hugging_face import Pairs, last_checkpoint


def make_tokenizer(folder: Path, files: list[str], size: int) -> object:
    """One sentencepiece model of both sides, in Marian's layout."""
    from transformers import MarianTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        input=files,
        model_prefix=str(folder / "source"),
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "source.model").rename(folder / "source.spm")
    (folder / "source.vocab").unlink()
    (folder / "target.spm").write_bytes((folder / "source.spm").read_bytes())
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
    words = ["</s>", "<unk>"]
    words += [p for i in range(len(pieces)) if (p := pieces.id_to_piece(i)) not in (*words, "<s>")]
    words.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    names = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    return MarianTokenizer(**{key: str(folder / name) for key, name in names.items()})


def main() -> None:
    """Train, save the best model by validation loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--train", "--valid"):
        parser.add_argument(name, nargs=2, required=True, metavar=("SRC", "TGT"))
    parser.add_argument("--output", required=True)
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
        MarianConfig,
        MarianMTModel,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        set_seed,
    )

    set_seed(args.seed)
    folder = Path(args.output)
    tokenizer = make_tokenizer(folder / "tokenizer", args.train, args.vocab_size)
    pad = tokenizer.pad_token_id  # type: ignore[attr-defined]
    sides = ("encoder", "decoder")
    model = MarianMTModel(
        MarianConfig(
            vocab_size=pad + 1,
            d_model=args.width,
            pad_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=0,
            decoder_start_token_id=pad,
            dropout=args.dropout,
            scale_embedding=True,
            # fairseq's for embeddings; Marian's own is 0.02 at any width.
            init_std=args.width**-0.5,
            **{f"{side}_layers": args.layers for side in sides},
            **{f"{side}_ffn_dim": 2 * args.width for side in sides},
            **{f"{side}_attention_heads": 4 for side in sides},
        )
    )
    pairs = []
    for source, target in (args.train, args.valid):
        lines = read_lines(source, "file"), read_lines(target, "file")
        found = Pairs(tokenizer, lines[0], lines[1], 128, (source, target))
        pairs.append([found[i] for i in range(len(found))])  # batches are by length
    settings = Seq2SeqTrainingArguments(
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
        args=settings,
        processing_class=tokenizer,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        train_dataset=pairs[0],
        eval_dataset=pairs[1],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    trainer.save_model()


if __name__ == "__main__":
    main()

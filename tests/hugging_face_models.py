"""Tiny transformers models with random weights, and tokenizers trained on the spot."""

import io
import json
from pathlib import Path

import sentencepiece
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

import simile_plugin.hugging_face  # noqa: F401 (before transformers: hides a broken torchaudio)
from tests.conftest import SENTENCES

SOURCES = ["der alte fluss", "zwei jungen warten am teich", "der zug kam zu spät", "sie zahlt"]
TARGETS = ["the old river", "two boys wait by the pond", "the train was late", "she pays"]
LAYERS = {
    **{f"{side}_layers": 1 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")},
    "d_model": 16,
    "max_position_embeddings": 64,
    **{f"{kind}dropout": 0.0 for kind in ("", "attention_", "activation_")},
    **{f"{side}_layerdrop": 0.0 for side in ("encoder", "decoder")},
}


def sentencepieces(**flags):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES + SOURCES + TARGETS),
        model_writer=model,
        vocab_size=120,
        hard_vocab_limit=False,
        minloglevel=2,
        **flags,
    )
    proto = model.getvalue()
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return proto, [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def marian(folder: Path, seed=1, **config):
    """Marian: starts from its padding, the output layer is tied, final_logits_bias is not 0."""
    proto, pieces = sentencepieces()
    folder.mkdir(exist_ok=True)
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(proto)
    words = ["</s>", "<unk>", *(p for p in pieces if p not in ("<s>", "</s>", "<unk>")), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    tokenizer = MarianTokenizer(
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        vocab=str(folder / "vocab.json"),
    )
    pad = len(words) - 1
    torch.manual_seed(seed)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=len(words),
            pad_token_id=pad,
            eos_token_id=0,
            decoder_start_token_id=pad,
            forced_eos_token_id=0,
            **LAYERS | config,
        )
    )
    model.final_logits_bias.normal_()
    return model.eval(), tokenizer


def m2m100(folder: Path, seed=1, target="en", **config):
    """M2M-100: the decoder is forced to the tag of the target language."""
    proto, pieces = sentencepieces()
    folder.mkdir(exist_ok=True)
    (folder / "spm.model").write_bytes(proto)
    words = ["<s>", "<pad>", "</s>", "<unk>"]
    words += [p for p in pieces if p not in words]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    tokenizer = M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "spm.model"), src_lang="de", tgt_lang=target
    )
    torch.manual_seed(seed)
    model = M2M100ForConditionalGeneration(
        M2M100Config(vocab_size=max(tokenizer.lang_token_to_id.values()) + 1, **LAYERS | config)
    )
    return model.eval(), tokenizer


def nllb(folder: Path | None = None, seed=1, target="eng_Latn", **config):
    """NLLB: an M2M-100 whose sources, too, begin with the tag of their language."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES + SOURCES + TARGETS, trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in learned["merges"]]
    languages = {"src_lang": "deu_Latn", "tgt_lang": target}
    tokenizer = NllbTokenizer(vocab=learned["vocab"], merges=merges, **languages)
    torch.manual_seed(seed)
    config = M2M100Config(vocab_size=len(tokenizer), **LAYERS | config)
    return M2M100ForConditionalGeneration(config).eval(), tokenizer


def scored_pieces():
    """Pieces with their log-probabilities, without the special ones."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=sentencepieces()[0])
    every = range(3, processor.get_piece_size())
    return [(processor.id_to_piece(i), processor.get_score(i)) for i in every]


def mbart(folder: Path | None = None, seed=1, target="en_XX", **config):
    """mBART cc25: targets end in the tag of their language, and the decoder starts from it."""
    special = [(word, 0.0) for word in ("<s>", "<pad>", "</s>", "<unk>")]
    languages = {"src_lang": "de_DE", "tgt_lang": target}
    tokenizer = MBartTokenizer(vocab=special + scored_pieces(), **languages)
    return _mbart(tokenizer, seed, config), tokenizer


def mbart50(folder: Path | None = None, seed=1, target="en_XX", **config):
    """mBART-50: the decoder starts from the end of sentence, and targets begin with the tag."""
    special = [(word, 0.0) for word in ("<unk>", "<s>", "</s>")]
    languages = {"src_lang": "de_DE", "tgt_lang": target}
    tokenizer = MBart50Tokenizer(vocab=special + scored_pieces(), **languages)
    return _mbart(tokenizer, seed, config), tokenizer


def _mbart(tokenizer, seed, config):
    torch.manual_seed(seed)
    model = MBartForConditionalGeneration(MBartConfig(vocab_size=len(tokenizer), **LAYERS | config))
    model.final_logits_bias.normal_()
    return model.eval()


def t5(folder: Path | None = None, seed=1, **config):
    """T5: relative positions, scaled decoder output, padding is id 0 and the decoder's start."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES + SOURCES + TARGETS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    flags = {"vocab_size": len(wrapped), "dropout_rate": 0.0, "decoder_start_token_id": 0}
    model = T5ForConditionalGeneration(T5Config(**sizes | flags | config))
    torch.nn.init.normal_(model.lm_head.weight)
    return model.eval(), wrapped


MAKERS = {
    **{"marian": marian, "m2m100": m2m100, "nllb": nllb, "mbart": mbart, "mbart50": mbart50},
    "t5": t5,
}


def save(made, folder):
    """Write a model and its tokenizer, and return them."""
    for part in made:
        part.save_pretrained(folder)
    return made


def write_corpus(folder):
    """Write sources and targets, and return their files."""
    for name, lines in (("src", SOURCES), ("tgt", TARGETS)):
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    return [str(folder / "src"), str(folder / "tgt")]


def batch_of(tokenizer, sources=SOURCES, targets=TARGETS):
    """Tensors of a batch, as the trainer's collator makes them."""
    from transformers import DataCollatorForSeq2Seq

    from simile_plugin.hugging_face import Pairs

    return dict(DataCollatorForSeq2Seq(tokenizer)(Pairs(tokenizer, sources, targets, 64)))

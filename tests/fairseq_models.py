"""Tiny fairseq models, tasks and batches, made in memory."""

from argparse import Namespace
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from simile_plugin.fairseq_training.translator import Batch
from simile_plugin.search import Hypotheses

WORDS = ["a", "red", "house", "stands", "on", "the", "hill", "two", "boys", "wait"]
SIDES = ("encoder", "decoder")
SMALL = {
    **{f"{side}_layers": 1 for side in SIDES},
    **{f"{side}_attention_heads": 2 for side in SIDES},
    **{f"{side}_embed_dim": 16 for side in SIDES},
    **{f"{side}_ffn_embed_dim": 32 for side in SIDES},
    "max_positions": 64,
}
SIZES = {
    "transformer_tiny": {"encoder_layers": 1, "decoder_layers": 2, "max_positions": 64},
    "bart_base": SMALL | {"share_all_embeddings": True},
    "transformer_align": SMALL,
    "fconv": {
        "encoder_embed_dim": 16,
        "encoder_layers": "[(16, 3)] * 2",
        "decoder_embed_dim": 16,
        "decoder_layers": "[(16, 3)] * 2",
        "decoder_out_embed_dim": 16,
        "decoder_attention": "True",
    },
    "lstm": {
        "encoder_embed_dim": 16,
        "encoder_hidden_size": 16,
        "encoder_bidirectional": True,
        "decoder_embed_dim": 16,
        "decoder_hidden_size": 16,
        "decoder_out_embed_dim": 16,
    },
}


def make_task():
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(f"\u2581{word}")
    return SimpleNamespace(
        source_dictionary=dictionary,
        target_dictionary=dictionary,
        cfg=SimpleNamespace(target_lang="en", left_pad_target=False),
    )


def make_model(arch, task, seed=1, dropout=0.0, **flags):
    torch.manual_seed(seed)
    common = {
        "arch": arch,
        "criterion": "simile_risk",  # the lstm asks for it
        "dropout": dropout,
        "max_source_positions": 64,
        "max_target_positions": 64,
        "share_decoder_input_output_embed": False,
    }
    args = Namespace(**common | SIZES[arch] | flags)
    ARCH_CONFIG_REGISTRY[arch](args)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task)


def make_sample(task, seed=0, lengths=((5, 4), (3, 6), (7, 2))):
    generator = torch.Generator().manual_seed(seed)
    dictionary = task.target_dictionary

    def sentence(length):
        words = torch.randint(
            dictionary.nspecial, len(dictionary), (length - 1,), generator=generator
        )
        return torch.cat([words, torch.tensor([dictionary.eos()])])

    return collate(
        [
            {"id": i, "source": sentence(source), "target": sentence(target)}
            for i, (source, target) in enumerate(lengths)
        ],
        pad_idx=dictionary.pad(),
        eos_idx=dictionary.eos(),
        left_pad_source=True,
        left_pad_target=False,
    )


def rows_of(sample, rows):
    """The batch that holds only some sentences of another."""
    net_input = {key: value[rows] for key, value in sample["net_input"].items()}
    target = sample["target"][rows]
    return {
        **sample,
        "id": sample["id"][rows],
        "nsentences": len(rows),
        "ntokens": int(target.ne(1).sum()),
        "net_input": net_input,
        "target": target,
    }


def with_tag(sample, tag, pad=1):
    """A batch in mBART's layout: targets end in the tag of their language, and start from it."""
    target = torch.nn.functional.pad(sample["target"], (0, 1), value=pad)
    ends = target.ne(pad).sum(1, keepdim=True)
    target = target.scatter(1, ends, tag)
    previous = torch.cat([torch.full((len(target), 1), tag), target[:, :-1]], 1)
    previous = previous.masked_fill(target.eq(pad), pad)
    net_input = {**sample["net_input"], "prev_output_tokens": previous}
    return {**sample, "target": target, "net_input": net_input}


def stack_lists(lists, size, like, pad):
    """SequenceGenerator's lists as one block."""
    longest = max((len(hypo["tokens"]) for hypos in lists for hypo in hypos[:size]), default=1)
    tokens = like.new_full((len(lists), size, longest), pad)
    scores = torch.full(tokens.shape[:2], -torch.inf)
    for row, hypos in enumerate(lists):
        for column, hypo in enumerate(hypos[:size]):
            tokens[row, column, : len(hypo["tokens"])] = hypo["tokens"]
            scores[row, column] = hypo["score"]
    return Hypotheses(tokens, scores)


def judge(criterion, sample, risk_set):
    """What the criterion's lists are worth."""
    translator, batch = criterion.translator, Batch(sample)
    return criterion.reward(translator.texts(risk_set), risk_set, lambda: translator.sources(batch))


def numbers(log):
    """The numbers of a logging output, summed over what has several, but for times."""
    return {k: float(torch.as_tensor(v).sum()) for k, v in log.items() if "seconds" not in k}

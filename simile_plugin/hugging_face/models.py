"""What is known of an encoder-decoder and its tokenizer, and what is refused before training."""

from __future__ import annotations

import inspect
import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from simile_plugin.files import InputError
from simile_plugin.risk import replaced, unwrap

# In lists of targets, as in labels; no id of a vocabulary.
PADDING = -100

PositionModules = list[tuple[nn.Module, str]]


def base_of(model: Any) -> Any:
    """Return the translation model inside distributed wrappers and adapters."""
    plain = unwrap(model)
    get_base = getattr(plain, "get_base_model", None)  # peft
    return plain if get_base is None else get_base()


def keep_unsaved_embeddings(model: Any) -> None:
    """Keep embeddings that the model's files leave out from being trained: they would be lost.

    They are Marian's positions, which are computed, and to which up to transformers 5.23 no
    gradient led. They stay in the optimizer, as in runs that were begun with it.
    """
    unsaved = set(getattr(model, "_keys_to_ignore_on_save", None) or ())
    parameters = model.named_parameters(remove_duplicate=False)
    saved = {id(parameter) for name, parameter in parameters if name not in unsaved}
    for module in model.modules():
        if isinstance(module, nn.Embedding) and id(module.weight) not in saved:
            module.register_forward_hook(lambda *found: found[-1].detach())


@dataclass(frozen=True)
class SpecialTokens:
    """Ids that every target row has or is filled up with.

    Attributes:
        start: first decoder input.
        end: last target.
        pad: what embeddings are looked up for at padding.
        tag: first target of every row where the tokenizer puts one, the tag of a language; else
            None. It is given to the model, so that it is neither scored nor text.
        language: the tag of the target language, which every reference has, or None.
    """

    start: int
    end: int
    pad: int
    tag: int | None
    language: int | None = None

    @property
    def first(self) -> dict[str, int]:
        """Return what `generate` begins a target with, by its arguments."""
        tag = {} if self.tag is None else {"forced_bos_token_id": self.tag}
        return {"decoder_start_token_id": self.start, **tag}


def special_tokens(model: Any, tokenizer: Any) -> SpecialTokens:
    """Read them off the model's generation config, and off a target as the tokenizer makes it.

    Raises:
        InputError: for a decoder-only model, one without an output layer, the tokenizer of
            another model, no padding token, no start token or a missing language tag.
    """
    if not getattr(model.config, "is_encoder_decoder", False):
        raise InputError(
            f"MODEL: got {type(model).__name__}, which has no encoder; expected an encoder-decoder "
            "(Marian, M2M-100, mBART, T5, ...). For a decoder-only model give "
            "simile_plugin.reward.CompletionReward to a trainer of TRL"
        )
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    if pad is None or end is None:
        lacking = "padding" if pad is None else "end-of-sentence"
        raise InputError(f"MODEL: its tokenizer has no {lacking} token; set one and save it again")
    _check_same(model, tokenizer)
    _check_languages(tokenizer)
    target = tokenizer(text_target="a").input_ids
    if end not in target:
        raise InputError(
            f"MODEL: its tokenizer does not end a target in {tokenizer.eos_token}; expected a "
            "tokenizer for translation, or one with add_eos_token; set it and save it again"
        )
    if target[0] == end and len(target) > 1:  # it would be an empty sentence, in a row of ours
        raise InputError(
            f"MODEL: its tokenizer begins a target with {tokenizer.eos_token}, which ends "
            "sentences; expected a tokenizer as those of Marian, M2M-100, NLLB, mBART or T5"
        )
    start, tag = model.generation_config.decoder_start_token_id, target[0]
    start = model.generation_config.bos_token_id if start is None else start
    # Their decoders start from what a target ends in.
    if model.config.model_type in ("mbart", "plbart"):
        start = target[-1]
    if not isinstance(start, int):
        found = "no" if start is None else f"{start} as"
        raise InputError(
            f"MODEL: its generation config has {found} decoder_start_token_id, expected one token; "
            "set it and save it again"
        )
    tags = language_ids(tokenizer) & {*target}
    language = next((token for token in (tag, start) if token in tags), None)
    if tags and language is None:
        raise InputError(
            "MODEL: its tokenizer has the tag of the target language behind the sentence "
            f"({tokenizer.convert_ids_to_tokens(target)}), where candidates have none; expected it "
            "in front: for NLLB legacy_behaviour=False in its tokenizer_config.json"
        )
    # "a" may be an unknown word.
    tag = tag if tag in silent_ids(tokenizer) - {tokenizer.unk_token_id, end} else None
    return SpecialTokens(start, end, pad, tag, language)


def silent_ids(tokenizer: Any) -> set[int]:
    """Special tokens and tags of languages, which not every tokenizer counts among them.

    M2M-100's never are; those of NLLB and mBART no longer are where a language was added in place
    of them, as add_special_tokens does.
    """
    tags = getattr(tokenizer, "lang_token_to_id", {})
    added = getattr(tokenizer, "added_tokens_decoder", {}).items()
    special = {token for token, word in added if getattr(word, "special", False)}
    return {*tokenizer.all_special_ids, *tags.values(), *special, *_set_tags(tokenizer)}


def _set_tags(tokenizer: Any) -> set[int]:
    """Tags of the two languages that a tokenizer is set to."""
    codes = [getattr(tokenizer, side, None) for side in ("src_lang", "tgt_lang")]
    words = [tag_word(tokenizer, code) for code in codes if code]
    found = {tokenizer.convert_tokens_to_ids(word) for word in words}
    return found - {None, tokenizer.unk_token_id}


def tag_word(tokenizer: Any, code: str) -> str:
    """Return the token of a language's code: M2M-100 writes __en__ for en."""
    words: dict[str, str] = getattr(tokenizer, "lang_code_to_token", {})
    return words.get(code, code)


def language_ids(tokenizer: Any) -> set[int]:
    """Tags of languages: those of the silent ids that have no other part."""
    named = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
    return silent_ids(tokenizer) - {getattr(tokenizer, f"{name}_token_id") for name in named}


def _check_same(model: Any, tokenizer: Any) -> None:
    head = model.get_output_embeddings()
    if head is None:
        raise InputError(
            f"MODEL: got {type(model).__name__}, which has no output layer; expected a model that "
            "writes, as AutoModelForSeq2SeqLM loads it"
        )
    known = head.weight.size(0)
    size = len(getattr(tokenizer, "target_encoder", tokenizer))  # Marian may have one for each side
    if size > known:
        raise InputError(
            f"MODEL: its tokenizer has {size} tokens, its output layer {known}; expected "
            "the tokenizer that the model was trained with"
        )
    for name in ("eos_token_id", "pad_token_id"):
        theirs, ours = getattr(model.config, name, None), getattr(tokenizer, name)
        theirs = theirs if isinstance(theirs, list) else [theirs]
        if theirs != [None] and ours not in theirs:
            raise InputError(
                f"MODEL: {name} is {theirs[0]} in its config and {ours} in its tokenizer; expected "
                "the tokenizer that the model was trained with"
            )


def _check_languages(tokenizer: Any) -> None:
    tags = language_ids(tokenizer)
    for side, flag, argument in (
        ("src_lang", "--source-lang", "text"),
        ("tgt_lang", "--target-lang", "text_target"),
    ):
        code = getattr(tokenizer, side, "")
        try:
            tagged = bool(code) and not tags.isdisjoint(tokenizer(**{argument: "a"}).input_ids)
        except KeyError:
            tagged = False
        if hasattr(tokenizer, side) and tags and not tagged:
            found = f"got '{code}', which its tokenizer does not have" if code else "not given"
            raise InputError(
                f"{flag}: {found}; the model translates between several languages, expected a code "
                "of its tokenizer, such as en, en_XX or eng_Latn"
            )


def output_bias(model: Any) -> Tensor | None:
    """Return what is added to logits after the output layer: Marian's and BART's buffer."""
    bias = getattr(model, "final_logits_bias", None)
    return bias.flatten() if isinstance(bias, Tensor) else None


def positions(model: Any, side: str) -> float:
    """Return the most tokens that a model's "encoder" can read or its "decoder" write; infinite
    where it has no table of positions."""
    configs = (model.config, getattr(model.config, side, None))
    names = ("max_position_embeddings", f"max_{side}_position_embeddings")
    found = (getattr(config, name, None) for config in configs for name in names)
    return min((int(most) for most in found if most is not None), default=math.inf)


def table_size(model: Any, side: str) -> float:
    """`positions`, where they are rows of a table, which ends; M2M-100 computes more when asked."""
    stack = model.get_encoder() if side == "encoder" else model.get_decoder()
    named = (module for name, module in stack.named_modules() if name.endswith("embed_positions"))
    in_table = any(isinstance(module, nn.Embedding) for module in named)
    return positions(model, side) if in_table else math.inf


def position_modules(decoder: nn.Module) -> PositionModules:
    """Modules of a decoder that see where a token stands, and their method: absolute positions,
    or the relative bias of T5's self-attention."""
    found: PositionModules = []
    for name, module in decoder.named_modules():
        if name.rpartition(".")[2] == "embed_positions":
            found.append((module, "forward"))
        elif getattr(module, "has_relative_attention_bias", False):
            parameters = inspect.signature(module.compute_bias).parameters
            if list(parameters)[:2] == ["query_length", "key_length"]:
                found.append((module, "compute_bias"))
    return found


def at_nodes(
    stack: ExitStack, modules: PositionModules, depth: Tensor, of_keys: Tensor, width: int
) -> None:
    """Give the nodes of trees the positions of their prefixes, while the stack is open.

    Args:
        modules: see `position_modules`.
        depth: (S, L) of each node; ``of_keys``: (S, K) of those that it may look at.
        width: more than the depth of any.
    """
    for module, method in modules:
        own = getattr(module, method)

        def absolute(*args: Any, own: Any = own, module: Any = module, **given: Any) -> Tensor:
            first = [_as_line(module, "", value, width) for value in args]
            line = own(*first, **{k: _as_line(module, k, v, width) for k, v in given.items()})
            return nn.functional.embedding(depth, line if line.dim() == 2 else line[0])

        def relative(*_: Any, own: Any = own, **__: Any) -> Tensor:
            # By products: the gradient of looking entries up takes far longer on a GPU.
            table = own(width, width)[0]  # (H, width, width), of each position to each
            places = torch.arange(width, device=table.device)
            at, to = (one.unsqueeze(-1).eq(places).to(table) for one in (depth, of_keys))
            with torch.autocast(table.device.type, enabled=False):
                found: Tensor = at.unsqueeze(1) @ table @ to.transpose(1, 2).unsqueeze(1)
            return found

        seen = absolute if method == "forward" else relative
        stack.enter_context(replaced(module, method, seen))


def _as_line(module: Any, name: str, value: Any, width: int) -> Any:
    """Return an argument of a module of positions as for one sequence of so many tokens."""
    if isinstance(value, tuple):  # a shape: batch, length
        return (1, width, *value[2:])
    if not isinstance(value, Tensor) or not value.dim():
        return value
    if value.dim() == 1 or name == "position_ids":
        line = torch.arange(width, device=value.device)
        return line if value.dim() == 1 else line.unsqueeze(0)
    if value.dim() == 2:  # tokens: any but padding
        return value.new_full((1, width), int(getattr(module, "padding_idx", None) == 0))
    return value[:1, :1].expand(1, width, *value.shape[2:])

"""Target ids to strings."""

import sys
from types import SimpleNamespace

import pytest
import sentencepiece
from fairseq.data import data_utils

from simile_plugin.fairseq_hooks.byte_pieces import undo_bytes
from simile_plugin.fairseq_training.target_text import (
    TargetText,
    guess_post_process,
    join_tokens,
    moses_detokenizer,
)
from simile_plugin.files import InputError
from simile_plugin.reward import Scorer


def dictionary(*words):
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *words]
    return SimpleNamespace(
        symbols=symbols,
        count=[1] * len(symbols),
        bos=lambda: 0,
        pad=lambda: 1,
        eos=lambda: 2,
        unk=lambda: 3,
    )


@pytest.mark.parametrize(
    ("tokens", "post_process", "expected"),
    [
        (["\u2581we", "nt", "\u2581home"], "sentencepiece", "went home"),
        (["we@@", "nt", "home"], "subword_nmt", "went home"),
        (["home@@"], "subword_nmt", "home"),
        (["went", "home"], "none", "went home"),
        ([], "sentencepiece", ""),
        (
            ["\u2581", "<0xC5>", "<0x81>", "\u00f3d", "<0xC5>", "<0xBA>"],
            "sentencepiece",
            "\u0141\u00f3d\u017a",
        ),
        (["\u2581a", "<0xE2>", "b", "<0x41>"], "sentencepiece", "a\ufffdbA"),  # cut short
        (["<0xC5>", "<0x81>"], "none", "<0xC5> <0x81>"),  # words of another tokeniser
    ],
)
def test_join_tokens(tokens, post_process, expected):
    assert join_tokens(tokens, post_process) == expected


def test_byte_pieces_are_sentencepieces_own(tmp_path):
    text = tmp_path / "text"
    text.write_text("two boys skip stones\nthey met in a town\n" * 20, encoding="utf-8")
    flags = {"vocab_size": 290, "byte_fallback": True, "hard_vocab_limit": False}
    prefix = str(tmp_path / "spm")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=prefix, minloglevel=2, **flags
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    sentence = "they met in \u0141\u00f3d\u017a \u4e2d\U0001f600 stones"
    pieces = model.encode(sentence, out_type=str)
    assert "<0x81>" in pieces
    assert join_tokens(pieces, "sentencepiece") == model.decode(pieces) == sentence
    # what fairseq-generate with --remove-bpe sentencepiece writes
    assert undo_bytes(data_utils.post_process, " ".join(pieces), "sentencepiece") == sentence


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (["<unk>", "\u2581a", "\u2581b", "c"], "sentencepiece"),
        (["<unk>", "a", "b"], "none"),
        (["w"] * 198 + ["odd@@"] * 2, "subword_nmt"),  # one in a hundred
        (["w"] * 199 + ["odd@@"], "none"),
        (["\u2581a@@", "b"], "sentencepiece"),  # as many of either
        (["<unk>", "a@@", "b", "1990", "7"], "subword_nmt"),
    ],
)
def test_guess_post_process(symbols, expected):
    assert guess_post_process(symbols) == expected


def test_pieces_of_text_without_spaces_have_the_bare_mark_alone():
    # 300 sentences of 15 letters out of 297: the mark of their beginning, and no other.
    letters = ["\u2581", *(chr(0x4E00 + number) for number in range(297))]
    for counts in ((), [100] * 298, [300, *[4500 // 297] * 297]):
        assert guess_post_process(letters, counts) == "sentencepiece"
    text = TargetText(dictionary(*letters))
    assert text.strings([[4, 5, 6, 7, 2]]) == ["\u4e00\u4e01\u4e02"]
    # As a word that somebody wrote once it decides nothing, and nothing against many @@.
    words = ["\u2581", *(f"w{number}" for number in range(297))]
    assert guess_post_process(words, [1, *[40] * 297]) == "none"
    assert guess_post_process(["\u2581", *["a@@", "b"] * 149], [900] * 299) == "subword_nmt"


def test_pieces_that_are_numbers():
    numbers = dictionary("13", "262", "11", "284", "290", "madeupword0000")
    with pytest.raises(InputError, match="--risk-post-process: .* is of numbers"):
        TargetText(numbers)
    assert TargetText(numbers, "none").post_process == "none"
    pieces = dictionary("\u0120the", "\u0120hou", "se", "scho")
    with pytest.raises(InputError, match="--risk-post-process: .* byte-level"):
        TargetText(pieces)
    assert TargetText(pieces, "none").strings([[4, 6]]) == ["\u0120the se"]


def test_pieces_of_bytes_and_of_bert_are_refused():
    # fairseq's --bpe bytes: "ßü–" is C3 9F C3 BC E2 80 93, of which 9F, 80 and 93 have stand-ins
    pieces = [*"\u2581\u00c3\u00bc\u00e2abcd", "\u019f", "\u0180\u0193"]
    with pytest.raises(InputError, match="--risk-post-process: the target dictionary is of bytes"):
        guess_post_process(pieces)
    assert TargetText(dictionary(*pieces), "sentencepiece").post_process == "sentencepiece"
    assert guess_post_process([*pieces, "\u2019"]) == "sentencepiece"  # a real quote
    wordpieces = [*("run", "play") * 40, "##er", "##ning"]
    with pytest.raises(InputError, match="--risk-post-process: .* begin with ##"):
        guess_post_process(wordpieces)
    assert guess_post_process([*wordpieces, *["w"] * 240]) == "none"


def test_target_text_drops_padding_eos_and_bos():
    text = TargetText(dictionary("\u2581a", "\u2581b", "c"))
    assert text.post_process == "sentencepiece"
    assert text.strings([[0, 4, 5, 6, 2, 1, 1], [2, 1], [1, 1]]) == ["a bc", "", ""]


def test_an_unknown_token_of_a_reference_is_as_long_and_has_no_character_in_common(encoder):
    text = TargetText(dictionary("two"), "none")
    hyps, refs = text.strings([[3, 3]]), text.strings([[3, 3]], reference=True)
    scores = Scorer(encoder=encoder).lists([hyps], refs, chrf_words=2)
    assert scores.length_penalty.item() == 1  # of equal lengths only
    assert scores.chrf.item() == scores.bleu.item() == 0


def test_an_unknown_token_is_a_word_of_punctuation():
    for post_process, word in (("none", "a"), ("sentencepiece", "\u2581a")):
        text = TargetText(dictionary(word), post_process)
        assert text.strings([[4, 3, 4]]) == ["a \u241a a"]
        assert text.strings([[4, 3, 4]], reference=True) == ["a \u2421 a"]


def test_moses_without_sacremoses_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ValueError, match="sacremoses is not installed; install it"):
        moses_detokenizer("en")

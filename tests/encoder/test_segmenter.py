"""Sentences to sentencepiece's ids, and what is no sentencepiece model."""

import io
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.encoder import Encoder
from simile_plugin.encoder.piece_model import SPACE_MARK, read_piece_model
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.files import InputError
from simile_plugin.nbest import NbestList, expected_utilities
from simile_plugin.reward import Reward, Scorer

TEXT = [
    "the grey heron waits beside the cold water",
    "two boys skip flat stones over the pond, and laugh",
    "an old ferry crosses the strait at noon (or later)",
    "nobody told the baker about the broken oven",
    "she folded the map and looked for the harbour",
    "our train was late because of snow on the line",
]
RAW = Preprocessing(lowercase=False, nfkc=False, split_punctuation=False)


def train(**options: Any) -> bytes:
    model = io.BytesIO()
    flags: dict[str, Any] = {
        "vocab_size": 90,
        "hard_vocab_limit": False,
        "minloglevel": 2,
        **options,
    }
    if flags.get("model_type") == "bpe":
        flags["vocab_size"] = 80
    if flags.get("byte_fallback"):
        flags["vocab_size"] = 340
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 3), model_writer=model, **flags
    )
    return model.getvalue()


def odd_sentences(seed: int, count: int = 300) -> list[str]:
    """Words of the text, their parts, and whatever may upset a segmenter."""
    rng = random.Random(seed)
    words = [word for line in TEXT for word in line.split()]
    odd = "\u00e9 e\u0301 \u0301 \u00a8 \ufb01ne \uff21\uff42 \u5bff\u53f8".split()
    odd += ["\U0001f600", "\u0391\u03a3", "\u0391\u03a3.", "\u0130stanbul", "stra\u00dfe", "\ufdfa"]
    odd += ["\u200b", "\u00ad", "\u200d", "\ufeff", "\x01", "\0", "a\0b", "\u2581", "the\u2581map"]
    odd += ["<sep>", "<unk>", "<s>", "a<sep>b", "q" * 40, "\u2167", "\u1d2c", "\u0915\u094d\u0937"]
    odd += ["\u00bd", "\u2026", "''"]
    spaces = [" ", "  ", "\t", "\u00a0", "\u3000", "\u2028", "\x1c", "\r"]
    sentences = ["", " ", "\0"]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(0, 14)):
            word = rng.choice(words) if rng.random() < 0.7 else rng.choice(odd)
            if rng.random() < 0.2:
                word = word[: rng.randint(0, len(word))] + rng.choice(words)
            parts += [word.upper() if rng.random() < 0.1 else word, rng.choice(spaces)]
        sentences.append("".join(parts))
    return sentences


def tsv(path: Path, rule: str) -> dict[str, str]:
    source, target = rule.split(">")
    codes = [" ".join(f"{ord(char):x}" for char in side) for side in (source, target)]
    path.write_text("\t".join(codes) + "\n", encoding="utf-8")
    return {"normalization_rule_tsv": str(path)}


@pytest.mark.parametrize("preprocessing", [Preprocessing(), RAW], ids=["prepared", "raw"])
def test_invisible_characters_are_no_text(preprocessing: Preprocessing) -> None:
    segmenter = Segmenter(train(normalization_rule_name="identity"), preprocessing)
    rules = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    (plain,) = segmenter.encode(["the baker"])
    for character in "\ufeff\u200b\u200e\u200f\u061c":
        text = f"{character}the {character}baker{character}"
        assert segmenter.encode([text, rules.normalize(text)]) == [plain, plain]
    assert segmenter.encode(["the ba\u00adker", "\u2067the baker\u2069"]) == [plain, plain]
    # half spaces of Persian, and what joins emoji
    assert preprocessing.apply("\u0645\u06cc\u200c\u062e\u0648\u0631\u062f") == (
        "\u0645\u06cc\u200c\u062e\u0648\u0631\u062f"
    )
    assert "\u200d" in preprocessing.apply("\U0001f469\u200d\U0001f373")


APART: dict[str, dict[str, Any]] = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "unigram, bytes": {"byte_fallback": True},
    "bpe, bytes": {"model_type": "bpe", "byte_fallback": True},
    "no rules": {"normalization_rule_name": "identity"},
    "case folding": {"normalization_rule_name": "nmt_nfkc_cf"},
    "symbols": {"user_defined_symbols": ["<sep>", "ferry", "q"]},
    "bpe with symbols": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "ferry", "q"]},
    "a rule of letters": {"rule": "x>yz"},
    "a rule that makes spaces": {"rule": "x> "},
}
NOT_APART: dict[str, dict[str, Any]] = {
    "no first mark": {"add_dummy_prefix": False},
    "marks behind": {"treat_whitespace_as_suffix": True},
    "spaces kept": {"remove_extra_whitespaces": False},
    "phrases": {"split_by_whitespace": False, "vocab_size": 200},
    "words": {"model_type": "word", "vocab_size": 40},
    "characters": {"model_type": "char"},
    "a symbol of two words": {"user_defined_symbols": ["the map"]},
    "a rule over a space": {"rule": "d t>dt"},
    "a rule behind a space": {"rule": "d >d_"},
    "a rule of spaces": {"rule": " >_"},
}


@pytest.mark.parametrize("preprocessing", [Preprocessing(), RAW], ids=["prepared", "raw"])
@pytest.mark.parametrize("name", [*APART, *NOT_APART])
def test_ids_are_sentencepieces(name: str, preprocessing: Preprocessing, tmp_path: Path) -> None:
    options = dict(APART.get(name) or NOT_APART.get(name, {}))
    if "rule" in options:
        options.update(tsv(tmp_path / "rules", str(options.pop("rule"))))
    model = train(**options)
    segmenter = Segmenter(model, preprocessing)
    assert segmenter.model.segments_words_apart == (name in APART)
    sentences = odd_sentences(seed=len(name), count=100)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = []
    for sentence in sentences:
        row = processor.EncodeAsIds(preprocessing.apply(sentence))
        mark, unknown = processor.PieceToId(SPACE_MARK), processor.unk_id()
        only_marks = unknown in row and not set(row) - {mark, unknown}
        expected.append([unknown for _ in row] if only_marks else row)
    assert segmenter.encode(sentences) == expected
    ids, offsets = segmenter.encode_flat(sentences)
    assert ids.tolist() == [piece for row in expected for piece in row]
    assert offsets.tolist() == [sum(map(len, expected[:n])) for n in range(len(expected))]


SEGMENTER = Segmenter(train(), Preprocessing())


@pytest.mark.parametrize("preprocessing", [Preprocessing(), RAW], ids=["prepared", "raw"])
@given(sentence=st.text(st.characters(exclude_categories=["Cs"])))
def test_preprocessing_goes_word_by_word(preprocessing: Preprocessing, sentence: str) -> None:
    words = [preprocessing.apply(word) for word in sentence.split()]
    assert preprocessing.apply(sentence) == " ".join(word for word in words if word)


@given(st.text(st.characters(max_codepoint=127)))
def test_preprocessing_of_ascii_is_that_of_all_text(sentence: str) -> None:
    general = Preprocessing().apply(sentence + " \u00e9")  # a letter beyond ASCII
    assert general == (Preprocessing().apply(sentence) + " \u00e9").strip()


@pytest.mark.parametrize("preprocessing", [Preprocessing(), Preprocessing(lowercase=False), RAW])
@given(sentences=st.lists(st.text(st.characters(max_codepoint=255))))
def test_many_sentences_are_prepared_as_each_alone(
    preprocessing: Preprocessing, sentences: list[str]
) -> None:
    expected = [preprocessing.apply(sentence) for sentence in sentences]
    assert preprocessing.apply_all(sentences) == expected


def test_a_pickled_segmenter() -> None:
    again = pickle.loads(pickle.dumps(SEGMENTER))
    assert again.encode(TEXT) == SEGMENTER.encode(TEXT)


@pytest.mark.parametrize("junk", [b"\x0a", b"\x0a\x05ab", b"\x0f", b"\x08\x01", b"\xff" * 12])
def test_bytes_that_are_no_model(junk: bytes) -> None:
    with pytest.raises(ValueError, match="not a sentencepiece model"):
        read_piece_model(junk)


def test_half_of_a_utf16_pair_is_no_text(encoder: Encoder, spm_proto: bytes) -> None:
    for preprocessing in (Preprocessing(), Preprocessing(split_punctuation=False)):
        with pytest.raises(
            InputError, match=r"got '.*\\ud800.*', which has half of a pair of UTF-16"
        ):
            Segmenter(spm_proto, preprocessing).encode(["the river", "the \ud800 river"])
    with pytest.raises(InputError, match="half of a pair of UTF-16"):
        Scorer(encoder=encoder).outputs([["the \ud800 river"]], ["the river"])
    with pytest.raises(InputError, match="half of a pair of UTF-16"):
        lists = [NbestList(0, None, ("the river", "the \udc80"))]
        expected_utilities(lists, Scorer(Reward("sim"), encoder))

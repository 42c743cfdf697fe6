"""The word cache gives sentencepiece's own ids, or steps aside."""

import io
import pickle
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.encoder import word_pieces
from simile_plugin.encoder.piece_model import (
    NORMAL,
    SPACE_MARK,
    UNKNOWN,
    USER_DEFINED,
    PieceModel,
    read_piece_model,
    rules_reach_over_spaces,
)
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter

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
    odd = [
        *(
            "\u00e9",
            "e\u0301",
            "\u0301",
            "\u00a8",
            "\ufb01ne",
            "\uff21\uff42",
            "\u5bff\u53f8",
            "\U0001f600",
        ),
        *(
            "\u0391\u03a3",
            "\u0391\u03a3.",
            "\u0130stanbul",
            "stra\u00dfe",
            "\ufdfa",
            "\u00bd",
            "\u2026",
        ),
        *("\u200b", "\u00ad", "\u200d", "\ufeff", "\x01", "\0", "a\0b", "\u2581", "the\u2581map"),
        *(
            "<sep>",
            "<unk>",
            "<s>",
            "a<sep>b",
            "q" * 40,
            "\u2167",
            "\u1d2c",
            "\u0915\u094d\u0937",
            "''",
        ),
    ]
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


CACHED: dict[str, dict[str, Any]] = {
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
REFUSED: dict[str, dict[str, Any]] = {
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


@pytest.mark.parametrize("many", [0, 10**9], ids=["all at once", "by n-best lists"])
def test_leads_are_those_of_n_best_lists(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_pieces, "MANY_WORDS", many)
    segmenter = Segmenter(train(normalization_rule_name="identity"), Preprocessing())
    sentences = odd_sentences(seed=9, count=100)
    assert segmenter.encode(sentences) == segmenter.encode_whole(sentences)
    cache = segmenter._words
    assert cache is not None and len(cache._parts) > 100
    model, table = segmenter.model, cache._of_parts
    for part, row in cache._parts.items():
        texts = segmenter._processor.NBestEncodeAsPieces(part, nbest_size=2) if part else []
        scores = []
        for pieces in texts:
            known = [model.scores[model.pieces.index(p)] for p in pieces if p in model.pieces]
            strange = "".join(piece for piece in pieces if piece not in model.pieces)
            scores.append(sum(known) + len(strange) * model.unknown_score)
        if scores:
            assert table.sums[row] == pytest.approx(abs(scores[0]))
        if len(scores) == 2:
            bears = (scores[0] - scores[1]) / (word_pieces.ROUNDING * (len(part) + 1))
            assert table.bears[row] == pytest.approx(bears, rel=1e-3, abs=10)
        else:
            assert table.bears[row] == float("inf")


@pytest.mark.parametrize("preprocessing", [Preprocessing(), RAW], ids=["prepared", "raw"])
@pytest.mark.parametrize("name", [*CACHED, *REFUSED])
def test_ids_are_sentencepieces(name: str, preprocessing: Preprocessing, tmp_path: Path) -> None:
    options = dict(CACHED.get(name) or REFUSED.get(name, {}))
    if "rule" in options:
        options.update(tsv(tmp_path / "rules", str(options.pop("rule"))))
    segmenter = Segmenter(train(**options), preprocessing)
    assert segmenter.model.segments_words_apart == (name in CACHED)
    sentences = odd_sentences(seed=len(name))
    expected = segmenter.encode_whole(sentences)
    for _ in range(3):  # words are taken from the cache only when they come back
        assert segmenter.encode(sentences) == expected
    ids, offsets = segmenter.encode_flat(sentences)
    assert ids.tolist() == [piece for row in expected for piece in row]
    assert offsets.tolist() == [sum(map(len, expected[:n])) for n in range(len(expected))]


SEGMENTER = Segmenter(train(), Preprocessing())


@given(
    st.lists(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("ab\0 "))))
)
def test_any_text(sentences: list[str]) -> None:
    expected = SEGMENTER.encode_whole(sentences)
    assert SEGMENTER.encode(sentences * 2) == expected * 2
    assert SEGMENTER.encode(sentences) == expected


@pytest.mark.parametrize("preprocessing", [Preprocessing(), RAW], ids=["prepared", "raw"])
@given(sentence=st.text(st.characters(exclude_categories=["Cs"])))
def test_preprocessing_goes_word_by_word(preprocessing: Preprocessing, sentence: str) -> None:
    words = [preprocessing.apply(word) for word in sentence.split()]
    assert preprocessing.apply(sentence) == " ".join(word for word in words if word)


@given(st.text(st.characters(max_codepoint=127)))
def test_preprocessing_of_ascii_is_that_of_all_text(sentence: str) -> None:
    # A letter beyond ASCII takes the general way.
    assert (
        Preprocessing().apply(sentence + " \u00e9")
        == (Preprocessing().apply(sentence) + " \u00e9").strip()
    )


def field(number: int, value: bytes | int | float) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def model_of(pieces: dict[str, float]) -> bytes:
    """A unigram model with these scores."""
    rows = [field(1, b"<unk>") + field(2, 0.0) + field(3, UNKNOWN)]
    rows += [field(1, piece.encode()) + field(2, score) for piece, score in pieces.items()]
    trainer = field(3, 1) + field(4, len(rows))
    return b"".join([*(field(1, row) for row in rows), field(2, trainer), field(3, b"")])


@pytest.mark.parametrize("many", [0, 10**9], ids=["all at once", "by n-best lists"])
def test_near_ties_that_rounding_decides(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_pieces, "MANY_WORDS", many)
    # "aba" is ab + a or a + ba, equal but for the last places of a float32.
    scores = {SPACE_MARK: -1.1, "a": -2.3, "b": -9.7, "ab": -3.3, "ba": -3.3 + 3e-7, "c": -1.7}
    segmenter = Segmenter(model_of(scores), Preprocessing())
    sentences = [" ".join(["c" * n] * m + ["aba"]) for n in range(1, 15) for m in range(30)]
    expected = segmenter.encode_whole(sentences)
    assert len({tuple(row[-2:]) for row in expected}) == 2  # the neighbours do decide
    for _ in range(3):
        assert segmenter.encode(sentences) == expected


def test_the_score_of_unknown_characters() -> None:
    model = read_piece_model(model_of({SPACE_MARK: -1.0, "a": -2.5}))
    assert model.unknown_score == -12.5
    assert model.types == [UNKNOWN, NORMAL, NORMAL]
    assert model.scores[1:] == [-1.0, -2.5]


def test_symbols_are_told_apart() -> None:
    model = read_piece_model(train(user_defined_symbols=["<sep>"]))
    assert model.types[model.pieces.index("<sep>")] == USER_DEFINED


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_pieces, "MAX_WORDS", 10)
    monkeypatch.setattr(word_pieces, "BLOCK", 3)
    segmenter = Segmenter(train(), Preprocessing())
    sentences = odd_sentences(seed=5, count=60)
    for _ in range(2):
        assert segmenter.encode(sentences) == segmenter.encode_whole(sentences)
        assert segmenter._words is not None
        assert len(segmenter._words) <= 10 + 3 * 30


def test_threads_share_a_segmenter() -> None:
    segmenter = Segmenter(train(), Preprocessing())
    batches = [odd_sentences(seed, 50) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(segmenter.encode, batches * 2))
    assert found == [segmenter.encode_whole(batch) for batch in batches * 2]


def test_after_an_error_the_cache_is_as_good_as_new() -> None:
    segmenter = Segmenter(train(), Preprocessing())
    sentences = odd_sentences(seed=1, count=20)
    for _ in range(2):
        with pytest.raises(TypeError):
            segmenter.encode([*sentences, "lone \ud800 half", "lone \ud800 half"])
    assert segmenter.encode(sentences) == segmenter.encode_whole(sentences)


def test_a_pickled_segmenter() -> None:
    again = pickle.loads(pickle.dumps(SEGMENTER))
    assert again.encode(TEXT) == SEGMENTER.encode(TEXT)


@pytest.mark.parametrize("junk", [b"\x0a", b"\x0a\x05ab", b"\x0f", b"\x08\x01", b"\xff" * 12])
def test_bytes_that_are_no_model(junk: bytes) -> None:
    with pytest.raises(ValueError, match="not a sentencepiece model"):
        read_piece_model(junk)


@pytest.mark.parametrize("name", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"])
def test_sentencepieces_own_rules_respect_spaces(name: str) -> None:
    model = read_piece_model(train(normalization_rule_name=name))
    assert model.charsmap and not rules_reach_over_spaces(model.charsmap)


def test_defaults_of_the_format() -> None:
    assert PieceModel([SPACE_MARK], [0.0], [NORMAL]).segments_words_apart
    assert not PieceModel(["a"], [0.0], [NORMAL]).segments_words_apart

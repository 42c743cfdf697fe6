"""Tokenisers of encoders: words and character n-grams beside slow loops, mixtures, files."""

import json
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.encoder.segmenter import Preprocessing, Tokenizer
from simile_plugin.encoder.tokens import (
    VOCABULARY,
    MixedTokenizer,
    NgramTokenizer,
    WordTokenizer,
    count_vocabulary,
    file_names,
    load_tokenizer,
)
from simile_plugin.encoder_training.tokenizers import train_tokenizer

PLAIN = Preprocessing()
TEXT = ["The heron waits.", "A heron, grey and still, waits!", "Çay içtik; heron yok", "☃ ☃☃"]


def slow_ngrams(sentence: str, orders: tuple[int, ...]) -> list[str]:
    prepared = PLAIN.apply(sentence)
    padded = f" {prepared} " if prepared else ""
    return [padded[i : i + n] for n in orders for i in range(len(padded) - n + 1)]


def texts(tokenizer: Tokenizer, types: list[str], sentence: str) -> list[str]:
    """Tokens of a sentence, "?" for unknown ones."""
    return ["?" if token == 0 else types[token - 1] for token in tokenizer.encode([sentence])[0]]


def test_words_by_hand() -> None:
    tokenizer = WordTokenizer(["the", "heron", "."], PLAIN)
    # 0 is any other word; punctuation is split off and is a word too.
    assert tokenizer.encode(["The heron sleeps.", "", "heron"]) == [[1, 2, 0, 3], [], [2]]
    ids, offsets = tokenizer.encode_flat(["The heron sleeps.", "", "heron"])
    assert (ids.tolist(), offsets.tolist()) == ([1, 2, 0, 3, 2], [0, 4, 4])
    assert tokenizer.lengths(ids, offsets).tolist() == [4, 0, 1]
    assert tokenizer.known(ids).tolist() == [True, True, False, True, True]
    assert (len(tokenizer), tokenizer.sizes, tokenizer.unit) == (4, (4,), "words")


def test_trigrams_by_hand() -> None:
    # " no no ": " no", "no ", "o n", " no", "no "; "o n" is not known.
    tokenizer = NgramTokenizer("trigram", [" no", "no "], PLAIN)
    assert tokenizer.encode(["No no", "n", ""]) == [[1, 2, 0, 1, 2], [0], []]
    ids, offsets = tokenizer.encode_flat(["No no", "n", ""])
    assert tokenizer.lengths(ids, offsets).tolist() == [5, 1, 0]  # characters of "no no", "n", ""


@pytest.mark.parametrize(("name", "orders"), [("trigram", (3,)), ("ngram", (2, 3, 4))])
@given(sentences=st.lists(st.text(alphabet="ab çß☃.,  \tŁ𝒳", max_size=9), max_size=5))
def test_ngrams_are_those_of_a_slow_loop(
    name: str, orders: tuple[int, ...], sentences: list[str]
) -> None:
    types = sorted({g for text in ["ab a", "ç☃ b", "aab", "𝒳ß"] for g in slow_ngrams(text, orders)})
    tokenizer = NgramTokenizer(name, types, PLAIN)
    for sentence in sentences:
        expected = [gram if gram in types else "?" for gram in slow_ngrams(sentence, orders)]
        assert texts(tokenizer, types, sentence) == expected
    ids, offsets = tokenizer.encode_flat(sentences)
    characters = [len(PLAIN.apply(sentence)) for sentence in sentences]
    assert tokenizer.lengths(ids, offsets).tolist() == characters


@pytest.mark.parametrize("name", ["word", "trigram", "ngram"])
def test_vocabularies_hold_the_most_frequent(name: str) -> None:
    orders = {"trigram": (3,), "ngram": (2, 3, 4)}
    counts = Counter(
        token
        for sentence in TEXT
        for token in (
            PLAIN.apply(sentence).split() if name == "word" else slow_ngrams(sentence, orders[name])
        )
    )
    expected = sorted(counts, key=lambda token: (-counts[token], token))
    for size in (4, 1000):
        content = count_vocabulary(name, TEXT, PLAIN, size)
        assert json.loads(content) == {"tokens": name, "types": expected[: size - 1]}


def make(name: str, vocab_size: int = 60) -> Tokenizer:
    return train_tokenizer(name, TEXT * 9, PLAIN, vocab_size, None)


@pytest.mark.parametrize("name", ["sp", "word", "trigram", "ngram", "sp+trigram", "word+ngram"])
def test_files_and_pickles_give_the_same_tokenizer(name: str) -> None:
    tokenizer = make(name)
    assert list(tokenizer.files) == file_names(name)
    loaded = load_tokenizer(name, tokenizer.files, PLAIN)
    for other in (loaded, pickle.loads(pickle.dumps(tokenizer))):
        assert other.encode(TEXT) == tokenizer.encode(TEXT)
        assert (other.name, other.sizes) == (name, tokenizer.sizes)
        assert other.files == tokenizer.files


def test_a_mixture_is_its_parts_side_by_side() -> None:
    sp, trigram = make("sp"), make("trigram")
    mixed = MixedTokenizer([sp, trigram])
    sentences = [*TEXT, "", "ÿÿ"]
    rows = zip(sp.encode(sentences), trigram.encode(sentences), strict=True)
    assert mixed.encode(sentences) == [a + [len(sp) + token for token in b] for a, b in rows]
    ids, offsets = mixed.encode_flat(sentences)
    known = [*sp.known(np.arange(len(sp))), *trigram.known(np.arange(len(trigram)))]
    assert mixed.known(np.arange(len(mixed))).tolist() == known
    assert mixed.lengths(ids, offsets).tolist() == [len(row) for row in sp.encode(sentences)]
    assert mixed.unit == "pieces"
    tokens, unknown = mixed.counts(ids, offsets)
    assert tokens.tolist() == mixed.lengths(ids, offsets).tolist()
    assert unknown.tolist() == [row.count(sp.unk_id) for row in sp.encode(sentences)]
    assert sum(row.count(trigram.unk_id) for row in trigram.encode(sentences)) > sum(unknown)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"tokens": "word", "types": [3]}', "types: expected a list of different strings"),
        (b'{"tokens": "word", "types": ["a", "b", "a"]}', "types: expected a list"),
    ],
)
def test_bad_vocabularies(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_tokenizer("word", {VOCABULARY: content}, PLAIN)


@pytest.mark.parametrize(("sentences", "size"), [([], 10), (["a b"], 1), (["  "], 10)])
def test_an_empty_vocabulary(sentences: list[str], size: int) -> None:
    with pytest.raises(ValueError, match=f"--vocab-size {size}: the vocabulary is empty"):
        count_vocabulary("word", sentences, PLAIN, size)

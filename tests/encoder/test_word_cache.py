"""Words that are remembered with the ids of their tokens."""

from itertools import pairwise

import pytest

from simile_plugin.encoder import word_cache as module
from simile_plugin.encoder.word_cache import Words


def letters(words: list[str]) -> list[list[int]]:
    return [[ord(letter) for letter in word] for word in words]


def rows(words: Words, sentences: list[str]) -> list[list[int]]:
    ids, lengths = words.flat(sentences)
    ends = [0, *lengths.cumsum().tolist()]
    assert ends[-1] == len(ids)
    return [ids[start:end].tolist() for start, end in pairwise(ends)]


def test_ids_are_those_of_the_words_in_turn() -> None:
    words = Words(letters)
    sentences = ["ab c", "", " \t", "c\u00a0ab  ab", "d"]
    expected = [[97, 98, 99], [], [], [99, 97, 98, 97, 98], [100]]
    assert rows(words, sentences) == expected
    assert rows(words, sentences) == expected and len(words) == 3
    assert rows(words, []) == [] and rows(Words(letters), ["", ""]) == [[], []]


def test_each_word_is_looked_at_once() -> None:
    asked: list[str] = []

    def ids_of(words: list[str]) -> list[list[int]]:
        asked.extend(words)
        return [[] for _ in words]  # a word may have no token

    words = Words(ids_of)
    assert rows(words, ["a b a", "b c"]) == [[], []] and asked == ["a", "b", "c"]
    assert rows(words, ["c a d"]) == [[]] and asked == ["a", "b", "c", "d"]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KNOWN_IDS", 10)
    words = Words(letters)
    for number in range(100, 140):
        assert rows(words, [f"{number} x"]) == letters([f"{number}x"])
        assert len(words) < 10

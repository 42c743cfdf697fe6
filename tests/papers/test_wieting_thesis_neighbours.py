"""Nearest words and sentences: by hand, and as typed."""

from pathlib import Path

import pytest
import torch

from simile_plugin.encoder import Encoder, Preprocessing, save_encoder
from simile_plugin.encoder.tokens import WordTokenizer
from tests.papers.scripts import script

neighbours = script("wieting-thesis-neighbours", "neighbours")

WORDS = ["boat", "ship", "stone", "map", "ferry"]
# Directions in the plane: cosines with boat are 1, 0.8, -1, 0, 0.6.
VECTORS = [[0.0, 0.0], [2.0, 0.0], [0.8, 0.6], [-1.0, 0.0], [0.0, 3.0], [1.2, -1.6]]


@pytest.fixture
def words() -> Encoder:
    return Encoder(torch.tensor(VECTORS), WordTokenizer(WORDS, Preprocessing()))


def test_words_and_phrases_by_hand(words: Encoder) -> None:
    # cos(boat, ship) = 2 * 0.8 / (2 * 1); cos(boat, ferry) = 2 * 1.2 / (2 * 2)
    boat, phrase, unknown = neighbours.nearest(words, ["Boat", "boat map", "zeppelin"], WORDS, 3)
    assert boat == [("ship", 0.8), ("ferry", 0.6), ("map", 0.0)]
    # The mean of boat (2, 0) and map (0, 3) is (1, 1.5), of length sqrt(3.25).
    expected = [("ship", (0.8 + 0.9) / 3.25**0.5), ("map", 1.5 / 3.25**0.5), ("boat", 3.25**-0.5)]
    assert phrase == [(word, pytest.approx(value, abs=1e-5)) for word, value in expected]
    assert unknown is None


def test_copies_count_once_and_equal_cosines_keep_their_order(words: Encoder) -> None:
    lines = ["the boat", "A map", "THE BOAT", "no word of it", "map map", "map, ship"]
    (found,) = neighbours.nearest(words, ["a MAP"], lines, 9)
    # "map map" is no copy of the query but has its vector; (0.8, 3.6) / 2 is that of the last.
    cosines = [("map map", 1.0), ("map, ship", 3.6 / (0.8**2 + 3.6**2) ** 0.5), ("the boat", 0.0)]
    assert found == [(text, pytest.approx(value, abs=1e-5)) for text, value in cosines]
    again = neighbours.nearest(words, ["boat"], ["map", "map map"], 9)
    assert again == [[("map", 0.0), ("map map", 0.0)]]


def test_frequent_words() -> None:
    lines = ["A stone, a map.", "The boat and the map: the"]
    assert neighbours.frequent_words(lines, 3) == ["the", "a", "map"]


def test_the_table_as_typed(
    words: Encoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_encoder(tmp_path / "words", words)
    (tmp_path / "text").write_text("A stone and a map.\n\nThe boat, the ship\n")
    (tmp_path / "queries").write_text("ferry\nzeppelin\n")
    flags = ["--text", str(tmp_path / "text"), "--queries", str(tmp_path / "queries"), "-k", "2"]
    assert neighbours.main([f"w={tmp_path / 'words'}", *flags, "--words", "9"]) == 0
    out = capsys.readouterr().out
    # ferry (1.2, -1.6) / 2 has 0.6 with boat and 0.48 - 0.48 = 0 with ship
    assert "| ferry | boat 0.60, ship 0.00 |" in out and "| zeppelin | no known token |" in out
    assert neighbours.main([f"w={tmp_path / 'words'}", *flags]) == 0
    # Of the sentences: (boat + ship) / 2 = (1.4, 0.3), (stone + map) / 2 = (-0.5, 1.5)
    assert (
        "| ferry | The boat, the ship 0.42, A stone and a map. -0.95 |" in capsys.readouterr().out
    )
    assert neighbours.main([str(tmp_path / "words"), *flags]) == 2
    assert "neighbours.py: error: ENCODER: got '" in capsys.readouterr().err

"""Nearest words and sentences: by hand, beside a slow loop, and as they are typed."""

import io
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.cli import main
from simile_plugin.contrib.neighbours import nearest_rows, nearest_texts, text_pool, word_pool
from simile_plugin.encoder import Preprocessing, save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.tokens import WordTokenizer

WORDS = ["boat", "ship", "stone", "map", "ferry"]
# Directions in the plane: cosines with boat are 1, 0.8, -1, 0, 0.6.
VECTORS = [[0.0, 0.0], [2.0, 0.0], [0.8, 0.6], [-1.0, 0.0], [0.0, 3.0], [1.2, -1.6]]


@pytest.fixture
def words() -> Encoder:
    return Encoder(torch.tensor(VECTORS), WordTokenizer(WORDS, Preprocessing()))


@pytest.fixture
def folder(words: Encoder, tmp_path: Path) -> Path:
    save_encoder(tmp_path / "words", words)
    return tmp_path / "words"


def named(encoder: Encoder, query: str, k: int, pool: list[str] | None = None) -> list[tuple]:
    lines = word_pool(encoder, pool, None)
    vectors = torch.nn.functional.normalize(encoder.embed_text([query]), dim=1)
    (found,) = nearest_texts([query], vectors, lines, k)
    assert found is not None
    return [(one.text, one.cosine) for one in found]


def test_words_of_the_vocabulary_by_hand(words: Encoder) -> None:
    # cos(boat, ship) = 2 * 0.8 / (2 * 1); cos(boat, ferry) = 2 * 1.2 / (2 * 2)
    assert named(words, "boat", 3) == [("ship", 0.8), ("ferry", 0.6), ("map", 0.0)]
    # a phrase: mean of boat (2, 0) and map (0, 3) = (1, 1.5), of length sqrt(3.25)
    expected = [("ship", (0.8 + 0.9) / 3.25**0.5), ("map", 1.5 / 3.25**0.5)]
    assert named(words, "boat map", 2) == [(word, round(value, 6)) for word, value in expected]


def test_words_of_a_text(words: Encoder) -> None:
    text = ["A stone, a map.", "The boat and the map"]
    found = named(words, "ferry", 9, text)
    assert [word for word, _ in found] == ["boat", "stone", "map"]  # 0.6, -0.6, -0.8
    pool = word_pool(words, text, None)
    assert (pool.texts, pool.places) == (["stone", "map", "boat"], [2, 4, 7])
    # map and a stand there twice; of the frequent ones the order of the text is kept
    assert word_pool(words, text, 2).texts == ["map"]
    assert word_pool(words, None, 2).texts == ["boat", "ship"]


def test_copies_of_a_sentence_count_once(words: Encoder) -> None:
    lines = ["the boat", "", "A map", "THE BOAT ", "no word of it", "map, ship"]
    pool = text_pool(words, lines)
    assert pool.texts == ["the boat", "A map", "map, ship"]
    assert pool.places == [1, 3, 6]
    # copies of the query itself are no neighbours, whatever their case
    vectors = torch.nn.functional.normalize(words.embed_text(["A MAP", "nothing"]), dim=1)
    found, unknown = nearest_texts(["a map", "nothing"], vectors, pool, 5)
    assert found is not None and [one.place for one in found] == [6, 1]
    assert unknown is None


PLANE = st.sampled_from([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.6, 0.8)])


@given(st.lists(PLANE, max_size=9), st.lists(PLANE, max_size=30), st.integers(1, 9))
def test_nearest_rows_slowly(
    queries: list[tuple[float, float]], pool: list[tuple[float, float]], k: int
) -> None:
    """Oracle: sort all rows by the product, stably; blocks of four."""
    products, rows = nearest_rows(
        torch.tensor(queries).reshape(-1, 2), torch.tensor(pool).reshape(-1, 2), k, block=4
    )
    assert products.shape == rows.shape == (len(queries), min(k, len(pool)))
    for query, values, found in zip(queries, products.tolist(), rows.tolist(), strict=True):
        cosines = [round(query[0] * x + query[1] * y, 5) for x, y in pool]
        order = sorted(range(len(pool)), key=lambda row: -cosines[row])[:k]
        assert found == order
        assert values == pytest.approx([cosines[row] for row in order], abs=1e-5)


# --- the command ---


def run(*arguments: object) -> int:
    return main(["contrib", "neighbours", *(str(argument) for argument in arguments)])


def test_words_as_typed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"Boat\n\nzeppelin\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run(folder, "--words", "-", "-k", 2) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Boat",
        "  0.800\tship",
        "  0.600\tferry",
        "zeppelin",
        "  no known token",
    ]


def test_what_is_refused(
    folder: Path, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, empty = tmp_path / "text", tmp_path / "empty"
    text.write_text("boat\n")
    empty.write_text("\n")
    (tmp_path / "foreign").write_text("\u4e2d\n")
    wrong: list[tuple[list[object], str]] = [
        ([folder, "--queries", text], "--words: expected --words FILE, or --sentences"),
        ([encoder_folder, "--words", text], "--vocabulary: an encoder of kind sp has no vocab"),
    ]
    for arguments, message in wrong:
        assert run(*arguments) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1

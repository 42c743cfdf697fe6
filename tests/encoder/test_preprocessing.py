"""What is done to sentences before they are cut into pieces, and the pieces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.encoder.segmenter import Preprocessing, Segmenter


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The cat's  out.", "the cat ' s out ."),
        ("well-known\tfact", "well - known fact"),
        ("\ufb01ne \uff21", "fine a"),  # NFKC: a ligature, a full-width letter
        ("\u2581odd\u2581 mark", "odd mark"),
        ("line\u2028break\0zero", "line break zero"),
        ("  ", ""),
        ("e\u0301te\u0301", "\u00e9t\u00e9"),
    ],
)
def test_preprocessing(sentence, expected):
    assert Preprocessing().apply(sentence) == expected


def test_preprocessing_can_be_switched_off():
    plain = Preprocessing(lowercase=False, nfkc=False, split_punctuation=False)
    assert plain.apply(" A\uff21-b ") == "A\uff21-b"
    assert plain.apply("a\u2581b\0c") == "a b c"  # these two are never text


def test_preprocessing_has_a_signature():
    assert Preprocessing().signature == "nfkc+lc+punct+vis"
    assert Preprocessing(nfkc=False, split_punctuation=False).signature == "lc+vis"
    assert Preprocessing(False, False, False, False).signature == "raw"


@given(st.text())
def test_preprocessing_is_idempotent_and_single_spaced(sentence):
    once = Preprocessing().apply(sentence)
    assert "  " not in once and once == once.strip()
    assert Preprocessing().apply(once) == once


def test_segmenter(spm_proto):
    segmenter = Segmenter(spm_proto, Preprocessing())
    rows = segmenter.encode(["The red house.", "the RED house .", "", "  \n"])
    assert rows[0] == rows[1] != []
    assert rows[2] == rows[3] == []
    assert segmenter.encode([]) == []
    assert max(rows[0]) < len(segmenter)
    assert (segmenter.name, segmenter.unit) == ("sp", "pieces")
    assert segmenter.files == {"sentencepiece.model": spm_proto}
    assert segmenter.sizes == (len(segmenter),)
    assert segmenter.known(np.array([segmenter.unk_id, rows[0][0]])).tolist() == [False, True]


def test_unknown_words_share_no_word_mark(spm_proto):
    segmenter = Segmenter(spm_proto, Preprocessing())
    unknown = segmenter.unk_id
    assert segmenter.encode(["\u4e2d\u6587"]) == [[unknown, unknown]]
    (mixed,) = segmenter.encode(["\u4e2d the heron"])
    assert unknown in mixed and len(set(mixed)) > 2

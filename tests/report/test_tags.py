"""Parts of speech: TextBlob's for English."""

import pytest

from simile_plugin.report.inputs.tags import english_tags, universal

TOKENS = [["The", "boat", ",", "sank", "."], [], ["a", "cat"]]


def test_textblob_tags_english() -> None:
    tags, note = english_tags([TOKENS])
    assert note.startswith("parts of speech: TextBlob 0.") and note.endswith("'s (English)")
    assert tags == [[["DET", "NOUN", "PUNCT", "VERB", "PUNCT"], [], ["DET", "NOUN"]]]


def test_no_english_tagger_for_another_language() -> None:
    tags, note = english_tags([["unser Nachbar wartet morgens auf seinen Bus .".split()]])
    assert tags is None
    assert note.startswith("no parts of speech: the tagger is for English")


@pytest.mark.parametrize(
    ("word", "penn", "tag"),
    [
        *(("ships", "NNS", "NOUN"), ("Kiel", "NNP-LOC", "PROPN"), ("sank", "VBD", "VERB")),
        *(("whose", "WP$", "PRON"), ("$", "NN", "SYM"), ("...", "NN", "PUNCT")),
        *(("12", "CD", "NUM"), ("could", "MD", "VERB"), ("fr", "FW", "X")),
    ],
)
def test_penn_tags_as_universal_ones(word: str, penn: str, tag: str) -> None:
    assert universal(word, penn) == tag

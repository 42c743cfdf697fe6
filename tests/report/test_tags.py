"""Parts of speech: files beside the texts, and TextBlob's for English."""

from pathlib import Path

import pytest

from simile_plugin.report.inputs.tags import english_tags, read_tags, universal

TOKENS = [["The", "boat", ",", "sank", "."], [], ["a", "cat"]]


def test_tags_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ref.tags"
    path.write_text("DET NOUN PUNCT VERB PUNCT\n\nDET NOUN\n", encoding="utf-8")
    tags = read_tags(str(path), TOKENS)
    assert tags == [["DET", "NOUN", "PUNCT", "VERB", "PUNCT"], [], ["DET", "NOUN"]]
    with pytest.raises(ValueError, match=r"^--tags: .*ref.tags:3: has 2 tags for 3 tokens"):
        read_tags(str(path), [*TOKENS[:2], ["a", "b", "c"]])
    with pytest.raises(ValueError, match=r"ref.tags has 3 lines but its text has 2"):
        read_tags(str(path), TOKENS[:2])


def test_textblob_tags_english() -> None:
    tags, note = english_tags([TOKENS])
    assert note.startswith("parts of speech: TextBlob 0.") and note.endswith("'s (English)")
    assert tags == [[["DET", "NOUN", "PUNCT", "VERB", "PUNCT"], [], ["DET", "NOUN"]]]


def test_no_english_tagger_for_another_language() -> None:
    tags, note = english_tags([["unser Nachbar wartet morgens auf seinen Bus .".split()]])
    assert tags is None
    assert note.startswith("no parts of speech: the tagger that comes unasked is for English")
    assert "--tags SUFFIX" in note


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

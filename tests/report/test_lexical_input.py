"""Texts of language pairs and their tags: files, spaCy, and neither."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from simile_plugin.cli import main
from simile_plugin.report.inputs.lexical import (
    PairFiles,
    choose_tags,
    parse_pairs,
    read_pair,
    universal,
)


class Document:
    """spaCy's document, as far as it is used: tokens taken as they are, tagged by their length."""

    def __init__(self, vocab: object, words: list[str]) -> None:
        tags = ["DET" if len(word) < 4 else "NOUN" for word in words]
        self.tokens = [types.SimpleNamespace(pos_=tag if vocab else "") for tag in tags]

    def __iter__(self) -> Any:
        return iter(self.tokens)


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for spaCy with one model; vocab None: a model without tagger."""
    model = types.SimpleNamespace(
        meta={"lang": "en", "name": "core_web_sm", "version": "3.7.1"}, vocab=1, pipe=iter
    )
    models = {"en_core_web_sm": model}

    def load(name: str, exclude: list[str]) -> Any:
        if name not in models:
            raise OSError(f"[E050] Can't find model '{name}'.")
        return models[name]

    package, tokens = types.ModuleType("spacy"), types.ModuleType("spacy.tokens")
    package.load, tokens.Doc = load, Document  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spacy", package)
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
    return models


@pytest.fixture
def files(tmp_path: Path) -> PairFiles:
    """Two sentences; the second system has two seeds."""
    texts = {
        "ref.en": "The boat, sank.\na cat\n",
        "a.en": "The boat sank.\nthe cat\n",
        "b1.en": "A ship sank.\na cat\n",
        "b2.en": "\na cat\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ref, first, *second = (str(tmp_path / name) for name in texts)
    return PairFiles("de-en", ref, (first,), tuple(second))


ENGLISH_REFS = [["The", "boat", ",", "sank", "."], ["a", "cat"]]


def test_texts_are_tokenised(files: PairFiles) -> None:
    pair = read_pair(files, None)
    assert pair.refs == [["The", "boat", ",", "sank", "."], ["a", "cat"]]
    assert (len(pair.first), len(pair.second), pair.tags) == (1, 2, None)
    assert pair.second[1] == [[], ["a", "cat"]]


def test_references_without_a_word_are_refused(files: PairFiles) -> None:
    Path(files.ref).write_text("\n \n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"--lexical: the reference .*ref.en has no words"):
        read_pair(files, None)


def test_tags_from_files_beside_the_texts(files: PairFiles, tmp_path: Path) -> None:
    tags = {
        "ref.en": "DET NOUN PUNCT VERB PUNCT\nDET NOUN\n",
        "a.en": "DET NOUN VERB PUNCT\nDET NOUN\n",
        "b1.en": "DET NOUN VERB PUNCT\nDET NOUN\n",
        "b2.en": "\nDET NOUN\n",
    }
    for name, text in tags.items():
        (tmp_path / f"{name}.tags").write_text(text, encoding="utf-8")
    tag, note = choose_tags(".tags", None, [])
    pair = read_pair(files, tag)
    assert note == "parts of speech: files *.tags"
    assert pair.tags is not None and len(pair.tags) == 4
    assert pair.tags[0] == [["DET", "NOUN", "PUNCT", "VERB", "PUNCT"], ["DET", "NOUN"]]
    assert pair.tags[3] == [[], ["DET", "NOUN"]]
    (tmp_path / "b1.en.tags").write_text("DET NOUN VERB\nDET NOUN\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^--tags: .*b1.en.tags:1: has 3 tags for 4 tokens"):
        read_pair(files, tag)
    (tmp_path / "a.en.tags").write_text("DET NOUN VERB PUNCT\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a.en.tags has 1 lines but its text has 2"):
        read_pair(files, tag)


def test_spacy_tags_the_tokens_as_they_are(files: PairFiles, spacy: dict[str, Any]) -> None:
    tag, note = choose_tags(None, None, ENGLISH_REFS)
    assert note == "parts of speech: spaCy's en_core_web_sm 3.7.1"
    pair = read_pair(files, tag)
    assert pair.tags is not None
    assert pair.tags[0] == [["DET", "NOUN", "DET", "NOUN", "DET"], ["DET", "DET"]]
    spacy["en_core_web_sm"].vocab = None
    with pytest.raises(ValueError, match="en_core_web_sm gives no parts of speech; choose one"):
        read_pair(files, tag)


def test_textblob_tags_where_spacy_has_no_model(files: PairFiles, spacy: dict[str, Any]) -> None:
    del spacy["en_core_web_sm"]
    tag, note = choose_tags(None, None, ENGLISH_REFS)
    assert note.startswith("parts of speech: TextBlob 0.") and note.endswith("'s (English)")
    pair = read_pair(files, tag)
    assert pair.tags is not None
    assert pair.tags[0] == [["DET", "NOUN", "PUNCT", "VERB", "PUNCT"], ["DET", "NOUN"]]
    assert pair.tags[3] == [[], ["DET", "NOUN"]]


@pytest.mark.parametrize(
    "refs",
    [
        [["unser", "Nachbar", "wartet", "morgens", "auf", "seinen", "Bus", "."]],
        [["小", "船", "沉", "了", "。"]],
    ],
)
def test_no_english_tagger_for_another_language(
    refs: list[list[str]], files: PairFiles, spacy: dict[str, Any]
) -> None:
    tag, note = choose_tags(None, None, refs)
    assert tag is None
    assert note.startswith("no parts of speech: the tagger that comes unasked is for English")
    assert "--spacy-model" in note
    tag, _ = choose_tags(None, "en_core_web_sm", refs)  # who asks for one gets it
    assert tag is not None


def test_each_pair_is_tagged_by_its_own_language(
    tmp_path: Path, spacy: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    del spacy["en_core_web_sm"]
    english = "Merkel visits Berlin .\nthe boat sank in the river\na cat sleeps\n"
    german = "unser Nachbar wartet morgens auf seinen Bus .\n"
    flags = []
    for pair, text in (("de-en", english), ("en-de", german * 20)):
        paths = [str(tmp_path / f"{pair}.{name}") for name in ("ref", "a", "b")]
        for path in paths:
            Path(path).write_text(text, encoding="utf-8")
        flags += ["--lexical", f"{pair}=" + ",".join(paths)]
    assert main(["report", "--only", "lexical", *flags, "--resamples", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["lexical"]
    assert {pair for row in found["tables"]["pos"] for pair in row["cells"]} == {"de-en"}
    note = " ".join(found["notes"])
    assert "en-de: no parts of speech" in note and "de-en: parts of speech: TextBlob" in note


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


def test_without_spacy_and_files_the_reader_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "textblob.en", None)
    tag, note = choose_tags(None, None, ENGLISH_REFS)
    assert tag is None
    assert note.startswith("no parts of speech: give --tags SUFFIX") and "\n" not in note


def test_a_model_that_was_asked_for_must_be_there(spacy: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^--spacy-model: cannot load xx \(\[E050\].*give --tags"):
        choose_tags(None, "xx", [])
    with pytest.raises(ValueError, match="expected one of them"):
        choose_tags(".tags", "en_core_web_sm", [])


def test_pairs_are_parsed() -> None:
    assert parse_pairs(["de-en=r,a,b"]) == [PairFiles("de-en", "r", ("a",), ("b",))]
    with pytest.raises(ValueError, match=r"^--lexical: got 'de-en=r,a'; expected PAIR=REF,FIRST"):
        parse_pairs(["de-en=r,a"])


def test_texts_must_be_parallel(files: PairFiles, tmp_path: Path) -> None:
    (tmp_path / "b2.en").write_text("one\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"--lexical second: .*b2.en has 1 sentences but the ref"):
        read_pair(files, None)

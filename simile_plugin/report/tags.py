"""Coarse parts of speech of tokenised sentences: from files, or by spaCy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simile_plugin.files import InputError, read_lines

Sentences = Sequence[Sequence[str]]
DEFAULT_MODEL = "en_core_web_sm"
HOW = (
    "give --tags SUFFIX, files beside the texts with a coarse tag for each 13a token, separated by "
    f"spaces; or pip install spacy && python -m spacy download {DEFAULT_MODEL} (or another model "
    "by --spacy-model)"
)


def read_tags(path: str, tokens: Sentences, flag: str = "--tags") -> list[list[str]]:
    """Read a tag for each token: tags of a line separated by spaces.

    Raises:
        ValueError: naming file and line where tags and tokens differ in number.
    """
    lines = read_lines(path, flag)
    if len(lines) != len(tokens):
        raise InputError(
            f"{flag}: {path} has {len(lines)} lines but its text has {len(tokens)}; "
            "expected a line of tags for each sentence"
        )
    tags = [line.split() for line in lines]
    for number, (own, words) in enumerate(zip(tags, tokens, strict=True), start=1):
        if len(own) != len(words):
            raise InputError(
                f"{flag}: {path}:{number}: has {len(own)} tags for {len(words)} tokens; expected "
                "one for each token of sacreBLEU's 13a tokeniser"
            )
    return tags


def load_tagger(model: str | None) -> Any:
    """spaCy's pipeline by its name, or the usual English one; None where that is not installed.

    Raises:
        ValueError: if a model that was asked for cannot be loaded.
    """
    try:
        import spacy

        # ner and parser are the slow parts, and no part of speech comes from them
        return spacy.load(model or DEFAULT_MODEL, exclude=["ner", "parser"])
    except (ImportError, OSError) as error:
        if model is None:
            return None
        raise InputError(f"--spacy-model: cannot load {model} ({error}); {HOW}") from error


def spacy_tags(tagger: Any, tokens: Sentences) -> list[list[str]]:
    """spaCy's coarse part of speech of each token, the tokens taken as they are.

    Raises:
        ValueError: if the model gives none.
    """
    from spacy.tokens import Doc

    documents = (Doc(tagger.vocab, words=list(words)) for words in tokens)
    tags = [[token.pos_ for token in document] for document in tagger.pipe(documents)]
    if not all(tag for sentence in tags for tag in sentence):
        name = f"{tagger.meta['lang']}_{tagger.meta['name']}"
        raise InputError(
            f"--spacy-model: {name} gives no parts of speech; choose one with a tagger"
        )
    return tags

"""Reads what word F1 is computed from: tokenised texts of language pairs, and their tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

from simile_plugin.files import InputError
from simile_plugin.report.lexical import LexicalPair
from simile_plugin.report.systems import parse_named_files, read_sentences, read_systems
from simile_plugin.report.tags import HOW, Sentences, load_tagger, read_tags, spacy_tags

Tag = Callable[[str, Sentences], Sentences]  # path of a text, its tokens -> its tags


@dataclass(frozen=True)
class PairFiles:
    """Files of two systems on one test set; first and second hold a file for each seed."""

    language_pair: str
    ref: str
    first: tuple[str, ...]
    second: tuple[str, ...]


def parse_pairs(specs: Sequence[str], flag: str = "--lexical") -> list[PairFiles]:
    """Read `PAIR=REF,FIRST,SECOND` arguments.

    Raises:
        ValueError: for other than three files.
    """
    pairs = []
    for name, files in parse_named_files(flag, specs).items():
        if len(files) != 3:
            raise InputError(
                f"{flag}: got '{name}={','.join(files)}'; expected PAIR=REF,FIRST,SECOND, "
                "say de-en=ref.en,bleu.en,simile.en"
            )
        pairs.append(PairFiles(name, files[0], (files[1],), (files[2],)))
    return pairs


def read_pair(
    files: PairFiles,
    tag: Tag | None,
    flag: str = "--lexical",
    ref_kind: str = "text",
    system_kind: str = "text",
    tokenize: str = "13a",
) -> LexicalPair:
    """Read, tokenise and tag the texts of one pair.

    Args:
        ref_kind, system_kind: how to read the files, see `systems.read_sentences`.

    Raises:
        ValueError: for files that are not parallel.
    """
    refs = read_sentences(files.ref, flag, ref_kind)
    named = {"first": files.first, "second": files.second}
    first, second = read_systems(flag, named, system_kind, refs, f"the reference {files.ref}")
    tokenizer = BLEU(tokenize=tokenize).tokenizer
    texts = [
        [tokenizer(line.rstrip()).split() for line in text]
        for text in (refs, *first.outputs, *second.outputs)
    ]
    paths = [files.ref, *files.first, *files.second]
    tags = [tag(path, text) for path, text in zip(paths, texts, strict=True)] if tag else None
    count = len(files.first) + 1
    return LexicalPair(files.language_pair, texts[0], texts[1:count], texts[count:], tags)


def choose_tags(suffix: str | None, model: str | None) -> tuple[Tag | None, str]:
    """How words get their part of speech, and that in words for the reader.

    Files named by their suffix come first, then spaCy; without either there are no tags.

    Raises:
        ValueError: if a spaCy model that was asked for cannot be loaded, or both are asked for.
    """
    if suffix and model:
        raise InputError(f"--tags {suffix} and --spacy-model {model}: expected one of them")
    if suffix:
        return (
            lambda path, tokens: read_tags(path + suffix, tokens),
            f"parts of speech: files *{suffix}",
        )
    tagger = load_tagger(model)
    if tagger is None:
        return None, f"no parts of speech: {HOW}"
    meta = tagger.meta
    name = f"{meta['lang']}_{meta['name']} {meta['version']}"
    return lambda path, tokens: spacy_tags(tagger, tokens), f"parts of speech: spaCy's {name}"

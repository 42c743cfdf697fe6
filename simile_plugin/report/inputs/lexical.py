"""What word F1 is computed from: tokenised texts of language pairs, and parts of speech."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from simile_plugin.files import InputError, read_lines
from simile_plugin.report.inputs.systems import parse_named_files, read_sentences, read_systems
from simile_plugin.report.inputs.texts import Read, Sentences, tokenised

Tag = Callable[[str, Sentences], Sentences]  # path of a text, its tokens -> its tags
DEFAULT_MODEL = "en_core_web_sm"
HOW = (
    "give --tags SUFFIX, files beside the texts with a coarse tag for each token (--tokenize), "
    f"separated by spaces; or pip install spacy && python -m spacy download {DEFAULT_MODEL} (or "
    "another model by --spacy-model); or pip install textblob, which brings its own English tagger"
)
HOW_OTHERS = "give --tags SUFFIX or --spacy-model"
# Least share of known words: English texts have 0.75 and more, French has 0.2, German 0.1.
ENGLISH = 0.5
# Penn tags by how they begin, as the universal tags that spaCy gives; auxiliaries are verbs here.
UNIVERSAL = {
    **{"IN": "ADP", "TO": "PART", "CC": "CCONJ", "CD": "NUM", "EX": "PRON", "UH": "INTJ"},
    **{"DT": "DET", "PDT": "DET", "WDT": "PRON", "WRB": "ADV", "WP": "PRON", "PRP": "PRON"},
    **{"JJ": "ADJ", "RB": "ADV", "NNP": "PROPN", "NN": "NOUN", "MD": "VERB", "VB": "VERB"},
    **{"RP": "ADP", "POS": "PART", "SYM": "SYM"},
}
SYMBOLS = frozenset("$%€£+=<>&#@^|~°§")


@dataclass(frozen=True)
class PairFiles:
    """Files of two systems on one test set; first and second hold a file for each seed."""

    language_pair: str
    ref: str
    first: tuple[str, ...]
    second: tuple[str, ...]


@dataclass(frozen=True)
class LexicalPair:
    """Two systems on one test set, tokenised.

    Attributes:
        refs: N references, lists of tokens.
        first, second: outputs, one list of N a seed.
        tags: coarse parts of speech, of the references and of every output of first and second
            in this order; None where there are none.
    """

    language_pair: str
    refs: Sentences
    first: Sequence[Sentences]
    second: Sequence[Sentences]
    tags: Sequence[Sentences] | None = None


def parse_pairs(specs: Sequence[str]) -> list[PairFiles]:
    """Read `PAIR=REF,FIRST,SECOND` arguments.

    Raises:
        InputError: for other than three files.
    """
    pairs = []
    for name, files in parse_named_files("--lexical", specs).items():
        if len(files) != 3:
            raise InputError(
                f"--lexical: got '{name}={','.join(files)}'; expected PAIR=REF,FIRST,SECOND, "
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
    read: Read = read_lines,
) -> LexicalPair:
    """Read, tokenise and tag the texts of one pair.

    Args:
        ref_kind, system_kind, read: how to read the files, see `systems.read_sentences`.

    Raises:
        InputError: for files that are not parallel, or references without a word.
    """
    refs = read_sentences(files.ref, flag, ref_kind, read)
    named = {"first": files.first, "second": files.second}
    ref_name = f"the reference {files.ref}"
    first, second = read_systems(flag, named, system_kind, refs, ref_name, read)
    texts = [tokenised(tokenize, text) for text in (tuple(refs), *first.outputs, *second.outputs)]
    if not any(texts[0]):
        raise InputError(f"{flag}: {ref_name} has no words; expected a translation a line")
    paths = [files.ref, *files.first, *files.second]
    tags = [tag(path, text) for path, text in zip(paths, texts, strict=True)] if tag else None
    count = len(files.first) + 1
    return LexicalPair(files.language_pair, texts[0], texts[1:count], texts[count:], tags)


def choose_tags(
    suffix: str | None, model: str | None, refs: Sentences, read: Read = read_lines
) -> tuple[Tag | None, str]:
    """How words get their part of speech, and that in words for the reader.

    Files named by their suffix come first, then spaCy, then TextBlob, which needs no model to be
    fetched; without any there are no tags. Unasked, both of these are for English: references in
    another language get no tags.

    Raises:
        InputError: if a spaCy model that was asked for cannot be loaded, or both are asked for.
    """
    if suffix and model:
        raise InputError(f"--tags {suffix} and --spacy-model {model}: expected one of them")
    if suffix:
        return (
            lambda path, tokens: read_tags(path + suffix, tokens, read),
            f"parts of speech: files *{suffix}",
        )
    if model is None and (share := _english_share(refs)) < ENGLISH:
        note = f"the tagger that comes unasked is for English, and knows {share:.0%} of the"
        return None, f"no parts of speech: {note} references' words; {HOW_OTHERS}"
    tagger = load_tagger(model)
    if tagger is None:
        return _textblob()
    meta = tagger.meta
    name = f"{meta['lang']}_{meta['name']} {meta['version']}"
    return lambda path, tokens: spacy_tags(tagger, tokens), f"parts of speech: spaCy's {name}"


def _english_share(refs: Sentences) -> float:
    """Share of the distinct words of references that TextBlob's lexicon of English has."""
    if (parser := _english_parser()) is None:
        return 1.0
    words = {token for tokens in refs for token in tokens if any(map(str.isalpha, token))}
    lexicon = parser.lexicon  # names are in it as they are written
    known = sum(word in lexicon or word.lower() in lexicon for word in words)
    return known / len(words) if words else 1.0


def _english_parser() -> Any:
    """TextBlob's parser of English; None where it is not installed."""
    try:
        from textblob.en import parser
    except ImportError:
        return None
    return parser


def _textblob() -> tuple[Tag | None, str]:
    """TextBlob's tagger for English, the one that pip installs with its lexicon and rules."""
    if (parser := _english_parser()) is None:
        return None, f"no parts of speech: {HOW}"
    note = f"parts of speech: TextBlob {version('textblob')}'s (English)"
    return lambda path, tokens: textblob_tags(parser.find_tags, tokens), note


def textblob_tags(
    find_tags: Callable[[Sequence[str]], Sequence[Sequence[str]]], tokens: Sentences
) -> list[list[str]]:
    """Universal parts of speech from the Penn tags of each sentence's tokens.

    A token without letter or digit is SYM or PUNCT, whatever the tagger says.
    """
    return [
        [universal(word, tag) for word, (_, tag) in zip(words, find_tags(words), strict=True)]
        for words in map(list, tokens)
    ]


def universal(word: str, penn: str) -> str:
    """The coarse part of speech of a word by its Penn tag: NOUN of NNS, X of what is unknown."""
    if not any(map(str.isalnum, word)):
        return "SYM" if SYMBOLS.intersection(word) else "PUNCT"
    tag = penn.partition("-")[0].rstrip("$")
    return next((UNIVERSAL[tag[:n]] for n in (3, 2) if tag[:n] in UNIVERSAL), "X")


def read_tags(path: str, tokens: Sentences, read: Read = read_lines) -> list[list[str]]:
    """Read a tag for each token: tags of a line separated by spaces.

    Raises:
        InputError: naming file and line where tags and tokens differ in number.
    """
    lines = read(path, "--tags")
    if len(lines) != len(tokens):
        raise InputError(
            f"--tags: {path} has {len(lines)} lines but its text has {len(tokens)}; "
            "expected a line of tags for each sentence"
        )
    tags = [line.split() for line in lines]
    for number, (own, words) in enumerate(zip(tags, tokens, strict=True), start=1):
        if len(own) != len(words):
            raise InputError(
                f"--tags: {path}:{number}: has {len(own)} tags for {len(words)} tokens; expected "
                "one for each token of sacreBLEU's tokeniser (--tokenize)"
            )
    return tags


def load_tagger(model: str | None) -> Any:
    """spaCy's pipeline by its name, or the usual English one; None where that is not installed.

    Raises:
        InputError: if a model that was asked for cannot be loaded.
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
        InputError: if the model gives none.
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

"""Do people see the difference? Draws sentences and blinds their outputs (the paper's 7.4.3).

`sheets` writes what annotators fill in, `ratings` reads it back and unblinds it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from simile_plugin.encoder import split_words
from simile_plugin.files import SEED, InputError, Range, check_fields, option, read_lines
from simile_plugin.report.inputs.texts import System

SCALE = {
    0: "the meaning is completely different, or the translation means nothing",
    1: "the topic is the same, but the meaning is different",
    2: "some of the key information is different",
    3: "the key information is the same, but details differ",
    4: "the meaning is essentially the same, but some expressions are unnatural",
    5: "the meaning is essentially the same, and the translation is well formed",
}
KEY_FORMAT = 1
HASH_DIGITS = 12


@dataclass(frozen=True)
class DrawSettings:
    """Settings of the draw: sentences, their lengths, annotators, seed."""

    sentences: int = option(
        "sentences to draw (default and paper: 200)", 200, range=Range.at_least(1)
    )
    shortest: int = option(
        "shortest reference, in words (default and paper: 3); each letter of a script without "
        "spaces is one",
        3,
        names=("--min-tokens",),
        range=Range.at_least(1),
    )
    longest: int = option(
        "longest reference, in words (default and paper: 25)",
        25,
        names=("--max-tokens",),
        range=Range.at_least(1),
    )
    annotators: int = option(
        "sheets to make; each has every item, in its own order", 3, range=Range.at_least(1)
    )
    seed: int = option("of draw and orders", 1, range=SEED)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.longest < self.shortest:
            raise InputError(
                f"--max-tokens: got {self.longest}, expected at least --min-tokens, {self.shortest}"
            )


@dataclass(frozen=True)
class Item:
    """One translation to rate: equal outputs of several systems are one item.

    line: number of the sentence in its files, from 1. source: None if sources are not shown.
    """

    line: int
    systems: tuple[str, ...]
    translation: str
    reference: str
    source: str | None = None


@dataclass(frozen=True)
class Study:
    """Everything that is needed to unblind; kept from the annotators.

    Attributes:
        systems: names, in the order in which they were given.
        files: system -> output file, for the record.
        items: item number k is items[k - 1]; the order says nothing about systems.
    """

    settings: DrawSettings
    systems: tuple[str, ...]
    differ: tuple[str, str]
    files: dict[str, str]
    items: tuple[Item, ...]

    @cached_property  # every item's name begins with it
    def fingerprint(self) -> str:
        """Digits of the SHA-256 of the whole study, which bind sheets, answers and key."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]

    def item_id(self, annotator: int, number: int) -> str:
        """Name an item on a sheet: study, annotator and number of the item."""
        return f"{self.fingerprint}-{annotator}-{number:04d}"

    def order(self, annotator: int) -> list[int]:
        """Return the items' numbers in the order of one annotator's sheet (annotators from 1)."""
        numbers = list(range(1, len(self.items) + 1))
        random.Random(f"{self.settings.seed} sheet {annotator}").shuffle(numbers)
        return numbers


def draw_study(
    systems: Sequence[System],
    refs: Sequence[str],
    sources: Sequence[str] | None,
    settings: DrawSettings,
    differ: tuple[str, str],
) -> Study:
    """Draw sentences whose outputs of the two systems in `differ` are different, and blind them.

    Args:
        systems: two or more, with one output each, parallel to `refs` (and `sources`).

    Raises:
        InputError: if a system has several seeds, or too few sentences are eligible.
    """
    for system in systems:
        if len(system.outputs) > 1:
            raise InputError(
                f"--sys {system.name}: got {len(system.outputs)} files; people rate one output of "
                "each system: choose one seed"
            )
    outputs = {system.name: system.outputs[0] for system in systems}
    first, second = (outputs[name] for name in differ)
    eligible = [
        i
        for i, ref in enumerate(refs)
        if settings.shortest <= len(split_words(ref)) <= settings.longest
        and normalised(first[i]) != normalised(second[i])
    ]
    if len(eligible) < settings.sentences:
        raise InputError(
            f"--sentences: got {settings.sentences}, but only {len(eligible)} of {len(refs)} "
            f"references have {settings.shortest} to {settings.longest} tokens and different "
            f"outputs of {differ[0]} and {differ[1]}; ask for fewer, or change --min-tokens "
            "and --max-tokens"
        )
    rng = random.Random(f"{settings.seed} draw")
    items = [
        item
        for i in sorted(rng.sample(eligible, settings.sentences))
        for item in _items(i, outputs, refs[i], sources[i] if sources else None)
    ]
    rng.shuffle(items)
    # ? for what is not UTF-8 in a name: the key is text
    files = {system.name: system.files[0].encode(errors="replace").decode() for system in systems}
    return Study(settings, tuple(outputs), differ, files, tuple(items))


def _items(
    index: int, outputs: Mapping[str, Sequence[str]], ref: str, source: str | None
) -> list[Item]:
    by_text: dict[str, list[str]] = {}
    for name, lines in outputs.items():
        by_text.setdefault(normalised(lines[index]), []).append(name)
    return [
        Item(index + 1, tuple(names), text, normalised(ref), source and normalised(source))
        for text, names in by_text.items()
    ]


def normalised(text: str) -> str:
    """Return one line with single spaces: what annotators can see of a string."""
    return " ".join(text.split())


def key_text(study: Study) -> str:
    """Write the study as JSON, with its fingerprint."""
    content = {"format": KEY_FORMAT, "study": study.fingerprint, **asdict(study)}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_key(path: str, flag: str = "--key") -> Study:
    """Read a key file.

    Raises:
        InputError: if it is no key, or was changed since it was written.
    """
    text = "\n".join(read_lines(path, flag))
    try:
        content = json.loads(text)
        version = int(content["format"])
        study = _study(content) if version <= KEY_FORMAT else None
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{flag}: {path}: not a key that simile human-eval sheet wrote, or damaged: {error}"
        ) from error
    if study is None:
        raise InputError(
            f"{flag}: {path}: format {version} is newer than {KEY_FORMAT}, the newest this version "
            "reads; update simile-plugin"
        )
    if study.fingerprint != content.get("study"):
        raise InputError(
            f"{flag}: {path}: the key was changed after it was written (it says "
            f"{content.get('study')}, its content is {study.fingerprint}); use the original"
        )
    return study


def _study(content: Mapping[str, Any]) -> Study:
    items = [Item(**{**item, "systems": tuple(item["systems"])}) for item in content["items"]]
    first, second = content["differ"]
    return Study(
        DrawSettings(**content["settings"]),
        tuple(content["systems"]),
        (first, second),
        dict(content["files"]),
        tuple(items),
    )

#!/usr/bin/env python3
"""A small bitext with a known meaning behind every sentence.

A meaning is a record of slots: who does what to whom, when, where, in which tense, and whether
it is denied. From one meaning come one sentence of an invented source language (object first,
verb last, case endings, noun classes, homonyms that the context resolves) and hundreds of English
paraphrases (synonyms, passives, fronted adverbials, relative clauses). The English tables are
also read backwards, so that a translation is turned into its meaning again and right meanings
can be counted, whatever their wording.

Only `random()` of Python's generator is used: a seed gives the same files on every version.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, permutations, product
from math import fsum
from pathlib import Path
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Tokens = tuple[str, ...]
Weighted = list[tuple[float, str]]  # the ways to say one thing: (weight, words)

# ------------------------------------------------------------------------------------------------
# The lexicon: "source stem = English; synonyms after |", the most frequent concept first. The first
# English word names the concept. Stems that occur twice are homonyms, told apart by their class.

CLASSES = {"person": ("na", "a"), "animal": ("ku", "u"), "thing": ("ve", "e")}  # article, ending

NOUNS = {
    "person": """
        goralo = farmer; teral = teacher; simak = child/children | kid
        doruk = doctor | physician; pelan = merchant | trader; vosti = soldier; kamir = neighbor
        lusen = thief/thieves | burglar; midor = student | pupil; rakel = king | monarch
        bosan = sailor | mariner; fidel = guest; tumak = lawyer | attorney; selir = nurse
        gonat = hunter; pavik = writer | author; derol = painter | artist; nuvar = cook | chef
        hamil = baker; zorek = prisoner | captive; malor = shepherd; kintu = driver
        ludar = tailor; sovak = sentry/sentries | guard
    """,
    "animal": """
        kolum = dog | hound; brasi = horse; midor = cat; tavun = cow; pelin = goat; hurok = bird
        zamil = donkey; fenar = rabbit | hare; gotal = pig | hog; lusin = fox/foxes; rimuk = camel
    """,
    "thing": """
        salet = book; tolun = lamp | lantern; mirak = letter | message; barul = boat
        teral = table; kavit = cart | wagon; denor = knife/knives | blade; pomil = basket
        simar = ring; hulak = coat | cloak; vortu = chair; gilan = clock
        kamur = bottle | flask; rosek = map | chart; fidel = key; lemat = coin
        dorul = stone | rock; zeban = bell; nular = ladder; tarik = rope | cord; gonat = drum
        silur = mirror; pakel = sack | bag; hamin = plate | dish/dishes; vosta = box/boxes
        rakel = axe
    """,
}

# "source stem, kinds that do it > kinds it is done to = base past participle -ing | synonym".
VERBS = """
    miso pa > pat = see saw seen seeing | notice noticed noticed noticing
        | spot spotted spotted spotting
    toka pa > pat = find found found finding | discover discovered discovered discovering
    bela p > at = buy bought bought buying | purchase purchased purchased purchasing
    loma p > t = repair repaired repaired repairing | fix fixed fixed fixing
        | mend mended mended mending
    loma p > p = help helped helped helping | assist assisted assisted assisting
    hido pa > pat = follow followed followed following | pursue pursued pursued pursuing
    sura p > at = sell sold sold selling
    kelu pa > pat = carry carried carried carrying | transport transported transported transporting
    pato p > pat = wash washed washed washing | clean cleaned cleaned cleaning
    nire pa > pat = hide hid hidden hiding | conceal concealed concealed concealing
    sure p > pat = choose chose chosen choosing | select selected selected selecting
        | pick picked picked picking
    gamu p > pa = call called called calling | summon summoned summoned summoning
    gamu p > t = throw threw thrown throwing | toss tossed tossed tossing
    vilo pa > at = steal stole stolen stealing
    vilo p > p = visit visited visited visiting
    dona pa > t = break broke broken breaking | smash smashed smashed smashing
    reku p > at = lose lost lost losing | misplace misplaced misplaced misplacing
    fasi pa > pat = protect protected protected protecting | shield shielded shielded shielding
    tole p > pat = draw drew drawn drawing | sketch sketched sketched sketching
    kela p > t = burn burned burned burning
    kela p > pa = feed fed fed feeding
    zumo p > pat = admire admired admired admiring
    hida p > at = lift lifted lifted lifting | raise raised raised raising
    pate pa > pat = hit hit hit hitting | strike struck struck striking
"""

ATTRIBUTES = """
    dum = big | large; lir = small | little; gon = old | ancient; vas = red; pil = strange | odd
    sem = beautiful | pretty; tor = black; kib = famous | renowned; rul = white; dun = heavy
    fal = dirty | filthy; lin = strong | sturdy; vos = ugly; mek = quiet | silent
"""

TIMES = """
    osmi = in the morning | before noon; tarvo = at night | after dark; enku = on Monday
    pirle = in winter | during the winter; osma = at noon | at midday; venka = on Friday
    durmi = in the evening | at dusk; pirla = in summer | during the summer; sulte = on Sunday
    golvi = at dawn | at sunrise; ranti = after the storm; bekta = before the feast
        | before the festival
    morsu = during the war | in wartime
"""

PLACES = """
    arveth = at the market | at the bazaar; ilgan = in the garden; usteth = near the river
        | by the river
    orneth = in the forest | in the woods; elkan = on the bridge; armun = in the village
    ilgeth = at the harbor | at the port; urban = on the road; askun = behind the church
    elmeth = in the castle | in the fortress; orkan = at the school; isteth = on the hill
    ulmun = next to the mill | beside the mill; arkun = in the kitchen
"""

NUMBERS = ("one", "many")
TENSES = ("past", "present", "future")
POLARITIES = ("yes", "no")
NONE = "-"  # an optional slot that is empty


@dataclass(frozen=True)
class Word:
    """One concept: name, source stem, English forms (a tuple for each synonym), classes."""

    name: str
    stem: str
    forms: tuple[Tokens, ...]
    kind: str = ""  # nouns: person, animal or thing
    agents: str = ""  # verbs: initials of the kinds that do it
    patients: str = ""  # verbs: initials of the kinds it is done to


def _entries(table: str) -> Iterator[tuple[str, list[str]]]:
    """The stem and the English synonyms of each entry; a line that begins with | continues."""
    for entry in re.split(r"[;\n]", re.sub(r"\n\s*\|", " |", table)):
        if entry.strip():
            stem, english = entry.split("=")
            yield stem.strip(), [form.strip() for form in english.split("|")]


def _nouns() -> Iterator[Word]:
    for kind, table in NOUNS.items():
        for stem, synonyms in _entries(table):
            pairs = [form.split("/") for form in synonyms]
            forms = tuple((pair[0], pair[1] if len(pair) > 1 else pair[0] + "s") for pair in pairs)
            yield Word(forms[0][0], stem, forms, kind=kind)


def _verbs() -> Iterator[Word]:
    for head, synonyms in _entries(VERBS):
        stem, agents, _, patients = head.split()
        forms = tuple(tuple(form.split()) for form in synonyms)
        yield Word(forms[0][0], stem, forms, agents=agents, patients=patients)


def _phrases(table: str) -> Iterator[Word]:
    for stem, synonyms in _entries(table):
        yield Word(synonyms[0], stem, tuple((form,) for form in synonyms))


NOUN = {word.name: word for word in _nouns()}
VERB = {word.name: word for word in _verbs()}
ATTRIBUTE = {word.name: word for word in _phrases(ATTRIBUTES)}
TIME = {word.name: word for word in _phrases(TIMES)}
PLACE = {word.name: word for word in _phrases(PLACES)}

_ENTITY_SLOTS = {"": tuple(NOUN), " number": NUMBERS, " attribute": (NONE, *ATTRIBUTE)}
SLOTS: dict[str, tuple[str, ...]] = {
    "verb": tuple(VERB),
    "tense": TENSES,
    "polarity": POLARITIES,
    **{f"{role}{slot}": v for role in ("agent", "patient") for slot, v in _ENTITY_SLOTS.items()},
    "time": (NONE, *TIME),
    "place": (NONE, *PLACE),
}


@dataclass(frozen=True)
class Entity:
    """A participant: noun, number and attribute (`-` for none)."""

    noun: str
    number: str
    attribute: str = NONE


@dataclass(frozen=True)
class Meaning:
    """Everything a sentence says; time and place may be `-`."""

    verb: str
    tense: str
    polarity: str
    agent: Entity
    patient: Entity
    time: str = NONE
    place: str = NONE

    def slots(self) -> dict[str, str]:
        """The record as flat slots, in the order of SLOTS."""
        slots = {"verb": self.verb, "tense": self.tense, "polarity": self.polarity}
        for role, entity in (("agent", self.agent), ("patient", self.patient)):
            slots[role] = entity.noun
            slots[f"{role} number"] = entity.number
            slots[f"{role} attribute"] = entity.attribute
        return slots | {"time": self.time, "place": self.place}

    @staticmethod
    def from_slots(slots: Mapping[str, str]) -> Meaning:
        """The inverse of `slots`; ValueError names a missing, surplus or unknown value."""
        if set(slots) != set(SLOTS):
            raise ValueError(f"got the slots {sorted(slots)}, expected {sorted(SLOTS)}")
        for slot, value in slots.items():
            if value not in SLOTS[slot]:
                raise ValueError(f"slot {slot!r} is {value!r}, expected one of {SLOTS[slot]}")
        verb, tense, polarity, *entities, time, place = (slots[slot] for slot in SLOTS)
        agent, patient = Entity(*entities[:3]), Entity(*entities[3:])
        return Meaning(verb, tense, polarity, agent, patient, time, place)


# ------------------------------------------------------------------------------------------------
# Drawing meanings


def _weighted(rng: Random, items: Sequence[tuple[float, T]]) -> T:
    """One of the items, with a probability in proportion to its weight."""
    point = rng.random() * fsum(weight for weight, _ in items)
    for weight, item in items:
        point -= weight
        if point < 0:
            return item
    return items[-1][1]


def _zipf(names: Iterable[str], words: int) -> list[tuple[float, str]]:
    """Weights 1/rank: the first words of a table are frequent, the last ones rare."""
    return [(1 / rank, name) for rank, name in enumerate(islice(names, words), start=1)]


def _optional(rng: Random, probability: float, names: Iterable[str], words: int) -> str:
    return _weighted(rng, _zipf(names, words)) if rng.random() < probability else NONE


def _draw_entity(rng: Random, kinds: str, words: int) -> Entity:
    kind = _weighted(rng, [(1.0, kind) for kind in CLASSES if kind[0] in kinds])
    noun = _weighted(rng, _zipf((w.name for w in NOUN.values() if w.kind == kind), words))
    number = _weighted(rng, [(0.65, "one"), (0.35, "many")])
    return Entity(noun, number, _optional(rng, 0.4, ATTRIBUTE, words))


def draw_meaning(rng: Random, words: int = 99) -> Meaning:
    """One meaning: Zipf-distributed words that suit each other's class, optional time and place.

    Only the first `words` verbs, attributes, times, places, and nouns of each class are used.
    """
    verb = _weighted(rng, _zipf(VERB, words))
    tense = _weighted(rng, [(0.45, "past"), (0.25, "present"), (0.3, "future")])
    polarity = _weighted(rng, [(0.85, "yes"), (0.15, "no")])
    agent = _draw_entity(rng, VERB[verb].agents, words)
    patient = _draw_entity(rng, VERB[verb].patients, words)
    time, place = _optional(rng, 0.55, TIME, words), _optional(rng, 0.5, PLACE, words)
    return Meaning(verb, tense, polarity, agent, patient, time, place)


# ------------------------------------------------------------------------------------------------
# The source language: TIME PATIENT AGENT PLACE VERB, one sentence for each meaning.


def _source_entity(entity: Entity, case: str) -> str:
    """Article by class, noun + plural -ri + case (agent -ko, patient -n), agreeing attribute."""
    noun = NOUN[entity.noun]
    article, ending = CLASSES[noun.kind]
    words = [article, noun.stem + ("ri" if entity.number == "many" else "") + case]
    if entity.attribute != NONE:
        words.append(ATTRIBUTE[entity.attribute].stem + ending)
    return " ".join(words)


def _source_verb(verb: str, tense: str, polarity: str) -> str:
    """Stem + denial -ke + tense (-ta past, -si present, -mu future)."""
    denial = "ke" if polarity == "no" else ""
    return VERB[verb].stem + denial + {"past": "ta", "present": "si", "future": "mu"}[tense]


def source(meaning: Meaning) -> str:
    """The source sentence of a meaning."""
    words = [
        TIME[meaning.time].stem if meaning.time != NONE else "",
        _source_entity(meaning.patient, "n"),
        _source_entity(meaning.agent, "ko"),
        PLACE[meaning.place].stem if meaning.place != NONE else "",
        _source_verb(meaning.verb, meaning.tense, meaning.polarity),
    ]
    return " ".join(word for word in words if word)


def _match(table: Mapping[Tokens, T], tokens: Tokens, start: int) -> Iterator[tuple[T, int]]:
    """Each entry that the tokens from `start` on spell, longest first, with where it ends."""
    for end in range(min(len(tokens), start + 8), start, -1):
        if tokens[start:end] in table:
            yield table[tokens[start:end]], end


def _entities() -> Iterator[Entity]:
    return (Entity(*slots) for slots in product(NOUN, NUMBERS, (NONE, *ATTRIBUTE)))


@cache
def _source_table(case: str) -> dict[Tokens, Entity]:
    return {tuple(_source_entity(entity, case).split()): entity for entity in _entities()}


@cache
def _source_verbs() -> dict[tuple[str, str], tuple[str, str, str]]:
    """(verb form, class of the patient) -> verb, tense, polarity."""
    return {
        (_source_verb(*key), kind): key
        for key in product(VERB, TENSES, POLARITIES)
        for kind in VERB[key[0]].patients
    }


def parse_source(sentence: str) -> Meaning:
    """The meaning of a source sentence; ValueError if it is none."""
    tokens = tuple(sentence.split())
    times: dict[Tokens, str] = {(word.stem,): word.name for word in TIME.values()}
    places: dict[Tokens, str] = {(word.stem,): word.name for word in PLACE.values()}
    time, a = next(_match(times, tokens, 0), (NONE, 0))
    for patient, b in _match(_source_table("n"), tokens, a):
        for agent, c in _match(_source_table("ko"), tokens, b):
            place, d = next(_match(places, tokens, c), (NONE, c))
            form = (" ".join(tokens[d:]), NOUN[patient.noun].kind[0])
            if form in _source_verbs():
                verb, tense, polarity = _source_verbs()[form]
                return Meaning(verb, tense, polarity, agent, patient, time, place)
    raise ValueError(f"{sentence!r} is not a sentence of the toy's source language")


# ------------------------------------------------------------------------------------------------
# English: lists of weighted ways to say each part, put together by constructions.

TEMPLATES = {
    "active past yes": ["{past}"],
    "active past no": ["did not {base}"],
    "active present yes": ["{is} {ing}"],
    "active present no": ["{is} not {ing}"],
    "active future yes": ["will {base}", "{is} going to {base}"],
    "active future no": ["will not {base}", "{is} not going to {base}"],
    "passive past yes": ["{was} {participle}"],
    "passive past no": ["{was} not {participle}"],
    "passive present yes": ["{is} being {participle}"],
    "passive present no": ["{is} not being {participle}"],
    "passive future yes": ["will be {participle}", "{is} going to be {participle}"],
    "passive future no": ["will not be {participle}", "{is} not going to be {participle}"],
}


def _synonyms(word: Word, form: int = 0) -> Weighted:
    return [(3.0 if rank == 0 else 2.0, forms[form]) for rank, forms in enumerate(word.forms)]


def _english_entity(entity: Entity) -> Weighted:
    """`the big dog`, `the dog that is big`, and the same with synonyms."""
    one = entity.number == "one"
    noun = NOUN[entity.noun]
    nouns = _synonyms(noun, 0 if one else 1)
    if entity.attribute == NONE:
        return [(weight, f"the {word}") for weight, word in nouns]
    clause = f"{'who' if noun.kind == 'person' else 'that'} {'is' if one else 'are'}"
    pairs = [(w * v, n, a) for w, n in nouns for v, a in _synonyms(ATTRIBUTE[entity.attribute])]
    before = [(0.7 * weight, f"the {attribute} {word}") for weight, word, attribute in pairs]
    after = [
        (0.3 * weight, f"the {word} {clause} {attribute}") for weight, word, attribute in pairs
    ]
    return before + after


def _english_verb(voice: str, verb: str, tense: str, polarity: str, number: str) -> Weighted:
    """Every synonym in every template of the voice, tense and polarity; number agrees."""
    auxiliaries = {"is": "is", "was": "was"} if number == "one" else {"is": "are", "was": "were"}
    return [
        (3.0 if rank == 0 else 2.0, template.format(**auxiliaries, **forms))
        for rank, words in enumerate(VERB[verb].forms)
        for forms in [dict(zip(("base", "past", "participle", "ing"), words, strict=True))]
        for template in TEMPLATES[f"{voice} {tense} {polarity}"]
    ]


def constructions(meaning: Meaning) -> Iterator[tuple[float, list[Weighted], list[Weighted]]]:
    """Each voice with each place of the adverbials: weight, fronted parts, the other parts."""
    agent, patient = _english_entity(meaning.agent), _english_entity(meaning.patient)
    by_agent = [(weight, f"by {words}") for weight, words in agent]
    key = (meaning.verb, meaning.tense, meaning.polarity)
    active = [agent, _english_verb("active", *key, meaning.agent.number), patient]
    passive = [patient, _english_verb("passive", *key, meaning.patient.number), by_agent]
    phrases = ((TIME, meaning.time), (PLACE, meaning.place))
    adverbials = [_synonyms(table[name]) for table, name in phrases if name != NONE]
    for weight, clause in ((0.65, active), (0.35, passive)):
        for order in permutations(adverbials):
            yield 3 * weight, [], [*clause, *order]
            if order:
                yield 2 * weight, [order[0]], [*clause, *order[1:]]


def _sentence(front: Iterable[str], rest: Iterable[str]) -> str:
    text = "".join(f"{part}, " for part in front) + " ".join(rest) + "."
    return text[0].upper() + text[1:]


def english(meaning: Meaning, rng: Random) -> str:
    """One English sentence of a meaning, drawn with the weights of its parts."""
    options = [(weight, (front, rest)) for weight, front, rest in constructions(meaning)]
    front, rest = _weighted(rng, options)
    return _sentence([_weighted(rng, p) for p in front], [_weighted(rng, p) for p in rest])


def paraphrases(meaning: Meaning) -> Iterator[str]:
    """All English sentences of a meaning."""
    for _, front, rest in constructions(meaning):
        for parts in product(*front, *rest):
            words = [word for _, word in parts]
            yield _sentence(words[: len(front)], words[len(front) :])


# ------------------------------------------------------------------------------------------------
# From English back to the meaning: the tables above, inverted.


def _inverted(entries: Iterable[tuple[Weighted, T]]) -> dict[Tokens, list[T]]:
    table: dict[Tokens, list[T]] = {}
    for ways, value in entries:
        for _, words in ways:
            table.setdefault(tuple(words.lower().split()), []).append(value)
    return table


@cache
def _english_entities() -> dict[Tokens, list[Entity]]:
    return _inverted((_english_entity(entity), entity) for entity in _entities())


@cache
def _english_verbs() -> dict[Tokens, list[tuple[str, ...]]]:
    """Words -> (voice, verb, tense, polarity, number of the subject)."""
    keys = product(("active", "passive"), VERB, TENSES, POLARITIES, NUMBERS)
    return _inverted((_english_verb(*key), key) for key in keys)


@cache
def _english_adverbials() -> dict[Tokens, list[tuple[str, str]]]:
    tables = (("time", TIME), ("place", PLACE))
    return _inverted(
        (_synonyms(word), (slot, name)) for slot, table in tables for name, word in table.items()
    )


def _adverbials(
    tokens: Tokens, at: int, found: dict[str, str]
) -> Iterator[tuple[dict[str, str], int]]:
    """Every way to read on with times and places, at most one of each: what, and where it ends."""
    yield found, at
    for options, end in _match(_english_adverbials(), tokens, at):
        for slot, name in options:
            if slot not in found:
                yield from _adverbials(tokens, end, {**found, slot: name})


def _clauses(tokens: Tokens) -> Iterator[Meaning]:
    """The readings of a whole sentence: adverbials, subject, verb, (by) participant, adverbials."""
    entities, verbs = _english_entities(), _english_verbs()
    for front, a in _adverbials(tokens, 0, {}):
        for subjects, b in _match(entities, tokens, a):
            for readings, c in _match(verbs, tokens, b):
                by = tokens[c : c + 1] == ("by",)
                for others, d in _match(entities, tokens, c + by):
                    for found, end in _adverbials(tokens, d, front):
                        if end < len(tokens):
                            continue
                        for subject, other, reading in product(subjects, others, readings):
                            voice, verb, tense, polarity, number = reading
                            if number == subject.number and by == (voice == "passive"):
                                agent, patient = (other, subject) if by else (subject, other)
                                yield Meaning(verb, tense, polarity, agent, patient, **found)


def parse(sentence: str) -> Meaning | None:
    """The meaning of an English sentence, None if it has none; case and commas do not count."""
    tokens = tuple(sentence.lower().replace(",", " ").strip().removesuffix(".").split())
    meanings = set(_clauses(tokens))
    assert len(meanings) < 2, f"ambiguous: {sentence}"
    return meanings.pop() if meanings else None


@dataclass(frozen=True)
class Judgement:
    """An output against its meaning: the slots that differ (wrong, missing or added)."""

    parsed: Meaning | None
    faults: dict[str, str]
    swapped: bool  # agent and patient changed places

    @property
    def right(self) -> bool:
        """Whether the output says the meaning and nothing else."""
        return self.parsed is not None and not self.faults


def judge(gold: Meaning, output: str) -> Judgement:
    """Parse an output and compare it with its meaning, slot by slot."""
    parsed = parse(output)
    if parsed is None:
        return Judgement(None, {}, False)
    faults = {}
    for (slot, expected), got in zip(gold.slots().items(), parsed.slots().values(), strict=True):
        if got != expected:
            faults[slot] = "missing" if got == NONE else "added" if expected == NONE else "wrong"
    nouns = (parsed.patient.noun, parsed.agent.noun)
    swapped = "agent" in faults and nouns == (gold.agent.noun, gold.patient.noun)
    return Judgement(parsed, faults, swapped)


def count(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """The share of right meanings in percent, and what is wrong with the others."""
    faults = Counter(fault for j in judgements for fault in j.faults.items())
    right = sum(j.right for j in judgements)
    return {
        "sentences": len(judgements),
        "right": right,
        "accuracy": 100 * right / len(judgements),
        "unparsable": sum(j.parsed is None for j in judgements),
        "swapped": sum(j.swapped for j in judgements),
        "slots": {
            slot: {kind: faults[slot, kind] for kind in ("wrong", "missing", "added")}
            for slot in SLOTS
        },
    }


# ------------------------------------------------------------------------------------------------
# Files and commands


def draw_corpus(
    seed: int, sizes: Mapping[str, int], words: int = 99
) -> dict[str, list[tuple[Meaning, list[str]]]]:
    """For each split, its distinct meanings, each with one English sentence, or two for `pairs`.

    Meanings of valid and test appear in no other split. A split has its own random stream: its
    size changes no other split, save that train and pairs skip what valid and test hold.
    Raises ValueError if the words do not make so many meanings.
    """
    held_out: set[Meaning] = set()
    corpus: dict[str, list[tuple[Meaning, list[str]]]] = {}
    for split in ("test", "valid", "train", "pairs"):
        rng, seen = Random(f"{seed} {split}"), set(held_out)
        rows: list[tuple[Meaning, list[str]]] = []
        draws = 0
        while len(rows) < sizes[split]:
            draws += 1
            if draws > 1000 + 20 * sizes[split]:
                raise ValueError(
                    f"--words {words}: has hardly more than {len(rows)} meanings left for "
                    f"--{split} {sizes[split]}; ask for more words or fewer sentences"
                )
            meaning = draw_meaning(rng, words)
            if meaning in seen:
                continue
            seen.add(meaning)
            sentences = [english(meaning, rng)]
            while split == "pairs" and len(sentences) < 2:
                sentences += {english(meaning, rng)} - set(sentences)
            rows.append((meaning, sentences))
        if split in ("test", "valid"):
            held_out = seen
        corpus[split] = rows
    return corpus


def _write(path: Path, lines: Iterable[str]) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    os.replace(temporary, path)


def _read(path: Path, flag: str) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{flag} {path}: not UTF-8 (byte {error.start}); convert it") from None
    except OSError as error:
        raise ValueError(f"{flag} {path}: {error.strerror}") from None
    return lines[:-1] if lines[-1] == "" else lines


def _at_line(path: Path, lines: Sequence[str], meaning: Callable[[str], Meaning]) -> list[Meaning]:
    meanings = []
    for number, line in enumerate(lines, start=1):
        try:
            meanings.append(meaning(line))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
    return meanings


def _parse_record(line: str) -> Meaning:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"got {line[:40]!r}, expected a JSON object of slots")
    return Meaning.from_slots(record)


def run_generate(args: argparse.Namespace) -> None:
    """Write the splits, their meanings and the paraphrase pairs under --out."""
    sizes = {split: getattr(args, split) for split in ("train", "valid", "test", "pairs")}
    for split, size in (*sizes.items(), ("words", args.words)):
        if size < 1:
            raise ValueError(f"--{split}: got {size}, expected at least 1")
    args.out.mkdir(parents=True, exist_ok=True)
    corpus = draw_corpus(args.seed, sizes, args.words)
    pairs = corpus.pop("pairs")
    for split, rows in corpus.items():
        _write(args.out / f"{split}.xx", (source(meaning) for meaning, _ in rows))
        _write(args.out / f"{split}.en", (sentences[0] for _, sentences in rows))
        records = (json.dumps(meaning.slots()) for meaning, _ in rows)
        _write(args.out / f"{split}.meaning.jsonl", records)
    _write(args.out / "paraphrases.tsv", ("\t".join(sentences) for _, sentences in pairs))
    print(f"{args.out}: " + ", ".join(f"{size} {split}" for split, size in sizes.items()))


def run_meaning(args: argparse.Namespace) -> None:
    """Count the outputs whose meaning is right and print what is wrong with the others."""
    path, flag = (args.source, "--source") if args.source else (args.gold, "--gold")
    gold_lines, outputs = _read(path, flag), _read(args.hyp, "--hyp")
    if len(gold_lines) != len(outputs) or not outputs:
        raise ValueError(
            f"{flag} {path} has {len(gold_lines)} lines and --hyp {args.hyp} has {len(outputs)}: "
            "expected one output for each sentence, in its order"
        )
    gold = _at_line(path, gold_lines, parse_source if args.source else _parse_record)
    judgements = [judge(meaning, output) for meaning, output in zip(gold, outputs, strict=True)]
    if args.sentences:
        _write(
            args.sentences,
            (f"{int(j.right)}\t{_verdict(j, m)}" for j, m in zip(judgements, gold, strict=True)),
        )
    counts = count(judgements)
    print(json.dumps(counts, indent=2) if args.json else _text(counts))


def _verdict(judgement: Judgement, gold: Meaning) -> str:
    """What is wrong with one output, in words: `verb: buy -> sell, time: - -> at night`."""
    if judgement.parsed is None:
        return "unparsable"
    expected, got = gold.slots(), judgement.parsed.slots()
    return (
        ", ".join(f"{slot}: {expected[slot]} -> {got[slot]}" for slot in judgement.faults)
        or "right"
    )


def _text(counts: Mapping[str, Any]) -> str:
    lines = [
        f"meaning right: {counts['accuracy']:.1f} % ({counts['right']} of {counts['sentences']})",
        f"not a sentence of the grammar: {counts['unparsable']}",
        f"agent and patient swapped: {counts['swapped']}",
        f"{'slot':<20}{'wrong':>8}{'missing':>9}{'added':>7}",
    ]
    for slot, kinds in counts["slots"].items():
        if any(kinds.values()):
            lines.append(f"{slot:<20}{kinds['wrong']:>8}{kinds['missing']:>9}{kinds['added']:>7}")
    return "\n".join(lines)


def run_show(args: argparse.Namespace) -> None:
    """Print a few meanings with their source sentence and some of their paraphrases."""
    rng = Random(f"{args.seed} show")
    for _ in range(args.number):
        meaning = draw_meaning(rng)
        ways = list(paraphrases(meaning))
        print(f"source    {source(meaning)}")
        print("meaning   " + ", ".join(f"{k}={v}" for k, v in meaning.slots().items() if v != NONE))
        for _ in range(4):
            print(f"English   {english(meaning, rng)}")
        print(f"          ({len(ways):,} ways to say it)\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        description="A small bitext with a known meaning behind every sentence.",
        epilog="""example:
  toy.py show                                   a few meanings and their paraphrases
  toy.py generate --out toy --seed 1            train, valid, test, and pairs for the encoder
  toy.py meaning --source toy/test.xx --hyp out.txt    how many translations are right""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True)

    generate = commands.add_parser(
        "generate",
        help="write the bitext and the paraphrase pairs",
        description="Writes {train,valid,test}.xx (source), .en (target), .meaning.jsonl (one "
        "record of slots a line) and paraphrases.tsv (two wordings of one meaning a line, TAB "
        "between them). No meaning of valid or test occurs in train or in the pairs. The same "
        "seed and sizes give the same bytes.",
    )
    generate.add_argument("--out", type=Path, required=True, help="folder to write to")
    generate.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    generate.add_argument("--train", type=int, default=4000, help="sentences (%(default)s)")
    generate.add_argument("--valid", type=int, default=300, help="sentences (%(default)s)")
    generate.add_argument("--test", type=int, default=500, help="sentences (%(default)s)")
    generate.add_argument("--pairs", type=int, default=10000, help="paraphrases (%(default)s)")
    generate.add_argument(
        "--words",
        type=int,
        default=99,
        help="use the first so many words of each kind only, for a smaller world (default: all)",
    )
    generate.set_defaults(run=run_generate)

    meaning = commands.add_parser(
        "meaning",
        help="count the translations whose meaning is right",
        description="Parses each output back to its meaning and compares it with the source "
        "sentence's (or the record's) slot by slot. Any wording of the grammar is right; case and "
        "commas do not count. A wrong, missing or added slot, or an output that the grammar does "
        "not have, is wrong.",
    )
    gold = meaning.add_mutually_exclusive_group(required=True)
    gold.add_argument("--source", type=Path, help="source sentences, one a line")
    gold.add_argument("--gold", type=Path, help="records of slots, one JSON object a line")
    meaning.add_argument("--hyp", type=Path, required=True, help="outputs, one a line")
    meaning.add_argument("--json", action="store_true", help="print the counts as JSON")
    meaning.add_argument(
        "--sentences", type=Path, metavar="FILE", help="write 1 or 0 and the faults of each output"
    )
    meaning.set_defaults(run=run_meaning)

    show = commands.add_parser("show", help="print a few meanings with their paraphrases")
    show.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    show.add_argument("--number", type=int, default=3, help="meanings (default: %(default)s)")
    show.set_defaults(run=run_show)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; bad input is answered with one line and status 2."""
    args = parser().parse_args(argv)
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError) as error:
        print(f"toy.py {args.command}: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

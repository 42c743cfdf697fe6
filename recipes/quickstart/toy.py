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
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, permutations, product
from math import fsum
from pathlib import Path
from random import Random
from typing import TypeVar

from simile_plugin.files import InputError, as_script, atomic_write, read_parallel

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
RIGHT = "right"


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

SLOTS = (
    *("verb", "tense", "polarity", "agent", "agent number", "agent attribute"),
    *("patient", "patient number", "patient attribute", "time", "place"),
)


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
        """Return the inverse of `slots`."""
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


def verdict(gold: Meaning, output: str) -> str:
    """Say what is wrong with an output: `right`, `unparsable`, or `verb: buy -> sell, ...`."""
    parsed = parse(output)
    if parsed is None:
        return "unparsable"
    got = parsed.slots()
    wrong = (
        f"{slot}: {said} -> {got[slot]}" for slot, said in gold.slots().items() if said != got[slot]
    )
    return ", ".join(wrong) or RIGHT


# ------------------------------------------------------------------------------------------------
# Files and commands


def draw_corpus(
    seed: int, sizes: Mapping[str, int], words: int = 99
) -> dict[str, list[tuple[Meaning, list[str]]]]:
    """For each split, its distinct meanings, each with one English sentence, or two for `pairs`.

    Meanings of valid and test appear in no other split. A split has its own random stream: its
    size changes no other split, save that train and pairs skip what valid and test hold.
    Raises InputError if the words do not make so many meanings.
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
                raise InputError(
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
    with atomic_write(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


def run_generate(args: argparse.Namespace) -> None:
    """Write the splits, their meanings and the paraphrase pairs under --out."""
    sizes = {split: getattr(args, split) for split in ("train", "valid", "test", "pairs")}
    for split, size in (*sizes.items(), ("words", args.words)):
        if size < 1:
            raise InputError(f"--{split}: got {size}, expected at least 1")
    corpus = draw_corpus(args.seed, sizes, args.words)
    args.out.mkdir(parents=True, exist_ok=True)
    pairs = corpus.pop("pairs")
    for split, rows in corpus.items():
        _write(args.out / f"{split}.xx", (source(meaning) for meaning, _ in rows))
        _write(args.out / f"{split}.en", (sentences[0] for _, sentences in rows))
    _write(args.out / "paraphrases.tsv", ("\t".join(sentences) for _, sentences in pairs))
    print(f"{args.out}: " + ", ".join(f"{size} {split}" for split, size in sizes.items()))


def run_meaning(args: argparse.Namespace) -> None:
    """Write 1 or 0 and what is wrong with each output, and print the share of right ones."""
    sources, outputs = read_parallel([(args.source, "--source"), (args.hyp, "--hyp")])
    if not outputs:
        raise InputError(f"--hyp {args.hyp}: is empty")
    verdicts = []
    for number, (line, output) in enumerate(zip(sources, outputs, strict=True), start=1):
        try:
            verdicts.append(verdict(parse_source(line), output))
        except ValueError as error:
            raise InputError(f"{args.source}:{number}: {error}") from None
    _write(args.out, (f"{int(one == RIGHT)}\t{one}" for one in verdicts))
    right = verdicts.count(RIGHT)
    print(f"meaning right: {100 * right / len(verdicts):.1f} % ({right} of {len(verdicts)})")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    commands = top.add_subparsers(dest="command", required=True)
    generate = commands.add_parser(
        "generate",
        help="write the bitext and the paraphrase pairs",
        description="Writes {train,valid,test}.xx (source) and .en (target), and paraphrases.tsv "
        "(two wordings of one meaning a line, TAB between them). No meaning of valid or test "
        "occurs in train or in the pairs. The same seed and sizes give the same bytes.",
    )
    generate.add_argument("--out", type=Path, required=True, help="folder to write to")
    for flag, default, text in (
        *(("--seed", 1, "of all draws"), ("--train", 4000, "sentences")),
        *(("--valid", 300, "sentences"), ("--test", 500, "sentences")),
        *(("--pairs", 10000, "paraphrases"), ("--words", 99, "first words of each kind to use")),
    ):
        generate.add_argument(flag, type=int, default=default, help=f"{text} (default %(default)s)")
    generate.set_defaults(run=run_generate)
    meaning = commands.add_parser(
        "meaning",
        help="count the translations whose meaning is right",
        description="Parses each output back to its meaning and compares it with the source "
        "sentence's slot by slot. Any wording of the grammar is right; case and commas do not "
        "count. A wrong, missing or added slot, or an output that the grammar does not have, is "
        "wrong.",
    )
    meaning.add_argument("--source", required=True, help="source sentences, one a line")
    meaning.add_argument("--hyp", required=True, help="outputs, one a line")
    meaning.add_argument(
        "--out", type=Path, required=True, help="1 or 0 and the faults of each output"
    )
    meaning.set_defaults(run=run_meaning)
    return top


@as_script
def main(argv: Sequence[str]) -> None:
    """Run one command; bad input is answered with one line and status 2."""
    args = parser().parse_args(argv)
    args.run(args)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

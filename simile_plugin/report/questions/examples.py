"""Sentences to read: where one of two systems is better, and where the metrics disagree."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from simile_plugin.report.answer import Answer, Data, Passage, Passages, Runs, equal_once
from simile_plugin.report.human.ratings import mean_ratings
from simile_plugin.report.human.study import normalised
from simile_plugin.report.inputs.buckets import Buckets
from simile_plugin.report.inputs.texts import System
from simile_plugin.significance import Floats

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

OF_A_BUCKET = 5  # sentences of each bucket that the page shows at least
QUOTES = str.maketrans(dict.fromkeys("“”„«»‘’‚‹›`´", '"') | {"'": '"'})


@dataclass(frozen=True)
class Example:
    """A sentence that two systems translate differently.

    Attributes:
        line: its number, from 1.
        scores: metric -> percent of the first and of the second system.
        others: other systems -> their outputs.
        ratings: system -> people's mean rating, where they rated its output.
        tags: of the buckets it is in.
    """

    line: int
    source: str | None
    ref: str
    first: str
    second: str
    scores: dict[str, list[float]]
    others: dict[str, str]
    ratings: dict[str, float]
    tags: list[str]


@dataclass(frozen=True)
class Examples:
    """Sentences by kind, see `choose_examples`; `different` of the sentences have two outputs."""

    first_name: str
    second_name: str
    sentences: int
    different: int
    kinds: dict[str, list[Example]]
    of_buckets: list[Example]
    notes: list[str]
    signatures: dict[str, str] = field(default_factory=dict)

    def data(self) -> Data:
        """Return it for --json: each kind under its name, before `of_buckets`."""
        data: Data = {}
        for key, value in asdict(self).items():
            data |= value if key == "kinds" else {key: value}
        return data


@dataclass(frozen=True)
class Compared:
    """The texts that examples are chosen from: of two systems, and those shown beside them.

    Attributes:
        others: systems to show beside the pair.
    """

    pair: tuple[System, System]
    refs: Sequence[str]
    sources: Sequence[str] | None = None
    others: Sequence[System] = ()


def ask(inputs: Inputs) -> Answer:
    """Choose examples of the two systems compared, the others and people's ratings beside."""
    pair, systems, known = inputs.pair, inputs.systems, inputs.scores
    # The first seed of each of the two.
    columns = [sum(len(system.outputs) for system in systems[:place]) for place in pair]
    scores = {"BLEU": known.bleu} | ({} if known.sim is None else {"SIM": known.sim})
    others = [system for place, system in enumerate(systems) if place not in pair]
    data = choose_examples(
        Compared((systems[pair[0]], systems[pair[1]]), inputs.refs, inputs.sources, others),
        {name: 100 * values[:, columns].double().numpy() for name, values in scores.items()},
        inputs.options.examples,
        mean_ratings(*inputs.human) if inputs.named_answers else None,
        inputs.sentence_buckets,
    )
    signatures = inputs.scorer.signatures("BLEU", "SIM", sentence=True)
    return answer_examples(replace(data, signatures=signatures))


def choose_examples(
    texts: Compared,
    scores: Mapping[str, Floats],
    number: int = 20,
    ratings: Mapping[tuple[int, str], float] | None = None,
    ways: Sequence[Buckets] = (),
) -> Examples:
    """Choose at most `number` sentences of a kind whose outputs differ, the largest first.

    `first_better`, `second_better`: by the mean difference of the metrics, where none of them says
    the opposite; `disagree`: the metrics say opposite things, by the smaller of the two; `by_bleu`,
    `by_sim`: the ends of |dBLEU| - |dSIM| (Tables 71 and 72); `better`, `worse`: of the second
    system by people's ratings, where they rated both. Outputs that differ in case, quotes and
    spaces only come last. Of a system with several seeds the first is shown.

    Args:
        scores: BLEU, and SIM where it is known, of both: (N, 2) in percent.
        ratings: (line from 1, output with single spaces) -> mean rating, see `mean_ratings`.
        ways: of the sentences' buckets; `of_buckets` holds the largest differences of each.
    """
    pair, refs, sources, others = texts.pair, texts.refs, texts.sources, texts.others
    first, second = (system.outputs[0] for system in pair)
    # (metrics, N)
    gains = np.stack([of_pair[:, 1] - of_pair[:, 0] for of_pair in scores.values()])
    different = [i for i in range(len(refs)) if first[i] != second[i]]
    trivial = {i for i in different if _plain(first[i]) == _plain(second[i])}
    rated = {i: _ratings(ratings or {}, i, [*pair, *others]) for i in different}
    names = [system.name for system in pair]
    # Sentences of which one side was not rated are left out.
    people = np.full(len(refs), np.nan)
    for i, of_sentence in rated.items():
        if {*names} <= of_sentence.keys():
            people[i] = of_sentence[names[1]] - of_sentence[names[0]]
    order = _order(gains, people)

    def example(i: int) -> Example:
        return Example(
            line=i + 1,
            source=sources[i] if sources is not None else None,
            ref=refs[i],
            first=first[i],
            second=second[i],
            scores={name: values[i].tolist() for name, values in scores.items()},
            others={system.name: system.outputs[0][i] for system in others},
            ratings=rated[i],
            tags=[way.tag(int(way.places[i])) for way in ways],
        )

    def ranked(values: Floats, chosen: Sequence[int]) -> list[int]:
        kept = [i for i in chosen if values[i] > 0]  # NaN is not
        return sorted(kept, key=lambda i: (i in trivial, -values[i], i))

    kinds = {name: ranked(values, different)[:number] for name, values in order.items()}
    shown = {i for chosen in kinds.values() for i in chosen}
    of_buckets = set()
    for way in ways:
        for place in range(len(way.names)):
            inside = [i for i in different if way.places[i] == place]
            of_buckets |= {*ranked(np.abs(gains[0]), inside)[:OF_A_BUCKET]}
    several = [system.name for system in (*others, *pair) if system.outputs[1:]]
    return Examples(
        first_name=names[0],
        second_name=names[1],
        sentences=len(refs),
        different=len(different),
        kinds={name: [example(i) for i in chosen] for name, chosen in kinds.items()},
        of_buckets=[example(i) for i in sorted(of_buckets - shown)],
        notes=[f"{name}: the first seed" for name in several],
    )


def _order(gains: Floats, people: Floats) -> dict[str, Floats]:
    """Return kind -> (N,) what its sentences are ranked by; of the kind are those above 0.

    gains: (metrics, N) second minus first. people: (N,) the same of ratings, NaN where unknown.
    """
    mean, size = gains.mean(0), np.abs(gains)
    agree = (gains >= 0).all(0) | (gains <= 0).all(0)
    order = {
        "first_better": np.where(agree, -mean, np.nan),
        "second_better": np.where(agree, mean, np.nan),
    }
    if len(gains) > 1:
        order["disagree"] = np.where(agree, np.nan, size.min(0))
        order["by_bleu"] = size[0] - size[1]
        order["by_sim"] = size[1] - size[0]
    return order | {"better": people, "worse": -people}


def _plain(text: str) -> str:
    """Return the text without its case, kinds of quotes and spaces."""
    return "".join(text.casefold().translate(QUOTES).split())


def _ratings(
    ratings: Mapping[tuple[int, str], float], place: int, systems: Sequence[System]
) -> dict[str, float]:
    """Return what people said of the outputs of one sentence, as far as they saw them."""
    seen = {system.name: (place + 1, normalised(system.outputs[0][place])) for system in systems}
    return {name: ratings[key] for name, key in seen.items() if key in ratings}


def answer_examples(data: Examples) -> Answer:
    """Show the kinds, to read and to filter."""
    first, second = data.first_name, data.second_name
    titles = {
        "first_better": f"{first} better",
        "second_better": f"{second} better",
        "disagree": "metrics disagree",
        "by_bleu": "BLEU differs more than SIM",
        "by_sim": "SIM differs more than BLEU",
        "worse": f"people prefer {first}",
        "better": f"people prefer {second}",
    }
    kinds = {title: data.kinds[key] for key, title in titles.items() if data.kinds.get(key)}
    return Answer(
        "examples",
        "Examples",
        f"Sentences that {first} and {second} translate differently: read these to judge the "
        "systems, and the metrics. Green words are the reference's, amber ones are not, where the "
        "two differ.",
        f"Examples: {first} and {second} differ on {data.different:,} of "
        f"{data.sentences:,} sentences",
        [
            Passages(
                {kind: [_passage(data, of) for of in examples] for kind, examples in kinds.items()},
                [_passage(data, of) for of in data.of_buckets],
            )
        ],
        data.data(),
        notes=data.notes,
        signatures=data.signatures,
    )


def _passage(data: Examples, example: Example) -> Passage:
    changes = (
        f"{name} {a:.1f} -> {b:.1f} ({b - a:+.1f})" for name, (a, b) in example.scores.items()
    )
    source = [] if example.source is None else [("source", [(example.source, "")])]
    first, second = marked(example.first, example.second, example.ref)
    outputs: dict[str, Runs] = {name: [(text, "")] for name, text in example.others.items()}
    outputs |= {data.first_name: first, data.second_name: second}
    shown = []
    for name, runs in outputs.items():  # with people's mean rating of this output, if there is one
        rating = example.ratings.get(name)
        shown.append((name if rating is None else f"{name} ({rating:.1f})", runs))
    title = f"line {example.line}: {', '.join(changes)}"
    lines = [*source, ("reference", [(example.ref, "")]), *equal_once(shown)]
    return Passage(title, lines, tuple(example.tags))


def marked(first: str, second: str, ref: str) -> tuple[Runs, Runs]:
    """Cut two strings into runs of words; where they differ, marked by the reference.

    "agrees": words that the alignment with the reference keeps, "differs": the others.
    """
    a, b, words = first.split(), second.split(), ref.split()
    left: Runs = []
    right: Runs = []
    kept_of = [
        {
            place + i
            for place, _, size in _matcher(tokens, words).get_matching_blocks()
            for i in range(size)
        }
        for tokens in (a, b)
    ]
    for what, a1, a2, b1, b2 in _matcher(a, b).get_opcodes():
        for tokens, start, end, runs, kept in (
            (a, a1, a2, left, kept_of[0]),
            (b, b1, b2, right, kept_of[1]),
        ):
            for place in range(start, end):
                style = "" if what == "equal" else "agrees" if place in kept else "differs"
                if place > start and runs[-1][1] == style:
                    runs[-1] = (f"{runs[-1][0]} {tokens[place]}", style)
                else:
                    runs.append((tokens[place], style))
    return left, right


def _matcher(a: Sequence[str], b: Sequence[str]) -> difflib.SequenceMatcher[str]:
    return difflib.SequenceMatcher(None, a, b, autojunk=False)

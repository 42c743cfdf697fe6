"""What goes wrong in the outputs? Faults by stated rules, and signs that a reward is gamed.

A system that learns to please the encoder may repeat itself, grow longer, or leave the source
untranslated, while the reward rises: the paper's Turkish system did.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from simile_plugin.encoder import split_words
from simile_plugin.report.answer import (
    Answer,
    Cell,
    Part,
    Passage,
    Passages,
    Runs,
    equal_once,
    make_table,
    optional,
)
from simile_plugin.report.inputs.scores import LENGTH_RATIO, score_all, score_systems
from simile_plugin.report.inputs.texts import Sentences, System, tokenised
from simile_plugin.reward import (
    LENGTH_SIGN,
    REPETITION_FLOOR,
    REPETITION_SIGN,
    ListScores,
    Scorer,
    chrf_statistics,
    corpus_chrf,
)
from simile_plugin.significance import SentenceStatistics

if TYPE_CHECKING:
    from simile_plugin.report.inputs import Inputs

BLEU_BAND = 1.0  # points below the baseline
COPY_BAND = 0.01  # untranslated sentences above the baseline
COPIED_RUN = 4
LOOPS = 3  # times in a row
LONGEST_LOOP = 4
STRANGER = 50  # percentile of chrF against other sentences' references
LEAST_WORDS = 4
SHOWN = 10  # sentences of a fault
FAULTS = {
    "empty": "no word, where the reference has one",
    "copied": f"{COPIED_RUN} words in a row (or all of fewer) are the source's and not the "
    "reference's",
    "wrong language": f"of at least {LEAST_WORDS} words more are known from the sources alone than "
    "from the references alone, or most letters are of a script that the references do not have",
    "loops": f"1 to {LONGEST_LOOP} words stand {LOOPS} times in a row, and not in the reference",
    "hallucinated": f"of at least {LEAST_WORDS} words, and its chrF against its own reference is "
    "no higher than half of the baseline's outputs reach against the next sentence's reference",
}


@dataclass(frozen=True)
class Signs:
    """Signs and faults of one system's outputs, of several seeds the mean.

    Attributes:
        repeated: share of bigrams.
        distinct: number of different tokens; distinct_ratio: over the references'.
        copied: share of sentences, where the sources are known.
        sim, reward: SIM and SIMILE in percent, where there is an encoder.
        faults: how many sentences have each of FAULTS.
        lines: the sentences of the first seed that have it, from 1.
        outside: signs that have left their band around the baseline.
    """

    name: str
    length_ratio: float
    repeated: float
    distinct: float
    distinct_ratio: float
    copied: float | None
    bleu: float
    sim: float | None
    reward: float | None
    faults: dict[str, float]
    lines: dict[str, list[int]]
    outside: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Gaming:
    """The signs of all systems, and the rules they are held against."""

    systems: list[Signs]
    warnings: list[str]
    band: str
    notes: list[str]
    rules: dict[str, str]
    signatures: dict[str, str]


def ask(inputs: Inputs) -> Answer:
    """Look for faults and signs in the outputs of --sys."""
    scorer, baseline = inputs.scorer, inputs.baselines[0]
    signs = system_signs(
        inputs.systems, inputs.refs, scorer, baseline, inputs.sources, inputs.scores
    )
    behind = scorer.signatures("BLEU", "SIM, SIMILE")
    notes = []
    if inputs.sources is None:
        notes.append("untranslated sentences are not counted: give --src")
    if scorer.encoder is None:
        notes.append("the reward of the outputs is not known: give --encoder")
    data = Gaming(
        systems=signs,
        warnings=system_warnings(signs, baseline),
        band=band_told(),
        notes=notes,
        rules=FAULTS,
        signatures={"BLEU and the tokens": behind.pop("BLEU"), **behind},
    )
    return answer_gaming(data, _passages(inputs, signs))


def system_signs(
    systems: Sequence[System],
    refs: Sequence[str],
    scorer: Scorer,
    baseline: str = "",
    sources: Sequence[str] | None = None,
    scores: ListScores | None = None,
) -> list[Signs]:
    """Compute the signs in each system's outputs, and which have left the baseline's band.

    Args:
        scores: what `scores.score_all` gave for the systems, where it is known already.
    """
    ref_tokens = tokenised(scorer.tokenize, tuple(refs))
    source_tokens = tokenised(scorer.tokenize, tuple(sources)) if sources is not None else None
    ref_types = len({token for ref in ref_tokens for token in ref})
    scores = scores or score_all(systems, refs, scorer)
    start = next((system for system in systems if system.name == baseline), systems[0])
    limit = _stranger(start.outputs[0], refs)
    signs = []
    for system, metrics in zip(
        systems, score_systems(systems, refs, scores, chrf=False), strict=True
    ):
        tokens = [tokenised(scorer.tokenize, output) for output in system.outputs]
        of_seeds = [
            faults(output, hyps, refs, ref_tokens, source_tokens, limit)
            for output, hyps in zip(system.outputs, tokens, strict=True)
        ]
        signs.append(_signs(system.name, metrics, tokens, of_seeds, ref_types))
    first = next(of for of in signs if of.name == start.name)
    return [replace(of, outside=signs_outside(of, first)) for of in signs]


def _signs(
    name: str,
    metrics: Mapping[str, SentenceStatistics],
    tokens: Sequence[Sentences],
    of_seeds: Sequence[Mapping[str, Sequence[int]]],
    ref_types: int,
) -> Signs:
    """Take the means over seeds of their tokens, and of the places of their faults."""
    distinct = fmean([len({token for hyp in hyps for token in hyp}) for hyps in tokens])
    sentences = max(1, len(tokens[0]))
    copied = [len(places["copied"]) / sentences for places in of_seeds if "copied" in places]
    return Signs(
        name=name,
        length_ratio=metrics[LENGTH_RATIO].corpus(),
        repeated=fmean([repeated_share(hyps) for hyps in tokens]),
        distinct=distinct,
        distinct_ratio=distinct / max(1, ref_types),
        copied=fmean(copied) if copied else None,
        bleu=metrics["bleu"].corpus(),
        sim=metrics["sim"].corpus() if "sim" in metrics else None,
        reward=metrics["simile"].corpus() if "simile" in metrics else None,
        faults={kind: fmean([len(places[kind]) for places in of_seeds]) for kind in of_seeds[0]},
        lines={kind: [i + 1 for i in places] for kind, places in of_seeds[0].items()},
    )


# --- faults ---


def faults(
    output: Sequence[str],
    hyps: Sentences,
    refs: Sequence[str],
    ref_tokens: Sentences,
    sources: Sentences | None,
    limit: float,
) -> dict[str, list[int]]:
    """Find the sentences of each of FAULTS, as far as the sources are known."""
    lines = range(len(hyps))
    chrf = corpus_chrf(chrf_statistics([output], refs)[0])
    places = {"empty": [i for i in lines if not hyps[i] and ref_tokens[i]]}
    if sources is not None:
        places["copied"] = [i for i in lines if is_copied(hyps[i], sources[i], ref_tokens[i])]
    places["wrong language"] = in_wrong_language(hyps, ref_tokens, sources)
    places["loops"] = [i for i in lines if _loops(output[i]) and not _loops(refs[i])]
    places["hallucinated"] = [i for i in lines if len(hyps[i]) >= LEAST_WORDS and chrf[i] <= limit]
    return places


def _stranger(output: Sequence[str], refs: Sequence[str]) -> float:
    """Return the chrF that half of the outputs reach against the next sentence's reference."""
    if len(refs) < 2:
        return -1.0
    others = [*refs[1:], refs[0]]
    return float(np.percentile(corpus_chrf(chrf_statistics([output], others)[0]), STRANGER))


def is_copied(hyp: Sequence[str], source: Sequence[str], ref: Sequence[str]) -> bool:
    """Return whether 4 source words in a row are in the output that the reference has not.

    Numbers and punctuation are no words; of scripts that are written without spaces each letter is
    one. A sentence with fewer words than that is untranslated when its words are the source's and
    not the reference's.
    """
    said, theirs, wanted = (_words(tokens) for tokens in (hyp, source, ref))
    run = min(COPIED_RUN, len(theirs))
    return bool(run and (_runs(said, run) & _runs(theirs, run)) - _runs(wanted, run))


def _words(tokens: Sequence[str]) -> list[str]:
    return [word for word in split_words(" ".join(tokens)) if any(map(str.isalpha, word))]


def _runs(words: Sequence[str], length: int) -> set[tuple[str, ...]]:
    if length < COPIED_RUN and len(words) != length:
        return set()
    return set(zip(*(words[i:] for i in range(length)), strict=False))


def in_wrong_language(hyps: Sentences, refs: Sentences, sources: Sentences | None) -> list[int]:
    """Return the sentences whose words are rather the sources' than the references'."""
    known, foreign = (
        {w.lower() for text in texts for w in text} for texts in (refs, sources or [])
    )
    scripts = {_script(letter) for ref in refs for word in ref for letter in word}
    strange_lines = []
    for i, hyp in enumerate(hyps):
        words = [word.lower() for word in _words(hyp)]
        there, here = (
            sum(w in a and w not in b for w in words)
            for a, b in ((foreign, known), (known, foreign))
        )
        letters = [letter for word in words for letter in word if letter.isalpha()]
        strange = sum(_script(letter) not in scripts for letter in letters)
        if (len(words) >= LEAST_WORDS and there > here) or 2 * strange > len(letters):
            strange_lines.append(i)
    return strange_lines


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""


def _loops(text: str) -> bool:
    # Whatever the tokeniser: by characters "10000" would be a loop.
    tokens = re.findall(r"\w+|[^\w\s]", " ".join(split_words(text)))
    return any(
        all(tokens[start + i] == tokens[start + i + size] for i in range(size * (LOOPS - 1)))
        and any(map(str.isalnum, "".join(tokens[start : start + size])))
        for size in range(1, LONGEST_LOOP + 1)
        for start in range(len(tokens) - size * LOOPS + 1)
    )


def repeated_share(sentences: Sequence[Sequence[str]]) -> float:
    """Return the share of all sentences' bigrams that repeat one of their sentence."""
    total = again = 0
    for tokens in sentences:
        bigrams = Counter(pairwise(tokens))
        total += bigrams.total()
        again += bigrams.total() - len(bigrams)
    return again / max(1, total)


# --- signs: one is outside its band while the reward is above the baseline's ---


def band_told() -> str:
    """Say how far each sign may be from the baseline's."""
    return (
        f"BLEU at most {BLEU_BAND:g} point below the first --baseline; length ratio at most "
        f"{LENGTH_SIGN:.0%} below the smaller or above the larger of the baseline's and 1; "
        f"repeated bigrams at most {REPETITION_SIGN:.0%} more than the baseline's; untranslated "
        f"sentences at most {COPY_BAND:.0%} above its"
    )


def signs_outside(signs: Signs, start: Signs) -> list[str]:
    """Name what has left its band, see `band_told`."""
    outside = ["BLEU"] if signs.bleu < start.bleu - BLEU_BAND else []
    low, high = (pick(start.length_ratio, 1.0) for pick in (min, max))
    if not low / (1 + LENGTH_SIGN) <= signs.length_ratio <= high * (1 + LENGTH_SIGN):
        outside.append("length")
    more = signs.repeated - start.repeated
    if more > REPETITION_FLOOR and more > REPETITION_SIGN * start.repeated:
        outside.append("repetition")
    copied, before = signs.copied, start.copied
    if copied is not None and before is not None and copied > before + COPY_BAND:
        outside.append("copies")
    return outside


def system_warnings(systems: Sequence[Signs], baseline: str) -> list[str]:
    """Warn of systems outside the band whose SIM or SIMILE is above the baseline's."""
    start = next(signs for signs in systems if signs.name == baseline)
    warnings = []
    for signs in systems:
        if signs is start or not signs.outside:
            continue
        where = f"{' and '.join(signs.outside)} outside the band around {baseline}"
        if signs.reward is None:
            warnings.append(f"{signs.name}: {where} (the reward is not known)")
        elif gains := _gains(signs, start):
            told = " and ".join(f"{metric} is {gain:.2f}" for metric, gain in gains.items())
            warnings.append(f"{signs.name}: {told} above {baseline}'s, but {where}")
    return warnings


def _gains(signs: Signs, start: Signs) -> dict[str, float]:
    """Return by how much SIM and SIMILE are above the baseline's, where they are."""
    pairs = {"SIM": (signs.sim, start.sim), "SIMILE": (signs.reward, start.reward)}
    return {
        metric: value - before
        for metric, (value, before) in pairs.items()
        if value is not None and before is not None and value > before
    }


# --- the answer ---

COLUMNS: dict[str, tuple[Callable[[Signs], float | None], str]] = {
    "Length": (lambda of: of.length_ratio, ".3f"),
    "Repeated": (lambda of: of.repeated, ".2%"),
    "Distinct": (lambda of: of.distinct, ",.0f"),
    "of ref": (lambda of: of.distinct_ratio, ".1%"),
    "BLEU": (lambda of: of.bleu, ".2f"),
    "SIM": (lambda of: of.sim, ".2f"),
    "SIMILE": (lambda of: of.reward, ".2f"),
}


def _passages(inputs: Inputs, signs: Sequence[Signs]) -> Passages:
    """Return sentences of every fault with the outputs that have it, those of few systems first."""
    having: dict[str, dict[int, list[str]]] = {}
    for of in signs:
        for kind, lines_of in of.lines.items():
            for line in lines_of:
                having.setdefault(kind, {}).setdefault(line, []).append(of.name)
    outputs = {system.name: system.outputs[0] for system in inputs.systems}
    kinds: dict[str, list[Passage]] = {}
    for kind, by_line in having.items():
        for line, names in sorted(by_line.items(), key=lambda pair: (len(pair[1]), pair))[:SHOWN]:
            lines: list[tuple[str, Runs]] = [("reference", [(inputs.refs[line - 1], "")])]
            if inputs.sources is not None:
                lines.insert(0, ("source", [(inputs.sources[line - 1], "")]))
            of_systems = [(name, [(outputs[name][line - 1], "")]) for name in names]
            passage = Passage(f"line {line}", [*lines, *equal_once(of_systems)])
            kinds.setdefault(kind, []).append(passage)
    return Passages(kinds)


def answer_gaming(data: Gaming, examples: Passages) -> Answer:
    """Show warnings first, then the systems' faults and signs, and sentences to read."""
    signs = data.systems
    kinds = list(signs[0].faults)
    counted = [
        [system.name, *(f"{round(system.faults[k], 1):g}" for k in kinds)] for system in signs
    ]
    parts: list[Part] = [make_table(["Sentences", *kinds], counted)]
    rows = [
        [
            of.name,
            *(optional(value(of), form) for value, form in COLUMNS.values()),
            Cell(", ".join(of.outside), style="bad" if of.outside else ""),
        ]
        for of in signs
    ]
    parts.append(make_table(["System", *COLUMNS, "outside the band"], rows))
    parts += [examples] if examples.kinds else []
    fine = "every sign is inside its band, or no reward rose"
    if len(signs) < 2:
        fine = "nothing to watch: no second system"
    return Answer(
        "gaming",
        "What goes wrong in the outputs?",
        "Empty, untranslated, looping and unrelated outputs; and length and repetition: what goes "
        "wrong when a model finds outputs that the reward likes and a reader does not.",
        "What goes wrong in the outputs",
        parts,
        asdict(data),
        warnings=data.warnings,
        notes=[
            *([] if data.warnings else [fine]),
            *(f"{kind}: {data.rules[kind]}" for kind in kinds),
            f"band: {data.band}",
            *data.notes,
        ],
        signatures=data.signatures,
    )

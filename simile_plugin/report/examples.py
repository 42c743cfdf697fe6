"""Sentences on which two systems differ by one metric and not by the other (Tables 71 and 72)."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from simile_plugin.files import InputError
from simile_plugin.report.scores import ScoreSettings
from simile_plugin.report.systems import System
from simile_plugin.reward import ListScores, bleu_signature, score_outputs, signature

WIDTH = 100


@dataclass(frozen=True)
class Example:
    """One sentence of both systems.

    Attributes:
        line: of the files, from 1.
        bleu, sim: sentence scores of the first and the second system, in percent.
        delta_bleu, delta_sim: second minus first.
        contrast: |delta_bleu| - |delta_sim|.
    """

    line: int
    source: str | None
    ref: str
    first: str
    second: str
    bleu: tuple[float, float]
    sim: tuple[float, float]
    delta_bleu: float
    delta_sim: float
    contrast: float


@dataclass(frozen=True)
class ExamplesResult:
    """Both ends of the ranking by contrast.

    Attributes:
        sentences: how many there are; different: on how many the outputs differ.
        by_bleu: BLEU differs most and SIM least, the largest contrast first.
        by_sim: SIM differs most and BLEU least, the smallest contrast first.
    """

    first_name: str
    second_name: str
    sentences: int
    different: int
    by_bleu: tuple[Example, ...]
    by_sim: tuple[Example, ...]
    signatures: dict[str, str]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        return asdict(self)


def analyse_examples(
    pair: tuple[System, System],
    refs: Sequence[str],
    settings: ScoreSettings,
    sources: Sequence[str] | None = None,
    number: int = 10,
    progress: Callable[[int], object] | None = None,
    scores: ListScores | None = None,
) -> ExamplesResult:
    """Rank the sentences by |dBLEU| - |dSIM| and keep `number` at either end.

    Of a system with several seeds the first is shown. Sentences with equal outputs are left out.

    Args:
        progress: called with the number of sentences just scored.
        scores: (N, 2) of the pair's first seeds, where they are known already.

    Raises:
        ValueError: without an encoder, or for a number below 1.
    """
    if settings.encoder is None:
        raise InputError("--encoder: not given; examples compare BLEU with SIM, which needs one")
    if number < 1:
        raise InputError(f"--examples: got {number}; expected at least 1")
    outputs = [system.outputs[0] for system in pair]
    scores = scores or score_outputs(
        outputs, refs, settings.encoder, settings.alpha, settings.tokenize, progress
    )
    assert scores.sim is not None
    bleu, sim = (100 * values.double().numpy() for values in (scores.bleu, scores.sim))
    contrast = np.abs(bleu[:, 1] - bleu[:, 0]) - np.abs(sim[:, 1] - sim[:, 0])
    different = [i for i in range(len(refs)) if outputs[0][i] != outputs[1][i]]
    ranked = sorted(different, key=lambda i: (-contrast[i], i))
    found = {
        i: Example(
            i + 1,
            sources[i] if sources is not None else None,
            refs[i],
            outputs[0][i],
            outputs[1][i],
            (float(bleu[i, 0]), float(bleu[i, 1])),
            (float(sim[i, 0]), float(sim[i, 1])),
            float(bleu[i, 1] - bleu[i, 0]),
            float(sim[i, 1] - sim[i, 0]),
            float(contrast[i]),
        )
        for i in {*ranked[:number], *ranked[-number:]}
    }
    several = [system.name for system in pair if len(system.outputs) > 1]
    return ExamplesResult(
        pair[0].name,
        pair[1].name,
        len(refs),
        len(different),
        tuple(found[i] for i in ranked[:number] if contrast[i] > 0),
        tuple(found[i] for i in ranked[::-1][:number] if contrast[i] < 0),
        {
            "BLEU": f"sentence, +1 on orders 2 to 4; {bleu_signature(settings.tokenize)}",
            "SIM": signature(settings.encoder, settings.alpha),
        },
        tuple(f"{name}: the first seed" for name in several),
    )


def format_examples(result: ExamplesResult) -> str:
    """Both ends, a block a sentence."""
    names = f"{result.first_name} and {result.second_name}"
    heading = (
        f"Examples: {names} differ on {result.different:,} of {result.sentences:,} sentences; "
        "ranked by |dBLEU| - |dSIM|"
    )
    parts = [heading]
    for title, examples in (
        ("BLEU differs more than SIM", result.by_bleu),
        ("SIM differs more than BLEU", result.by_sim),
    ):
        blocks = [_block(result, example) for example in examples] or ["none"]
        parts += [f"{title}\n{'-' * len(title)}", *blocks]
    parts.append(
        "\n".join([*result.notes, *(f"{name}: {text}" for name, text in result.signatures.items())])
    )
    return "\n\n".join(parts) + "\n"


def _block(result: ExamplesResult, example: Example) -> str:
    scores = (
        f"line {example.line}: BLEU {example.bleu[0]:.1f} -> {example.bleu[1]:.1f} "
        f"({example.delta_bleu:+.1f}), SIM {example.sim[0]:.1f} -> {example.sim[1]:.1f} "
        f"({example.delta_sim:+.1f})"
    )
    texts = {"reference": example.ref}
    if example.source is not None:
        texts = {"source": example.source, **texts}
    texts |= {result.first_name: example.first, result.second_name: example.second}
    margin = max(map(len, texts)) + 4
    lines = [
        textwrap.fill(f"  {name:<{margin - 4}}  {text}", WIDTH, subsequent_indent=" " * margin)
        for name, text in texts.items()
    ]
    return "\n".join([scores, *lines])

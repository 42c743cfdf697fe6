"""Facts on the input of a fit, for the folder of the learned reward, and checks of this input."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simile_plugin.evaluation.harm import HARMS
from simile_plugin.evaluation.judgements import Judgements
from simile_plugin.evaluation.reward_weights import HARM_FLOOR, HARM_SLOPE, KIND_WEIGHTS, RIDGE
from simile_plugin.files import InputError, refuse_twice
from simile_plugin.reward import FEATURES

FEWEST_SEGMENTS = 20  # of a file, for twelve weights
SHARED = 50  # one of so many segments may stand in another file by chance
Text = tuple[str, Sequence[str]]  # name of a file, and its lines


def check_fit(files: Sequence[Judgements], texts: Sequence[Text]) -> None:
    """Raise InputError for judgements or texts that a fit cannot be made of."""
    for named, given in (("--judgements", files), ("--text", texts)):
        if not given:
            raise InputError(f"{named}: got no file, expected one or more")
    for judged in files:
        pairs = zip(judged.hyps, judged.refs, strict=True)
        count = sum(bool(hyp.strip() and ref.strip()) for hyp, ref in pairs)
        if count < FEWEST_SEGMENTS:
            words = " with words on both sides" if count < len(judged.human) else ""
            raise InputError(
                f"--judgements: {judged.path}: {count} judged segments{words}, expected "
                f"{FEWEST_SEGMENTS} or more to fit {len(FEATURES)} weights"
            )
    seen: dict[str, str] = {}
    for judged in files:
        same = seen.setdefault(_digest(_rows(judged)), judged.path)
        if same != judged.path or [part.path for part in files].count(judged.path) > 1:
            raise InputError(
                f"--judgements: {judged.path} has the same content as {same}; it would be judged "
                "by itself"
            )
    refuse_twice((path for path, _ in texts), "--text")
    for path, lines in texts:
        if not any(map(str.strip, lines)):
            raise InputError(f"--text: {path} is empty; expected sentences, one a line")


def shared_segments(files: Sequence[Judgements]) -> str:
    """Return what to say where a file has segments of another, on which it is judged, or "".

    A fiftieth of its segments stand there with hypothesis and reference, as where several people
    judged the same ones. Of the files of WMT 2015 and MLQE-PE 0.4% do at most.
    """
    pairs = {judged.path: [*zip(judged.hyps, judged.refs, strict=True)] for judged in files}
    held_by: dict[tuple[str, str], set[str]] = {}
    for path, segments in pairs.items():
        for segment in segments:
            held_by.setdefault(segment, set()).add(path)
    for path, segments in pairs.items():
        shared = [segment for segment in segments if len(held_by[segment]) > 1]
        if SHARED * len(shared) > len(segments):
            other = min(held_by[shared[0]] - {path})
            return (
                f"{len(shared)} of {len(segments)} segments of {path} stand in other files, too "
                f"({other} first): the rewards that are judged on them are fitted without them, to "
                "fewer segments; give one file with the mean score of each segment"
            )
    return ""


def data_facts(files: Sequence[Judgements], texts: Sequence[Text]) -> dict[str, Any]:
    """Return names, lengths and digests of the files that were fitted to, and the harm's settings.

    Digests are of the lines that were used.
    """
    return {
        "judgements": [_file_facts(judged.path, _rows(judged)) for judged in files],
        "text": [_file_facts(path, lines) for path, lines in texts],
        "ridge": RIDGE,
        "harm": {
            "kinds": [name for name, _ in HARMS],
            "floor": HARM_FLOOR,
            "slope": HARM_SLOPE,
            "kind_weights": KIND_WEIGHTS,
        },
    }


def shared_names(files: Sequence[Judgements]) -> dict[str, str]:
    """Return a distinct name of each path, without its folders: people share the reward."""
    names: dict[str, str] = {}
    for judged in files:
        name = Path(judged.path).name
        names[judged.path] = f"{name} ({len(names) + 1})" if name in names.values() else name
    return names


def _rows(judged: Judgements) -> list[str]:
    cells = zip(judged.hyps, judged.refs, judged.human.tolist(), strict=True)
    return ["\t".join(map(str, row)) for row in cells]


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _file_facts(path: str, lines: Sequence[str]) -> dict[str, Any]:
    return {"file": Path(path).name, "lines": len(lines), "sha256": _digest(lines)}

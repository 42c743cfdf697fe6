"""What fairseq-train wrote about validation into --tensorboard-logdir."""

from __future__ import annotations

import os

from simile_plugin.files import InputError

Validations = dict[int, dict[str, float]]  # update -> key -> number


def is_tensorboard(path: str) -> bool:
    """Return whether `path` is a folder or an event file rather than a log of text."""
    return os.path.isdir(path) or os.path.basename(path).startswith("events.out.tfevents")


def read_tensorboard(path: str, flag: str, subset: str = "valid") -> Validations:
    """Read the validations of one run from its TensorBoard files.

    path: fairseq's --tensorboard-logdir, its folder of the validation set, or one event file.
    As in a log, a resumed run is one run: where updates step back, what came after is dropped.

    Raises:
        InputError: if the package tensorboard is missing, or there are no numbers.
    """
    inside = os.path.join(path, subset)
    source = inside if os.path.isdir(inside) else path
    written: list[tuple[float, int, str, float]] = []
    for name in _event_files(source):
        written += _scalars(name, flag)
    if not written:
        raise InputError(
            f"{flag}: {path} has no TensorBoard numbers of '{subset}'; expected the folder that "
            "fairseq-train was given as --tensorboard-logdir, with validation on"
        )
    found: Validations = {}
    for _, update, key, value in sorted(written):
        if any(later > update for later in found):
            found = {earlier: kept for earlier, kept in found.items() if earlier <= update}
        found.setdefault(update, {})[key] = value
    return found


def _event_files(source: str) -> list[str]:
    if not os.path.isdir(source):
        return [source]
    names = sorted(name for name in os.listdir(source) if "tfevents" in name)
    return [os.path.join(source, name) for name in names]


def _scalars(path: str, flag: str) -> list[tuple[float, int, str, float]]:
    """Return (time, update, key, value) of every number in an event file, whole records only."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        raise InputError(
            f"{flag}: {path} is read by the package tensorboard, which is missing; install it "
            "(pip install tensorboard), or give fairseq-train's text log"
        ) from error
    # 0: keep every number. Steps back are judged over all files of a run, not in one.
    events = EventAccumulator(path, size_guidance={"scalars": 0}, purge_orphaned_data=False)
    events.Reload()
    return [
        (event.wall_time, int(event.step), tag, float(event.value))
        for tag in events.Tags()["scalars"]
        for event in events.Scalars(tag)
    ]

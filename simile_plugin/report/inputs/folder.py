"""The files of a comparison, found by their names in one folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from simile_plugin.files import InputError
from simile_plugin.report.inputs.texts import Texts

LAYOUT = """\
  ref.txt              references, one sentence a line (any ending, .gz too)
  src.txt              sources, if you have them
  groups.txt           the domain or document of each sentence, if you have them
  systems/NAME.txt     translations by the system NAME; of several seeds NAME.1.txt, NAME.2.txt
  encoder/             reward encoder, for SIM and SIMILE
  logs/NAME.log        training log; of several seeds NAME.1.log, NAME.2.log
  nbest.txt            n-best lists before fine-tuning, as fairseq-generate printed them
  nbest/               translations by systems trained with n-best lists of other sizes
  human/key.json       key of a human evaluation, human/*.tsv the answers"""
SEED = re.compile(r"(.+)\.(\d+)")
# The paper's order, so that the last system is the one that the table is about.
FIRST = ("mle", "bleu", "half")
LAST = ("simile",)
COSTS = (b"cost_bleu", b"cost_simile")


@dataclass(frozen=True)
class FolderFiles:
    """What is in a folder; None or empty where there is nothing.

    systems, logs: name -> one file a seed. human: the key -> the answers. left_out: files that are
    there and not used, with the reason.
    """

    ref: str | None = None
    src: str | None = None
    groups: str | None = None
    encoder: str | None = None
    nbest_lists: str | None = None
    nbest_folder: str | None = None
    systems: dict[str, tuple[str, ...]] = field(default_factory=dict)
    logs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    human: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def find_files(folder: str, texts: Texts) -> FolderFiles:
    """Look for the parts of a comparison (`LAYOUT`) in a folder.

    Raises:
        InputError: if it is no folder, holds none of them, two references, or answers without key.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"FOLDER: {folder} is no folder; expected one with ref.txt and systems/")
    logs = _by_seed(p for p in _files(root / "logs") if p.suffix in (".log", ".txt", ".json"))
    silent = {
        name for name, paths in logs.items() if not all(_has_costs(path, texts) for path in paths)
    }
    systems = files_by_seed(str(root / "systems"))
    nbest_folder = _folder(root / "nbest")
    ref = _only(root, "ref")
    files = FolderFiles(
        ref if systems or nbest_folder else None,  # logs alone need none
        _only(root, "src"),
        _only(root, "groups"),
        _folder(root / "encoder"),
        _only(root, "nbest"),
        nbest_folder,
        systems,
        {name: paths for name, paths in logs.items() if name not in silent},
        _human(root / "human"),
        tuple(
            f"log of {name}: no validation costs (not trained by simile_risk)"
            for name in sorted(silent)
        ),
    )
    if not (files.systems or files.logs or files.nbest_lists or files.human):
        raise InputError(
            f"FOLDER: {folder} holds neither systems/NAME.txt nor logs/NAME.log; "
            "simile report --help shows the layout"
        )
    return files


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))


def _only(root: Path, stem: str) -> str | None:
    paths = [path for path in _files(root) if path.name.split(".")[0] == stem]
    if len(paths) > 1:
        names = " and ".join(path.name for path in paths)
        raise InputError(f"FOLDER: {root} holds {names}; expected one file {stem}.txt")
    return str(paths[0]) if paths else None


def _folder(path: Path) -> str | None:
    return str(path) if path.is_dir() else None


def files_by_seed(folder: str) -> dict[str, tuple[str, ...]]:
    """Return the outputs in a folder, see `_by_seed`."""
    return _by_seed(path for path in _files(Path(folder)) if path.suffix != ".log")


def _by_seed(paths: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Return system -> its files in the order of their seeds; systems in the paper's order.

    Raises:
        InputError: for two files of one seed, or a name with control characters.
    """
    named: dict[str, dict[int, str]] = {}
    for path in paths:
        stem = Path(path.name.removesuffix(".gz")).stem
        match = SEED.fullmatch(stem)
        name, seed = (match[1], int(match[2])) if match else (stem, 0)
        if not name.isprintable():
            raise InputError(f"FOLDER: {path}: got control characters in a name; name it otherwise")
        if (other := named.setdefault(name, {}).setdefault(seed, str(path))) != str(path):
            raise InputError(
                f"FOLDER: {other} and {path.name} are one seed of {name}; keep one of them, or "
                f"number the seeds: {name}.1.txt, {name}.2.txt"
            )
    return {
        name: tuple(path for _, path in sorted(own.items()))
        for name, own in sorted(named.items(), key=lambda pair: _place(pair[0]))
    }


def _place(name: str) -> tuple[int, str]:
    word = name.casefold()
    if word in FIRST:
        return FIRST.index(word), name
    return (len(FIRST) + (word in LAST), name)


def _has_costs(path: str, texts: Texts) -> bool:
    data = texts.bytes(path, "--log")
    return any(cost in data for cost in COSTS)


def _human(folder: Path) -> dict[str, tuple[str, ...]]:
    answers = tuple(str(path) for path in _files(folder) if path.suffix in (".tsv", ".csv"))
    key = folder / "key.json"
    if answers and not key.is_file():
        raise InputError(f"FOLDER: {folder} holds answers but no key.json; copy the key there")
    return {str(key): answers} if answers else {}

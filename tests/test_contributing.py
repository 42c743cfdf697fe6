"""The map of CONTRIBUTING.md and the table of equations say what the code is."""

import importlib
import re
from pathlib import Path

import pytest

from simile_plugin.risk import SENTENCE_MEANS
from tests.conftest import SLOW
from tests.test_architecture import ALLOWED, ROOMS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EQUATIONS = (ROOT / "docs" / "reference" / "equations.md").read_text("utf-8")
# | `room/` | what it answers | room, room |; rewards.py is no folder
MAP = dict(re.findall(r"(?m)^\| `(\w+)(?:/|\.py)` \|.*\| ([\w, ]+) \|$", TEXT))
# `room/file.py`: `name`, `Class.name`
PLACES = [
    (path, name)
    for path, names in re.findall(r"`([\w/]+\.py)`: (`[\w.]+`(?:, `[\w.]+`)*)", EQUATIONS)
    for name in re.findall(r"`([\w.]+)`", names)
]


def test_the_map_has_every_room_and_whom_it_imports() -> None:
    assert MAP.keys() == ROOMS
    said = {room: set(others.split(", ")) - {"nothing"} for room, others in MAP.items()}
    known = {room: others & ROOMS for room, others in ALLOWED.items()}
    assert {room: said[room] for room in known} == known


def test_there_are_equations() -> None:
    assert len(PLACES) >= 15


@pytest.mark.parametrize(("path", "name"), PLACES)
def test_an_equation_is_where_the_page_says(path: str, name: str) -> None:
    module = importlib.import_module(f"simile_plugin.{path.removesuffix('.py').replace('/', '.')}")
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    found = getattr(found, "fget", found)  # of a property, its function
    assert (found.__module__, found.__qualname__) == (module.__name__, name)


def test_the_page_of_the_log_names_what_validation_logs() -> None:
    """The names in metrics.py, of phases as `ms_*`."""
    source = (ROOT / "simile_plugin/fairseq_training/metrics.py").read_text("utf-8")
    logged = {*re.findall(r'log_\w+\(f?"([a-z]\w*)', source), *SENTENCE_MEANS}
    text = (ROOT / "docs" / "reference" / "log.md").read_text("utf-8")
    assert {name for name in logged if f"`{name}" not in text} == set()


@pytest.mark.parametrize("entry", SLOW)
def test_what_is_listed_as_slow_is_there(entry: str) -> None:
    path, _, name = entry.partition("::")
    assert (ROOT / path).exists()
    assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8")

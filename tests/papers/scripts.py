"""The scripts of recipes/papers, whose folders are named for people and not for Python."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

PAPERS = Path(__file__).parents[2] / "recipes" / "papers"


def script(paper: str, name: str) -> ModuleType:
    """Import a script as `python NAME.py` does, beside the others of its paper."""
    folder = str(PAPERS / paper)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)

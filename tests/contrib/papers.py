"""The scripts of recipes/papers, whose folders are named for people and not for Python."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

PAPERS = Path(__file__).parents[2] / "recipes" / "papers"
BGT = "wieting-2020-bilingual-generative-transformer"
SCPN = "iyyer-2018-syntactically-controlled-paraphrases"
FIND = "kanerva-2021-paraphrase-span-detection"
DETECT = "sjoblom-2018-paraphrase-detection"
MINE = "artetxe-2019-margin-based-mining"
LANGUAGES = "wieting-2019-paraphrastic-similarity-from-bitext"


def script(paper: str, name: str) -> ModuleType:
    """Import a script as `python NAME.py` does, beside the others of its paper."""
    folder = str(PAPERS / paper)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)

"""The defaults of the code are those of the table in docs/training.md."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from simile_plugin.files import flag_name
from simile_plugin.risk import RiskSettings

ROOT = Path(__file__).parents[2]
DEFAULTS = {flag_name(field.name): field.default for field in fields(RiskSettings)}


def table(page: str) -> dict[str, str]:
    """Flags and defaults of its rows | `--flag`, `--other` | 1, 2 | meaning |."""
    found: dict[str, str] = {}
    for line in (ROOT / page).read_text("utf-8").splitlines():
        if line.startswith("| `--"):
            _, names, values, *_ = line.replace("`-b`", "`--risk-max-len-b`").split("|")
            flags = re.findall(r"--[a-z-]+", names)
            found |= zip(flags, (value.strip(" `") for value in values.split(",")), strict=True)
    return found


def meant(default: Any, text: str) -> Any:
    """What a cell of the table says, in the type of the default."""
    if default is None or isinstance(default, bool):
        return {"": None, "off": False, "on": True}[text]
    return type(default)(text)


@pytest.mark.parametrize(("page", "least"), [("docs/training.md", 18)])
def test_defaults_are_those_of_the_page(page: str, least: int) -> None:
    said = {name: text for name, text in table(page).items() if name in DEFAULTS}
    assert len(said) >= least
    for name, text in said.items():
        assert meant(DEFAULTS[name], text) == DEFAULTS[name], f"{page}: {name}"

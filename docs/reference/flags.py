"""Print docs/reference/flags.md: every flag of a fine-tuning with both of its defaults.

python docs/reference/flags.py >docs/reference/flags.md

The dataclasses behind the command lines are the source: names, defaults and help texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.files import flag_name
from simile_plugin.finetuning import PRESETS, FairseqOptions, HuggingFaceOptions, Options
from simile_plugin.risk import RiskSettings

START = """\
# Flags

For people who set a fine-tuning by hand. After this page you know every flag, and what it is where
you do not give it. 5 minutes to look up.

This page is made by `python docs/reference/flags.py` from the dataclasses of the code, and a test
checks that it is current. A flag has two defaults. The *criterion* column is for `fairseq-train
--criterion simile_risk` and `SimileRiskArguments`. The *command* column is for `simile finetune`
and `simile finetune-hf`, whose `--preset short` replaces some values. The [glossary](glossary.md)
explains the words.

In short, the commands take 30 sentences an update and 8 candidates of each, by a beam of as many.
They validate every 100 updates. Candidates have at most 1.5 times the tokens of the longest source
of their batch, and 10 more. `finetune-hf` cuts sentences at 128 tokens.
"""


def field_rows(kind: type, without: Iterable[str] = ()) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass that are flags, but those of these names."""
    left_out = set(without)
    return [
        field
        for field in dataclasses.fields(kind)
        if "help" in field.metadata and field.name not in left_out
    ]


def shown(value: Any) -> str:
    """Return a default as a cell of a table; nothing for a flag that has none."""
    if value is dataclasses.MISSING or value in (None, ""):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a markdown table, whose cells may hold bars."""
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    cells = ((cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def flag(field: dataclasses.Field[Any]) -> str:
    """Return the name that a field has on a command line."""
    name = str(field.metadata.get("names", [flag_name(field.name)])[0])
    return f"`{name if name.startswith('-') else field.metadata.get('metavar', name)}`"


def risk_table(preset: Mapping[str, Any]) -> str:
    """Return the flags of the risk, by the criterion and by the commands."""
    rows = []
    for field in field_rows(RiskSettings):
        # The commands call it --encoder, and take the longer name, too.
        name = "`--simile-encoder`, `--encoder`" if "encoder" in field.name else flag(field)
        default = shown(field.default)
        command = shown(preset[field.name]) if field.name in preset else default
        rows.append((name, default, command, str(field.metadata["help"])))
    return table(("flag", "criterion", "command", "meaning"), rows)


def options_table(kind: type, preset: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """Return flags that the criterion does not have."""
    rows = [
        (
            flag(field),
            # Of the two commands there is a default each, which the meaning has.
            shown(preset.get(field.name, field.default)) if field.name != "learning_rate" else "",
            str(field.metadata["help"]),
        )
        for field in field_rows(kind, without)
    ]
    return table(("flag", "default", "meaning"), rows)


# The default rate depends on what is trained.
RATES: dict[str, dict[str, bool]] = {
    "simile finetune": {},
    "simile finetune-hf": {"pretrained": True},
    "simile finetune-hf --lora": {"pretrained": True, "adapters": True},
}


def presets_table() -> str:
    """Return the values of the presets, a column each."""
    rows: list[tuple[str, ...]] = []
    for field in dataclasses.fields(next(iter(PRESETS.values()))):
        name = f"`{flag_name(field.name)}`"
        if field.name == "learning_rate":
            for command, kind in RATES.items():
                rates = (preset.flags(**kind)[field.name] for preset in PRESETS.values())
                rows.append((f"{name} of `{command}`", *map(shown, rates)))
            continue
        values = (getattr(preset, field.name) for preset in PRESETS.values())
        rows.append((name, *(shown(value) or "10 epochs" for value in values)))
    return table(("flag", *(f"`{name}`" for name in PRESETS)), rows)


def page() -> str:
    """Return the page."""
    short = dataclasses.asdict(PRESETS["short"])
    shared = [field.name for field in dataclasses.fields(Options)]
    risk = [field.name for field in dataclasses.fields(RiskSettings)]
    parts = (
        ("", START),
        ("The risk: criterion and commands", risk_table(short)),
        (
            "Presets of the commands",
            presets_table() + "\nA model of `simile finetune-hf` came pretrained, so that its rate "
            "is a tenth of a fairseq\nmodel's.\n",
        ),
        ("The run: both commands", options_table(Options, short)),
        (
            "`simile finetune-hf` alone",
            options_table(HuggingFaceOptions, {}, shared),
        ),
        ("`simile finetune` alone", options_table(FairseqOptions, {}, shared)),
        (
            "fairseq's criterion alone",
            options_table(SimileRiskConfig, {}, [*risk, "_name", "seed"])
            + "\n`simile finetune` takes these in `--fairseq-flags`.\n",
        ),
    )
    return "\n".join(f"## {title}\n\n{text}" if title else text for title, text in parts)


if __name__ == "__main__":
    print(page(), end="")

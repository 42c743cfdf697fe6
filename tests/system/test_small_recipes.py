"""Recipes that train small models, in miniature: every step by its real commands."""

import gzip
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.installed import this_environment
from tests.test_recipe_settings import STAND_INS

ROOT = Path(__file__).resolve().parents[2]
LINES = {"train": 1500, "val": 12, "test_2016_flickr": 12}
SMALL = " ".join(
    f"--{side}-layers 1 --{side}-embed-dim 32 --{side}-ffn-embed-dim 32 --{side}-attention-heads 2"
    for side in ("encoder", "decoder")
)
GERMAN = str.maketrans("aeioubdgkl", "oaeuipsktm")  # of a made-up English word

Run = Callable[..., str]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Word-by-word bitext of 3,000 words where the recipes look for Multi30k."""
    generator = random.Random(1)
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(generator.choices(syllables, k=3)) for _ in range(3000)]
    folder = tmp_path / "data/multi30k/task1"
    folder.mkdir(parents=True)
    for name, count in LINES.items():
        english = [" ".join(generator.choices(words, k=generator.randint(3, 8)))
                   for _ in range(count)]  # fmt: skip
        for language, text in (("en", english), ("de", [x.translate(GERMAN) for x in english])):
            with gzip.open(folder / f"{name}.{language}.gz", "wt") as stream:
                stream.writelines(f"{line}.\n" for line in text)
    captions = tmp_path / "data/multi30k/task2"
    captions.mkdir()
    for number in range(1, 6):
        (captions / f"train.{number}.en.gz").write_bytes((folder / "val.en.gz").read_bytes())
    return tmp_path / "data"


@pytest.fixture
def run(tmp_path: Path, data: Path, encoder_folder: Path) -> Run:
    """run(recipe, *arguments, SETTING=value) -> what it printed."""
    tools = tmp_path / "tools"  # the text is not the one of SHA256SUMS
    tools.mkdir()
    (tools / "sha256sum").write_text(f"#!/bin/bash\n{STAND_INS['sha256sum']}\n")
    (tools / "sha256sum").chmod(0o755)
    variables = {
        **this_environment(tmp_path),
        **{"PATH": f"{tools}:{os.environ['PATH']}", "SIMILE_DATA": str(data), "SEEDS": "1"},
        **{"ENCODER": str(encoder_folder), "REWARDS": "bleu simile"},
        **{"JOBS": "1", "FLAGS": SMALL, "MLE_FLAGS": SMALL},
    }

    def start(recipe: str, *arguments: str | Path, **settings: str | Path) -> str:
        done = subprocess.run(
            ["bash", ROOT / "recipes" / recipe, *arguments],
            env={**variables, **settings}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    return start


def systems(table: Path) -> list[str]:
    """Names in the first column of the table of results."""
    return re.findall(r"^\| (?!System|:)(.*?)(?: \(baseline\))? \| \d", table.read_text(), re.M)


def test_multi30k_and_what_starts_from_its_model(run: Run, tmp_path: Path) -> None:
    base, tiny = tmp_path / "multi30k", {"MLE_EPOCHS": "1", "RISK_UPDATES": "2"}
    run("multi30k/run.sh", WORK=base, REWARDS="simile", **tiny)
    assert systems(base / "results.md")[:2] == ["MLE", "SIMILE"]
    assert (base / "report.html").stat().st_size > 10_000
    steps = ("data", "bin", "mle", "mle-test", "mle-nbest", "simile.1")
    assert all((base / ".done" / step).is_file() for step in steps)

    few = {"SENTENCES": "12", "N": "4", "UPDATES": "2"}
    run("mbr/run.sh", BASE=base, WORK=tmp_path / "mbr", **few)
    assert systems(tmp_path / "mbr/results.half.md")[:3] == ["MLE", "MBR-FT", "MRT"]
    chosen = (tmp_path / "mbr/half/train.mbr").read_text().splitlines()
    assert len(chosen) == 12

    raw = base / "raw"
    run(
        "papers/wieting-2018-paranmt-50m/run.sh",
        *(base / "mle/checkpoint_best.pt", base / "bin", base / "bpe/nmt.model"),
        *(raw / "test.de", raw / "test.en", "-s", "de", "-t", "en", "--max-len-b", "12"),
        WORK=tmp_path / "back", PART="10", BEAM="2", ENCODER="",
        FILTERS="--max-overlap 1 --min-tokens 1 --keep-duplicates",
    )  # fmt: skip
    pairs = (tmp_path / "back/paraphrases.tsv").read_text().splitlines()
    references = (raw / "test.en").read_text().splitlines()
    assert pairs and {pair.split("\t")[0] for pair in pairs} <= set(references)


def test_hugging_face(run: Run, tmp_path: Path) -> None:
    work, tiny = tmp_path / "hf", {"MLE_EPOCHS": "1", "RISK_UPDATES": "2", "SENTENCES": "24"}
    flags = {
        "MLE_FLAGS": "--vocab-size 120 --layers 1 --width 16",
        "RISK_FLAGS": "--risk-candidates 2",
    }
    run("hf/run.sh", WORK=work, REWARDS="simile more-mle", **tiny, **flags)
    assert systems(work / "results.md")[:3] == ["MLE", "SIMILE", "MORE-MLE"]

"""Every command of README, tutorials and how-to guides runs, and prints what the page shows."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.examples.blocks import OTHERS, PAGES, ROOT, Block, blocks_of, missing_lines
from tests.examples.conftest import TINY
from tests.examples.shell import Shell

# What is not run, by its beginning, and why. Everything else is.
COMET = "needs a COMET checkpoint; tests/reward/test_comet_recipe.py and test_judges.py"
NOT_RUN = {
    "pip install": "needs the network",
    "python3.12 -m venv": "needs the network",
    "ct2-transformers-converter": "needs CTranslate2, which nothing here depends on",
    "recipes/test.sh": "is what runs this",
    "recipes/quickstart/run.sh": "6 minutes; tests/system/test_toy_run.py runs it small",
    "recipes/encoder/bitext.sh": "minutes; tests/system/test_bitext_recipe.py runs it small",
    "REWARDS= recipes/lowresource/run.sh": "minutes; tests/system/test_bitext_recipe.py",
    "snakemake ": "hours; tests/system/test_grids.py plans each workflow",
    "SIMILE_DATA=... ENCODER=default recipes/evidence/step.sh": "hours; tests/system",
    "PYTHONPATH=recipes/reward simile finetune": COMET,
    "COMET_MODEL=FOLDER": COMET,
    "python recipes/reward/comet_reward.py": COMET,
    "simile report ... --src test.de --judge comet": COMET,
}
# What stands for the dots of a command, and what makes it small, by the command's beginning.
PAIRS = "--train train.de train.en --valid dev.de dev.en --encoder default"
SMALL = {
    "simile finetune-hf": "--max-updates 2 --valid-interval 1 --batch-size 4",
    "simile finetune ": "--max-updates 2 --valid-interval 1 --batch-size 4",
    "simile train-encoder": "--vocab-size 90",
    "simile distil-encoder FOLDER": "--vocab-size 90 --epochs 1",
    "simile distil-encoder default": "--overwrite",
}
# Where the page shows the output: five validations, of a model that is still learning.
LONGER = "--max-updates 48 --valid-interval 12 --batch-size 4 --learning-rate 1e-3"
DOTS = {
    "simile finetune-hf": f"Helsinki-NLP/opus-mt-de-en {PAIRS}",
    "simile report": "--ref test.en --sys SIMILE=before.en",
    "fairseq-train": f"{TINY} --task translation --max-update 2 --lr 1e-3",
}


def listed(table: dict[str, str], command: str) -> str:
    """Return the entry of the table that the command begins with, or "". Variables do not count."""
    plain = re.sub(r"^(\w+=\S+ )+", "", command)
    found = (
        entry for key, entry in table.items() if key in (command[: len(key)], plain[: len(key)])
    )
    return next(found, "")


def small(command: str, shows_output: bool) -> str:
    """Return the command with its dots filled in, and with flags that make it small."""
    command = re.sub(r"(?:MODEL )?\.\.\.", listed(DOTS, command), command)
    bare = re.sub(r"\s+#.*$", "", command)
    longer = shows_output and "finetune-hf" in command
    return f"{bare} {LONGER if longer else listed(SMALL, command)}"


def shown(block: Block) -> str:
    """Return what the page shows; it was written with torch's build for the CPU."""
    other = r"(?m)^ok +(torch|cuda) .*$" if torch.version.cuda else "$^"
    return re.sub(other, "...", block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_does_what_it_says(page: Path, world: Path, shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(world, folder, symlinks=True)
    if page.stem == "translate-and-compare":  # what both kinds of training leave
        shutil.copytree(folder / "tuned.1", folder / "tuned")
        shutil.copy(folder / "mle.pt", folder / "tuned" / "checkpoint_best.pt")
    printed = ""
    blocks = list(blocks_of(page))
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if block.kind == "python" and block.file:
            (folder / block.file).write_text(block.text + "\n")
        if block.kind == "output" and printed:
            missing = missing_lines(shown(block), printed)
            assert missing == [], f"{block.page}:{block.line} is not in\n{printed}"
        if block.kind == "commands":
            printed = ""
            for command in block.commands():
                if not listed(NOT_RUN, command):
                    shows = following is not None and following.kind == "output"
                    done = shell.run(small(command, shows), folder)
                    told = f"{block.page}:{block.line}: {command}\n{done.stdout[-3000:]}"
                    assert done.returncode == 0, told
                    printed += done.stdout.replace("Helsinki-NLP/opus-mt-de-en", "mle")


def test_what_is_not_run_is_short_and_on_the_pages() -> None:
    every = [
        command
        for page in PAGES
        for block in blocks_of(page)
        if block.kind == "commands"
        for command in block.commands()
    ]
    left_out = [command for command in every if listed(NOT_RUN, command)]
    unused = [
        key for key in NOT_RUN if not any(listed({key: "used"}, command) for command in left_out)
    ]
    assert unused == []
    assert (len(left_out), len(every)) == (22, 63)
    assert [begin for begin, page in OTHERS.items() if begin not in (ROOT / page).read_text()] == []

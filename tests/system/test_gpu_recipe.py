"""recipes/gpu/run.sh --rehearse: its parts in miniature, so that a GPU's minutes meet no typo."""

import gzip
import json
import random
import subprocess
from pathlib import Path

from recipes.gpu.measure import TRAIN
from tests.installed import ROOT, this_environment

WORDS = ["heron", "harbour", "baker", "ticket", "snow", "garden", "oven", "ferry", "museum", "map"]


def write_stand_in(folder: Path) -> None:
    """Bitext at the places of the recipe's: German is English, backwards."""
    generator = random.Random(1)
    for name in TRAIN:
        lines = [generator.choices(WORDS, k=generator.randint(3, 8)) for _ in range(30)]
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for side, text in (("en", lines), ("de", [[w[::-1] for w in line] for line in lines])):
            with gzip.open(f"{path}.{side}.gz", "wt", encoding="utf-8") as stream:
                stream.writelines(" ".join(line) + " .\n" for line in text)


def test_every_part_in_miniature(tmp_path: Path) -> None:
    write_stand_in(tmp_path / "data")
    work = tmp_path / "work"
    variables = {
        **this_environment(tmp_path),
        "SIMILE_DATA": str(tmp_path / "data"),
        "WORK": str(work),
    }

    for words in (["data"], ["--lease"]):
        done = subprocess.run(
            ["bash", ROOT / "recipes" / "gpu" / "run.sh", "--rehearse", *words],
            env=variables, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = json.loads((work / "results.json").read_text())
    assert found["data"]["bitext"]["train"] == 330
    assert found["tests"]["tests"]["on the device"] == {"passed": 2, "failures": []}
    assert found["hugging_face"]["t5"]["ours"]["seconds"] > 0
    for cell in found["update"].values():
        assert cell["sides"]["ours"]["total"] > 0 and cell["sides"]["floor"]["peak_gb"] > 0
        assert cell["reference tokens/s"] > cell["sentences/s"] > 0 and cell["GPU idle"] is None
    assert found["encoder"]["training"]["pairs/s"] > 0
    assert found["encoder"]["sentences"]["sentences/s"] > 0
    memory = found["memory"]
    assert memory["a batch that does not fit"]["--risk-max-tokens after it"] > 0
    assert not [cell for part in found.values() for cell in part.values() if "error" in cell]

"""The quickstart on a small world, by its real commands: does risk fall, and meaning improve?"""

import subprocess
from pathlib import Path

from simile_plugin.report.inputs.logs import read_validations
from tests.installed import this_environment

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    **{"WORDS": "3", "TRAIN": "800", "VALID": "104", "TEST": "200", "PAIRS": "2000", "JOBS": "1"},
    **{"MLE_UPDATES": "300", "RISK_UPDATES": "40", "RISK_BATCH": "32", "RISK_LR": "1e-3"},
}


def meaning(work: Path, system: str) -> float:
    """Percent of outputs whose meaning is right."""
    rows = (work / f"out/{system}.meaning").read_text().splitlines()
    return 100 * sum(row.startswith("1\t") for row in rows) / len(rows)


def test_risk_falls_and_meaning_improves_on_held_out_sentences(tmp_path: Path) -> None:
    work = tmp_path / "work"
    done = subprocess.run(
        ["bash", ROOT / "recipes/quickstart/run.sh"],
        env={**this_environment(tmp_path), **SMALL, "WORK": str(work), "REWARDS": "simile"},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    validations = read_validations(str(work / "logs/simile.log"), "simile.log")
    assert sorted(validations) == [0, 20, 40]
    assert validations[40]["cost_simile"] < 0.97 * validations[0]["cost_simile"]
    before, after = meaning(work, "mle"), meaning(work, "simile")
    print(f"right meanings: {before:.1f} % before, {after:.1f} % after risk training")
    assert 20 < before < 97
    assert after > before + 2
    assert "| SIMILE |" in (work / "results.md").read_text()

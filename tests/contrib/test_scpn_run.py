"""SCPN's run.sh in miniature: every step by its real commands, and not again."""

import re
import subprocess
from pathlib import Path

from tests.contrib.papers import PAPERS, SCPN
from tests.installed import this_environment

TINY = {
    **{"SIZE": "300", "WORDS": "2", "TEST": "10", "VALID": "10", "MORE": "10", "VOCABULARY": "100"},
    **{"UPDATES": "10", "MAX_TOKENS": "300", "BEAM": "2", "TEMPLATES": "2", "MIN_SIM": "-1"},
    **{"SIM_STEPS": "10", "STEPS": "10", "SEEDS": "1"},
}


def test_from_an_empty_folder_to_the_tables(tmp_path: Path) -> None:
    work = tmp_path / "work"
    variables = {**this_environment(tmp_path), "WORK": str(work), **TINY}

    def run(**settings: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(PAPERS / SCPN / "run.sh")]
        return subprocess.run(command, env=variables | settings, capture_output=True, text=True)

    done = run()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rows = re.findall(r"^\| (.*) \| (\d+) \| .* %", (work / "table.md").read_text(), re.M)
    counted = {name: int(outputs) for name, outputs in rows}
    systems = ("its paraphrase's template", "its paraphrase's whole parse", "no control")
    assert [counted[name] for name in (*systems, "nearest neighbour")] == [10] * 4
    parts = ("... that the meaning can have", "... that it cannot have")
    assert counted["frequent templates"] == 20 == sum(counted.get(part, 0) for part in parts)
    assert counted["nearest neighbour, kept"] == 10
    assert "| nearest neighbour | 10 | 100.0 % |" in (work / "table.md").read_text()
    assert (work / "judge.md").read_text().count("\n") == 2 + 6
    again = run(TREES="")
    assert again.returncode == 0
    steps = ("toy", "data", "encoder", "parse", "paraphrase", "plain", "parses", "followed")
    assert all(f"{step}: done before, skipped" in again.stdout for step in steps)
    alone = run(TREES=str(work / "toy/trees.tsv"))
    assert alone.returncode == 1 and alone.stderr.count("\n") == 1
    assert "run.sh: error: TREES: expected PAIRS with it" in alone.stderr

"""An environment for recipes in which nothing has to be installed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def this_environment(folder: Path) -> dict[str, str]:
    """Variables under which setup_venv finds that our own environment is installed."""
    venv = folder / "v"
    venv.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (venv / name).symlink_to(Path(sys.prefix) / name)
    variables = {
        **os.environ,
        "SIMILE_VENV": str(venv),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    show_key = f". '{ROOT}/recipes/common.sh'; _install() {{ echo \"$2\"; }}; setup_venv"
    key = subprocess.run(
        ["bash", "-c", show_key, "recipe"],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    for extra in ("", "hf"):  # tests install what hf needs
        (venv / f".simile-installed{extra}").write_text(key.stdout)
    return variables

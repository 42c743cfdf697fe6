"""No line of the package or a recipe unpickles or evaluates what stands in a file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for part in ("simile_plugin", "user_dir", "recipes")
    for path in sorted((ROOT / part).rglob("*.py"))
    # reliability: harnesses that run code of their own, on files of their own
    if not {"work", "reliability"} & set(path.relative_to(ROOT).parts)
]
FORBIDDEN = {
    *("eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads"),
    *("marshal.load", "shelve.open", "joblib.load", "yaml.load", "dill.load", "dill.loads"),
    *("os.system", "os.popen"),
}

# Checkpoints of COMET and PEAR may be pickles: read only where SIMILE_TRUST_PICKLE=1 says so.
ASKED_FIRST = {
    "simile_plugin/evaluation/neural_metrics.py": [
        "torch.load without weights_only=True",
        "torch.load with weights_only=not _is_trusted()",
    ]
}


def problems(source: str) -> list[str]:
    """What a module calls that would run, or might run, the contents of a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        flags = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if name in FORBIDDEN:
            found.append(name)
        if name == "torch.load" and flags.get("weights_only") != "True":
            found.append("torch.load without weights_only=True")
        if flags.get("allow_pickle", "False") != "False":
            found.append(f"{name} with allow_pickle")
        if flags.get("weights_only", "True") != "True":
            found.append(f"{name} with weights_only={flags['weights_only']}")
        if flags.get("shell", "False") != "False":
            found.append(f"{name} with shell")
    return found


def test_the_reader_finds_what_it_looks_for() -> None:
    source = "import torch\ntorch.load(p)\ntorch.load(p, weights_only=False)\neval(x)\n"
    assert len(problems(source)) == 4
    assert problems("torch.load(p, weights_only=True); model.eval(); run(['a'], shell=False)") == []


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_nothing_is_run(path: Path) -> None:
    allowed = ASKED_FIRST.get(path.relative_to(ROOT).as_posix(), [])
    assert problems(path.read_text("utf-8")) == allowed

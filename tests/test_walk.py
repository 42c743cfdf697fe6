"""recipes/benchmarks/walk.py: what it notes, and its counts, by hand."""

import importlib.util

import pytest

from recipes.benchmarks.walk import command_run, counts, main, walk

MODULES = {
    "a": "def first(call):\n    return call([x for x in (1, 2)])\ndef last():\n    return 3\n",
    "b": "def middle(values):\n    return (lambda: values)()\n",
}


def test_functions_are_noted_once_in_the_order_of_their_first_calls(tmp_path):
    loaded = {}
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        loaded[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded[name])

    def work():
        for _ in range(2):
            loaded["a"].first(loaded["b"].middle)
            loaded["a"].last()

    steps = walk(work, tmp_path)
    assert steps == [("a.py", "first"), ("b.py", "middle"), ("a.py", "last")]
    assert counts(steps) == {"files": 2, "functions": 3, "returns": 1}
    # without `first` and what it calls, which is `middle`
    assert walk(work, tmp_path, {"first"}) == [("a.py", "last")]


def test_a_file_that_is_not_left_has_no_return():
    steps = [("a.py", "f"), ("a.py", "g"), ("b.py", "h")]
    assert counts(steps) == {"files": 2, "functions": 3, "returns": 0}


def test_the_walk_of_a_command(tmp_path, capsys):
    for name, line in (("ref", "a red kite\n"), ("hyp", "a kite\n")):
        (tmp_path / name).write_text(line)
    assert main(["--command", f"score -r {tmp_path / 'ref'} -i {tmp_path / 'hyp'}"]) == 0
    *steps, sums, without = capsys.readouterr().out.splitlines()
    assert "cli/score.py\trun" in steps and "cli/_flags.py\tread_flags" in steps
    assert sums.endswith(" returns") and without.startswith("without set-up: ")
    files, files_without = int(sums.split()[0]), int(without.split()[2])
    assert files_without < files == len({step.split("\t")[0] for step in steps})
    with pytest.raises(RuntimeError, match="exit status 2"):
        command_run(f"score -r {tmp_path / 'none'} -i {tmp_path / 'hyp'}")()

"""Settings of checkpoints: read as Python would, never run."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin import fairseq_hooks
from simile_plugin.fairseq_hooks.safe_eval import evaluate


@pytest.mark.parametrize(
    "text",
    [
        *("[(512, 3)] * 20", "[(512, 3)] * 4 + [(1024, 3)] * 2 + 3 * [(9, 1)]", "True", "None"),
        *("(0.9, 0.98)", "1e-3", "-1", "[1, 2, 4]", "{'a': [1], 'b': 'x'}", " [] ", "'a' * 3"),
        "[(64, 1, 0.1)] + 2 * 3 * [(1, -1)]",
    ],
)
def test_what_fairseq_writes_is_read_as_eval_reads_it(text: str) -> None:
    assert evaluate(text) == eval(text)


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os').system('true')", "[(512, 3)] * 20 if print() else []"),
        *("[x for x in (1,)]", "(lambda: 1)()", "().__class__.__bases__", "{**{}}.x"),
        *("[0] * 10000000000", "[[0] * 9999] * 9999 * 9999", "[] * 99999999999999999999"),
        *("9 ** 9 ** 9", "f'{print()}'", "1 +", "(" * 5000, "1\0", ""),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected numbers, strings, True"):
        evaluate(text)


@given(st.text(alphabet="[]()*+-,.1a'_ {}:", max_size=20))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    try:
        evaluate(text)
    except ValueError as error:
        assert "expected numbers" in str(error)


def test_settings_of_a_checkpoint_are_not_run(tmp_path):
    from fairseq import utils
    from fairseq.models import fconv

    from tests.fairseq_models import make_model, make_task

    fairseq_hooks.install()
    trace = tmp_path / "ran"
    payload = f"[(16, 3)] if open({str(trace)!r}, 'w') else []"
    for name in ("encoder_layers", "decoder_layers", "decoder_attention"):
        with pytest.raises(ValueError, match="expected numbers, strings, True"):
            make_model("fconv", make_task(), **{name: payload})
    assert not trace.exists()
    assert utils.eval_str_list("[1, 2]", int) == [1, 2]
    assert fconv.eval("[(16, 3)] * 2") == [(16, 3), (16, 3)]
    fairseq_hooks.uninstall()


def test_every_module_of_fairseq_reads_literals_only():
    importlib.import_module("fairseq.tasks")
    fairseq_hooks.install()
    reading = set()
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith("fairseq.") and file:
            if re.search(r"(?<![\w.])eval\(", Path(file).read_text(encoding="utf-8")):
                assert vars(module)["eval"] is evaluate, name
                reading.add(name)
    assert {"fairseq.utils", "fairseq.models.fconv", "fairseq.models.hubert.hubert"} <= reading
    fairseq_hooks.uninstall()

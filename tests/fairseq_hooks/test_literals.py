"""Settings of checkpoints: read as Python would, never run."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.fairseq_hooks.literal import evaluate


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
        "__import__('os').system('true')",
        "[(512, 3)] * 20 if print() else []",
        "[x for x in (1,)]",
        "(lambda: 1)()",
        "().__class__.__bases__",
        "[0] * 10000000000",
        "[[0] * 9999] * 9999 * 9999",
        "'a' * 99999",
        "[] * 99999999999999999999",
        "[0] * 1e999",
        "9 ** 9 ** 9",
        "{**{}}.x",
        "f'{print()}'",
        "1 +",
        "(" * 5000,
        "1\0",
        "",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected numbers, strings, True"):
        evaluate(text)


def test_no_string_is_a_type_error_as_it_is_for_eval() -> None:
    for value in (True, None, 3):
        with pytest.raises(TypeError, match="expected a string"):
            evaluate(value)  # type: ignore[arg-type]


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(LITERALS.map(repr).filter(lambda text: "inf" not in text))
def test_literals_are_those_of_ast(text: str) -> None:
    assert evaluate(text) == ast.literal_eval(text)


@given(st.text(alphabet="[]()*+-,.1a'_ {}:", max_size=20))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    try:
        evaluate(text)
    except ValueError as error:
        assert "expected numbers" in str(error)

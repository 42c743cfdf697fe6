"""Settings that are written as Python, read without running them.

A checkpoint names its architecture and holds settings such as fconv's ``[(512, 3)] * 4`` as
strings, and fairseq builds the model by ``eval`` of some of them: a file of tensors and plain
containers could run anything. Every module of fairseq gets this reader under the name ``eval``.
"""

from __future__ import annotations

import ast
from typing import Any

from simile_plugin.files import InputError

LONGEST = 10_000  # entries of a list; of fairseq, convolutions, some dozens
REFUSED = (SyntaxError, TypeError, ValueError, OverflowError, RecursionError, MemoryError)
EXPECTED = "expected numbers, strings, True, False, None, lists, tuples and dicts, + and *"


def evaluate(text: str) -> Any:
    """Return the value of an expression of literals, + and *: ``[(512, 3)] * 4 + [(1024, 3)]``.

    Raises TypeError if text is no string, as ``eval`` does; InputError for anything else, of which
    nothing has been run.
    """
    if not isinstance(text, str):
        raise TypeError(f"got {type(text).__name__}, expected a string")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except REFUSED as error:
        raise InputError(f"got {text[:200]!r}; {EXPECTED}") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _value(left) + _value(right)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            first, second = sorted((_value(left), _value(right)), key=lambda v: isinstance(v, int))
            if not isinstance(first, int) and len(first) * int(second) > LONGEST:
                raise InputError(f"more than {LONGEST} entries")
            return first * second
    return ast.literal_eval(node)

"""Settings that are written as Python, read without running them.

A checkpoint names its architecture and holds settings such as fconv's ``[(512, 3)] * 4`` as
strings, and fairseq builds the model by ``eval`` of some of them: a file of tensors and plain
containers could run anything. Every module of fairseq gets this reader under the name ``eval``.
"""

from __future__ import annotations

import ast
from typing import Any

from simile_plugin.files import InputError

LONGEST = 10_000  # entries of a list; fairseq's longest are convolutions, some dozens
REFUSED = (SyntaxError, TypeError, ValueError, OverflowError, RecursionError, MemoryError)
EXPECTED = "expected numbers, strings, True, False, None, lists, tuples and dicts, + and *"


def evaluate(text: str) -> Any:
    """The value of an expression of literals: ``[(512, 3)] * 4 + [(1024, 3)]``, ``True``, ``1e-3``.

    Raises:
        TypeError: if text is no string, as ``eval`` does.
        InputError: for anything but literals, signs, + and *; nothing of it has been run.
    """
    if not isinstance(text, str):
        raise TypeError(f"got {type(text).__name__}, expected a string")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except REFUSED as error:
        raise InputError(f"got {text[:200]!r}; {EXPECTED}") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part) for part in parts)
        case ast.Dict(keys=keys, values=values):
            return {
                _value(key): _value(value)
                for key, value in zip(keys, values, strict=True)
                if key is not None
            }
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _value(left) + _value(right)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return _product(_value(left), _value(right))
    raise InputError(f"no literal: {type(node).__name__}")


def _product(first: Any, second: Any) -> Any:
    """A product of numbers, or a list repeated, while it stays small."""
    if isinstance(first, int):
        first, second = second, first
    if isinstance(first, str | bytes | list | tuple) and len(first) * int(second) > LONGEST:
        raise InputError(f"more than {LONGEST} entries")
    return first * second

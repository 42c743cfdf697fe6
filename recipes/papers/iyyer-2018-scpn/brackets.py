"""Penn brackets: read, written without their words, cut to templates.

A line is a tree as parsers print it: "(ROOT (S (NP (PRP She)) (VP (VBD left)) (. .)))".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from simile_plugin.files import InputError

ROOTS = ("", "ROOT", "TOP", "S1", "VROOT")  # a node that only holds the tree
STOPS = (".", "$.")  # the Penn Treebank's full stop, and that of German treebanks
DEEPEST = 200  # brackets that are open at once: more are no sentence's


@dataclass(frozen=True)
class Tree:
    """A constituent: its label and its parts; words are not kept."""

    label: str
    children: tuple[Tree, ...] = ()

    def __str__(self) -> str:
        """Brackets without words; between spaces there is one node: "(S (NP (DT) (NN)) (.))"."""
        return f"({' '.join([self.label, *map(str, self.children)])})"

    @property
    def template(self) -> str:
        """The top two levels without the full stop (Wieting's thesis, 6.2.2.1)."""
        kept = [replace(child, children=()) for child in self.children if child.label not in STOPS]
        return str(replace(self, children=tuple(kept)))


def read_tree(line: str) -> Tree:
    """The tree of a line of brackets, with words or without.

    Raises:
        InputError: what was found in which column, and what was expected there.
    """
    # A no-break space is part of a word.
    found = re.finditer(r"[()]|[^ \t\r\n()]+", line)
    tokens = [(one[0], one.start() + 1) for one in found]
    tree, end = _node([*tokens, ("the end", len(line) + 1)], 0)
    if end < len(tokens):
        raise _error(tokens[end], "the end")
    while tree.label in ROOTS and (inner := _inner(tree)):
        tree = inner
    if tree.label in ROOTS:
        raise InputError(f"the root holds {len(tree.children)} trees; expected one")
    return tree


def _inner(root: Tree) -> Tree | None:
    """The one tree that a root holds; marks beside it, as in German treebanks, go into it."""
    parts = root.children
    places = [at for at, part in enumerate(parts) if part.label[:1].isalpha()]
    if len(places) != 1:
        return parts[0] if len(parts) == 1 else None
    at = places[0]
    return replace(parts[at], children=(*parts[:at], *parts[at].children, *parts[at + 1 :]))


def _node(tokens: Sequence[tuple[str, int]], at: int, depth: int = 1) -> tuple[Tree, int]:
    """The node that begins at a token with so many open brackets, and where it ends."""
    if tokens[at][0] != "(":
        raise _error(tokens[at], "(")
    if depth > DEEPEST:
        raise InputError(
            f"column {tokens[at][1]}: found {depth} open brackets, expected at most {DEEPEST}"
        )
    label = "" if tokens[at + 1][0] in ("(", ")", "the end") else tokens[at + 1][0]
    at, word = at + 1 + bool(label), False
    children: list[Tree] = []
    while tokens[at][0] != ")":
        if tokens[at][0] == "(" and not word:
            child, at = _node(tokens, at, depth + 1)
            children.append(child)
        elif tokens[at][0] in ("(", "the end") or word or children or not label:
            raise _error(tokens[at], f"the ) of ({label}")
        else:
            at, word = at + 1, True
    return Tree(label, tuple(children)), at + 1


def _error(token: tuple[str, int], expected: str) -> InputError:
    return InputError(f"column {token[1]}: found {token[0]}, expected {expected}")


def frequent(templates: Iterable[str], count: int) -> list[str]:
    """The most frequent ones; of equals the first in the alphabet."""
    ranked = sorted(Counter(templates).items(), key=lambda item: (-item[1], item[0]))
    return [template for template, _ in ranked[:count]]

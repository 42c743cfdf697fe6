"""Shared prefixes by hand, and in which parts rows are scored."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.risk.prefix_trees import prefix_tree
from simile_plugin.risk.tree_scoring import plan_parts

PAD, EOS = 1, 2


def test_tree_by_hand():
    # "5 6 eos", "5 7 eos", "5 6 6 eos", and one row that is left out
    rows = [[5, 6, EOS, PAD], [5, 7, EOS, PAD], [5, 6, 6, EOS], [5, 7, 7, EOS]]
    tree = prefix_tree(np.array([rows]), np.array([[3, 3, 4, 0]]))
    # nodes: 0 "", 1 "5", 2 "5 6", 3 "5 7", 4 "5 6 6"
    assert tree.node[0].tolist() == [[0, 1, 2, -1], [0, 1, 3, -1], [0, 1, 2, 4], [-1] * 4]
    assert tree.counts.tolist() == [5]
    assert tree.row[0].tolist() == [0, 0, 0, 1, 2] and tree.depth[0].tolist() == [0, 1, 2, 2, 3]
    assert tree.ancestors([0], 5)[0].astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 1, 0, 1],
    ]
    places, nodes, starts = tree.edges([0])
    assert nodes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 4]
    assert places.tolist() == [0, 4, 8, 1, 5, 9, 2, 10, 6, 11]
    assert starts == [0, 3, 6, 8, 9, 10]


@given(
    st.lists(
        st.lists(st.lists(st.integers(4, 6), max_size=4), min_size=3, max_size=3),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60)
def test_nodes_are_the_distinct_prefixes(lists):
    tokens = torch.full((len(lists), 3, 5), PAD)
    for b, rows in enumerate(lists):
        for m, row in enumerate(rows):
            tokens[b, m, : len(row) + 1] = torch.tensor([*row, EOS])
    tree = prefix_tree(tokens.numpy(), tokens.ne(PAD).sum(-1).numpy())
    for b, rows in enumerate(lists):
        prefixes = {tuple(row[:t]) for row in rows for t in range(len(row) + 1)}
        assert tree.counts[b] == len(prefixes)
        named = {}
        for m, row in enumerate(rows):
            for t in range(len(row) + 1):
                assert named.setdefault(int(tree.node[b, m, t]), row[:t]) == row[:t]


def test_plan_by_hand(monkeypatch):
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 3)
    # one part: 4 x 5 + 3 = 23 tokens; cut after 4: 2 x 5 + 2 x 3 + 2 x 3 = 22; cut after 3:
    # 3 x 5 + 1 + 2 x 3 = 22; every other cut costs more; of equals the shorter first part is taken
    assert plan_parts([3, 5, 0, 4, 1], 0) == [[1, 3], [0, 4]]
    # longest first: 5 and 4 padded to 5 are 10 tokens; a third row of 3 would make 15
    assert plan_parts([3, 5, 0, 4, 1], 10) == [[1, 3], [0, 4]]
    # equal lengths are one part, unless that is too large
    assert plan_parts([2, 2, 2, 2], 0) == [[0, 1, 2, 3]]
    assert plan_parts([2, 2, 2, 2], 5) == [[0, 1], [2, 3]]
    # a row longer than the bound is scored alone
    assert plan_parts([9, 2, 2], 4) == [[0], [1, 2]]
    assert plan_parts([0, 0], 4) == plan_parts([], 0) == []


@settings(max_examples=50)
@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 60))
def test_plan_covers_every_row_once_within_the_bound(lengths, max_tokens):
    parts = plan_parts(lengths, max_tokens)
    assert sorted(row for part in parts for row in part) == [
        row for row, length in enumerate(lengths) if length
    ]
    for part in parts:
        assert [lengths[row] for row in part] == sorted((lengths[r] for r in part), reverse=True)
        assert not max_tokens or len(part) == 1 or len(part) * lengths[part[0]] <= max_tokens

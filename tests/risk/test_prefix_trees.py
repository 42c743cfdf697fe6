"""Shared prefixes decoded once against every row alone."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.fairseq_training.decoders import known
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.risk import RiskSet, choose_tree, log_probabilities, tree_scoring
from simile_plugin.risk.prefix_trees import prefix_tree, trees_of_rows
from simile_plugin.risk.tree_scoring import Nodes
from tests.fairseq_models import make_model, make_sample, make_task
from tests.fairseq_training.test_scoring import gradients, naive

PAD, EOS = 1, 2
MODELS: list[dict[str, Any]] = [
    {},
    {"share_decoder_input_output_embed": True},
    {"decoder_learned_pos": True},
    {"decoder_output_dim": 8},
    {"no_token_positional_embeddings": True},
    {"decoder_normalize_before": True},
]


def make_branching_set(sample, size=4, seed=1):
    """Candidates that begin alike; one of them is no member."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high, count=1):
        return torch.randint(low, high, (count,), generator=generator)

    target = sample["target"]
    tokens = torch.full((len(target), 1 + size, 9), PAD)
    tokens[:, 0, : target.size(1)] = target
    for b in range(len(target)):
        trunk = draw(4, 14, 8)
        for n in range(1, 1 + size):
            length = int(draw(3, 9))
            row = trunk.clone()
            row[int(draw(1, length)) :] = int(draw(4, 14))
            tokens[b, n, : length - 1] = row[: length - 1]
            tokens[b, n, length - 1] = EOS
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
    mask[:, 0] = mask[1, 2] = False
    return RiskSet(tokens, mask)


@pytest.fixture
def always(monkeypatch):
    """Trees wherever they can be; counts them."""
    used = []
    monkeypatch.setattr(tree_scoring, "pays", lambda *_: used.append(1) or True)
    return used


@pytest.mark.parametrize("max_tokens", [0, 12])
@pytest.mark.parametrize("slice_logits", [14 * 3, 2**22])
@pytest.mark.parametrize("flags", MODELS, ids=lambda flags: "-".join(flags) or "plain")
def test_equals_the_naive_path(flags, slice_logits, max_tokens, always, monkeypatch):
    monkeypatch.setattr(log_probabilities, "SLICE_LOGITS", slice_logits)
    monkeypatch.setattr(log_probabilities, "KEPT_LOGITS", slice_logits)
    task = make_task()
    sample = make_sample(task)
    model = make_model("transformer_tiny", task, **flags).double().train()
    risk_set = make_branching_set(sample)
    found = score_rows(model, sample, risk_set, PAD, max_tokens)
    fast = gradients(model, found)
    expected = naive(model, sample, risk_set)
    slow = gradients(model, expected)
    assert always
    for value, right in zip(found, expected, strict=True):
        assert torch.allclose(value, right, atol=1e-12)
    assert fast.keys() == slow.keys()
    for name in fast:
        # fairseq's attention to the source takes its softmax in float32 whatever the model's type,
        # and a node's gradient, a sum over rows, is rounded there once
        assert torch.allclose(fast[name], slow[name], rtol=1e-6, atol=1e-6), name


def test_model_is_left_as_it_was(always):
    task = make_task()
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    attributes = [set(vars(module)) for module in model.modules()]
    score_rows(model, sample, make_branching_set(sample), PAD)
    assert always and [set(vars(module)) for module in model.modules()] == attributes


def test_only_where_it_pays():
    task = make_task()
    sample = make_sample(task)
    risk_set = make_branching_set(sample)

    def rows(risk_set, heads, max_tokens):
        return choose_tree(risk_set, PAD, heads, max_tokens).node.shape[1]

    assert rows(risk_set, 2, 0) == 5
    assert rows(risk_set, 0, 0) == 1  # a decoder that takes no mask
    # a sentence's tree cannot be cut: where it is too large, its rows are decoded in parts
    assert rows(risk_set, 2, 10) == 1
    distinct = torch.arange(4, 14).repeat(15, 1).add(torch.arange(15).unsqueeze(1)).view(3, 5, 10)
    distinct_set = RiskSet(distinct, torch.ones(3, 5, dtype=torch.bool))
    assert rows(distinct_set, 2, 0) == 1


def test_other_decoders_are_decoded_row_by_row():
    task = make_task()
    assert known(make_model("transformer_tiny", task).decoder).heads == 2
    for arch in ("fconv", "lstm"):
        assert known(make_model(arch, task).decoder).heads == 0
    model = make_model("transformer_tiny", task)

    class Own(type(model.decoder)):
        def buffered_future_mask(self, tensor):
            return super().buffered_future_mask(tensor)

    model.decoder.__class__ = Own
    assert known(model.decoder).heads == 0


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


def test_rows_that_share_nothing_by_hand():
    tree = trees_of_rows(np.array([[2, 3], [0, 1]]), 3)
    assert tree.node[:, 0].tolist() == [[0, 1, -1], [0, 1, 2], [-1, -1, -1], [0, -1, -1]]
    assert tree.counts.tolist() == [2, 3, 0, 1]
    assert not tree.row.any() and tree.depth.tolist() == [[0, 1, 2]] * 4
    places, nodes, starts = tree.edges([1, 0])
    assert (places.tolist(), nodes.tolist()) == ([3, 4, 5, 0, 1], [0, 1, 2, 3, 4])
    assert starts == [0, 1, 2, 3, 4, 5]


def test_mask_by_hand():
    nothing = torch.zeros(1, 2, dtype=torch.int64)
    allowed = torch.tensor([[[True, False], [True, True]]])
    nodes = Nodes(torch.zeros(1), nothing, nothing, allowed, width=2)
    mask = nodes.attention_mask(2, torch.zeros(1).double())
    assert mask.dtype == torch.float64
    assert mask.tolist() == [[[0, -torch.inf], [0, 0]]] * 2


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

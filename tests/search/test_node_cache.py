"""A cache of one layer, one head and one number a key: products and masks by hand."""

from collections.abc import Hashable

import pytest
import torch
from torch import Tensor

from simile_plugin.search import ROOM, NodeCache, Recorder, Unrecorded

CPU, INF = torch.device("cpu"), float("inf")
SIZE, SOURCE = 2, 3


class Sums:
    """A decoder whose logits are the sums of tokens that a hypothesis looks at, and its source's.

    A token's key is the token, its value ten times as much.
    """

    key: Hashable = "sums"
    shape = (1, 1, 1)
    dtype = torch.float32

    def begin(self, cache: NodeCache) -> None:
        keys = torch.arange(1.0, cache.sentences * SOURCE + 1).view(cache.sentences, 1, SOURCE, 1)
        cache.keep_source(0, keys, -keys)

    def decode(self, last: Tensor, position: Tensor, cache: NodeCache) -> Tensor:
        tokens = last.view(cache.sentences, 1, cache.size, 1).float()
        keys, values = cache.keep(0, torch.stack([tokens, 10 * tokens]))
        looked_at = (cache.seen == 0).float()  # (S, 1, N, used)
        of_keys, of_values = (looked_at @ one for one in (keys, values))  # (S, 1, N, 1)
        sources = cache.sources[0, 0].sum(2, keepdim=True).expand(-1, -1, cache.size, -1)
        return torch.cat([of_keys, of_values, sources], -1).flatten(0, 2)


def cache_of(recorder: Recorder, sentences: int = 2, room: int = ROOM) -> NodeCache:
    cache = NodeCache(recorder, Sums(), SIZE, sentences, SOURCE, room, CPU)
    cache.mask.zero_()
    cache.begin()
    return cache


def step(cache: NodeCache, tokens: list[int], number: int) -> list[list[float]]:
    last = torch.tensor(tokens)
    logits: list[list[float]] = cache.logits(last, torch.tensor([number]), number == 0).tolist()
    return logits


@pytest.mark.parametrize("recorder", [Unrecorded(), Recorder()], ids=["written", "all"])
def test_hypotheses_look_at_their_own_tokens_and_their_source(recorder: Recorder) -> None:
    cache = cache_of(recorder)
    # the sources' keys are 1 2 3 and 4 5 6; of the first step only one hypothesis a sentence
    assert step(cache, [1, 1, 2, 2], 0) == [[1, 10, 6], [2, 20, 15]]
    cache.reorder(torch.tensor([[0, 1], [0, 1]]))
    assert step(cache, [3, 4, 5, 6], 1) == [[4, 40, 6], [5, 50, 6], [7, 70, 15], [8, 80, 15]]
    # the first sentence goes on with its second hypothesis twice, the other one turns them round
    cache.reorder(torch.tensor([[1, 1], [1, 0]]))
    assert step(cache, [7, 8, 9, 10], 2) == [
        [1 + 4 + 7, 120, 6],
        [1 + 4 + 8, 130, 6],
        [2 + 6 + 9, 170, 15],
        [2 + 5 + 10, 170, 15],
    ]
    assert cache.used == (2 * ROOM if recorder.records else 2 * 3)
    # a token's slot is step * N + hypothesis: the last one of the first sentence looks at 1, 3, 5
    assert cache.descent[0, 0, 1].eq(0).nonzero().flatten().tolist() == [1, 3, 5]
    assert set(cache.descent.unique().tolist()) == {0.0, -INF}


@pytest.mark.parametrize("recorder", [Unrecorded(), Recorder()], ids=["written", "all"])
def test_a_cache_moves_to_other_sentences_and_more_room(recorder: Recorder) -> None:
    cache = cache_of(recorder, sentences=3)
    cache.mask[2, ..., 2] = -INF
    step(cache, [1, 1, 2, 2, 3, 3], 0)
    cache = cache.moved(torch.tensor([2, 0]), 2 + recorder.records, ROOM)  # with filling, or not
    cache = cache.moved(None, cache.sentences, 2 * ROOM)
    assert cache.nodes.size(4) == 2 * ROOM * SIZE and cache.mask[:2, 0, 0].tolist() == [
        [0, 0, -INF],
        [0, 0, 0],
    ]
    filling = [0, 0] * recorder.records
    cache.reorder(torch.zeros(cache.sentences, SIZE, dtype=torch.int64))
    found = step(cache, [4, 5, 6, 7, *filling], 1)
    # 7 8 9 are the keys of the last source, 1 2 3 of the first
    assert found[:4] == [[7, 70, 24], [8, 80, 24], [7, 70, 6], [8, 80, 6]]
    assert found[4:] == [[0, 0, 0]] * len(filling)


def test_what_was_begun_with_before_is_forgotten() -> None:
    recorder = Recorder()
    cache = cache_of(recorder)
    step(cache, [1, 1, 2, 2], 0)
    again = cache_of(recorder)  # in the same buffers
    assert again.nodes.data_ptr() == cache.nodes.data_ptr()
    assert again.descent.eq(-INF).all() and again.nodes.eq(0).all() and not again.has_sources
    assert step(again, [5, 5, 6, 6], 0) == [[5, 50, 6], [6, 60, 15]]

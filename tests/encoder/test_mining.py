"""Mega-batch mining against a slow loop that follows the definition."""

import pytest
import torch
from torch import Tensor

from simile_plugin.encoder.mining import hardest_negatives


def slow(
    left: Tensor, right: Tensor, left_keys: list[int], right_keys: list[int], pool: str
) -> tuple[list[int], list[int]]:
    """For each sentence, go through the pool one by one."""
    n = len(left)
    vectors, keys = torch.cat([left, right]), left_keys + right_keys
    results: tuple[list[int], list[int]] = ([], [])
    for side in (0, 1):
        for i in range(n):
            best, best_cosine = -1, -torch.inf
            for candidate in range(2 * n):
                pair, candidate_side = candidate % n, candidate // n
                if pool == "other" and candidate_side == side:
                    continue
                if {keys[i], keys[i + n]} & {keys[pair], keys[pair + n]}:
                    continue
                a, b = vectors[i + side * n], vectors[candidate]
                cosine = float(a @ b / (a.norm() * b.norm()))
                if cosine > best_cosine:
                    best, best_cosine = candidate, cosine
            results[side].append(best)
    return results


@pytest.mark.parametrize("pool", ["other", "all"])
@pytest.mark.parametrize(("block", "tile"), [(1, 1), (6, 3), (7, 7), (256, 128)])
@pytest.mark.parametrize("distinct", [3, 8, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_against_the_slow_loop(
    pool: str, block: int, tile: int, distinct: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(distinct)
    n = 14
    keys = torch.randint(0, distinct, (2 * n,), generator=generator)
    table = torch.randn(distinct, 5, generator=generator)
    left, right = table[keys[:n]], table[keys[n:]]
    found = hardest_negatives(left, right, keys[:n], keys[n:], pool, None, dtype, block, tile)
    expected = slow(left, right, keys[:n].tolist(), keys[n:].tolist(), pool)
    keys_or_none = torch.cat([keys, torch.tensor([-1])])
    for fast, loop in zip(found, expected, strict=True):
        # Copies of one sentence are equally hard: which of them is found does not matter.
        assert keys_or_none[fast].tolist() == keys_or_none[torch.tensor(loop)].tolist()


def test_by_hand() -> None:
    # Angles in degrees; the nearest wrong partner of each is read off.
    def at(*degrees: float) -> Tensor:
        angles = torch.deg2rad(torch.tensor(degrees))
        return torch.stack([angles.cos(), angles.sin()], 1)

    left, right = at(0, 40, 100), at(10, 35, 95)
    keys = torch.arange(6)
    for_left, for_right = hardest_negatives(left, right, keys[:3], keys[3:])
    # 0 -> 35 (pair 1), 40 -> 10 (pair 0), 100 -> 35 (pair 1); positions count right from 3.
    assert for_left.tolist() == [4, 3, 4]
    # 10 -> 40, 35 -> 0, 95 -> 40.
    assert for_right.tolist() == [1, 0, 1]
    for_left, for_right = hardest_negatives(left, right, keys[:3], keys[3:], pool="all")
    # 0 -> 35 on the right; 40 -> 10 on the right; 100 -> 40 on the left.
    assert for_left.tolist() == [4, 3, 1]
    # 10 -> 35 on the right; 35 -> 10 on the right; 95 -> 40 on the left.
    assert for_right.tolist() == [4, 3, 1]


def test_a_copy_of_the_own_sentence_or_paraphrase_is_never_negative() -> None:
    # Pair 1 repeats pair 0's left side, pair 2 its right side on the left: both are forbidden
    # for pair 0, although nothing is nearer.
    vectors = {7: [1.0, 0.0], 8: [0.9, 0.1], 9: [0.95, 0.05], 5: [0.0, 1.0], 6: [0.1, 1.0]}
    rows = [(7, 8), (7, 9), (8, 9), (5, 6)]
    left, right = (torch.tensor([vectors[row[side]] for row in rows]) for side in (0, 1))
    keys = torch.tensor(rows)
    for pool in ("other", "all"):
        for_left, for_right = hardest_negatives(left, right, keys[:, 0], keys[:, 1], pool)
        assert {i % 4 for i in for_left[:3].tolist() + for_right[:3].tolist()} == {3}


def test_no_pair_to_choose_from() -> None:
    one = torch.ones(1, 2)
    for left_keys, right_keys in (([1], [2]), ([1, 1], [2, 3])):
        n = len(left_keys)
        found = hardest_negatives(
            one.repeat(n, 1), one.repeat(n, 1), torch.tensor(left_keys), torch.tensor(right_keys)
        )
        assert [side.tolist() for side in found] == [[-1] * n, [-1] * n]


def test_zero_vectors_are_candidates_with_cosine_zero() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    keys = torch.arange(6)
    for_left, _ = hardest_negatives(left, left.clone(), keys[:3], keys[3:])
    # cos(1, 0) = 0 beats cos(1, -1) = -1.
    assert for_left[0] == 3 + 1
    assert for_left[2] == 3 + 1


def test_permuting_the_pairs_permutes_the_negatives() -> None:
    generator = torch.Generator().manual_seed(1)
    left, right = torch.randn(2, 40, 6, generator=generator)
    keys = torch.arange(80)
    order = torch.randperm(40, generator=generator)
    for_left, for_right = hardest_negatives(left, right, keys[:40], keys[40:])
    moved_left, moved_right = hardest_negatives(
        left[order], right[order], keys[:40][order], keys[40:][order]
    )
    assert torch.equal(order[moved_left - 40], for_left[order] - 40)
    assert torch.equal(order[moved_right], for_right[order])

"""Mega-batch mining against a slow loop that follows the definition."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder_training.config import POOLS
from simile_plugin.encoder_training.negatives import (
    Passes,
    _OneProduct,
    _Search,
    hardest_negatives,
    sharing_pairs,
)


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


@pytest.mark.parametrize("pool", POOLS)
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
    passes = Passes(dtype, block, tile)
    found = hardest_negatives(left, right, keys[:n], keys[n:], pool, passes=passes)
    expected = slow(left, right, keys[:n].tolist(), keys[n:].tolist(), pool)
    keys_or_none = torch.cat([keys, torch.tensor([-1])])
    for fast, loop in zip(found, expected, strict=True):
        # Copies of one sentence are equally hard: which of them is found does not matter.
        assert keys_or_none[fast].tolist() == keys_or_none[torch.tensor(loop)].tolist()


@pytest.mark.parametrize("cells", [1, 30, 1000])
def test_a_gpus_product_is_cut_by_its_memory(cells: int) -> None:
    generator = torch.Generator().manual_seed(0)
    keys = torch.randint(0, 9, (28,), generator=generator)
    left, right = F.normalize(torch.randn(2, 14, 5, generator=generator), dim=2)
    forbidden = sharing_pairs(keys[:14], keys[14:])
    found = _OneProduct(forbidden, cells).both_ways(left, right)
    wanted = _Search(forbidden, Passes(torch.float32, 8, 4)).both_ways(left, right)
    for (_, places), (_, expected) in zip(found, wanted, strict=True):
        assert places.tolist() == expected.tolist()


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


def test_no_pair_to_choose_from() -> None:
    one = torch.ones(1, 2)
    for left_keys, right_keys in (([1], [2]), ([1, 1], [2, 3])):
        n = len(left_keys)
        found = hardest_negatives(
            one.repeat(n, 1), one.repeat(n, 1), torch.tensor(left_keys), torch.tensor(right_keys)
        )
        assert [side.tolist() for side in found] == [[-1] * n, [-1] * n]


def test_the_first_of_equals_wins() -> None:
    # For both sides of pair 0 the same vector stands nearest on the left (pair 2) and on the
    # right (pair 1): cat(left, right) has the left one first.
    near, far = [1.0, 0.1], [0.0, 1.0]
    left = torch.tensor([[1.0, 0.0], far, near])
    right = torch.tensor([[1.0, 0.0], near, far])
    keys = torch.arange(6)
    for_left, for_right = hardest_negatives(left, right, keys[:3], keys[3:], "all")
    assert for_left[0] == for_right[0] == 2


def test_zero_vectors_are_candidates_with_cosine_zero() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    keys = torch.arange(6)
    for_left, _ = hardest_negatives(left, left.clone(), keys[:3], keys[3:])
    # cos(1, 0) = 0 beats cos(1, -1) = -1.
    assert for_left[0] == 3 + 1
    assert for_left[2] == 3 + 1


def unit_vectors(count: int, dim: int, seed: int) -> Tensor:
    return torch.nn.functional.normalize(
        torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
    )


@pytest.mark.parametrize("dim", [24, 3])  # few components: their rounding does not average out
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-3])
def test_the_coarse_pass_decides_nothing(spread: float, dim: int) -> None:
    # Vectors so near to each other that bfloat16 cannot tell their cosines apart.
    n = 700
    centre = unit_vectors(1, dim, 0)
    left, right = (centre + spread * unit_vectors(n, dim, seed) for seed in (1, 2))
    keys = torch.arange(2 * n)
    passes = Passes(torch.bfloat16, tile=16)
    found = hardest_negatives(left, right, keys[:n], keys[n:], "all", passes=passes)
    cosines = torch.cat([left, right]).double()
    cosines = torch.nn.functional.normalize(cosines) @ torch.nn.functional.normalize(cosines).T
    forbidden = torch.eye(n).repeat(2, 2).bool()
    cosines[forbidden] = -2
    for side, index in enumerate(found):
        rows = cosines[side * n : (side + 1) * n]
        chosen = rows.gather(1, index[:, None]).squeeze(1)
        # Within float32's rounding of the best in float64.
        torch.testing.assert_close(chosen, rows.amax(1), atol=1e-6, rtol=0)


def test_all_cosines_negative() -> None:
    # Two opposite bundles: each left vector's best partner still has a negative cosine.
    left = unit_vectors(40, 3, 0) * 0.1 + torch.tensor([1.0, 0, 0])
    right = unit_vectors(40, 3, 1) * 0.1 - torch.tensor([1.0, 0, 0])
    keys = torch.arange(80)
    for dtype in (torch.float32, torch.bfloat16):
        found = hardest_negatives(left, right, keys[:40], keys[40:], passes=Passes(dtype, tile=16))
        expected = slow(left, right, keys[:40].tolist(), keys[40:].tolist(), "other")
        assert [side.tolist() for side in found] == list(expected)


@pytest.mark.parametrize("pool", POOLS)
def test_some_pairs_get_what_all_of_them_would(pool: str) -> None:
    keys = torch.randint(0, 60, (80,), generator=torch.Generator().manual_seed(3))
    table = unit_vectors(60, 6, 0)
    left, right = table[keys[:40]], table[keys[40:]]
    whole = hardest_negatives(left, right, keys[:40], keys[40:], pool)
    for only in (torch.arange(1, 40, 3), torch.tensor([17]), torch.tensor([], dtype=torch.int64)):
        part = hardest_negatives(left, right, keys[:40], keys[40:], pool, only=only)
        for some, all_of_them in zip(part, whole, strict=True):
            assert keys[some].tolist() == keys[all_of_them[only]].tolist()

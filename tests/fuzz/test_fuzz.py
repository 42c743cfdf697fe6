"""A short run of every fuzz target on random bytes and changed seeds, and all past crashes."""

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS, one_input

CRASHES = sorted((Path(__file__).parent / "crashes").glob("[a-z]*"))


@pytest.mark.parametrize("path", CRASHES, ids=[path.name for path in CRASHES])
def test_crashes_of_the_past(path: Path) -> None:
    one_input(path.name.partition(".")[0], path.read_bytes())


def mutated(name: str, seed: int) -> bytes:
    """A seed of a target with some bytes changed, doubled, or cut out."""
    rng = random.Random(seed)
    data = bytearray(rng.choice(SEEDS.get(name, [b"\0"])))
    for _ in range(rng.randint(0, 4)):
        place = rng.randint(0, len(data))
        what = rng.choice(
            [b"", b"\0", b"\n", b"\t", b'"', b"9" * 30, b"\xff", b"nan", data[place:]]
        )
        data[place : place + rng.randint(0, 3)] = what
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), noise=st.binary(max_size=40))
@example(seed=0, noise=b"")
def test_smoke(name: str, seed: int, noise: bytes) -> None:
    one_input(name, noise)
    one_input(name, mutated(name, seed))


@pytest.mark.parametrize("name", SEEDS)
def test_some_seed_is_accepted(name: str) -> None:
    # Else the targets would test refusals only.
    needs_more = {"answers", "config", "key"}
    assert name in needs_more or any(one_input(name, seed) for seed in SEEDS[name])

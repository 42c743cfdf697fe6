"""recipes/benchmarks/hf_update.py: both ways score the same lists, of each architecture."""

import pytest

from recipes.benchmarks import hf_update
from simile_plugin.hugging_face import known_decoder, risk_set_of
from simile_plugin.hugging_face.models import PADDING
from simile_plugin.risk import RiskSettings

SMALL = "--layers 1 --width 64 --vocabulary 40 --batch 2 --length 5 --candidates 3 --updates 1"


def rows(tokens):
    return [[[t for t in row if t != PADDING] for row in some] for some in tokens.tolist()]


@pytest.mark.parametrize("kind", ["marian", "m2m100", "t5"])
def test_both_ways_score_the_same_lists(kind):
    args = hf_update.parse([*SMALL.split(), "--model", kind])
    model, special, inputs = hf_update.make(args)
    settings = RiskSettings(risk_candidates=3)
    ours = risk_set_of(known_decoder(model, special), inputs, settings, special)
    plain = hf_update.generated(model, special, inputs, settings)
    assert rows(ours.tokens) == rows(plain.tokens)
    assert rows(ours.tokens[:, :1]) == rows(inputs["labels"].unsqueeze(1))


def test_a_way_is_measured():
    for way in ("ours", "plain"):
        found = hf_update.measure(way, hf_update.parse([*SMALL.split(), "--model", "m2m100"]))
        assert found["seconds"] > 0 and found["mb"] >= 0

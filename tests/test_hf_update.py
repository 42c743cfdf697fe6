"""recipes/benchmarks/hf_update.py: both ways score the same lists, of each architecture."""

from contextlib import ExitStack

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
        for flags in ("", "--target-pieces 20 --adam"):
            args = hf_update.parse([*SMALL.split(), "--model", "m2m100", *flags.split()])
            found = hf_update.measure(way, args)
            assert found["seconds"] > 0 and found["mb"] >= 0


def test_what_an_optimizer_has():
    args = hf_update.parse([*SMALL.split(), "--model", "m2m100", "--target-pieces", "20"])
    model, special, inputs = hf_update.make(args)
    output = hf_update.CompactOutput(model, range(20))
    before = output.head.weight.clone()
    with ExitStack() as stack:
        step = hf_update.optimizer_step("ours", model, inputs, output, stack)
        decoder = known_decoder(model, special)
        hf_update.update("ours", model, special, inputs, RiskSettings(), decoder, output)
        asked = {*range(20), *inputs["input_ids"].flatten().tolist()}
        assert len(output.trained) == len(asked) < 40
        step()
    changed = output.head.weight.ne(before).any(-1).nonzero().flatten().tolist()
    assert {*changed} <= asked and len(changed) > 10

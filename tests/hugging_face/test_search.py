"""Our search finds the lists that a model's `generate` finds, also in steps of few shapes."""

import pytest
import torch
from torch import nn

from simile_plugin.hugging_face import own_search, risk_set_of, special_tokens
from simile_plugin.hugging_face.candidates import ONLY_GENERATE
from simile_plugin.hugging_face.models import PADDING
from simile_plugin.hugging_face.steps import NodeSteps
from simile_plugin.risk import RiskSettings
from simile_plugin.search import Recorder
from tests.hugging_face_models import MAKERS, batch_of, fsmt, marian, t5gemma

KINDS = [kind for kind in MAKERS if kind != "t5gemma"]  # whose positions are rotary


class Small:
    """A model whose sentences end, its sources, and the lists that settings find."""

    def __init__(self, kind, folder, ends, **config):
        self.model, tokenizer = MAKERS[kind](folder, **config)
        self.special, self.inputs = special_tokens(self.model, tokenizer), batch_of(tokenizer)
        self.search = own_search(self.model, self.special)
        head = self.model.get_output_embeddings()
        more = ends * nn.functional.one_hot(torch.tensor(self.special.end), len(head.weight))
        head.register_forward_hook(lambda *found: found[-1] + more)

    def lists(self, search, **flags):
        settings = RiskSettings(**{"risk_candidates": 4, **flags})
        found = risk_set_of(self.model, self.inputs, settings, self.special, search)
        return [
            [[t for t in row if t != PADDING] for row in rows] for rows in found.tokens.tolist()
        ]


@pytest.mark.parametrize("ends", [2.0, 5.0])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_those_of_generate(kind, ends, tmp_path):
    small = Small(kind, tmp_path / "model", ends)
    for flags in (
        {"risk_max_len_a": 1.0, "risk_max_len_b": 2},
        {"risk_candidates": 8, "risk_lenpen": 0.3, "risk_temperature": 1.7, "risk_max_len_b": 3},
        {"risk_candidates": 2, "risk_lenpen": 0.0, "risk_max_len_b": 9},
        {"risk_max_len_a": 0.0, "risk_max_len_b": 3},
    ):
        wanted = small.lists(None, **flags)
        assert small.lists(small.search, **flags) == wanted
        small.search.recorder = Recorder()
        for _ in range(2):  # recorded, then run again on what lies in the buffers
            assert small.lists(small.search, **flags) == wanted
        del small.search.recorder


@pytest.mark.parametrize("kind", ["marian", "nllb"])
def test_what_a_model_asks_for_is_done(kind, tmp_path, monkeypatch):
    small = Small(kind, tmp_path / "model", 2.0)
    asked, before = small.model.generation_config, small.lists(small.search)
    written = {token for rows in before for row in rows[1:] for token in row}
    bad, other = sorted(written - {small.special.end, small.special.tag})[:2]
    asked.bad_words_ids, asked.renormalize_logits = [[bad], [small.special.end]], True
    asked.suppress_tokens = [other]
    wanted = small.lists(None)
    assert small.lists(small.search) == wanted != before
    steps = []
    monkeypatch.setattr(NodeSteps, "logits", lambda *_: steps.append(1))
    for name, value in (
        *(("no_repeat_ngram_size", 2), ("repetition_penalty", 1.3), ("min_length", 7)),
        *(("bad_words_ids", [[5, 6]]), ("encoder_no_repeat_ngram_size", 2)),
    ):
        own = getattr(asked, name)
        setattr(asked, name, value)
        assert small.lists(small.search) == small.lists(None)  # by `generate`
        setattr(asked, name, own)
    assert not steps and ONLY_GENERATE.keys() >= {"no_repeat_ngram_size", "min_length"}


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_those_of_the_distribution(kind, tmp_path):
    small = Small(kind, tmp_path / "model", 2.0)
    flags = {"risk_search": "sampling", "risk_candidates": 8, "risk_temperature": 0.7}
    torch.manual_seed(1)
    drawn = small.lists(small.search, **flags, risk_sampling_topk=1)
    best = small.lists(small.search, risk_candidates=1, risk_temperature=0.7)
    torch.manual_seed(1)
    assert small.lists(small.search, **flags) != drawn
    for rows, greedy in zip(drawn, best, strict=True):  # of one token there is one draw
        assert all(row == rows[1] for row in rows[1:]) and len(rows[1]) == len(greedy[1])


def test_half_precision(tmp_path):
    small = Small("marian", tmp_path / "model", 2.0)
    wanted = small.lists(None, risk_generation_dtype="bf16")
    found = small.lists(small.search, risk_generation_dtype="bf16")
    same = [one == other for one, other in zip(found, wanted, strict=True)]
    assert sum(same) >= 3
    assert {p.dtype for p in small.model.parameters()} == {torch.float32}


def test_decoders_of_another_make_keep_their_generate(tmp_path, caplog):
    for model, tokenizer in (t5gemma(), fsmt()):
        assert own_search(model, special_tokens(model, tokenizer), "rows") is None
    model, tokenizer = marian(tmp_path / "model")
    layer = model.get_decoder().layers[0]
    own = layer.self_attn.forward
    layer.self_attn.forward = lambda *args, **kwargs: (own(*args, **kwargs)[0] * 2, None)
    special = special_tokens(model, tokenizer)
    assert own_search(model, special) is not None  # another model, the same steps
    layer.self_attn.forward = lambda x, **_: (x.flip(1), None)  # which looks at its neighbours
    assert own_search(model, special) is None and "candidates by its generate" in caplog.text

"""Our search finds the lists that a model's `generate` finds, also in steps of few shapes."""

import pytest
import torch
from torch import nn
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from simile_plugin.hugging_face import candidates, known_decoder, risk_set_of, special_tokens
from simile_plugin.hugging_face.candidates import padded_after, warn_of_unheeded
from simile_plugin.hugging_face.models import PADDING
from simile_plugin.risk import RiskSettings
from simile_plugin.search import Recorder
from tests.hugging_face_models import MAKERS, batch_of


class Temperature(LogitsProcessor):
    """Log-probabilities of a beam search divided by the temperature and normalised again."""

    def __init__(self, temperature):
        self.temperature = temperature

    def __call__(self, input_ids, scores):
        return torch.log_softmax(scores / self.temperature, dim=-1)


class Small:
    """A model whose sentences end, its sources, and the lists that settings find."""

    def __init__(self, kind, folder, ends, **config):
        self.model, tokenizer = MAKERS[kind](folder, **config)
        self.special, self.inputs = special_tokens(self.model, tokenizer), batch_of(tokenizer)
        self.decoder = known_decoder(self.model, self.special)
        head = self.model.get_output_embeddings()
        more = ends * nn.functional.one_hot(torch.tensor(self.special.end), len(head.weight))
        head.register_forward_hook(lambda *found: found[-1] + more)

    def lists(self, training=True, **flags):
        settings = RiskSettings(**{"risk_candidates": 4, **flags})
        self.model.train(training)
        found = risk_set_of(self.decoder, self.inputs, settings, self.special).tokens[:, 1:]
        self.model.eval()
        return [[[t for t in row if t != PADDING] for row in rows] for rows in found.tolist()]

    def generated(self, **flags):
        """The lists of transformers' own beam search."""
        asked, special = RiskSettings(**{"risk_candidates": 4, **flags}), self.special
        mask, own = self.inputs["attention_mask"], self.model.generation_config
        longest = int(asked.risk_max_len_a * int(mask.sum(-1).max()) + asked.risk_max_len_b)
        rows = self.model.generate(
            input_ids=self.inputs["input_ids"],
            attention_mask=mask,
            logits_processor=LogitsProcessorList([Temperature(asked.risk_temperature)])
            if asked.risk_temperature != 1.0
            else None,
            generation_config=GenerationConfig(
                do_sample=False,
                num_beams=asked.risk_candidates,
                num_return_sequences=asked.risk_candidates,
                length_penalty=asked.risk_lenpen,
                early_stopping=True,  # as soon as N are finished, as in fairseq
                max_length=1 + longest,  # with the decoder start
                **special.first,
                eos_token_id=special.end,
                pad_token_id=special.pad,
                forced_eos_token_id=special.end,
                suppress_tokens=[
                    *([special.pad] if special.pad != special.end else []),
                    *(own.suppress_tokens or []),
                ],
                bad_words_ids=own.bad_words_ids,
                renormalize_logits=own.renormalize_logits,
            ),
        )
        found = padded_after(rows[:, 1:], special.end).view(len(mask), asked.risk_candidates, -1)
        return [[[t for t in row if t != PADDING] for row in rows] for rows in found.tolist()]


@pytest.mark.parametrize("ends", [2.0, 5.0])
@pytest.mark.parametrize("kind", MAKERS)
def test_lists_are_those_of_generate(kind, ends, tmp_path):
    small = Small(kind, tmp_path / "model", ends)
    for flags in (
        {"risk_max_len_a": 1.0, "risk_max_len_b": 2},
        {"risk_candidates": 8, "risk_lenpen": 0.3, "risk_temperature": 1.7, "risk_max_len_b": 3},
        {"risk_candidates": 2, "risk_lenpen": 0.0, "risk_max_len_b": 9},
        {"risk_max_len_a": 0.0, "risk_max_len_b": 3},
    ):
        wanted = small.generated(**flags)
        assert small.lists(**flags) == wanted
        small.decoder.recorder = Recorder()
        for _ in range(2):  # recorded, then run again on what lies in the buffers
            assert small.lists(**flags) == wanted
        small.decoder.recorder = None


@pytest.mark.parametrize("kind", ["marian", "nllb"])
def test_what_a_model_asks_for_is_done_or_warned_of(kind, tmp_path, caplog):
    small = Small(kind, tmp_path / "model", 2.0)
    asked, before = small.model.generation_config, small.lists()
    written = {token for rows in before for row in rows for token in row}
    bad, other = sorted(written - {small.special.end, small.special.tag})[:2]
    asked.bad_words_ids, asked.renormalize_logits = [[bad], [small.special.end]], True
    asked.suppress_tokens = [other]
    assert small.lists() == small.generated() != before
    warn_of_unheeded(asked)
    assert not caplog.messages
    asked.no_repeat_ngram_size, asked.bad_words_ids = 3, [[5, 6]]
    warn_of_unheeded(asked)
    assert "no_repeat_ngram_size 3, bad_words_ids [5, 6]: heeded where" in caplog.text
    asked.eos_token_id = [2, 7]
    warn_of_unheeded(asked)
    assert "[5, 6], eos_token_id [2, 7]: heeded where" in caplog.text


@pytest.mark.parametrize("kind", MAKERS)
def test_draws_are_those_of_the_distribution(kind, tmp_path):
    small = Small(kind, tmp_path / "model", 2.0)
    flags = {"risk_search": "sampling", "risk_candidates": 8, "risk_temperature": 0.7}
    torch.manual_seed(1)
    drawn = small.lists(**flags)
    torch.manual_seed(1)
    assert small.lists(**flags) == drawn
    head = small.model.get_output_embeddings()
    head.register_forward_hook(lambda *found: 1e4 * found[-1])  # of one token there is one draw
    drawn, best = small.lists(**flags), small.lists(risk_candidates=1)
    for rows, greedy in zip(drawn, best, strict=True):
        assert all(row == rows[0] for row in rows) and len(rows[0]) == len(greedy[0])


def test_a_validation_is_by_the_beam(tmp_path):
    small = Small("marian", tmp_path / "model", 2.0)
    flags = {"risk_search": "sampling", "risk_temperature": 0.5}
    assert small.lists(training=False, **flags) == small.lists()
    assert small.lists(**flags) != small.lists()


def test_out_of_memory_makes_the_lists_in_halves(tmp_path, monkeypatch):
    small, sizes = Small("marian", tmp_path / "model", ends=2.0), []
    expected, whole = small.lists(), candidates.node_search

    def small_device(decoder, features, *arguments):
        sizes.append(len(features))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(decoder, features, *arguments)

    monkeypatch.setattr(candidates, "node_search", small_device)
    assert small.lists() == expected and sizes[0] > 2 >= max(sizes[-2:])

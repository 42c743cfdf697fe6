"""Scoring of a risk set against the model's own logits, one row at a time; each architecture."""

import pytest
import torch

from simile_plugin.files import InputError
from simile_plugin.hugging_face.candidates import generation_config, risk_set_of
from simile_plugin.hugging_face.models import PADDING, SpecialTokens, special_tokens
from simile_plugin.hugging_face.scoring import LOGITS, ROWS, TREES, Scorer, best_way
from simile_plugin.hugging_face.text import Text
from simile_plugin.risk import RiskSettings
from tests import hugging_face_models
from tests.hugging_face_models import MAKERS, TARGETS, batch_of, fsmt, marian, t5

SHORT = {"risk_candidates": 4, "risk_max_len_a": 1.0, "risk_max_len_b": 2}


@pytest.fixture(params=MAKERS)
def made(request, tmp_path):
    model, tokenizer = MAKERS[request.param](tmp_path / "model")
    return model, tokenizer, special_tokens(model, tokenizer)


def slow_lprobs(model, inputs, risk_set, special):
    """log p(u_t | u_<t, x) of each row by itself, unpadded, from full logits."""
    found = torch.zeros(risk_set.tokens.shape)
    for b, rows in enumerate(risk_set.tokens):
        real = inputs["attention_mask"][b].bool()
        source = inputs["input_ids"][b][real].unsqueeze(0)
        for n, row in enumerate(rows):
            row = row[row.ne(PADDING)]
            if n and not risk_set.mask[b, n]:
                continue
            previous = torch.cat([torch.tensor([special.start]), row[:-1]]).unsqueeze(0)
            logits = model(input_ids=source, decoder_input_ids=previous).logits[0]
            lprobs = torch.log_softmax(logits, -1)
            found[b, n, : len(row)] = torch.stack([lprobs[t, token] for t, token in enumerate(row)])
    return found


def test_the_least_work_is_found(made):
    model, _, special = made
    rotary = model.config.model_type == "t5gemma"  # a node's place is not the module's to say
    assert best_way(model, special) == (ROWS if rotary else TREES)


@pytest.mark.parametrize(("way", "max_tokens"), [(TREES, 0), (ROWS, 0), (ROWS, 30), (LOGITS, 0)])
def test_values_and_gradients_are_those_of_each_row_alone(made, way, max_tokens, monkeypatch):
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 4)
    model, tokenizer, special = made
    if way == TREES and model.config.model_type == "t5gemma":
        way = ROWS
    inputs = batch_of(tokenizer)
    risk_set = risk_set_of(model, inputs, RiskSettings(**SHORT), special)
    weights = torch.rand(risk_set.tokens.shape)
    results = []
    for score in (
        lambda: Scorer(model, special, way)(inputs, risk_set, max_tokens)[0],
        lambda: slow_lprobs(model, inputs, risk_set, special),
    ):
        model.zero_grad()
        lprobs = score()
        (lprobs * weights).sum().backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        results.append((lprobs.detach(), torch.cat(grads)))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-4)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-3, atol=1e-3)


def test_fsmt_is_scored_as_it_writes():
    model, tokenizer = fsmt()
    special = special_tokens(model, tokenizer)
    way = best_way(model, special)
    inputs = batch_of(tokenizer)
    risk_set = risk_set_of(model, inputs, RiskSettings(**SHORT), special)
    found, _ = Scorer(model, special, way)(inputs, risk_set)
    row = risk_set.tokens[0, 1][risk_set.tokens[0, 1].ne(PADDING)]
    source = inputs["input_ids"][:1, : int(inputs["attention_mask"][0].sum())]
    for t, token in enumerate(row):  # each from its prefix alone, as in a search
        previous = torch.cat([torch.tensor([special.start]), row[:t]]).unsqueeze(0)
        logits = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
        own = float(torch.log_softmax(logits[0, -1], -1)[token])
        assert float(found[0, 1, t]) == pytest.approx(own, abs=1e-4)


def test_a_decoder_that_looks_ahead_is_refused():
    model, tokenizer = t5()
    special = special_tokens(model, tokenizer)
    own = model.get_output_embeddings().forward

    def of_all(features):
        return own(features + features.mean(1, keepdim=True))

    model.get_output_embeddings().forward = of_all
    with pytest.raises(InputError, match="T5ForConditionalGeneration differ by .* one by one"):
        best_way(model, special)


@pytest.mark.parametrize("flags", [{}, {"risk_search": "sampling"}])
def test_candidates_end_once_and_have_no_special_token_as_text(made, flags):
    model, tokenizer, special = made
    risk_set = risk_set_of(model, batch_of(tokenizer), RiskSettings(**SHORT, **flags), special)
    for row in risk_set.tokens.flatten(0, 1):
        row = row[row.ne(PADDING)].tolist()
        assert row.count(special.end) == 1 and row[-1] == special.end
        assert special.tag is None or row[0] == special.tag
        assert special.pad not in row
    texts = Text(tokenizer).lists(risk_set.tokens.tolist())
    assert [row[0] for row in texts] == TARGETS
    assert not any(
        mark in text for row in texts for text in row for mark in ("<pad>", "__", "</s>")
    )


def test_candidates_are_made_without_dropout(tmp_path):
    model, tokenizer = marian(tmp_path / "model", dropout=0.5)
    special, inputs = special_tokens(model, tokenizer), batch_of(tokenizer)
    lists = [
        risk_set_of(model.train(training), inputs, RiskSettings(**SHORT), special).tokens
        for training in (False, True)
    ]
    assert torch.equal(*lists) and model.training


def test_what_generate_is_asked_for():
    special = SpecialTokens(2, 3, 1, None)

    def asked(**flags):
        return generation_config(RiskSettings(risk_candidates=6, **flags), special, 5)

    beam = asked(risk_lenpen=0.3, risk_temperature=0.7)
    assert (beam.do_sample, beam.num_beams, beam.num_return_sequences) == (False, 6, 6)
    assert (beam.length_penalty, beam.early_stopping) == (0.3, True)
    assert beam.max_length == 1 + int(1.5 * 5 + 10)  # with the decoder start
    drawn = asked(risk_search="sampling", risk_sampling_topk=4, risk_temperature=0.7)
    assert (drawn.do_sample, drawn.num_beams, drawn.num_return_sequences) == (True, 1, 6)
    assert (drawn.top_k, drawn.top_p, drawn.temperature) == (4, 1.0, 0.7)
    mass = asked(risk_search="sampling", risk_sampling_topp=0.9)
    assert (mass.top_k, mass.top_p, mass.temperature) == (0, 0.9, 1.0)


@pytest.mark.parametrize(
    ("kind", "start", "tag"),
    [
        *(("marian", "<pad>", None), ("m2m100", "</s>", "__en__"), ("nllb", "</s>", "eng_Latn")),
        *(("mbart", "en_XX", None), ("mbart50", "</s>", "en_XX"), ("t5", "<pad>", None)),
    ],
)
def test_a_decoder_starts_as_its_tokenizer_says(kind, start, tag, tmp_path):
    model, tokenizer = MAKERS[kind](tmp_path / "model")
    special = special_tokens(model, tokenizer)
    assert special.start == tokenizer.convert_tokens_to_ids(start)
    assert special.tag == (None if tag is None else tokenizer.convert_tokens_to_ids(tag))
    text = Text(tokenizer)
    labels = batch_of(tokenizer)["labels"].tolist()
    assert text.strings(labels) == TARGETS


@pytest.mark.parametrize("kind", ["marian", "m2m100", "mbart50", "t5"])
def test_a_space_before_a_mark_stays(kind, tmp_path, monkeypatch):
    sentence = "is the river late ?"
    monkeypatch.setattr(hugging_face_models, "SENTENCES", [*TARGETS, sentence])
    tokenizer = MAKERS[kind](tmp_path / "model")[1]
    tokenizer.clean_up_tokenization_spaces = True  # as many a config says
    assert Text(tokenizer).strings(tokenizer(text_target=[sentence]).input_ids) == [sentence]

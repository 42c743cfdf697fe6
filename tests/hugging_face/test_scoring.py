"""Scoring of a risk set against the model's own logits, one row at a time; each architecture."""

import pytest
import torch

from simile_plugin.files import InputError
from simile_plugin.hugging_face import known_decoder, steps
from simile_plugin.hugging_face.candidates import risk_set_of
from simile_plugin.hugging_face.models import PADDING, special_tokens
from simile_plugin.hugging_face.scoring import Scorer
from simile_plugin.hugging_face.text import Text
from simile_plugin.risk import RiskSettings
from tests import hugging_face_models
from tests.hugging_face_models import MAKERS, TARGETS, batch_of, marian, t5

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


@pytest.mark.parametrize(("trees", "max_tokens"), [(True, 0), (False, 0), (False, 30)])
def test_values_and_gradients_are_those_of_each_row_alone(made, trees, max_tokens, monkeypatch):
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 4)
    if not trees:  # as on a GPU
        monkeypatch.setattr("simile_plugin.risk.tree_scoring.pays", lambda *_: False)
    model, tokenizer, special = made
    inputs = batch_of(tokenizer)
    risk_set = risk_set_of(known_decoder(model, special), inputs, RiskSettings(**SHORT), special)
    weights = torch.rand(risk_set.tokens.shape)
    results = []
    for score in (
        lambda: Scorer(model, special)(inputs, risk_set, max_tokens)[0],
        lambda: slow_lprobs(model, inputs, risk_set, special),
    ):
        model.zero_grad()
        lprobs = score()
        (lprobs * weights).sum().backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        results.append((lprobs.detach(), torch.cat(grads)))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-4)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-3, atol=1e-3)


def looks_ahead(model):
    own = model.get_output_embeddings().forward
    model.get_output_embeddings().forward = lambda x: own(x + x.mean(1, keepdim=True))


def looks_at_neighbours(model):
    model.get_decoder().block[0].layer[0].SelfAttention.forward = lambda x, **_: (x.flip(1), None)


def is_adapted(model):
    head = model.get_output_embeddings()
    model.set_output_embeddings(type("Lora", (type(head),), {})(head.in_features, 9))


def has_a_nan(model):
    """One of the vocabulary's logits: probabilities of all tokens are NaN."""
    with torch.no_grad():
        model.get_output_embeddings().weight[-1] = torch.nan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (looks_ahead, "its log-probabilities differ by"),
        (looks_at_neighbours, "T5ForConditionalGeneration cannot be trained: "),
        (has_a_nan, "its log-probabilities differ by nan from its logits'"),
        (is_adapted, "its output layer is a Lora; expected Marian, M2M-100"),
        (lambda model: model.config.update({"expert_capacity": 64}), "its experts take so many"),
    ],
)
def test_decoders_of_another_make_are_refused(change, said):
    model, tokenizer = t5()
    special = special_tokens(model, tokenizer)
    change(model)
    with pytest.raises(InputError, match=said):
        known_decoder(model, special)


@pytest.mark.parametrize("part", ["_by_steps", "_by_logits"])
def test_nan_in_a_part_of_the_trial_is_a_difference(part, monkeypatch):
    model, tokenizer = t5()
    special, own = special_tokens(model, tokenizer), getattr(steps, part)

    def with_nan(*args):
        found = own(*args)
        (found if part == "_by_steps" else found[1]).view(-1)[-1] = torch.nan
        return found

    known_decoder(model, special)
    monkeypatch.setattr(steps, part, with_nan)
    with pytest.raises(InputError, match="its log-probabilities differ by nan from its logits'"):
        known_decoder(model, special)


@pytest.mark.parametrize("flags", [{}, {"risk_search": "sampling"}])
def test_candidates_end_once_and_have_no_special_token_as_text(made, flags):
    model, tokenizer, special = made
    decoder, settings = known_decoder(model, special), RiskSettings(**SHORT, **flags)
    risk_set = risk_set_of(decoder, batch_of(tokenizer), settings, special)
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
    decoder, lists = known_decoder(model, special), []
    for training in (False, True):
        model.train(training)
        lists.append(risk_set_of(decoder, inputs, RiskSettings(**SHORT), special).tokens)
    assert torch.equal(*lists) and model.training


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

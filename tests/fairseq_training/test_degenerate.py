"""Lists, rewards and log-probabilities at which a naive criterion would go wrong."""

import math

import pytest
import torch

from simile_plugin.fairseq_training.candidates import build_risk_set
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.search import Hypotheses
from tests.fairseq_models import make_model, make_sample, rows_of
from tests.fairseq_training.test_criterion import reduced

PAD, EOS = 1, 2
ARCHS = ["transformer_tiny", "fconv", "lstm"]
NAN, INF = math.nan, math.inf


@pytest.fixture
def user_reward(tmp_path, monkeypatch):
    def make(name, body):
        (tmp_path / f"{name}.py").write_text(f"def score(hyps, refs, srcs):\n    {body}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return f"{name}:score"

    return make


@pytest.fixture
def returns(monkeypatch):
    """Let the search return these hypotheses."""

    def set_lists(tokens, scores):
        found = Hypotheses(torch.tensor(tokens), torch.tensor(scores))
        monkeypatch.setattr(
            "simile_plugin.fairseq_training.candidates.beam_search", lambda *a, **k: found
        )

    return set_lists


def gradient(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def token_gradient(make_criterion, model, sample):
    """The gradient of 0.3 L_TokLS alone."""
    # beside a vanishing scale the risk has no weight
    criterion = make_criterion(risk_cost_scale=1e-30)
    return gradient(model, criterion(model, sample)[0])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("value", [NAN, INF])
def test_a_sentence_that_the_model_cannot_score_leaves_the_others(
    make_criterion, task, arch, value
):
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 3)))
    word = int(sample["net_input"]["src_tokens"][1, 0])
    sources = sample["net_input"]["src_tokens"][::2]
    sources[sources == word] = task.source_dictionary.unk()
    criterion = make_criterion()
    model = make_model(arch, task).eval()
    others = criterion(model, rows_of(sample, [0, 2]))
    with torch.no_grad():
        model.encoder.embed_tokens.weight[word] = value
    loss, size, log = criterion(model, sample)
    assert size == 3 and torch.isfinite(loss)
    # its search finds nothing: the worst cost, and no gradient
    assert loss.item() == pytest.approx(others[0].item() + 0.7 * 10 * 1, rel=1e-4)
    assert int(log["empty"]) == int(log["unscored"]) == 1 and int(log["nonfinite"]) == 1
    for key in ("loss", "nll_loss", "ntokens", "candidates", "entropy_q"):
        assert float(log[key]) == pytest.approx(float(others[2][key]), rel=1e-4), key
    for key in ("cost", "cost_bleu", "cost_simile"):
        assert float(log[key]) == pytest.approx(float(others[2][key]) + 1, rel=1e-4), key
    found = reduced(log)
    assert all(math.isfinite(value) for value in found.values())
    assert found["nonfinite"] == found["empty"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["loss"] == pytest.approx(reduced(others[2])["loss"], abs=1e-3)


@pytest.mark.parametrize("search", ["beam", "sampling"])
def test_a_poisoned_model_never_looks_good(make_criterion, task, search):
    sample = make_sample(task)
    model = make_model("transformer_tiny", task).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(NAN)
    _, _, log = make_criterion(risk_search=search)(model, sample)
    found = reduced(log)
    assert found["cost"] == found["cost_simile"] == found["cost_bleu"] == 1
    assert found["loss"] == found["nll_loss"] == found["ppl"] == INF
    assert found["bleu"] == found["simile"] == found["candidates"] == 0
    assert found["empty"] == 1
    # one batch of them does not make the whole validation infinite
    good = make_criterion()(make_model("transformer_tiny", task).eval(), sample)[2]
    assert reduced(good, log)["loss"] == pytest.approx(reduced(good)["loss"], abs=1e-3)


def test_a_reward_that_is_no_number_drops_its_candidate(make_criterion, task, user_reward):
    # NaN for the second candidate of each list: the others share Q
    body = (
        "return [[1.0 / (1 + i) if i != 1 else float('nan') for i in range(len(h))] for h in hyps]"
    )
    criterion = make_criterion(reward=user_reward("second_is_nan", body))
    sample = make_sample(task)
    model = make_model("transformer_tiny", task)
    loss, _, log = criterion(model, sample)
    assert torch.isfinite(gradient(model, loss)).all()
    assert int(log["nonfinite"]) == 3 and int(log["candidates"]) == 3 * 3
    # by hand: Q over candidates 1, 3 and 4 with costs 0, 2/3, 3/4
    risk_set = criterion.translator.generator(model, sample)
    lprobs, _ = score_rows(model, sample, risk_set, PAD)
    total = 0.0
    for b in range(3):
        weights = [math.exp(float(lprobs[b, n].sum())) for n in (1, 3, 4)]
        total += sum(w * c for w, c in zip(weights, (0, 2 / 3, 3 / 4), strict=True)) / sum(weights)
    assert float(log["cost"]) == pytest.approx(total, rel=1e-4)


def test_a_reward_without_any_number_stops(make_criterion, task, user_reward):
    criterion = make_criterion(
        reward=user_reward("all_inf", "return [[float('inf')] * len(h) for h in hyps]")
    )
    with pytest.raises(ValueError, match=r"returned inf for hypothesis .*; so it did for all 12"):
        criterion(make_model("transformer_tiny", task), make_sample(task))


@pytest.mark.parametrize("keep", [False, True])
def test_identical_candidates_teach_nothing_but_tokens(make_criterion, task, returns, keep):
    sample = make_sample(task)
    returns([[[5, 6, EOS]] * 4] * 3, [[-1.0] * 4] * 3)
    model = make_model("transformer_tiny", task)
    criterion = make_criterion(risk_keep_duplicates=keep)
    loss, _, log = criterion(model, sample)
    assert int(log["candidates"]) == 3 * (4 if keep else 1) and int(log["zero_std"]) == 3
    assert float(log["distinct"]) == pytest.approx(3 / 4)
    found, wanted = gradient(model, loss), token_gradient(make_criterion, model, sample)
    assert torch.allclose(found, wanted, atol=1e-5)


def test_lists_shorter_than_asked_for(make_criterion, task, returns):
    sample = make_sample(task)
    tokens = [[[5, 6, EOS], [7, EOS, PAD], [PAD] * 3, [PAD] * 3], [[5, EOS, PAD]] + [[PAD] * 3] * 3]
    tokens.append([[PAD] * 3] * 4)
    scores = [[-1.0, -2.0, -INF, -INF], [-1.0, -INF, -INF, -INF], [-INF] * 4]
    returns(tokens, scores)
    model = make_model("transformer_tiny", task)
    loss, _, log = make_criterion()(model, sample)
    assert torch.isfinite(gradient(model, loss)).all()
    assert int(log["candidates"]) == 2 + 1 + 0
    assert int(log["empty"]) == 1 and int(log["nonfinite"]) == 0


def test_scores_that_are_no_numbers_are_no_members():
    hypotheses = Hypotheses(torch.tensor([[[5, EOS], [6, EOS]]]), torch.tensor([[NAN, -1.0]]))
    cfg = SimileRiskConfig(risk_candidates=2)
    found = build_risk_set(torch.tensor([[7, EOS]]), hypotheses, cfg, PAD, EOS)
    assert found.mask.tolist() == [[False, False, True]]


def test_candidates_that_are_all_empty_cost_everything(make_criterion, task, returns):
    sample = make_sample(task)
    returns([[[EOS]] * 4] * 3, [[-1.0] * 4] * 3)
    model = make_model("transformer_tiny", task)
    criterion = make_criterion()
    loss, _, log = criterion(model, sample)
    assert float(log["cost"]) == float(log["cost_bleu"]) == pytest.approx(3)
    assert float(log["sim"]) == float(log["simile"]) == 0
    assert reduced(log)["bleu"] == 0 and reduced(log)["length_ratio"] == 0
    found, wanted = gradient(model, loss), token_gradient(make_criterion, model, sample)
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("arch", ARCHS)
def test_candidates_never_exceed_the_models_positions(make_criterion, task, arch):
    # a source of 60 tokens asks for up to 1.5 * 60 + 10 = 100; the model has 64 positions
    sample = make_sample(task, lengths=((60, 60),))
    criterion = make_criterion(risk_candidates=2)
    model = make_model(arch, task).eval()
    risk_set = criterion.translator.generator(model, sample)
    assert risk_set.tokens.size(2) <= model.decoder.max_positions() or arch == "lstm"
    assert torch.isfinite(criterion(model, sample)[0])

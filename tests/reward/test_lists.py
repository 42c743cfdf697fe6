"""The reward by hand, against sacreBLEU, against a slow oracle, and at its edges."""

import math
import sys

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from simile_plugin.encoder.models import cosine
from simile_plugin.reward import Scorer
from simile_plugin.reward import scorer as scorer_module
from simile_plugin.reward.bleu import (
    bleu_signature,
    corpus_bleu,
    sentence_bleu,
)
from simile_plugin.reward.simile import length_penalty, signature
from simile_plugin.reward.spec import Reward, parse_reward
from tests.bleu import bleu_statistics

WORDS = ["the", "heron", "waits", "beside", "cold", "water", ".", "stones", "two", "boys"]
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def test_length_penalty_by_hand():
    refs, hyps = torch.tensor([4, 6, 5, 1, 0, 3, 0]), torch.tensor([4, 4, 10, 3, 3, 0, 0])
    # exp(1 - 4/4), exp(1 - 6/4), exp(1 - 10/5), exp(1 - 3/1), and 0 wherever a side is empty
    expected = [1.0, math.exp(-0.5), math.exp(-1.0), math.exp(-2.0), 0.0, 0.0, 0.0]
    assert length_penalty(refs, hyps).tolist() == pytest.approx(expected)


def test_cosine_by_hand():
    a = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0], [1e-20, 0.0]])
    b = torch.tensor([[4.0, 3.0], [-2.0, 0.0], [1.0, 1.0], [1e-18, 0.0]])
    # (12 + 12) / 25; opposite; a zero vector; tiny but parallel
    assert cosine(a, b).tolist()[:3] == pytest.approx([24 / 25, -1.0, 0.0])


def test_sentence_bleu_by_hand():
    # hyp: 3 words, all in the ref of 4; bigrams 2/2, trigrams 1/1, no 4-gram
    stats = torch.tensor(bleu_statistics("the heron waits", "the heron waits ."))
    assert stats.tolist() == [3, 4, 3, 2, 1, 0, 3, 2, 1, 0]
    # precisions 3/3, (2+1)/(2+1), (1+1)/(1+1), (0+1)/(0+1); brevity penalty exp(1 - 4/3)
    assert sentence_bleu(stats).item() == pytest.approx(math.exp(1 - 4 / 3))
    # 2 of 4 words, 1 of 3 bigrams, 0 of 2 trigrams, 0 of 1 four-gram
    stats = torch.tensor(bleu_statistics("the heron sleeps now", "the heron waits ."))
    product = 2 / 4 * (1 + 1) / (3 + 1) * 1 / (2 + 1) * 1 / (1 + 1)
    assert sentence_bleu(stats).item() == pytest.approx(product**0.25)


@settings(max_examples=150)
@given(SENTENCE, SENTENCE)
def test_sentence_bleu_equals_sacrebleu(hyp, ref):
    oracle = sacrebleu.metrics.BLEU(smooth_method="add-k", smooth_value=1)
    expected = oracle.sentence_score(hyp, [ref])
    stats = bleu_statistics(hyp, ref)
    assert stats == oracle._extract_corpus_statistics([hyp], [[ref]])[0]
    assert 100 * sentence_bleu(torch.tensor(stats)).item() == pytest.approx(
        expected.score, abs=1e-4
    )


@settings(max_examples=100)
@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=12))
def test_corpus_bleu_equals_sacrebleu(pairs):
    hyps, refs = map(list, zip(*pairs, strict=True))
    stats = torch.tensor([bleu_statistics(h, r) for h, r in pairs])
    expected = sacrebleu.metrics.BLEU().corpus_score(hyps, [refs]).score
    assert corpus_bleu(stats.sum(0)).item() == pytest.approx(expected, abs=1e-6)
    # leading dimensions are kept
    assert corpus_bleu(stats).shape == (len(pairs),)


def test_the_signature_of_sentence_bleu_names_its_own_smoothing():
    bleu = sacrebleu.metrics.BLEU(smooth_method="add-k", smooth_value=1)
    bleu.corpus_score(["a"], [["a"]])
    assert bleu_signature(sentence=True).partition("; ")[2] == str(bleu.get_signature())


def slow_simile(hyp, ref, encoder, alpha):
    """SIM and SIMILE of one pair, written as the paper does."""
    rows = encoder.segmenter.encode([ref, hyp])
    lengths = [len(row) for row in rows]
    means = []
    for row in rows:
        known = [piece for piece in row if piece != encoder.segmenter.unk_id]
        vectors = [encoder.weight[piece].detach().double() for piece in known]
        means.append(sum(vectors) / len(vectors) if vectors else None)
    if any(mean is None for mean in means):
        return 0.0, 0.0
    dot = float((means[0] * means[1]).sum())
    sim = dot / math.sqrt(float((means[0] ** 2).sum()) * float((means[1] ** 2).sum()))
    return sim, math.exp(1 - max(lengths) / min(lengths)) ** alpha * sim


@settings(max_examples=40)
@given(
    st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.25, 1.0]),
)
def test_score_lists_equals_the_slow_loop(encoder, triples, alpha):
    refs = [ref for ref, _, _ in triples]
    scores = Scorer(encoder=encoder, alpha=alpha).lists([[a, b] for _, a, b in triples], refs)
    for row, (ref, *hyps) in enumerate(triples):
        for column, hyp in enumerate(hyps):
            sim, simile = slow_simile(hyp, ref, encoder, alpha)
            assert scores.sim[row, column].item() == pytest.approx(sim, abs=1e-5)
            assert scores.simile[row, column].item() == pytest.approx(simile, abs=1e-5)


def test_edges_are_finite_and_defined(encoder):
    unknown = "\u4e2d\u6587"
    refs = ["the heron waits", "", unknown, "the heron waits"]
    hyps = [[""], ["the heron"], [unknown], ["the heron waits"]]
    scores = Scorer(encoder=encoder).lists(hyps, refs)
    assert scores.simile[:, 0].tolist() == pytest.approx([0, 0, 0, 1], abs=1e-6)
    assert scores.sim[:, 0].tolist() == pytest.approx([0, 0, 0, 1], abs=1e-6)
    assert scores.bleu[:3, 0].tolist() == pytest.approx([0, 0, 1])
    assert scores.unknown_pieces > 0
    assert Scorer(encoder=encoder).lists([], []).simile.shape == (0, 0)


def test_score_outputs_joins_chunks(encoder, monkeypatch):
    refs = [f"the heron waits {word}" for word in WORDS]
    outputs = [WORDS, refs]
    whole = Scorer(encoder=encoder).lists(list(zip(*outputs, strict=True)), refs)
    monkeypatch.setattr(scorer_module, "SENTENCES_AT_ONCE", 3)
    seen = []
    parts = Scorer(encoder=encoder).outputs(outputs, refs, progress=seen.append)
    assert torch.allclose(parts.simile, whole.simile, atol=1e-6)
    assert torch.equal(parts.bleu_stats, whole.bleu_stats)
    assert seen == [3, 3, 3, 1]
    nothing = Scorer(encoder=encoder).outputs([[]], [])
    assert nothing.simile.shape[0] == 0 and nothing.tokens == 0


def test_ragged_lists_are_refused(encoder):
    with pytest.raises(ValueError, match="2 candidate lists for 1 references"):
        Scorer(encoder=encoder).lists([["a"], ["b"]], ["r"])
    with pytest.raises(ValueError, match="differ in length"):
        Scorer(encoder=encoder).lists([["a"], ["b", "c"]], ["r", "r"])


@pytest.mark.parametrize(
    ("hyps", "refs"), [(["ab", "cd"], ["ab", "cd"]), ([["a"], ["b"]], "ab"), (["ab"], ["a", "b"])]
)
def test_a_string_is_no_list_of_texts(hyps, refs):
    for score in (Scorer().lists, Scorer().outputs):
        with pytest.raises(ValueError, match="got 'ab' as .* expected a list of strings"):
            score(hyps, refs)


def test_parse_reward():
    assert parse_reward("simile") == {"simile": 1.0}
    assert parse_reward("half") == {"simile": 0.5, "bleu": 0.5}
    assert parse_reward("simile:0.7,bleu:0.3") == {"simile": 0.7, "bleu": 0.3}
    assert parse_reward("math:sqrt") is math.sqrt


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("simlie", "got 'simlie'.*expected one of"),
        ("simile:0.7,bleu:0.7", "weights 0.7, 0.7.*sum to 1"),
        ("simile:1.5,bleu:-0.5", "positive weights"),
        ("no_such_module:f", "cannot import module 'no_such_module'"),
    ],
)
def test_bad_reward_names(spec, message):
    with pytest.raises(ValueError, match=f"--reward: .*{message}|--reward: {message}"):
        parse_reward(spec)


def test_mix_is_the_weighted_sum(encoder):
    scores = Scorer(encoder=encoder).lists([["a red house", "the hill"]], ["a red house stands"])
    mixed = Reward("simile:0.7,bleu:0.3").from_scores(scores)
    assert torch.allclose(mixed, 0.7 * scores.simile + 0.3 * scores.bleu)
    assert Reward("half").needs_encoder and Reward("sim").needs_encoder
    assert not Reward("bleu").needs_encoder
    without = Scorer().lists([["a"]], ["a"])
    assert Reward("bleu").from_scores(without).item() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="needs --simile-encoder"):
        Reward("sim").from_scores(without)


def test_chrf_alone_and_in_mixes(encoder):
    hyps, refs = [["a red house", "the hill"]], ["a red house stands"]
    chrf, chrfpp = Reward("chrf"), Reward("chrf++:0.5,chrf:0.5")
    mixed = Reward("simile:0.5,chrf:0.5")
    assert [r.chrf_words for r in (chrf, chrfpp, mixed, Reward("half"))] == [0, 2, 0, None]
    assert [r.needs_encoder for r in (chrf, chrfpp, mixed)] == [False, False, True]
    expected = [
        torch.tensor([[CHRF(word_order=words).sentence_score(h, refs).score for h in hyps[0]]])
        for words in (0, 2)
    ]
    scores = Scorer().lists(hyps, refs, chrf_words=2)
    assert torch.allclose(chrf.from_scores(scores), expected[0] / 100, atol=1e-6)
    assert torch.allclose(chrfpp.from_scores(scores), sum(expected) / 200, atol=1e-6)
    scores = Scorer(encoder=encoder).lists(hyps, refs, chrf_words=mixed.chrf_words)
    assert torch.allclose(mixed.from_scores(scores), scores.simile / 2 + expected[0] / 200)
    assert scores.chrfpp is None and Scorer(encoder=encoder).lists(hyps, refs).chrf is None


@pytest.fixture
def user_reward(tmp_path, monkeypatch):
    def make(body):
        (tmp_path / "my_reward.py").write_text(f"def score(hyps, refs, srcs):\n    {body}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "my_reward", raising=False)
        return Reward("my_reward:score")

    return make


def test_a_function_sees_the_reference_where_it_is_a_candidate(user_reward):
    reward = user_reward("return [[len(hyp) for hyp in row] for row in hyps]")
    for included, expected in ((True, [3, 1, 2]), (False, [0, 1, 2])):
        members = torch.tensor([[included, True, True]])
        found, scores = Scorer(reward).values_and_scores(
            [["abc", "a", "ab"]], members, lambda: ["x"], torch.device("cpu")
        )
        assert found.tolist() == [expected] and scores.bleu.shape == (1, 3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [[1.0]]", r"the function returned shape \(1, 1\); expected \(1, 2\)"),
        ("return [[float('nan')] * 2]", "the function returned nan for hypothesis 'a'.*all 2 of"),
        (
            "return {}['gone']",
            r"the function failed: KeyError: 'gone' \(.*/my_reward.py:2; SIMILE_",
        ),
        (
            "import torch\n    return [torch.ones(2, requires_grad=True)]",
            "the function returned no B x N numbers: only one element tensors",
        ),
    ],
)
def test_bad_user_functions(user_reward, body, message):
    reward = user_reward(body)
    with pytest.raises(ValueError, match=f"--reward my_reward:score: {message}"):
        reward.from_function([["a", "b"]], ["c"], ["d"], torch.ones(1, 2, dtype=torch.bool))


def test_tensors_of_user_functions_are_taken_as_numbers(user_reward):
    body = "return torch.ones(1, 2, dtype=torch.float64, requires_grad=True)"
    reward = user_reward(f"import torch\n    {body}")
    values = reward.from_function([["a", "b"]], ["c"], ["d"], torch.tensor([[True, True]]))
    assert values.dtype == torch.float32 and not values.requires_grad
    assert values.tolist() == [[1.0, 1.0]]


def test_single_values_that_are_no_numbers_are_named_once(user_reward, caplog):
    reward = user_reward("return [[1.0, float('nan')]]")
    for _ in range(2):
        mask = torch.ones(1, 2, dtype=torch.bool)
        values = reward.from_function([["a", "b"]], ["c"], ["d"], mask)
        assert values[0, 0] == 1.0 and values[0, 1].isnan()
    assert caplog.text.count("nan for hypothesis 'b'; expected a finite number; it is left") == 1


def test_a_function_in_percent_is_named_once(user_reward, caplog):
    reward = user_reward("return [[87.5, 0.0]]")
    for _ in range(2):
        reward.from_function([["a", "b"]], ["c"], ["d"], torch.ones(1, 2, dtype=torch.bool))
    assert caplog.text.count("the function returned 87.5; expected about 0 to 1") == 1


def test_signature_names_what_counts(encoder):
    found = signature(encoder, 0.25)
    assert f"enc:{encoder.fingerprint}" in found
    assert "alpha:0.25" in found and "len:pieces" in found and "text:nfkc+lc+punct+vis" in found


def test_defaults_are_the_papers(encoder):
    refs, hyps = ["the grey heron waits"], [["the heron"]]
    scores = Scorer(encoder=encoder).lists(hyps, refs)
    expected = scores.length_penalty**0.25 * scores.sim
    assert scores.simile.item() == pytest.approx(expected.item())
    assert 0 < scores.length_penalty.item() < 1
    joined = Scorer(encoder=encoder).outputs([[hyps[0][0]]], refs)
    assert joined.simile.item() == pytest.approx(expected.item())

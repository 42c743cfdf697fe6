"""The criterion against its parts, sacreBLEU and fairseq's own cross-entropy."""

import dataclasses
import math
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics

from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.files import InputError
from simile_plugin.reward import FEATURES, LearnedReward, Scorer, make_lexicon, save_learned
from simile_plugin.risk import distribution as risk
from simile_plugin.risk.length_control import SHARE, LengthControl
from tests.conftest import SENTENCES
from tests.fairseq_models import judge, make_model, make_sample, make_task, rows_of, with_tag

PAD = 1


def forward(criterion, sample, arch="transformer_tiny", training=True):
    model = make_model(arch, criterion.task)
    model.train(training)
    return model, *criterion(model, sample)


def test_nothing_with_parameters_hangs_in_it(make_criterion, task):
    criterion = make_criterion()
    forward(criterion, make_sample(task))  # the generator is made on first use
    assert utils.has_parameters(criterion) is False
    assert criterion.state_dict() == {}


def test_loss_is_the_formula(make_criterion, task, encoder):
    sample = make_sample(task)
    criterion = make_criterion(mle_weight=0.4, label_smoothing=0.0, risk_cost_scale=10.0)
    model, loss, size, _ = forward(criterion, sample)
    risk_set = criterion.translator.generator(model, sample)
    lprobs, _ = score_rows(model, sample, risk_set, PAD)
    hyps = judge(criterion, sample, risk_set).hyps
    expected = 0.0
    for b in range(3):
        scores = [float(lprobs[b, n][risk_set.tokens[b, n].ne(PAD)].sum()) for n in range(1, 5)]
        weights = [math.exp(score) for score in scores]
        ref = hyps[b][0]
        simile = Scorer(encoder=encoder).lists([hyps[b][1:]], [ref]).simile[0].tolist()
        b_risk = sum(w * (1 - s) for w, s in zip(weights, simile, strict=True)) / sum(weights)
        length = int(sample["target"][b].ne(PAD).sum())
        nll = -float(lprobs[b, 0, :length].sum())
        expected += 0.4 * nll / length + 0.6 * 10 * b_risk
    assert size == 3
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_rewards_are_those_of_the_flags(make_criterion, task, encoder):
    criterion = make_criterion(reward="half", simile_alpha=1.0, risk_bleu_tokenize="char")
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    risk_set = criterion.translator.generator(model, sample)
    judged = judge(criterion, sample, risk_set)
    refs = [row[0] for row in judged.hyps]
    wanted, usual = (
        scorer.lists(judged.hyps, refs)
        for scorer in (Scorer(encoder=encoder, alpha=1.0, tokenize="char"), Scorer(encoder=encoder))
    )
    assert torch.allclose(judged.reward, (wanted.simile + wanted.bleu) / 2)
    for one, other in ((wanted.simile, usual.simile), (wanted.bleu, usual.bleu)):
        assert not torch.allclose(one, other, atol=1e-3)


def test_repetition_is_seen_where_there_are_no_spaces(make_criterion, task, monkeypatch):
    def lists(rows, tags):
        return [["他走了。", *["他走他走了。"] * (len(row) - 1)] for row in rows]

    criterion = make_criterion()
    monkeypatch.setattr(criterion.translator.target_text, "lists", lists)
    *_, log = forward(criterion, make_sample(task))
    assert log["repetition"] == pytest.approx(3 * 1 / 5)


@pytest.mark.parametrize(
    ("reference", "tokenize", "warned"),
    [
        ("他走了，因为天气不好。", "13a", "have next to no spaces"),
        ("他走了，因为天气不好。", "zh", ""),
        ("天气 不好 ， 他 就 走 了 。", "zh", "spaces in a script that is written without"),
        ("he met 王 because of the weather", "zh", ""),
    ],
)
def test_spaces_that_do_not_fit_the_tokeniser_are_warned_of_once(
    make_criterion, task, monkeypatch, caplog, reference, tokenize, warned
):
    criterion = make_criterion(risk_bleu_tokenize=tokenize)
    text = criterion.translator.target_text
    monkeypatch.setattr(text, "lists", lambda rows, tags: [[reference] * len(r) for r in rows])
    for _ in range(2):
        forward(criterion, make_sample(task))
    assert caplog.text.count("spaces") == bool(warned) and warned in caplog.text


def test_text_that_is_not_plain_is_warned_of_once(make_criterion, task, monkeypatch, caplog):
    criterion = make_criterion()
    text = criterion.translator.target_text
    monkeypatch.setattr(text, "lists", lambda rows, tags: [["it&#39;s so"] * len(r) for r in rows])
    for _ in range(2):
        forward(criterion, make_sample(task))
    assert caplog.text.count("the first references has HTML escapes ('&#39;')") == 1


def test_length_costs_what_the_reward_paid_for_it(make_criterion, task):
    sample = make_sample(task)
    criterion = make_criterion(mle_weight=0.4, risk_cost_scale=10.0)
    model, free, _, log = forward(criterion, sample)
    risk_set = criterion.translator.generator(model, sample)
    lprobs, _ = score_rows(model, sample, risk_set, PAD)
    q = criterion.objective_of_lists.distribution(lprobs, risk_set.tokens.ne(PAD), risk_set.mask)
    judged = judge(criterion, sample, risk_set)
    covariance = variance = expected = 0.0
    for lengths, reward, weights in zip(
        judged.lengths.tolist(), judged.reward, q.tolist(), strict=True
    ):
        costs = (1 - reward).tolist()
        # both centred: float32 weights do not add up to 1
        mean, mean_cost = (
            sum(w * x for w, x in zip(weights, xs, strict=True)) for xs in (lengths, costs)
        )
        for weight, cost, length in zip(weights, costs, lengths, strict=True):
            covariance += weight * (cost - mean_cost) * (length - mean)
            variance += weight * (length - mean) ** 2
        expected += mean
    criterion.after_update([log])
    multiplier = criterion.length_control.multiplier
    assert multiplier == pytest.approx(-SHARE * covariance / variance, rel=1e-3) != 0
    held, _, _ = criterion(model, sample)
    assert held.item() == pytest.approx(free.item() + 0.6 * 10 * multiplier * expected, rel=1e-4)
    criterion.eval()
    with torch.no_grad():
        valid = criterion(model, sample)[0]
        criterion.length_control.strength = 0.0
        assert torch.equal(criterion(model, sample)[0], valid)


def test_a_learned_reward_is_trained_on(make_criterion, task, encoder, tmp_path):
    learned = LearnedReward(
        dict.fromkeys(FEATURES, 0.2), make_lexicon([SENTENCES]), encoder.fingerprint
    )
    save_learned(tmp_path / "reward", learned)
    criterion = make_criterion(reward=f"learned:{tmp_path / 'reward'}")
    model, loss, _, _ = forward(criterion, sample := make_sample(task))
    assert torch.isfinite(loss) and utils.has_parameters(criterion) is False
    risk_set = criterion.translator.generator(model, sample)
    judged = judge(criterion, sample, risk_set)
    refs = [row[0] for row in judged.hyps]
    scores = Scorer(encoder=encoder, learned=learned).lists(judged.hyps, refs)
    assert torch.equal(judged.reward, scores.learned)
    # a run that is resumed notices another reward in the same folder, and not another place
    assert criterion.objective()["--reward"] == f"learned:{learned.fingerprint}"
    save_learned(tmp_path / "other", dataclasses.replace(learned, encoder="0" * 12))
    with pytest.raises(ValueError, match="--simile-encoder.*fitted with encoder 000000000000"):
        make_criterion(reward=f"learned:{tmp_path / 'other'}")


@pytest.mark.parametrize("arch", ["transformer_tiny", "fconv", "lstm"])
def test_a_sentences_loss_does_not_depend_on_its_batch(make_criterion, task, arch):
    # equal source lengths: the bound on candidate length comes from the longest source
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2), (5, 3)))
    criterion = make_criterion()
    model, whole, _, log = forward(criterion, sample, arch)
    parts = [criterion(model, rows_of(sample, rows)) for rows in ([0, 1], [2], [3])]
    assert whole.item() == pytest.approx(sum(part[0].item() for part in parts), rel=1e-5)
    for key in ("cost", "simile", "entropy_q", "nll_loss"):
        total = sum(float(part[2][key]) for part in parts)
        assert float(log[key]) == pytest.approx(total, rel=1e-4)


def test_weight_one_is_fairseqs_label_smoothed_loss(make_criterion, task):
    # one sentence, so that a mean over tokens is a mean over sentences too
    sample = make_sample(task, lengths=((5, 6),))
    model, loss, _, log = forward(make_criterion(mle_weight=1.0, label_smoothing=0.1), sample)
    stock = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    expected, tokens, stock_log = stock(model, sample)
    assert loss.item() == pytest.approx(expected.item() / tokens, rel=1e-5)
    assert log["nll_loss"].item() == pytest.approx(stock_log["nll_loss"].item(), rel=1e-5)


def test_beyond_bleu_objective(make_criterion, task):
    sample = make_sample(task)
    criterion = make_criterion(risk_compat="beyond-bleu", label_smoothing=0.1, mle_weight=0.3)
    model, loss, size, _ = forward(criterion, sample)
    risk_set = criterion.translator.generator(model, sample)
    lprobs, _ = score_rows(model, sample, risk_set, PAD)
    scores = judge(criterion, sample, risk_set).scores
    means = risk.candidate_scores(lprobs, risk_set.tokens.ne(PAD), normalize=True)[:, 1:]
    q = torch.softmax(means.exp(), dim=1)
    seq_loss = (q * (100 - 100 * scores.simile[:, 1:])).sum()
    token_loss, tokens, _ = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)(model, sample)
    expected = 0.3 * token_loss / tokens + 0.7 * seq_loss / 3
    assert loss.item() / size == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("arch", ["bart_base", "transformer_tiny"])
def test_the_tag_of_a_language_is_no_text(make_criterion, task, arch):
    sample = with_tag(make_sample(task), 9)
    criterion = make_criterion()
    model, loss, _, _ = forward(criterion, sample, arch)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    risk_set = criterion.translator.generator(model, sample)
    hyps = judge(criterion, sample, risk_set).hyps
    target = make_sample(task)["target"]
    untagged = target.masked_fill(target.eq(9), PAD).tolist()
    assert [row[0] for row in hyps] == criterion.translator.target_text.strings(untagged, True)
    tag = task.target_dictionary[9].strip("\u2581")
    assert not any(tag in text for row in hyps for text in row)


@pytest.mark.parametrize("arch", ["fconv", "lstm"])  # test_half_precision trains a transformer
def test_half_precision_models_keep_the_risk_in_float32(make_criterion, task, arch):
    sample = make_sample(task)
    criterion = make_criterion()
    _, full, _, _ = forward(criterion, sample, arch)
    model = make_model(arch, task).bfloat16().train()
    loss, _, log = criterion(model, sample)
    loss.backward()
    assert loss.dtype == log["cost"].dtype == torch.float32
    assert loss.item() == pytest.approx(full.item(), rel=0.05)
    assert all(p.grad.dtype == torch.bfloat16 for p in model.parameters() if p.grad is not None)


def test_keys_do_not_depend_on_reward_or_mode(make_criterion, task):
    logs = [
        forward(make_criterion(reward=reward), make_sample(task), training=training)[3]
        for reward in ("simile", "bleu")
        for training in (True, False)
    ]
    assert len({tuple(sorted(log)) for log in logs}) == 1


def reduced(*logs):
    with metrics.aggregate(new_root=True) as aggregator:
        for log in logs:
            SimileRiskCriterion.reduce_metrics([log])
    return aggregator.get_smoothed_values()


def test_validation_numbers(make_criterion, task, encoder):
    criterion = make_criterion(reward="bleu")
    samples = [make_sample(task, seed) for seed in (1, 2)]
    hyps, refs, logs = [], [], []
    for sample in samples:
        model, _, _, log = forward(criterion, sample, training=False)
        risk_set = criterion.translator.generator(model, sample)
        rows = judge(criterion, sample, risk_set).hyps
        refs += [row[0] for row in rows]
        hyps += [row[1] for row in rows]
        logs.append(log)
    found = reduced(*logs)
    bleu = sacrebleu.metrics.BLEU().corpus_score(hyps, [refs])
    assert found["bleu"] == pytest.approx(bleu.score, abs=0.01)
    assert found["length_ratio"] == pytest.approx(bleu.sys_len / bleu.ref_len, abs=1e-3)
    top = Scorer(encoder=encoder).lists([[hyp] for hyp in hyps], refs)
    assert found["simile"] == pytest.approx(100 * top.simile.mean().item(), abs=0.01)
    assert found["sim"] == pytest.approx(100 * top.sim.mean().item(), abs=0.01)
    assert found["cost"] == pytest.approx(found["cost_bleu"], abs=1e-4)
    assert 0 <= found["zero_std"] <= 1 and 0 < found["distinct"] <= 1


def test_summed_logs_give_the_same_numbers(make_criterion, task):
    criterion = make_criterion()
    criterion.length_control = LengthControl(covariance=-0.4, variance=1.0)
    # Of other numbers of sentences, and of tokens a sentence: each mean has its own weights.
    samples = make_sample(task, 1), make_sample(task, 2, ((5, 2),))
    logs = [forward(criterion, sample)[3] for sample in samples]
    summed = {key: logs[0][key] + logs[1][key] for key in logs[0]}
    separate, together = reduced(*logs), reduced(summed)
    assert separate.keys() == together.keys()
    assert together["length_multiplier"] == pytest.approx(SHARE * 0.4)
    assert 0 < together["ms_generation"] and 0 < together["ms_scoring"]
    assert together["peak_gb"] > 0 or torch.cuda.is_available()  # then it is the GPU's, idle here
    assert {"sents_s", "hyps_s", "ms_text", "ms_reward"} <= together.keys()
    for key in separate.keys() - {"sents_s", "hyps_s"}:
        assert separate[key] == pytest.approx(together[key], abs=2e-3, rel=1e-3), key


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"mle_weight": 1.5}, "--mle-weight: got 1.5, expected a number from 0 to 1"),
        ({"risk_candidates": 0}, "--risk-candidates: got 0, expected a whole number of at least 1"),
        ({"risk_candidates": 1}, "--risk-candidates: got 1 with --mle-weight 0.3; expected at"),
        ({"risk_candidates": 9000}, "--risk-candidates: got 9000; expected fewer than"),
        ({"risk_bleu_tokenize": "13b"}, "--risk-bleu-tokenize: got '13b', expected one of none"),
        ({"reward": "simlie"}, "--reward: got 'simlie'"),
        ({"simile_encoder": None}, "--simile-encoder: not given, but --reward simile needs"),
        ({"simile_encoder": "/no/such/folder"}, "/no/such/folder"),
    ],
)
def test_bad_flags(make_criterion, flags, message):
    with pytest.raises(ValueError, match=message):
        make_criterion(**flags)


def test_an_encoder_of_another_script_is_warned_of(make_criterion, task, monkeypatch, caplog):
    criterion = make_criterion()
    text = criterion.translator.target_text
    monkeypatch.setattr(text, "lists", lambda rows, tags: [["кошка спит"] * len(r) for r in rows])
    for _ in range(2):
        forward(criterion, make_sample(task))
    assert caplog.text.count("--simile-encoder: it does not know 100% of the tokens") == 1


def test_what_a_dictionary_or_a_task_does_beside_the_flags_is_warned_of(
    make_criterion, task, caplog
):
    make_criterion(risk_post_process="sentencepiece")
    assert not caplog.messages
    task.target_dictionary.add_symbol("&apos;s")
    task.cfg.eval_bleu = True
    make_criterion(risk_post_process="subword_nmt")
    for said in (
        "the target dictionary has Moses' &apos;s, which is scored as it stands",
        "--risk-post-process subword_nmt: the target dictionary looks like sen",
        "--eval-bleu: costs a second search and is not logged",
    ):
        assert said in caplog.text


def test_the_released_objective_says_what_it_ignores(make_criterion, task, caplog):
    sample = make_sample(task)
    plain = forward(make_criterion(risk_compat="beyond-bleu"), sample)[1]
    assert "ignored" not in caplog.text
    found = forward(make_criterion(risk_compat="beyond-bleu", risk_alpha=2.0), sample)[1]
    assert "--risk-alpha 2.0: ignored beside --risk-compat beyond-bleu" in caplog.text
    assert found.item() == plain.item()


def test_moses_tokenisation_is_undone_on_both_sides(make_criterion, task, monkeypatch):
    class Detokenizer:
        def __init__(self, lang):
            self.detokenize = lambda tokens: f"{lang}: {'-'.join(tokens)}"

    fake = SimpleNamespace(MosesDetokenizer=Detokenizer)
    monkeypatch.setitem(sys.modules, "sacremoses", fake)
    row = [task.target_dictionary.index("\u2581red"), task.target_dictionary.index("\u2581house")]
    # A multilingual training has no language of its own: its pairs name them.
    for source, target, pairs in (("de", "en", []), (None, None, ["de-en", "it-en"])):
        task.cfg.source_lang, task.cfg.target_lang, task.lang_pairs = source, target, pairs
        translator = make_criterion(risk_detok="moses").translator
        assert translator.target_text.strings([row]) == ["en: red-house"]
        assert translator.source_text.strings([row]) == ["de: red-house"]


def test_bad_tasks_and_models(make_criterion, task):
    criterion = make_criterion()
    with pytest.raises(ValueError, match="got a Linear; simile_risk needs an encoder-decoder"):
        criterion(torch.nn.Linear(1, 1), make_sample(task))
    with pytest.raises(ValueError, match="--adaptive-softmax-cutoff: got a model with"):
        criterion(
            make_model("transformer_tiny", task, adaptive_softmax_cutoff="6"), make_sample(task)
        )
    task.cfg.eval_bleu = True
    with pytest.raises(ValueError, match="--eval-bleu: got a BARTModel, whose attention"):
        make_criterion()(make_model("bart_base", task), make_sample(task))
    task.cfg.left_pad_target = True
    with pytest.raises(ValueError, match="--left-pad-target"):
        make_criterion()


def test_tasks_with_arguments(make_criterion, task):
    # fairseq's older tasks have no cfg; multilingual ones may begin each target with a tag
    task.cfg, task.args = None, Namespace(task="translation_multi_simple_epoch")
    for allowed in (
        {"decoder_langtok": True, "lang_tok_replacing_bos_eos": True},
        {"decoder_langtok": False, "langtoks": {"main": ("tgt", None)}},
    ):
        vars(task.args).update(allowed)
        make_criterion()
    begun = "--decoder-langtok, --langtoks: targets begin with a language's tag"
    for refused in ({"decoder_langtok": True}, {"langtoks": {"main": ("src", "tgt")}}):
        task.args = Namespace(task="multi", lang_tok_replacing_bos_eos=False, **refused)
        with pytest.raises(InputError, match=begun):
            make_criterion()


def test_multilingual_translation(make_criterion, task):
    # its tags always stand in the place of eos, and it names the first language's dictionary
    task.args, task.cfg = Namespace(decoder_langtok=True), None
    task.lang_pairs = ["xx-en", "en-xx"]
    task.dicts = dict.fromkeys(("en", "xx"), task.target_dictionary)
    make_criterion()
    task.dicts["xx"] = make_task().target_dictionary
    make_criterion()  # the same words
    task.dicts["xx"].add_symbol("\u2581only")
    with pytest.raises(InputError, match=r"--lang-pairs: got xx-en, and dict\.xx\.txt is another"):
        make_criterion()


def test_the_tag_of_a_source_is_no_text(make_criterion, task):
    # mBART's sources end in a tag, other multilingual ones may begin with one
    dictionary = task.source_dictionary
    tags = [dictionary.add_symbol(tag) for tag in ("[xx]", "__en__")]
    words = list(range(4, 7))
    sources = [[*words, 2, tags[0]], [tags[1], *words, 2]]
    untagged = "a red house"
    assert make_criterion().translator.source_text.strings(sources) == [
        f"{untagged}[xx]",
        f"__en__ {untagged}",
    ]
    task.langs = ["xx", "en", "de"]
    assert make_criterion().translator.source_text.strings(sources) == [untagged, untagged]

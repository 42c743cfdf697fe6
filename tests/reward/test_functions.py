"""The reward as TRL calls it."""

import math
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from simile_plugin.files import InputError
from simile_plugin.reward import CompletionReward, Reward, Scorer
from tests.conftest import SENTENCES

HYPS, REFS = SENTENCES[:2], [SENTENCES[0], SENTENCES[2]]


def test_values_are_those_of_the_scorer(encoder):
    function = CompletionReward(Scorer(Reward("half"), encoder), references="english")
    found = function(prompts=["eins", "zwei"], completions=HYPS, english=REFS, other=[1, 2])
    scores = Scorer(encoder=encoder).lists([[hyp] for hyp in HYPS], REFS)
    expected = (scores.simile + scores.bleu)[:, 0] / 2
    assert found == pytest.approx(expected.tolist()) and found[0] == pytest.approx(1)
    assert function.__name__ == "half"


def test_alpha_and_the_tokeniser_are_those_asked_for(encoder):
    hyps, refs = ["two boys wait,"], ["two boys skip flat stones over the pond"]
    function = CompletionReward(Scorer(Reward("half"), encoder, alpha=1.0, tokenize="char"))
    scores = Scorer(encoder=encoder, alpha=1.0, tokenize="char").lists([hyps], refs)
    expected = (scores.simile + scores.bleu)[0] / 2
    assert function(["zwei"], hyps, reference=refs) == pytest.approx(expected.tolist())
    assert function(["zwei"], hyps, reference=refs) != pytest.approx(
        CompletionReward(Scorer(Reward("half"), encoder))(["zwei"], hyps, reference=refs)
    )


def test_a_reward_of_ones_own_sees_the_three_texts_by_name(tmp_path, monkeypatch):
    (tmp_path / "three_texts.py").write_text(
        "def score(hyps, refs, srcs):\n"
        "    return [[100 * len(row[0]) + 10 * len(ref) + len(src)]\n"
        "            for row, ref, src in zip(hyps, refs, srcs, strict=True)]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = {"prompts": ["x", "xxxx"], "completions": ["aaa", "a"], "reference": ["bb", "bbb"]}
    assert CompletionReward(Scorer(Reward("three_texts:score")))(**asked) == [321, 134]
    own = CompletionReward(Scorer(Reward("three_texts:score")), sources="german")
    assert own(**asked, german=["xxxxx", "xx"]) == [325, 132]


def test_conversations_count_by_their_last_message():
    parts = [{"type": "image"}, {"type": "text", "text": REFS[0]}]
    said = [[{"role": "user", "content": "eins"}, {"content": REFS[0]}], [{"content": parts}]]
    said += [[{"content": None}], [{"reasoning_content": "so"}], []]
    said += [[{"role": "assistant", "content": REFS[0]}, {"role": "tool", "content": "42"}]]
    found = CompletionReward(Scorer(Reward("bleu")))(["eins"] * 6, said, reference=REFS[:1] * 6)
    assert found == [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]


def test_the_answer_alone_is_scored_unless_asked_for_all():
    thought = f"<think>{SENTENCES[4]}</think>\n{REFS[0]}"
    assert CompletionReward(Scorer(Reward("bleu")))(["x"], [thought], reference=REFS[:1]) == [1.0]
    (whole,) = CompletionReward(Scorer(Reward("bleu")), strip=False)(
        ["x"], [thought], reference=REFS[:1]
    )
    assert whole == Scorer().lists([[thought]], REFS[:1]).bleu.item() < 1


def test_a_pickled_reward_scores_the_same(encoder):
    # TRL's asynchronous GRPO sends its rewards to another process
    function = CompletionReward(Scorer(Reward("half"), encoder, alpha=1.0), references="english")
    again = pickle.loads(pickle.dumps(function))
    assert again.__name__ == "half"
    texts = {"prompts": ["eins", "zwei"], "completions": [HYPS[0], HYPS[0]], "english": REFS}
    assert again(**texts) == function(**texts) != [1.0, 1.0]


def test_signs_of_a_gamed_reward_are_logged():
    signs = {}
    function = CompletionReward(Scorer(Reward("bleu")))
    hyps = ["he paid he paid", "ein Hund bellt"]  # 4 + 3 words; 1 of 3 bigrams said before
    prompts = ["er zahlte bar", "Translate: ein Hund bellt"]  # a copy: both of two bigrams
    refs = ["he paid in cash", "a dog barks loudly at us all here"]  # 4 + 8 words
    function(prompts, hyps, reference=refs, log_metric=signs.__setitem__)
    assert signs == {
        "length_ratio": pytest.approx(7 / 12),
        "repetition": pytest.approx((1 / 3 + 0) / 2),
        "copied": pytest.approx((0 + 1) / 2),
    }
    signs.clear()
    function([], [], reference=[], log_metric=signs.__setitem__)
    assert signs == {}


def test_another_language_is_worth_nothing_where_the_reference_tells():
    pytest.importorskip("py3langid")
    german = "der Hund bellt laut und die Katze schläft auf dem Sofa"
    english = "the dog barks loudly and the cat sleeps on the sofa"
    hyps, refs = [german, english, german, "", german], [english, english, german, english, None]
    signs = {}
    function = CompletionReward(Scorer(Reward("chrf")), language="en")
    found = function(["x"] * 5, hyps, reference=refs, log_metric=signs.__setitem__)
    # the third reference is German itself: of such a row the classifier can tell nothing
    assert found == [0.0, 1.0, 1.0, 0.0, None]
    assert CompletionReward(Scorer(Reward("chrf")))(["x"], [german], reference=[english])[0] > 0.1
    assert signs["other_language"] == 2 / 5
    with pytest.raises(InputError, match="language: got 'xx', expected one of .* de "):
        CompletionReward(Scorer(Reward("chrf")), language="xx")


def test_a_missing_classifier_is_said_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    with pytest.raises(InputError, match="language: the package py3langid is not installed"):
        CompletionReward(Scorer(Reward("bleu")), language="en")


def test_threads_find_what_one_finds(encoder):
    # verl and OpenRLHF call for one completion each, from several threads
    function = CompletionReward(Scorer(Reward("half"), encoder))
    texts = [f"{text} {number}" for number in range(50) for text in SENTENCES]
    expected = function(texts, texts[1:] + texts[:1], reference=texts)

    def ask(place):
        return function([""], [texts[(place + 1) % len(texts)]], reference=[texts[place]])[0]

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(ask, range(len(texts)))] == pytest.approx(expected)


def test_what_is_missing_is_said(encoder):
    with pytest.raises(InputError, match="--encoder: not given, but --reward simile needs a"):
        CompletionReward(Scorer(Reward("simile")))
    with pytest.raises(InputError, match="no column 'reference'; it has english"):
        CompletionReward(Scorer(Reward("simile"), encoder))(["eins"], HYPS[:1], english=REFS[:1])


def test_a_row_without_a_reference_has_no_reward(encoder):
    for none in (None, math.nan):
        found = CompletionReward(Scorer(Reward("simile"), encoder))(
            ["x"] * 2, REFS, reference=[REFS[0], none]
        )
        assert found == [pytest.approx(1.0), None]


@pytest.mark.parametrize("spec", ["half", "tests.nbest.test_oracle:words"])
def test_one_reference_is_not_everybodys(encoder, spec):
    with pytest.raises(InputError, match="got 2 candidate lists for 1 references"):
        CompletionReward(Scorer(Reward(spec), encoder))(["x"] * 2, REFS, reference=REFS[:1])


def test_half_of_a_pair_is_no_text():
    reward = CompletionReward(Scorer(Reward("bleu")))
    with pytest.raises(
        InputError, match=r"completions: number 2 has '\\ud83d', half of a pair .* 3;"
    ):
        reward(["x", "x"], ["a", "b \ud83d"], reference=["a", "b"])
    with pytest.raises(InputError, match="references: number 1 has"):
        reward(["x"], ["a"], reference=["\udc80"])


def test_a_string_is_no_column():
    function = CompletionReward(Scorer(Reward("bleu")))
    with pytest.raises(InputError, match="got 'ab' as column 'reference'; expected a list"):
        function(["x"] * 2, ["a", "b"], reference="ab")
    with pytest.raises(InputError, match="got 'ab' as completions; expected a list"):
        function(["x"] * 2, "ab", reference=["a", "b"])


def test_trl_trains_a_decoder_only_model_on_it(encoder, tmp_path):
    pytest.importorskip("trl", reason="of the extra: pip install -e .[test]")
    import simile_plugin.hugging_face  # noqa: F401, I001 (hides a broken torchaudio)
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel
    from trl import GRPOConfig, GRPOTrainer

    from tests.hugging_face_models import SOURCES, TARGETS, t5

    tokenizer = t5()[1]
    tokenizer.padding_side = "left"
    special = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": len(tokenizer)}
    model = GPT2LMHeadModel(GPT2Config(**sizes, **special))
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=CompletionReward(Scorer(Reward("simile"), encoder)),
        args=GRPOConfig(
            str(tmp_path),
            max_steps=2,
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=6,
            use_cpu=True,
            bf16=False,
            report_to="none",
            logging_steps=1,
        ),
        train_dataset=Dataset.from_dict({"prompt": SOURCES, "reference": TARGETS}),
        processing_class=tokenizer,
    )
    trainer.train()
    logged = [log for log in trainer.state.log_history if "rewards/simile/mean" in log]
    assert len(logged) == 2

"""The rewards by dotted names, as TRL, verl and OpenRLHF ask for them."""

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from simile_plugin import rewards
from simile_plugin.encoder import Encoder, save_encoder
from simile_plugin.files import InputError
from simile_plugin.reward import (
    FEATURES,
    CompletionReward,
    LearnedReward,
    Reward,
    Scorer,
    make_lexicon,
    save_learned,
)
from tests.conftest import SENTENCES

ROOT = Path(__file__).parents[1]
HYP, REF = "two boys skip stones", SENTENCES[1]


@pytest.fixture(autouse=True)
def environment(encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("SIMILE_LEARNED", "SIMILE_LANGUAGE", "SIMILE_REWARD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SIMILE_ENCODER", str(encoder_folder))
    rewards.make_reward.cache_clear()
    yield
    rewards.make_reward.cache_clear()


@pytest.mark.parametrize("name", ["simile", "half", "bleu", "chrf"])
def test_a_name_is_its_reward_with_the_encoder_of_the_environment(
    name: str, encoder: Encoder
) -> None:
    function = getattr(rewards, name)
    assert function.__name__ == name
    found = function(prompts=["zwei"], completions=[HYP], reference=[REF], trainer_state=None)
    assert found == CompletionReward(Scorer(Reward(name), encoder))(
        ["zwei"], [HYP], reference=[REF]
    )
    assert found[0] is not None and 0 < found[0] < 1
    assert pickle.loads(pickle.dumps(function)) is function  # by its name, without the encoder
    assert len(pickle.dumps(function)) < 100


def test_the_encoder_is_loaded_at_the_first_call_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SIMILE_ENCODER", str(tmp_path / "none"))
    assert rewards.bleu(["x"], [REF], reference=[REF]) == [1.0]
    with pytest.raises(InputError, match="SIMILE_ENCODER: .*none"):
        rewards.half(["x"], [REF], reference=[REF])


def test_the_learned_reward_is_the_packages_or_that_of_the_folder(
    encoder: Encoder, encoder_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="encoder"):  # the package's is of its own encoder
        rewards.learned(["x"], [REF], reference=[REF])
    rewards.make_reward.cache_clear()
    monkeypatch.setenv("SIMILE_ENCODER", "default")
    same, other = rewards.learned(["x"] * 2, [REF, "dogs bark"], reference=[REF] * 2)
    assert same == 1 and other is not None and 0 <= other < 0.5
    rewards.make_reward.cache_clear()
    monkeypatch.setenv("SIMILE_ENCODER", str(encoder_folder))
    weights = dict.fromkeys(FEATURES, 1.0)
    folder = tmp_path / "reward"
    save_learned(folder, LearnedReward(weights, make_lexicon(SENTENCES), encoder.fingerprint))
    monkeypatch.setenv("SIMILE_LEARNED", str(folder))
    own = CompletionReward(Scorer(Reward(f"learned:{folder}"), encoder))
    found = rewards.learned(["x"], [HYP], reference=[REF])
    assert found == own(["x"], [HYP], reference=[REF])
    assert found[0] is not None and 0 < found[0] < 1


def test_source_reads_the_prompt_or_what_verl_has(
    distilled: Encoder,
    bitext: tuple[list[str], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (src, *_), (target, *_) = bitext
    save_encoder(tmp_path / "two", distilled)
    monkeypatch.setenv("SIMILE_ENCODER", str(tmp_path / "two"))
    monkeypatch.setenv("SIMILE_REWARD", "source")
    (expected,) = CompletionReward(Scorer(Reward("source"), distilled))([src], [target])
    assert expected is not None and expected > 0.1
    assert rewards.source([[{"role": "user", "content": src}]], [target]) == [expected]
    found = rewards.compute_score("tatoeba", target, "", {"source": src})
    assert found["score"] == expected and "length_ratio" not in found
    with pytest.raises(InputError, match="extra_info: has no 'source', which the reward source"):
        rewards.compute_score("tatoeba", target, "")


def test_verl_asks_for_one_completion(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"data_source": "m30k", "solution_str": f"<think>hm</think>{HYP}"}
    found = rewards.compute_score(**asked, ground_truth=REF, extra_info={"num_turns": None})
    (value,) = CompletionReward(Scorer(Reward("half"), encoder))(["x"], [HYP], reference=[REF])
    # 4 words of 7; without a source in extra_info nothing is copied
    signs = {"length_ratio": 4 / 8, "repetition": 0.0, "copied": 0.0}
    assert found == {"score": value, **signs}
    monkeypatch.setenv("SIMILE_REWARD", "bleu")
    info = {"source": "two boys skip"}
    found = rewards.compute_score("m30k", HYP, HYP, info, reward_router_address=None)
    assert found == {"score": 1.0, "length_ratio": 1.0, "repetition": 0.0, "copied": 2 / 3}
    with pytest.raises(InputError, match="ground_truth: got None; expected a string"):
        rewards.compute_score("m30k", HYP, None)  # type: ignore[arg-type]
    monkeypatch.setenv("SIMILE_REWARD", "blue")
    with pytest.raises(InputError, match="SIMILE_REWARD: got 'blue'; expected one of simile"):
        rewards.compute_score("m30k", HYP, REF)


def test_openrlhf_asks_by_a_file_and_leaves_special_tokens(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as its openrlhf/utils/agent.py reads the file
    spec = importlib.util.spec_from_file_location("reward_func", rewards.__file__)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    prompts = ["<|im_start|>user\nzwei<|im_end|>\n<|im_start|>assistant\n", "zwei: ", "zwei: "]
    queries = [f"{prompts[0]}{HYP}<|im_end|>", f"<s>{prompts[1]}{REF}</s><pad>", prompts[2]]
    found = module.reward_func(queries, prompts, [REF] * 3, unknown=1)
    expected = CompletionReward(Scorer(Reward("half"), encoder))(
        ["x"] * 3, [HYP, REF, ""], reference=[REF] * 3
    )
    assert found.keys() == {"rewards", "scores", "extra_logs"}
    assert found["rewards"].tolist() == pytest.approx(expected)
    assert torch.equal(found["scores"], found["rewards"].clamp(0, 1))
    assert found["rewards"][1:].tolist() == [pytest.approx(1), 0]
    assert found["extra_logs"]["length_ratio"].item() == pytest.approx((4 + 8 + 0) / 24)
    monkeypatch.setenv("SIMILE_REWARD", "bleu")
    found = module.reward_func([f"{prompts[1]}{REF}"] * 2, prompts[1:], [REF, None])
    assert found["rewards"].isnan().tolist() == [False, True]


def test_trl_trains_by_the_command_line(encoder_folder: Path, tmp_path: Path) -> None:
    """The command of README.md, for two steps of a causal model with random weights."""
    pytest.importorskip("trl", reason="of the extra: pip install -e .[test]")
    import simile_plugin.hugging_face  # noqa: F401, I001 (hides a broken torchaudio)
    from transformers import GPT2Config, GPT2LMHeadModel

    from tests.hugging_face_models import SOURCES, TARGETS, t5

    tokenizer = t5()[1]
    special = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": len(tokenizer)}
    model, data, output = tmp_path / "model", tmp_path / "data", tmp_path / "output"
    GPT2LMHeadModel(GPT2Config(**sizes, **special)).save_pretrained(model)
    tokenizer.save_pretrained(model)
    data.mkdir()
    rows = [
        {"prompt": f"Translate to English: {source}", "reference": target}
        for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        *("trl", "grpo", "--model_name_or_path", str(model), "--dataset_name", str(data)),
        *("--reward_funcs", "simile_plugin.rewards.half"),
        *("--output_dir", str(output), "--max_steps", "2", "--num_generations", "2"),
        *("--per_device_train_batch_size", "2", "--max_completion_length", "6"),
        *("--use_cpu", "True", "--bf16", "False", "--report_to", "none", "--logging_steps", "1"),
    ]
    # fairseq brings a torchaudio that may be broken, without which transformers does as well
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torchaudio'] = None\n")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("trl")), *command[1:]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (state,) = output.glob("checkpoint-2/trainer_state.json")
    logged = [log for log in json.loads(state.read_text())["log_history"] if "reward" in log]
    assert len(logged) == 2
    for log in logged:
        assert {"rewards/half/mean", "length_ratio", "repetition", "copied"} <= log.keys()

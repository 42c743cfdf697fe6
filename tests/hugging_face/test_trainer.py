"""SimileRiskTrainer: its loss by hand, resume, what is left out, what is refused."""

import contextlib
import functools
import json
import math
import shutil

import pytest
import torch
from torch.backends import cuda
from transformers import (
    DataCollatorForSeq2Seq,
    MarianMTModel,
    MarianTokenizer,
    T5Model,
)

from simile_plugin.files import InputError
from simile_plugin.hugging_face import (
    Pairs,
    SimileRiskArguments,
    SimileRiskTrainer,
    known_decoder,
    last_checkpoint,
)
from simile_plugin.hugging_face.candidates import risk_set_of
from simile_plugin.hugging_face.models import (
    PADDING,
    special_tokens,
)
from simile_plugin.reward import UNKNOWN_HYP, Scorer
from simile_plugin.risk import LENGTH_SUMS, LengthControl, RiskSettings
from tests.hugging_face.test_scoring import slow_lprobs
from tests.hugging_face_models import MAKERS, SOURCES, TARGETS, batch_of, marian, t5

SHORT = {"risk_candidates": 4, "risk_max_len_a": 1.0, "risk_max_len_b": 2}


@pytest.fixture
def make_trainer(tmp_path, encoder_folder):
    def make(kind="marian", output="out", model=None, made=None, given=None, **flags):
        built, tokenizer = made or MAKERS[kind](tmp_path / "model")
        pairs = Pairs(tokenizer, SOURCES, TARGETS, 64)
        sets = {"train_dataset": pairs, "eval_dataset": pairs, "processing_class": tokenizer}
        usual = {
            **{"simile_encoder": str(encoder_folder), "use_cpu": True, "report_to": "none"},
            **{"learning_rate": 1e-3, "per_device_train_batch_size": 2, "logging_steps": 1},
            **{"disable_tqdm": True, "lr_scheduler_type": "constant", "save_strategy": "no"},
        }
        args = SimileRiskArguments(str(tmp_path / output), **SHORT | usual | flags)
        return SimileRiskTrainer(model or built, args, **sets | (given or {}))

    return make


@pytest.mark.parametrize("kind", MAKERS)
def test_loss_is_the_formula_and_its_gradient(make_trainer, encoder, kind):
    trainer = make_trainer(kind, mle_weight=0.4, label_smoothing=0.0, risk_cost_scale=7.0)
    model, tokenizer, special = trainer.model, trainer.processing_class, trainer.translator.special
    inputs = batch_of(tokenizer)
    risk_set = risk_set_of(trainer.translator.decoder, inputs, trainer.args, special)
    hyps = trainer.translator.text.lists(risk_set.tokens.tolist())
    lprobs = slow_lprobs(model, inputs, risk_set, special)
    expected = torch.tensor(0.0)
    for b, row in enumerate(hyps):
        own = [
            [
                lprobs[b, n, t]
                for t, token in enumerate(tokens.tolist())
                if token not in (PADDING, special.tag)
            ]
            for n, tokens in enumerate(risk_set.tokens[b])
        ]
        q = torch.softmax(torch.stack([torch.stack(one).sum() for one in own[1:]]), 0)
        simile = Scorer(encoder=encoder).lists([row[1:]], [row[0]]).simile[0]
        risk = sum(q[n] * (1 - float(s)) for n, s in enumerate(simile))
        expected = expected + 0.4 * -torch.stack(own[0]).mean() + 0.6 * 7.0 * risk
    parameters = [p for p in model.parameters() if p.requires_grad]
    slow = torch.autograd.grad(expected, parameters, allow_unused=True)
    model.train()
    loss, sums = trainer.risk_loss(model, inputs)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    for parameter, grad in zip(parameters, slow, strict=True):
        if grad is not None:
            assert (parameter.grad - grad).abs().max() <= 1e-4 * max(1.0, float(grad.abs().max()))
    assert sums["nsentences"] == 4


def test_layers_that_are_computed_again_have_the_same_gradient(make_trainer):
    trainer = make_trainer("t5")
    model, inputs = trainer.model.train(), batch_of(trainer.processing_class)
    found = []
    for again in (False, True):
        if again:
            new = getattr(model, "activation_checkpointing_enable", None)
            (new or model.gradient_checkpointing_enable)()  # before transformers 5.23
        model.zero_grad()
        trainer.risk_loss(model, inputs)[0].backward()
        grads = [p.grad for p in model.parameters() if p.requires_grad]
        found.append(torch.cat([grad.flatten() for grad in grads]))
    assert torch.allclose(*found, atol=1e-4)


@pytest.mark.parametrize("kind", MAKERS)
def test_all_that_is_trained_is_saved(make_trainer, tmp_path, kind):
    made, tokenizer = MAKERS[kind](tmp_path / "model")
    made.save_pretrained(tmp_path / "made")
    trainer = make_trainer(
        model=type(made).from_pretrained(tmp_path / "made"), made=(made, tokenizer), max_steps=2
    )
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    saved = type(made).from_pretrained(tmp_path / "saved").state_dict()
    before = made.state_dict()
    trained = trainer.model.state_dict()
    assert trained.keys() == saved.keys()
    for name, parameter in trained.items():
        assert parameter.equal(saved[name]), name
    assert sum(not parameter.equal(before[name]) for name, parameter in trained.items()) > 10


def test_a_weight_that_a_checkpoint_lacks_is_told_and_a_tied_one_is_not(make_trainer, monkeypatch):
    said = []
    monkeypatch.setattr("transformers.trainer.logger.warning", said.append)
    trainer = make_trainer("marian")
    # What save_pretrained leaves out: positions are computed, and three layers are the shared one.
    unsaved = ("embed_positions", "embed_tokens", "lm_head")
    state = {
        k: v
        for k, v in trainer.model.state_dict().items()
        if not k.endswith(tuple(f"{name}.weight" for name in unsaved))
    }
    trainer._issue_warnings_after_load(trainer.model.load_state_dict(state, strict=False))
    assert said == []
    del state["model.decoder.layers.0.fc1.bias"], state["model.shared.weight"]
    trainer._issue_warnings_after_load(trainer.model.load_state_dict(state, strict=False))
    assert len(said) == 1 and "model.decoder.layers.0.fc1.bias" in said[0]
    assert "lm_head.weight" in said[0] and "embed_positions" not in said[0]


@pytest.mark.parametrize("kind", ["marian", "nllb", "mbart"])
def test_of_examples_without_labels_the_risk_alone_is_trained_on(make_trainer, kind):
    same = {"risk_max_len_a": 0.0, "risk_max_len_b": 8}  # whatever else is in a batch
    trainer = make_trainer(kind, reward="noise", mle_weight=0.4, risk_cost_scale=10.0, **same)
    model, examples = trainer.model.train(), [*trainer.train_dataset]
    examples[1] = examples[1] | {"labels": None}
    examples[2] = examples[2] | {"labels": []}

    def update(rows):
        model.zero_grad()
        loss, sums = trainer.risk_loss(model, dict(trainer.data_collator([*rows])))
        loss.backward()
        grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return loss.item(), torch.cat(grads), sums

    loss, gradient, sums = update(examples)
    # Nothing but the parts of those with labels and of those without.
    with_, without = update(examples[::3]), update(examples[1:3])
    assert loss == pytest.approx(with_[0] + without[0], rel=1e-4)
    torch.testing.assert_close(gradient, with_[1] + without[1], rtol=1e-3, atol=1e-5)
    assert without[0] == pytest.approx(0.6 * 10 * float(without[2]["cost"]), rel=1e-4)
    assert [int(one["references"]) for one in (sums, with_[2], without[2])] == [2, 2, 0]
    assert int(sums["ntokens"]) == int(with_[2]["ntokens"]) and sums["nsentences"] == 4
    reads_one = make_trainer(kind, reward="bleu")
    with pytest.raises(InputError, match="a batch: --reward bleu reads a reference, which some"):
        reads_one.risk_loss(reads_one.model, dict(trainer.data_collator(examples)))


def test_padding_does_not_count(make_trainer):
    trainer = make_trainer("t5")
    tokenizer = trainer.processing_class
    found = []
    for side, multiple in (("right", 1), ("left", 1), ("right", 32)):
        tokenizer.padding_side = side
        collator = DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=multiple)
        inputs = dict(collator([*trainer.train_dataset]))
        assert (inputs["labels"][:, 0] == PADDING).any() == (side == "left")
        assert (inputs["input_ids"].size(1) == 32) == (multiple == 32)
        loss, sums = trainer.risk_loss(trainer.model, inputs)
        found.append([loss.item(), float(sums["ntokens"]), float(sums["nll_loss"])])
    for other in found[1:]:
        assert found[0] == pytest.approx(other, rel=1e-4)


def test_length_control_sees_each_update_once(make_trainer):
    flags = {"max_steps": 2, "gradient_accumulation_steps": 2}
    trainer = make_trainer(**flags, risk_bleu_tokenize="char")  # in words all are as long
    own, seen = trainer.risk_loss, []

    def risk_loss(*args):
        loss, sums = own(*args)
        seen.append(sums)
        return loss, sums

    trainer.risk_loss = risk_loss
    trainer.train()
    expected = LengthControl()
    for batches in (seen[:2], seen[2:]):
        expected.update({name: sum(one[name] for one in batches) for name in LENGTH_SUMS})
    assert len(seen) == 4 and expected.variance > 0
    assert trainer.risk_state.length_control.state() == pytest.approx(expected.state())


def test_the_model_with_the_least_cost_is_the_best(make_trainer):
    names = {"cost": False, "eval_cost_bleu": False, "ppl": False, "loss": False, "bleu": True}
    names |= {"news_repetition": False, "eval_news_bleu": True}
    for name, greater in names.items():
        assert make_trainer(metric_for_best_model=name).args.greater_is_better is greater


def test_settings_are_those_of_the_criterion():
    from simile_plugin.fairseq_training import SimileRiskConfig

    for name, setting in RiskSettings.__dataclass_fields__.items():
        assert SimileRiskConfig.__dataclass_fields__[name].default == setting.default
        assert SimileRiskArguments.__dataclass_fields__[name].default == setting.default


@pytest.mark.parametrize("accumulated", [1, 2])
def test_portions_and_accumulation_do_not_change_an_update(make_trainer, accumulated, tmp_path):
    found = []
    for size, steps, tokens in ((4, 1, 0), (4 // accumulated, accumulated, 20)):
        trainer = make_trainer(
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            risk_max_tokens=tokens,
            max_steps=2,
            optim="sgd",
        )
        trainer.train()
        found.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
    assert torch.allclose(*found, atol=1e-5)


def test_attention_is_not_cudnns_while_it_trains_and_validates(make_trainer, monkeypatch, request):
    # The user dir, where another test of this process has imported it, has switched it off.
    request.addfinalizer(functools.partial(cuda.enable_cudnn_sdp, cuda.cudnn_sdp_enabled()))
    cuda.enable_cudnn_sdp(True)
    found = []
    loss = SimileRiskTrainer.risk_loss

    def seen(*args):
        found.append((args[1].training, cuda.cudnn_sdp_enabled()))
        return loss(*args)

    monkeypatch.setattr(SimileRiskTrainer, "risk_loss", seen)
    trainer = make_trainer(max_steps=1)
    trainer.train()
    trainer.evaluate()
    assert set(found) == {(True, False), (False, False)} and cuda.cudnn_sdp_enabled()


def test_metrics_are_logged_also_before_the_first_update(make_trainer):
    trainer = make_trainer(max_steps=2, eval_strategy="steps", eval_steps=2)
    trainer.train()
    first, *others = trainer.state.log_history
    assert first["step"] == 0
    names = ("cost", "cost_simile", "cost_bleu", "bleu", "sim", "simile", "length_ratio")
    names += ("distinct", "entropy_q", "reward_std", "zero_std", "nonfinite", "empty", "ppl")
    assert all(math.isfinite(first[f"eval_{name}"]) for name in (*names, "repetition", "loss"))
    assert first["eval_candidates"] == 4
    assert first["eval_cost"] == pytest.approx(first["eval_cost_simile"], abs=1e-5)
    updates = [log for log in others if "loss" in log]
    assert len(updates) == 2 and all(log["skipped"] == 0 for log in updates)


def test_sentences_known_by_heart_are_warned_of(make_trainer, caplog):
    for weight in (1.0, 0.3):
        trainer = make_trainer(mle_weight=weight)
        trainer.state.global_step, trainer.risk_state.training = 60, True
        trainer.state.log_history = [{"eval_cost": 0.9}, {"cost": 0.3}, {"cost": 0.5}]
        found = {"cost": 0.6, "length_ratio": 1.0, "bleu": 20.0, "repetition": 0.0}
        seen = {f"eval_{name}": value for name, value in found.items()}
        trainer.callback_handler.on_evaluate(trainer.args, trainer.state, trainer.control, seen)
    (said,) = (line for line in caplog.messages if "cost" in line)
    assert said.startswith("candidates for training sentences cost 0.40, those of validation 0.60")


def test_a_resumed_run_ends_with_the_same_bits(make_trainer, tmp_path):
    flags = {
        **{"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "eval_strategy": "steps"},
        **{"eval_steps": 3, "risk_search": "sampling", "risk_length_control": 5.0},
    }
    made = marian(tmp_path / "model", dropout=0.2)
    whole = make_trainer(made=made, **flags)
    whole.train()
    shutil.rmtree(tmp_path / "out" / "checkpoint-6")
    again = make_trainer(made=marian(tmp_path / "other", seed=9, dropout=0.2), **flags)
    again.train(resume_from_checkpoint=True)
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.risk_state.state() == again.risk_state.state()
    last = [[log for log in t.state.log_history if "eval_cost" in log] for t in (whole, again)]
    assert len(last[0]) == len(last[1]) == 3
    assert last[0][-1]["eval_cost"] == last[1][-1]["eval_cost"]


def test_a_gradient_that_is_not_finite_changes_nothing_and_ends_a_run(make_trainer):
    trainer = make_trainer(max_steps=5, risk_max_skipped=2)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    own = trainer.risk_loss
    trainer.risk_loss = lambda *a: (own(*a)[0] * math.nan, own(*a)[1])
    with pytest.raises(InputError, match="NaN or infinite 3 times in a row"):
        trainer.train()
    after = trainer.model.parameters()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_gamed_reward_stops_the_run(make_trainer, monkeypatch):
    flags = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(max_steps=5, **flags)
    seen = iter([(0.5, 1.0, 30.0), (0.4, 2.0, 20.0), (0.3, 2.0, 20.0)])

    def metrics(_):
        cost, ratio, bleu = next(seen, (0.3, 2.0, 20.0))
        return {"cost": cost, "length_ratio": ratio, "bleu": bleu, "repetition": 0.02}

    monkeypatch.setattr("simile_plugin.hugging_face.trainer.metrics_of", metrics)
    for name in ("LEAST_UPDATES", "LEAST_VALIDATIONS"):
        monkeypatch.setattr(f"simile_plugin.risk.run_watch.{name}", 1)
    trainer.log = lambda *a: None
    with pytest.raises(InputError, match="training stopped: cost fell from 0.5000 to 0.3000"):
        trainer.train()
    assert trainer.state.global_step == 2
    for band, match in ((1.5, "this run was stopped: the reward is being gamed"), (0, "")):
        again = make_trainer(max_steps=3, risk_length_band=band, **flags)
        again.log = lambda *a: None
        with pytest.raises(InputError, match=match) if match else contextlib.nullcontext():
            again.train(resume_from_checkpoint=True)
        assert again.state.global_step == (2 if match else 3)


def test_the_first_of_several_validation_sets_is_watched(make_trainer, monkeypatch, tmp_path):
    made = marian(tmp_path / "model")
    sets = dict.fromkeys(("news", "talks"), Pairs(made[1], SOURCES, TARGETS, 64))
    flags = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1}
    trainer = make_trainer(made=made, given={"eval_dataset": sets}, **flags)
    seen = []
    monkeypatch.setattr("simile_plugin.risk.RunWatch.see", lambda self, *found: seen.append(found))
    trainer.train()
    costs = [log["eval_news_cost"] for log in trainer.state.log_history if "eval_news_cost" in log]
    trainer.evaluate()  # after the training: not judged
    assert [found[0].cost for found in seen] == costs and len(costs) == 3


def test_metrics_of_ones_own_get_translations(make_trainer):
    seen = []

    def metrics(found):
        seen.append(found)
        return {"bleu": 7.0, "words": 3.0}

    asked = {"predict_with_generate": True, "generation_max_length": 9}
    trainer = make_trainer("nllb", given={"compute_metrics": metrics}, **asked)
    found = trainer.evaluate()
    assert found["eval_bleu"] == 7 and found["eval_words"] == 3 and 0 < found["eval_cost"] < 1
    assert seen[0].label_ids.shape[0] == 4
    predicted = seen[0].predictions
    assert predicted.shape[0] == 4 and (predicted[:, 1] == trainer.translator.special.tag).all()
    blind = [{k: v for k, v in pair.items() if k != "labels"} for pair in trainer.train_dataset]
    assert (trainer.predict(blind).predictions == predicted).all()


def test_bf16_trains(make_trainer, monkeypatch):
    seen, values_and_scores = [], Scorer.values_and_scores

    def spy(*args):
        seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        return values_and_scores(*args)

    monkeypatch.setattr(Scorer, "values_and_scores", spy)
    trainer = make_trainer(max_steps=2, bf16=True)
    trainer.train()
    assert set(seen) == {torch.float32}  # --bf16 is for the model, not for the reward
    assert all(math.isfinite(log["loss"]) for log in trainer.state.log_history if "loss" in log)


def test_adapters_train_and_the_base_does_not(make_trainer, tmp_path):
    peft = pytest.importorskip("peft")
    model, tokenizer = marian(tmp_path / "model")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=["q_proj", "v_proj"])
    )
    trainer = make_trainer(made=(adapted, tokenizer), max_steps=2)
    trainer.train()
    after = dict(model.named_parameters())
    for name, parameter in before.items():
        now = after.get(name, after.get(name.replace("_proj.", "_proj.base_layer.")))
        assert torch.equal(parameter, now)
    changed = [p for name, p in after.items() if "lora_B" in name]
    assert changed and any(p.abs().sum() > 0 for p in changed)


def refused(match, make):
    with pytest.raises(InputError, match=match):
        make()


def test_bad_input(make_trainer, tmp_path):
    """What `simile finetune-hf` does not refuse before."""
    model, tokenizer = t5()
    bare = T5Model(model.config)
    refused("T5Model, which has no output layer", lambda: make_trainer(made=(bare, tokenizer)))
    peft = pytest.importorskip("peft")
    prefix = peft.PrefixTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=2)
    beside = peft.get_peft_model(t5()[0], prefix)
    refused("prefixes\\), which is not supported", lambda: make_trainer(made=(beside, tokenizer)))
    tokenizer.eos_token = "<unk>"
    model.config.eos_token_id = tokenizer.eos_token_id
    refused("does not end a target in <unk>", lambda: make_trainer(made=(model, tokenizer)))
    refused("--mle-weight: got 2", lambda: make_trainer(mle_weight=2))
    refused("--label-smoothing-factor", lambda: make_trainer(label_smoothing_factor=0.1))
    refused("--simile-encoder: not given", lambda: make_trainer(simile_encoder=None))
    refused("compute_loss_func", lambda: make_trainer(given={"compute_loss_func": min}))
    blind = {"train_dataset": [{"input_ids": [5, 0], "attention_mask": [1, 1]}] * 2}
    refused("labels: the data set has none", make_trainer(given=blind).train)
    blind = {"data_collator": lambda rows: {"input_ids": torch.ones(2, 3).long()}}
    refused("attention_mask: the batch has none", make_trainer(given=blind).train)
    long = {"input_ids": [5] * 65, "attention_mask": [1] * 65, "labels": [5, 0]}
    for row in (long, {**long, "input_ids": [5], "attention_mask": [1], "labels": [5] * 65}):
        trainer = make_trainer(given={"train_dataset": [row] * 2})
        refused("a sentence of 65 tokens, the model has 64 positions", trainer.train)


@pytest.mark.parametrize("kind", ["m2m100", "nllb", "mbart", "mbart50"])
def test_references_of_another_language(make_trainer, kind):
    trainer = make_trainer(kind)
    inputs = batch_of(trainer.processing_class)
    trainer.risk_loss(trainer.model, inputs)
    inputs["labels"][2].masked_fill_(inputs["labels"][2] == trainer.translator.special.language, 5)
    refused("labels: a reference", lambda: trainer.risk_loss(trainer.model, inputs))


def test_a_tokenizer_with_a_vocabulary_for_each_side(make_trainer, tmp_path):
    config, files = marian(tmp_path / "model")[0].config, tmp_path / "model"
    words = json.loads((files / "vocab.json").read_text())
    ordinary = [word for word in words if word not in ("</s>", "<unk>", "<pad>")]
    others = dict(zip(ordinary, range(1 + len(ordinary), 1, -1), strict=True))
    more = words | others | {f"more{i}": len(words) + i for i in range(9)}
    (files / "more.json").write_text(json.dumps(more))
    paths = {f"{side}_spm": str(files / f"{side}.spm") for side in ("source", "target")}
    paths |= {"vocab": str(files / "more.json"), "target_vocab_file": str(files / "vocab.json")}
    tokenizer = MarianTokenizer(**paths, separate_vocabs=True)
    config.update({"vocab_size": len(more), "decoder_vocab_size": len(words)})
    config.update({"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False})
    trainer = make_trainer(made=(MarianMTModel(config), tokenizer), max_steps=1)
    trainer.train()
    text = trainer.translator.text
    assert text.strings(tokenizer(text_target=TARGETS).input_ids) == TARGETS
    sources = tokenizer(["der alte fluss", "zwei Ж im teich"]).input_ids
    assert text.sources(sources) == ["der alte fluss", f"zwei {UNKNOWN_HYP} im teich"]


def test_weights_in_half_precision_are_warned_of(make_trainer, tmp_path, caplog):
    model, tokenizer = marian(tmp_path / "model")
    make_trainer(made=(model, tokenizer))
    assert "AdamW" not in caplog.text
    make_trainer(made=(model.bfloat16(), tokenizer))
    assert "weights are torch.bfloat16, in which most of AdamW's steps are lost" in caplog.text


def test_candidates_end_where_the_positions_of_a_model_do(tmp_path):
    model, tokenizer = marian(tmp_path / "model")
    special, inputs = special_tokens(model, tokenizer), batch_of(tokenizer, ["ja " * 40], ["yes"])
    decoder = known_decoder(model, special)
    settings = RiskSettings(risk_candidates=2, risk_max_len_a=9)
    found = risk_set_of(decoder, inputs, settings, special)
    assert found.tokens.size(-1) <= 64  # max_position_embeddings
    # A model's own settings are not those of its candidates.
    defaults = model.generation_config
    defaults.max_length, defaults.num_beams, defaults.num_beam_groups = 200, 5, 5
    for search in ("beam", "sampling"):
        asked = RiskSettings(risk_max_len_a=0.5, risk_max_len_b=0, risk_search=search)
        found = risk_set_of(decoder, inputs, asked, special)
        assert found.tokens.shape[1] == 9
        assert found.tokens.size(2) == inputs["input_ids"].size(1) // 2
    short = RiskSettings(risk_max_len_a=0.0, risk_max_len_b=0)
    with pytest.raises(InputError, match="--risk-max-len-a, --risk-max-len-b: .* gets 0, expected"):
        risk_set_of(decoder, inputs, short, special)


def test_other_folders_are_no_checkpoints(tmp_path):
    for name in ("checkpoint-9", "checkpoint-10", "checkpoint-best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text("{}")
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")

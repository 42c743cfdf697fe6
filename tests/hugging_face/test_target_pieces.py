"""Updates over a part of the vocabulary, against models whose other logits are -inf."""

import copy
import json
import logging
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.utils.data import ConcatDataset, IterableDataset, Subset
from transformers import TrainerCallback

from simile_plugin.cli import main
from simile_plugin.files import InputError
from simile_plugin.hugging_face import (
    Pairs,
    SimileRiskArguments,
    SimileRiskTrainer,
    known_decoder,
    target_pieces,
)
from simile_plugin.hugging_face.candidates import risk_set_of
from simile_plugin.hugging_face.compact_output import CompactOutput
from simile_plugin.hugging_face.models import PADDING, special_tokens
from simile_plugin.hugging_face.scoring import Scorer
from simile_plugin.hugging_face.state import TRAINED_ROWS
from simile_plugin.hugging_face.target_pieces import choose_output, choose_rows, count_pieces
from simile_plugin.risk import RiskSettings
from simile_plugin.search import Recorder
from tests.hugging_face_models import (
    MAKERS,
    SOURCES,
    TARGETS,
    batch_of,
    m2m100,
    marian,
    nllb,
    save,
    t5,
    write_corpus,
)

SHORT = {"risk_candidates": 4, "risk_max_len_a": 1.0, "risk_max_len_b": 2}


class Some:
    """A model, a batch, and the pieces of its references with every third one beside them."""

    def __init__(self, kind, folder):
        self.model, tokenizer = MAKERS[kind](folder)
        self.special, self.inputs = special_tokens(self.model, tokenizer), batch_of(tokenizer)
        self.decoder = known_decoder(self.model, self.special)
        self.vocabulary = len(self.model.get_output_embeddings().weight)
        special = (self.special.start, self.special.end, self.special.pad, self.special.tag)
        self.ids = {*range(0, self.vocabulary, 3), *self.inputs["labels"].unique().tolist()}
        self.ids = sorted((self.ids | {*special}) - {None, PADDING})
        self.output = CompactOutput(self.model, self.ids)

    def lists(self, output=None, **flags):
        settings = RiskSettings(**SHORT | flags)
        return risk_set_of(self.decoder, self.inputs, settings, self.special, output)

    def mask_others(self):
        """Let the model's own logits be -inf outside the pieces."""
        mask = torch.full((self.vocabulary,), -torch.inf)
        mask[self.ids] = 0.0
        head = self.model.get_output_embeddings()
        return head.register_forward_hook(lambda *found: found[-1] + mask)


@pytest.fixture(params=MAKERS)
def some(request, tmp_path):
    return Some(request.param, tmp_path / "model")


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_lists_are_those_of_a_model_whose_other_logits_are_masked(some):
    for flags in ({}, {"risk_candidates": 8, "risk_lenpen": 0.3, "risk_temperature": 1.7}):
        found = some.lists(some.output, **flags)
        some.decoder.recorder = Recorder()
        for _ in range(2):  # recorded, then run again on what lies in the buffers
            assert torch.equal(some.lists(some.output, **flags).tokens, found.tokens)
        some.decoder.recorder = None
        hook = some.mask_others()
        masked = some.lists(**flags)
        hook.remove()
        assert torch.equal(found.tokens, masked.tokens) and torch.equal(found.mask, masked.mask)
        assert {*found.tokens.unique().tolist()} <= {*some.ids, PADDING}
        whole = some.lists(**flags)
        assert not torch.equal(whole.tokens, found.tokens)  # the others were wanted


def test_suppressed_tokens_outside_and_inside(some):
    written = {*some.lists(some.output).tokens[:, 1:].unique().tolist()} - {PADDING}
    special = some.special
    inside = sorted(written - {special.end, special.tag})[0]
    outside = next(token for token in range(some.vocabulary) if token not in some.ids)
    some.model.generation_config.suppress_tokens = [inside, outside]
    found = some.lists(some.output).tokens
    assert inside not in found[:, 1:]
    some.mask_others()
    assert torch.equal(found, some.lists().tokens)


def masked_scores(some, risk_set):
    """log p of each row alone and the mean over the pieces, from masked logits."""
    found, means = torch.zeros(risk_set.tokens.shape), torch.zeros(risk_set.tokens[:, 0].shape)
    for b, rows in enumerate(risk_set.tokens):
        source = some.inputs["input_ids"][b][some.inputs["attention_mask"][b].bool()].unsqueeze(0)
        for n, row in enumerate(rows):
            row = row[row.ne(PADDING)]
            if n and not risk_set.mask[b, n]:
                continue
            previous = torch.cat([torch.tensor([some.special.start]), row[:-1]]).unsqueeze(0)
            logits = some.model(input_ids=source, decoder_input_ids=previous).logits[0]
            lprobs = torch.log_softmax(logits, -1)
            found[b, n, : len(row)] = torch.stack([lprobs[t, token] for t, token in enumerate(row)])
            if n == 0:
                means[b, : len(row)] = lprobs[:, some.ids].mean(-1)
    return found, means


@pytest.mark.parametrize(
    ("trees", "max_tokens", "checkpointing"),
    [(True, 0, False), (False, 0, False), (False, 30, True)],
)
def test_values_and_gradients_are_those_of_masked_logits(
    some, trees, max_tokens, checkpointing, monkeypatch
):
    monkeypatch.setattr("simile_plugin.risk.tree_scoring.PART_TOKENS", 4)
    if not trees:  # as on a GPU
        monkeypatch.setattr("simile_plugin.risk.tree_scoring.pays", lambda *_: False)
    model, risk_set = some.model, some.lists(some.output)
    weights, of_means = torch.rand(risk_set.tokens.shape), torch.rand(risk_set.tokens[:, 0].shape)
    if checkpointing:
        model.train()  # the models have no dropout
        model.gradient_checkpointing_enable({"use_reentrant": False})
    scorer, results = Scorer(model, some.special), []
    for score in (
        lambda: scorer(some.inputs, risk_set, max_tokens, some.output),
        lambda: masked_scores(some, risk_set),
    ):
        lprobs, means = score()
        real = risk_set.tokens[:, 0].ne(PADDING)
        means = torch.where(real, means, 0.0)
        found = gradients(model, (lprobs * weights).sum() + (means * of_means).sum())
        results.append((lprobs.detach(), means.detach(), found))
        some.mask_others()
    (lprobs, means, found), (wanted, wanted_means, expected) = results
    assert torch.allclose(lprobs, wanted, atol=1e-4)
    assert torch.allclose(means, wanted_means, atol=1e-4)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-3, atol=1e-3), name
    sources = some.inputs["input_ids"].unique().tolist()
    others = [token for token in range(some.vocabulary) if token not in {*some.ids, *sources}]
    name = next(n for n, p in model.named_parameters() if p is scorer.head.weight)
    assert others and not found[name][others].any()


def test_all_pieces_are_the_whole_vocabulary(some):
    every = CompactOutput(some.model, range(some.vocabulary))
    risk_set, whole = some.lists(every), some.lists()
    assert torch.equal(risk_set.tokens, whole.tokens) and torch.equal(risk_set.mask, whole.mask)
    scorer, results = Scorer(some.model, some.special), []
    for output in (every, None):
        lprobs, means = scorer(some.inputs, risk_set, 0, output)
        found = gradients(some.model, lprobs.sum() + means.sum())
        results.append((lprobs, means, found))
    (lprobs, means, found), (wanted, wanted_means, expected) = results
    assert torch.equal(lprobs, wanted) and torch.equal(means, wanted_means)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-6, atol=1e-6), name


@pytest.fixture
def make_trainer(tmp_path, encoder_folder):
    def make(kind="nllb", made=None, **flags):
        model, tokenizer = made or MAKERS[kind](tmp_path / "model")
        usual = {
            **{"simile_encoder": str(encoder_folder), "use_cpu": True, "report_to": "none"},
            **{"learning_rate": 0.1, "per_device_train_batch_size": 2, "disable_tqdm": True},
            **{"lr_scheduler_type": "constant", "save_strategy": "no", "max_steps": 3},
            **{"eval_strategy": "steps", "eval_steps": 3},
        }
        args = SimileRiskArguments(str(tmp_path / "out"), **SHORT | usual | flags)
        pairs = Pairs(tokenizer, SOURCES[:2], TARGETS[:2], 64)
        sets = {"train_dataset": pairs, "eval_dataset": Pairs(tokenizer, SOURCES, TARGETS, 64)}
        return SimileRiskTrainer(model, args, processing_class=tokenizer, **sets)

    return make


def pieces_file(folder, words):
    (folder / "pieces").write_text("".join(f"{word}\n" for word in words), "utf-8")
    return str(folder / "pieces")


def every_word(tokenizer):
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_training_step_over_a_file_of_all_pieces_is_that_over_all(make_trainer, tmp_path, kind):
    made = MAKERS[kind](tmp_path / "model")
    path, found, size = pieces_file(tmp_path, every_word(made[1])), [], made[0].config.vocab_size
    for asked in ("all", path):
        trainer = make_trainer(made=made, target_pieces=asked)
        model = trainer.model.train()
        loss, sums = trainer.risk_loss(model, batch_of(trainer.processing_class))
        found.append((loss.detach(), gradients(model, loss), sums))
    (loss, whole, sums), (other, some, other_sums) = found
    assert trainer.translator.pieces == f"{size:,} of {size:,}"
    assert torch.allclose(loss, other, rtol=1e-6) and whole.keys() == some.keys()
    for name, gradient in whole.items():
        assert torch.allclose(gradient, some[name], rtol=1e-5, atol=1e-6), name
    assert sums["simile"] == pytest.approx(other_sums["simile"])


def trained_matrix(trainer):
    return trainer.model.get_output_embeddings().weight.detach()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("of_rows", [True, False])
def test_rows_that_nobody_asked_for_stay_as_they_were(
    make_trainer, tmp_path, monkeypatch, decay, of_rows
):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0 if of_rows else 0.0)
    trainer = make_trainer(weight_decay=decay)
    assert (trainer.rows is not None) == of_rows
    before, output = trained_matrix(trainer).clone(), trainer.translator.output
    sources = {t for row in trainer.train_dataset for t in row["input_ids"]}
    asked = torch.zeros(len(before), dtype=torch.bool)
    asked[[*sources, *output.place_of]] = True
    assert 0 < len(output) < len(before) and not asked.all()
    names = [name for name, _ in trainer.model.named_parameters()]
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    saved = load_file(tmp_path / "saved/model.safetensors")
    after = saved["model.shared.weight"]
    assert after.shape == before.shape  # the whole model
    changed = after.ne(before).any(-1)
    assert changed[asked].any()
    if decay and not of_rows:  # it is every row's, whoever asks for it
        assert changed[~asked].all()
    else:
        assert not changed[~asked].any()
    assert [name for name, _ in trainer.model.named_parameters()] == names
    assert not any("rows" in name for name in saved)
    assert all(parameter.requires_grad for parameter in trainer.model.parameters())


@pytest.mark.parametrize(
    ("kind", "config", "flags"),
    [
        *((kind, {}, {}) for kind in MAKERS),
        ("t5", {"tie_word_embeddings": False}, {}),
        ("nllb", {"tie_word_embeddings": False}, {}),
        ("nllb", {}, {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 1}),
        ("nllb", {}, {"bf16": True, "gradient_checkpointing": True}),
    ],
)
def test_a_training_of_rows_is_that_of_the_matrix(
    make_trainer, tmp_path, monkeypatch, kind, config, flags
):
    monkeypatch.setattr(target_pieces, "LARGE", 50)
    trained = []
    model, tokenizer = MAKERS[kind](tmp_path / "model", **config)
    for few in (0.0, 1.0):
        monkeypatch.setattr(target_pieces, "FEW", few)
        made = copy.deepcopy(model), tokenizer
        # A large epsilon: where a gradient is 0, no step of Adam is of the signs of its rounding.
        trainer = make_trainer(made=made, max_grad_norm=0.5, adam_epsilon=0.01, **flags)
        optimized = []
        trainer.add_callback(Watching(optimized))
        trainer.train()
        trained.append((trainer.model.state_dict(), trainer.state.log_history, optimized[0]))
    (whole, history, all_sizes), (rows, other_history, sizes) = trained
    assert whole.keys() == rows.keys()
    for name, weight in whole.items():
        assert torch.allclose(weight, rows[name], rtol=1e-5, atol=1e-5), name
    for one, other in zip(history, other_history, strict=True):
        same = {name for name in one if not name.endswith(("time", "per_second", "flos"))}
        assert {n: one[n] for n in same} == pytest.approx({n: other[n] for n in same}, rel=1e-4)
    vocabulary, width = trainer.model.get_output_embeddings().weight.shape
    wanted = all_sizes - (vocabulary - len(trainer.rows)) * width
    assert sizes == wanted < all_sizes  # of gradients, and of each of Adam's moments


class Watching(TrainerCallback):
    """Notes how many numbers have gradients and moments in each update."""

    def __init__(self, found):
        self.found = found

    def on_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
        held = [p for group in optimizer.param_groups for p in group["params"]]
        sizes = [sum(p.grad.numel() for p in held if p.grad is not None)]
        kept = [optimizer.state[p] for p in held]
        sizes += [sum(k[name].numel() for k in kept if k) for name in ("exp_avg", "exp_avg_sq")]
        assert len({*sizes}) == 1
        self.found.append(sizes[0])


def test_a_training_of_rows_goes_on(make_trainer, monkeypatch):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    made = nllb()
    begun = {name: tensor.clone() for name, tensor in made[0].state_dict().items()}
    usual = {"eval_strategy": "no", "save_strategy": "steps", "save_steps": 2}
    trainer = make_trainer(made=made, max_steps=4, **usual)
    trainer.train()
    whole = {name: tensor.clone() for name, tensor in made[0].state_dict().items()}
    for few in (1.0, 0.0):
        made[0].load_state_dict(begun)
        monkeypatch.setattr(target_pieces, "FEW", few)
        again = make_trainer(made=made, max_steps=4, **usual)
        if not few:  # moments of other parameters
            said = f"--target-pieces: this run trains {trainer.rows.signature} of the output layer"
            with pytest.raises(InputError, match=re.escape(said) + ".* and now there are all rows"):
                again.train(resume_from_checkpoint=str(tmp(again) / "checkpoint-2"))
            continue
        again.train(resume_from_checkpoint=str(tmp(again) / "checkpoint-2"))
        for name, tensor in made[0].state_dict().items():
            assert torch.equal(tensor, whole[name]), name


def tmp(trainer):
    return Path(trainer.args.output_dir)


def test_when_the_whole_matrix_is_trained(make_trainer, tmp_path, monkeypatch):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    trainer = make_trainer()
    output, pairs = trainer.translator.output, trainer.train_dataset
    assert trainer.rows is not None
    assert choose_rows(output, iter(())) is None  # a stream: any source may come
    monkeypatch.setattr(target_pieces, "FEW", len(trainer.rows) / len(output.places))
    assert choose_rows(output, pairs) is None
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    output.head.weight.requires_grad_(False)
    assert choose_rows(output, pairs) is None
    output.head.weight.requires_grad_(True)
    optimizer = torch.optim.SGD(trainer.model.parameters(), 0.1)  # which has the matrix
    theirs = SimileRiskTrainer(
        trainer.model, trainer.args, processing_class=trainer.processing_class,
        train_dataset=pairs, eval_dataset=pairs, optimizers=(optimizer, None),
    )  # fmt: skip
    assert theirs.rows is None and theirs.translator.output is not None


def test_an_optimizer_that_was_made_before_the_training_has_the_whole_matrix(
    make_trainer, monkeypatch
):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    trainer = make_trainer()
    before = trained_matrix(trainer).clone()
    trainer.create_optimizer()
    trainer.train()
    assert trainer.rows is not None and TRAINED_ROWS not in trainer.risk_state.objective
    assert trained_matrix(trainer).ne(before).any()


def test_a_second_training_has_the_rows_again(make_trainer, monkeypatch):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    trainer = make_trainer()
    found = []
    trainer.add_callback(Watching(found))
    for _ in range(2):
        before = trained_matrix(trainer).clone()
        trainer.train()
        assert trained_matrix(trainer).ne(before).any()
    assert len(found) == 6 and len({*found}) == 1


def test_the_best_model_is_loaded_into_the_matrix(make_trainer, monkeypatch):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    trainer = make_trainer(
        max_steps=2, eval_steps=1, save_strategy="steps", save_steps=1, learning_rate=1.0,
        load_best_model_at_end=True, metric_for_best_model="eval_loss",
    )  # fmt: skip
    trainer.train()
    losses = [log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log]
    assert trainer.state.best_model_checkpoint.endswith("-1") and losses[0] < losses[1]
    best = load_file(tmp(trainer) / "checkpoint-1/model.safetensors")["model.shared.weight"]
    assert torch.equal(trained_matrix(trainer), best)


def test_a_source_outside_the_rows_keeps_its_vector(make_trainer, monkeypatch):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    monkeypatch.setattr(target_pieces, "FEW", 1.0)
    trainer = make_trainer()
    batch, rows = batch_of(trainer.processing_class), trainer.rows
    other = next(t for t in range(5, len(rows.places)) if rows.places[t] == len(rows))
    batch["input_ids"][0, 1] = other
    model, output = trainer.model.train(), trainer.translator.output
    matrix = output.head.weight
    loss, _ = trainer.risk_loss(model, batch)
    expected = gradients(model, loss)["model.shared.weight"]
    assert expected[other].any()
    model.zero_grad()
    with output.training(rows):
        loss, _ = trainer.risk_loss(model, batch)
        loss.backward()
    assert matrix.grad is None and rows.rows.grad.shape == rows.rows.shape
    assert torch.allclose(rows.rows.grad, expected[rows.ids], rtol=1e-5, atol=1e-6)


def test_validations_judge_the_whole_model(make_trainer, monkeypatch):
    made = nllb()
    expected = make_trainer(made=made, target_pieces="all").evaluate()
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    trainer = make_trainer(made=made)
    assert trainer.translator.output is not None and trainer.translator.vocabulary > 100
    found = trainer.evaluate()
    names = [name for name in expected if not name.endswith(("time", "per_second"))]
    assert "eval_bleu" in names and all(found[name] == expected[name] for name in names)
    trainer.model.train()
    assert trainer.translator.vocabulary == len(trainer.translator.output)


@pytest.mark.parametrize("kind", ["marian", "nllb", "t5"])
def test_adapters_train_over_pieces(make_trainer, tmp_path, monkeypatch, kind):
    peft = pytest.importorskip("peft")
    monkeypatch.setattr(target_pieces, "LARGE", 50)
    settings = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules="all-linear")
    base, tokenizer = MAKERS[kind](tmp_path / "model")
    model = peft.get_peft_model(base, settings)
    trainer = make_trainer(made=(model, tokenizer), gradient_checkpointing=kind == "nllb")
    assert trainer.translator.output is not None
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer.train()
    for name, parameter in model.named_parameters():
        assert parameter.equal(before[name]) != ("lora_" in name), name


def test_which_pieces_a_language_uses(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    caplog.set_level(logging.INFO)
    model, tokenizer = nllb()
    words, special = every_word(tokenizer), special_tokens(model, tokenizer)
    pairs = Pairs(tokenizer, SOURCES, [None, TARGETS[0], TARGETS[0], None], 64)
    output = choose_output("auto", model, tokenizer, special, [pairs, None])
    chosen = {words[token] for token in output.place_of}
    used = {*tokenizer.tokenize(TARGETS[0])}
    characters = {word for word in words if len(word.removeprefix("\u2581")) <= 1}
    assert chosen >= used | characters | {"</s>", "eng_Latn", "deu_Latn"}
    assert not characters <= used
    others = {*words} - chosen
    assert others and others.isdisjoint(used)
    assert f"target pieces: {len(output)} of {len(words)}, among them all of" in caplog.text
    with_one = pieces_file(tmp_path, [sorted(others)[0]])
    more = choose_output(with_one, model, tokenizer, special, [pairs])
    assert len(more) == len(output) + 1
    assert f"; {with_one} has 0.00% of the references' tokens, and the rest is" in caplog.text
    assert choose_output("all", model, tokenizer, special, [pairs]) is None
    assert choose_output("auto", model, tokenizer, special, [None]) is None
    monkeypatch.setattr(target_pieces, "LARGE", 10_000)
    assert choose_output("auto", model, tokenizer, special, [pairs]) is None


def test_characters_of_other_scripts_are_left_out():
    words = [
        "\u2581the",
        "e",
        "\u2581e",
        "\u0436",
        "\u4e2d",
        "7",
        "\u2581!",
        "<0x0A>",
        "\u2581",
        "ab",
        "\u00fc",
    ]
    found = target_pieces._single_characters(words, {0})
    assert {words[token] for token in found} == {
        "e",
        "\u2581e",
        "7",
        "\u2581!",
        "<0x0A>",
        "\u2581",
        "\u00fc",
    }


def test_references_of_any_data_set_are_counted():
    _, tokenizer = t5()
    pairs = Pairs(tokenizer, SOURCES, TARGETS, 2)  # cut, but counted whole
    whole = [token for target in TARGETS for token in tokenizer(text_target=target).input_ids]
    counts = count_pieces(pairs)
    assert counts.total() == len(whole) and {*counts} == {*whole}
    some = Pairs(tokenizer, SOURCES[:1], TARGETS[:1], 64)
    joined = {"a": pairs, "b": ConcatDataset([pairs, pairs, Subset(some, [0])])}  # each once
    assert count_pieces(joined) == counts + count_pieces(some)
    rows = [{"labels": torch.tensor([5, PADDING])}, {"labels": None}, {}, {"labels": [5, 6]}]
    assert dict(count_pieces(rows)) == {5: 2, 6: 1}
    assert count_pieces([]) == count_pieces(None) == {}

    class Stream(IterableDataset):
        def __iter__(self):
            yield rows[0]

    assert count_pieces({"a": pairs, "b": Stream()}) is None


def test_a_stream_has_all_pieces_or_those_of_a_file(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    model, tokenizer = m2m100(tmp_path / "model")
    special, stream = special_tokens(model, tokenizer), [iter(())]
    assert choose_output("auto", model, tokenizer, special, stream) is None
    assert "--target-pieces auto: a stream of examples cannot be counted" in caplog.text
    path = pieces_file(tmp_path, every_word(tokenizer)[40:42])
    output = choose_output(path, model, tokenizer, special, stream)
    assert len(output) < model.config.vocab_size


def test_a_reference_outside_the_pieces_is_refused(make_trainer, monkeypatch):
    monkeypatch.setattr(target_pieces, "LARGE", 100)
    trainer = make_trainer()
    batch, output = batch_of(trainer.processing_class), trainer.translator.output
    other = next(t for t in range(5, len(output.places)) if t not in output.place_of)
    batch["labels"][0, 1] = other
    word = trainer.processing_class.convert_ids_to_tokens(other)
    trainer.model.train()
    said = f"--target-pieces: a reference has the piece '{word}' \\(id {other}\\), which is not"
    with pytest.raises(InputError, match=said):
        trainer.risk_loss(trainer.model, batch)


def test_the_command(tmp_path, encoder_folder, capsys):
    save(marian(tmp_path / "files"), tmp_path / "model")
    files = write_corpus(tmp_path)
    command = [
        *("finetune-hf", str(tmp_path / "model"), "--train", *files, "--valid", *files),
        *("--encoder", str(encoder_folder), "--output", str(tmp_path / "tuned")),
        *("--batch-size", "4", "--risk-candidates", "3", "--max-updates", "1"),
    ]
    path = pieces_file(tmp_path, ["a", "nonsense"])
    assert main([*command, "--target-pieces", path]) == 2
    line = f"--target-pieces: {path}:2: 'nonsense' is no piece of the tokenizer; expected a piece"
    assert line in capsys.readouterr().err
    assert main([*command, "--target-pieces", pieces_file(tmp_path, [])]) == 2
    assert f"--target-pieces: {path} is empty; expected a piece a line" in capsys.readouterr().err
    assert main([*command, "--target-pieces", str(tmp_path / "none")]) == 2
    assert "--target-pieces: " in capsys.readouterr().err
    pieces_file(tmp_path, ["a"])
    assert main([*command, "--target-pieces", path]) == 0
    state = json.loads((tmp_path / "tuned/trainer_state.json").read_text())
    saved = state["stateful_callbacks"]["RiskState"]["attributes"]["objective"]["--target-pieces"]
    told = capsys.readouterr().out
    assert f"target pieces: {saved}\n" in told
    some, whole = map(int, saved.split(" of "))
    assert 0 < some < whole

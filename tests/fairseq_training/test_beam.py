"""Beam search and sampling against fairseq's SequenceGenerator: tokens
exactly, scores within float error."""

import pytest
import torch
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from simile_plugin.fairseq_training.candidates import beam_search
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.transformer_steps import add_and_norm
from simile_plugin.search import AtOnce, recorder_for
from simile_plugin.search.continuations import best_of_rows
from tests.fairseq_models import make_model, make_sample, make_task
from tests.operations import Operations

PAD, EOS = 1, 2
CPU = torch.device("cpu")
ARCHITECTURES = ["transformer_tiny", "fconv", "lstm"]
LENGTHS = ((5, 4), (3, 6), (7, 2), (9, 3), (2, 3))
OPTIONS = {
    "plain": {},
    "short": {"lenpen": 0.3},
    "long": {"lenpen": 2.0, "max_len_b": 12},
    "hot": {"temperature": 2.5},
    "cold": {"temperature": 0.4},
    "tight": {"max_len_a": 0.0, "max_len_b": 2},
    "one step": {"max_len_a": 0.0, "max_len_b": 1},
}


def config(size, max_len_a=0.0, **flags):
    """N, and other flags without their prefix."""
    flags = {f"risk_{name}": value for name, value in flags.items()}
    return SimileRiskConfig(risk_candidates=size, risk_max_len_a=max_len_a, **flags)


def make_peaked_model(arch, task, seed=1, **flags):
    """A tiny model whose distributions are far from flat, and which likes to stop."""
    model = make_model(arch, task, seed, **flags).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed" in name or name.endswith("weight"):
                noise = torch.randn(parameter.shape, generator=generator)
                parameter += noise * parameter.std() * (3 if arch == "lstm" else 1.5)
    return model


def stock_lists(model, task, sample, size, options, strategy=None):
    names = {"lenpen": "len_penalty"}
    stock = SequenceGenerator(
        [model],
        task.target_dictionary,
        beam_size=size,
        search_strategy=strategy,
        **{names.get(key, key): value for key, value in options.items()},
    )
    return stock.generate([], sample)


def check_equal(found, expected, size):
    for row, hypos in enumerate(expected):
        assert int(found.scores[row].isfinite().sum()) == len(hypos)
        own = [tokens[tokens.ne(PAD)].tolist() for tokens in found.tokens[row, : len(hypos)]]
        assert sorted(own) == sorted(hypo["tokens"].tolist() for hypo in hypos)
        for column, hypo in enumerate(hypos):
            # Of hypotheses whose scores are the same but for rounding either may come first.
            ties = [other for other in hypos if abs(other["score"] - hypo["score"]) < 1e-6]
            assert own[column] in [other["tokens"].tolist() for other in ties], (row, column)
            assert found.scores[row, column].item() == pytest.approx(
                float(hypo["score"]), rel=1e-4, abs=1e-5
            )
        for column in range(len(hypos), size):
            assert found.tokens[row, column].eq(PAD).all()


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_lists_are_sequence_generators(arch, name):
    task = make_task()
    options = {"max_len_a": 1.5, "max_len_b": 6, **OPTIONS[name]}
    lengths = set()
    for seed in range(2):
        sample = make_sample(task, seed, LENGTHS)
        model = make_peaked_model(arch, task, seed)
        for size in (1, 4, 13):  # 13 is all of the vocabulary but padding
            expected = stock_lists(model, task, sample, size, options)
            found = beam_search(model, sample, config(size, **options), task.target_dictionary)
            check_equal(found, expected, size)
            lengths |= {len(hypo["tokens"]) for hypos in expected for hypo in hypos}
    assert len(lengths) > 1 or name == "one step"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_samples_are_sequence_generators(arch):
    task = make_task()
    options = {"max_len_a": 1.5, "max_len_b": 6, "temperature": 1.5}
    for seed in range(2):
        sample = make_sample(task, seed, LENGTHS)
        model = make_peaked_model(arch, task, seed)
        for size in (1, 5):
            strategy = search.Sampling(task.target_dictionary)
            torch.manual_seed(seed)
            expected = stock_lists(model, task, sample, size, options, strategy)
            torch.manual_seed(seed)
            found = beam_search(
                model,
                sample,
                config(size, **options, search="sampling"),
                task.target_dictionary,
            )
            check_equal(found, expected, size)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_looks_only_at_some_steps(arch, monkeypatch):
    # as on a GPU: finished sentences stay in the batch for a while
    monkeypatch.setattr(AtOnce, "fewer", lambda *_: None)
    task = make_task()
    sample = make_sample(task, 3, LENGTHS)
    model = make_peaked_model(arch, task, 3)
    options = {"max_len_a": 1.5, "max_len_b": 6}
    found = beam_search(model, sample, config(4, **options), task.target_dictionary)
    check_equal(found, stock_lists(model, task, sample, 4, options), 4)


def test_bounds_that_leave_no_room_are_refused():
    task = make_task()
    options = config(2, max_len_a=0, max_len_b=0)
    with pytest.raises(ValueError, match="--risk-max-len-b: a source of 7 tokens gets 0"):
        beam_search(
            make_model("lstm", task).eval(), make_sample(task), options, task.target_dictionary
        )


@pytest.mark.parametrize("name", OPTIONS)
def test_recorded_steps_find_the_same_lists(name):
    # one recorder for all batches, as in a training: what was recorded of one is run for the next
    task, recorder = make_task(), recorder_for(CPU)
    options = {"max_len_a": 1.5, "max_len_b": 12, **OPTIONS[name]}
    model = make_peaked_model("transformer_tiny", task)
    for seed in (0, 1, 0):
        lengths = [(2 + (seed + row) % 9, 3) for row in range(37 - seed)]
        sample = make_sample(task, seed, lengths)
        for size in (1, 4):
            args = (model, sample, config(size, **options), task.target_dictionary)
            found, wanted = beam_search(*args, recorder=recorder), beam_search(*args)
            width = wanted.tokens.size(-1)
            assert torch.equal(found.tokens[..., :width], wanted.tokens)
            assert found.tokens[..., width:].eq(PAD).all()
            torch.testing.assert_close(found.scores, wanted.scores)


def test_recorded_steps_draw_the_same_samples(monkeypatch):
    # where both draw for the same rows: no filling, and no sentence drops out
    monkeypatch.setattr(AtOnce, "fewer", lambda *_: None)
    task, recorder = make_task(), recorder_for(CPU)
    model = make_peaked_model("transformer_tiny", task)
    options = {"max_len_b": 20, "temperature": 1.5, "search": "sampling"}
    for seed in range(2):
        sample = make_sample(task, seed, [(5, 4)] * 8)
        args = (model, sample, config(3, **options), task.target_dictionary)
        found = []
        for given in (None, recorder):
            torch.manual_seed(seed)
            found.append(beam_search(*args, recorder=given))
        width = min(one.tokens.size(-1) for one in found)
        assert torch.equal(found[0].tokens[..., :width], found[1].tokens[..., :width])
        torch.testing.assert_close(found[0].scores, found[1].scores)


def test_a_step_asks_for_few_operations(monkeypatch):
    """130 of 6 layers, with one attention, and kernels of ours as on a GPU."""
    steps = "simile_plugin.fairseq_training.transformer_steps"
    monkeypatch.setattr(f"{steps}.attend", in_one)
    monkeypatch.setattr(f"{steps}.add_and_norm", as_kernels(1)(add_and_norm))
    monkeypatch.setattr("simile_plugin.search.beam.best_of_rows", as_kernels(2)(best_of_rows))
    task = make_task()
    dictionary = task.target_dictionary
    for number in range(4000 - len(dictionary)):
        dictionary.add_symbol(str(number))
    layers = {"encoder_layers": 6, "decoder_layers": 6, "share_all_embeddings": True}
    model = make_model("transformer_tiny", task, **layers).eval()
    with torch.no_grad():  # it does not stop by itself
        model.decoder.output_projection.weight[EOS] -= 1
    source = torch.full((8, 5), 7)
    net_input = {"src_tokens": source, "src_lengths": torch.full((8,), 5)}
    counts = []
    for length in (4, 14):
        with Operations() as found:
            options = config(2, max_len_b=length)
            args = (model, {"net_input": net_input}, options, dictionary)
            beam_search(*args, recorder=recorder_for(CPU))
        counts.append(found.count)
    assert (counts[1] - counts[0]) / 10 <= 130


def as_kernels(launches):
    """Count a function as so many operations, which are its kernels on a GPU."""

    def wrapped(function):
        def call(*given):
            with torch.utils._python_dispatch._disable_current_modes():
                found = function(*given)
            for _ in range(launches):
                torch.zeros(1)
            return found

        return call

    return wrapped


def in_one(queries, keys, values, mask=None):
    return nn.functional.scaled_dot_product_attention(queries, keys, values, mask, scale=1.0)

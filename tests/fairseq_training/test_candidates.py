"""Risk sets against fairseq's own generator, and one model call against the naive one."""

from dataclasses import replace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from simile_plugin.fairseq_training import candidates, steps
from simile_plugin.fairseq_training.candidates import (
    CandidateGenerator,
    build_risk_set,
    start_and_end,
)
from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.decoders import known
from simile_plugin.files import InputError
from simile_plugin.risk import evaluation_mode
from tests.fairseq_models import make_model, make_sample, make_task, stack_lists, with_tag

PAD, EOS = 1, 2
ARCHITECTURES = ["transformer_tiny", "fconv", "lstm"]


def config(size, **flags):
    return SimileRiskConfig(risk_candidates=size, **flags)


def hypo(*tokens):
    return {"tokens": torch.tensor([*tokens, EOS]), "score": torch.tensor(-1.0)}


def build(target, lists, options):
    return build_risk_set(
        target, stack_lists(lists, options.risk_candidates, target, PAD), options, PAD, EOS
    )


def test_block_by_hand():
    target = torch.tensor([[5, 6, EOS], [7, EOS, PAD]])
    lists = [[hypo(5, 6, 7, 8), hypo(5)], []]
    found = build(target, lists, config(2))
    assert found.tokens.tolist() == [
        [[5, 6, EOS, PAD, PAD], [5, 6, 7, 8, EOS], [5, EOS, PAD, PAD, PAD]],
        # a missing candidate is an empty sentence, never a row of padding only
        [[7, EOS, PAD, PAD, PAD], [EOS, PAD, PAD, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]],
    ]
    assert found.mask.tolist() == [[False, True, True], [False, False, False]]


def test_reference_and_duplicates():
    target = torch.tensor([[5, 6, EOS]])
    lists = [[hypo(7), hypo(5, 6), hypo(7), hypo(8)]]
    options = config(4, risk_include_reference=True)
    # the second candidate is the reference, the third repeats the first
    assert build(target, lists, options).mask.tolist() == [[True, True, False, False, True]]
    options = config(4)
    assert build(target, lists, options).mask.tolist() == [[False, True, True, False, True]]
    options = config(4, risk_keep_duplicates=True)
    assert build(target, lists, options).mask.sum() == 4


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_lists_are_made_without_dropout(arch):
    task = make_task()
    model, sample = make_model(arch, task, dropout=0.5), make_sample(task)
    generator = CandidateGenerator(task.target_dictionary, config(3))
    expected = generator(model.eval(), sample)
    found = generator(model.train(), sample)
    assert torch.equal(found.tokens, expected.tokens) and model.training


def test_a_validation_is_by_the_beam():
    task = make_task()
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    beam = CandidateGenerator(task.target_dictionary, config(3))(model.eval(), sample)
    options = config(3, risk_search="sampling", risk_temperature=0.5)
    generator = CandidateGenerator(task.target_dictionary, options)
    assert torch.equal(generator(model.eval(), sample).tokens, beam.tokens)
    found = generator(model.train(), sample).tokens
    assert found.shape != beam.tokens.shape or not torch.equal(found, beam.tokens)


def test_decoders_of_your_own_see_all_tokens():
    task = make_task()
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    generator = CandidateGenerator(task.target_dictionary, config(3))
    ours = generator(model, sample)

    class Own(type(model.decoder)):
        def extract_features(self, prev_output_tokens, *args, **kwargs):
            assert prev_output_tokens.size(1) < 3 or prev_output_tokens.unique().numel() > 1
            return super().extract_features(prev_output_tokens, *args, **kwargs)

    assert known(model.decoder).steps
    model.decoder.__class__ = Own
    assert not known(model.decoder).steps
    assert torch.equal(generator(model, sample).tokens, ours.tokens)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_out_of_memory_makes_the_lists_in_halves(monkeypatch, arch):
    task = make_task()
    model = make_model(arch, task)
    sample = make_sample(task, lengths=((5, 4), (3, 6), (7, 2), (4, 3), (2, 3)))
    # A bound that does not depend on the batch: with max_len_a it is of the longest source.
    options = config(3, risk_max_len_a=0.0)
    generator = CandidateGenerator(task.target_dictionary, options)
    expected = generator(model, sample)
    whole, sizes, room = candidates.beam_search, [], 2

    def small_device(model, sample, *arguments):
        sizes.append(len(sample["target"]))
        if sizes[-1] > room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(model, sample, *arguments)

    monkeypatch.setattr(candidates, "beam_search", small_device)
    found = generator(model, sample)
    assert sizes == [5, 2, 3, 1, 2]
    assert torch.equal(found.tokens, expected.tokens) and torch.equal(found.mask, expected.mask)
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        generator(model, sample)


def test_start_and_end():
    sample = make_sample(make_task())
    assert start_and_end(sample, PAD, EOS) == (EOS, EOS)
    assert start_and_end(with_tag(sample, 9), PAD, EOS) == (9, 9)
    tagged = sample["net_input"]["prev_output_tokens"].clone()
    tagged[:, 0] = 9  # of a multilingual task: targets end in eos as ever
    multilingual = {**sample, "net_input": {**sample["net_input"], "prev_output_tokens": tagged}}
    assert start_and_end(multilingual, PAD, EOS) == (9, EOS)
    tagged[1, 0] = 8
    with pytest.raises(InputError, match="--lang-pairs: got a batch with several target languages"):
        start_and_end(multilingual, PAD, EOS)


@pytest.mark.parametrize("arch", ["bart_base", "transformer_tiny", "lstm"])
def test_lists_of_mbart_end_in_the_tag_of_the_language(arch, monkeypatch):
    task, size, tag = make_task(), 3, 9
    model, sample = make_model(arch, task).eval(), with_tag(make_sample(task), tag)
    other = make_model(arch, task).eval()  # fairseq leaves BART's attention set to its beam
    stock = SequenceGenerator(
        [other], task.target_dictionary, beam_size=size, max_len_a=1.5, max_len_b=10, eos=tag
    )
    lists = stock.generate([], sample, bos_token=tag)
    expected = stack_lists(lists, size, sample["target"], PAD)
    generator = CandidateGenerator(task.target_dictionary, config(size))
    for ours in (True, False):
        answer = replace(known(model.decoder), steps=ours, plain_layers=False)
        monkeypatch.setattr(steps, "known", lambda _, answer=answer: answer)
        found = generator(model, sample)
        assert found.tags == {tag}
        width = expected.tokens.size(-1)
        assert torch.equal(found.tokens[:, 1:, :width], expected.tokens)
    plain = generator(model, make_sample(task))  # the end is not remembered
    assert plain.tags == {EOS} and (plain.tokens == EOS).any(-1).all()


def test_modes_come_back_also_after_an_exception():
    model = make_model("transformer_tiny", make_task()).train()
    model.encoder.eval()  # a part that the user froze
    with pytest.raises(RuntimeError, match="boom"), evaluation_mode(model):
        assert not model.decoder.training
        raise RuntimeError("boom")
    assert model.training and model.decoder.training and not model.encoder.training

"""Risk sets against fairseq's own generator, and one model call against the naive one."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from simile_plugin.candidates import (
    CandidateGenerator,
    CandidateOptions,
    RiskSet,
    build_risk_set,
    evaluation_mode,
    repeats,
    score_rows,
    teacher_forcing_input,
    unwrap,
)
from tests.fairseq_models import make_model, make_sample, make_task

PAD, EOS = 1, 2
ARCHITECTURES = ["transformer_tiny", "fconv", "lstm"]


def hypo(*tokens):
    return {"tokens": torch.tensor([*tokens, EOS])}


def test_block_by_hand():
    target = torch.tensor([[5, 6, EOS], [7, EOS, PAD]])
    lists = [[hypo(5, 6, 7, 8), hypo(5)], []]
    found = build_risk_set(target, lists, CandidateOptions(size=2), PAD, EOS)
    assert found.tokens.tolist() == [
        [[5, 6, EOS, PAD, PAD], [5, 6, 7, 8, EOS], [5, EOS, PAD, PAD, PAD]],
        # a missing candidate is an empty sentence, never a row of padding only
        [[7, EOS, PAD, PAD, PAD], [EOS, PAD, PAD, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]],
    ]
    assert found.mask.tolist() == [[False, True, True], [False, False, False]]


def test_reference_and_duplicates():
    target = torch.tensor([[5, 6, EOS]])
    lists = [[hypo(7), hypo(5, 6), hypo(7), hypo(8)]]
    options = CandidateOptions(size=4, include_reference=True)
    # the second candidate is the reference, the third repeats the first
    assert build_risk_set(target, lists, options, PAD, EOS).mask.tolist() == [
        [True, True, False, False, True]
    ]
    options = CandidateOptions(size=4)
    assert build_risk_set(target, lists, options, PAD, EOS).mask.tolist() == [
        [False, True, True, False, True]
    ]
    options = CandidateOptions(size=4, dedupe=False)
    assert build_risk_set(target, lists, options, PAD, EOS).mask.sum() == 4


def test_longer_lists_are_cut():
    lists = [[hypo(4), hypo(5), hypo(6)]]
    found = build_risk_set(torch.tensor([[4, EOS]]), lists, CandidateOptions(size=2), PAD, EOS)
    assert found.tokens.shape == (1, 3, 2) and found.mask.sum() == 2


def test_repeats_count_members_only():
    tokens = torch.tensor([[[4], [4], [5], [5]]])
    mask = torch.tensor([[False, True, True, True]])
    assert repeats(tokens, mask).tolist() == [[False, False, False, True]]


def test_teacher_forcing_input_is_the_collaters():
    sample = make_sample(make_task())
    found = teacher_forcing_input(sample["target"], EOS, PAD)
    assert torch.equal(found, sample["net_input"]["prev_output_tokens"])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_lists_are_sequence_generators(arch):
    task = make_task()
    model, sample = make_model(arch, task), make_sample(task)
    found = CandidateGenerator(task.target_dictionary, CandidateOptions(size=3))(model, sample)
    stock = SequenceGenerator(
        [model.eval()], task.target_dictionary, beam_size=3, max_len_a=1.5, max_len_b=10
    ).generate([], sample)
    for row, hypos in enumerate(stock):
        for column, expected in enumerate(hypos, start=1):
            tokens = found.tokens[row, column]
            assert tokens[tokens.ne(PAD)].tolist() == expected["tokens"].tolist()
    assert torch.equal(found.tokens[:, 0, : sample["target"].size(1)], sample["target"])


def test_sampling_gives_lists_too():
    task = make_task()
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    options = CandidateOptions(size=4, search="sampling", sampling_topk=5)
    torch.manual_seed(1)
    first = CandidateGenerator(task.target_dictionary, options)(model, sample)
    torch.manual_seed(1)
    again = CandidateGenerator(task.target_dictionary, options)(model, sample)
    assert torch.equal(first.tokens, again.tokens)
    assert first.mask[:, 1].all()


def test_modes_come_back_also_after_an_exception():
    model = make_model("transformer_tiny", make_task()).train()
    model.encoder.eval()  # a part that the user froze
    with pytest.raises(RuntimeError, match="boom"), evaluation_mode(model):
        assert not model.decoder.training
        raise RuntimeError("boom")
    assert model.training and model.decoder.training and not model.encoder.training


def test_a_new_model_gets_a_new_generator():
    task = make_task()
    sample = make_sample(task)
    generator = CandidateGenerator(task.target_dictionary, CandidateOptions(size=2))
    one, two = (make_model("transformer_tiny", task, seed) for seed in (1, 2))
    first, second = generator(one, sample), generator(two, sample)
    alone = CandidateGenerator(task.target_dictionary, CandidateOptions(size=2))(two, sample)
    assert torch.equal(second.tokens, alone.tokens)
    assert first.tokens.shape != second.tokens.shape or not torch.equal(first.tokens, second.tokens)


def test_more_candidates_than_words_are_refused():
    with pytest.raises(ValueError, match="--risk-candidates: got 99; expected fewer than the 14"):
        CandidateGenerator(make_task().target_dictionary, CandidateOptions(size=99))


def test_unwrap():
    model = make_model("transformer_tiny", make_task())
    assert unwrap(torch.nn.DataParallel(torch.nn.DataParallel(model))) is model


def naive_lprobs(model, sample, risk_set):
    """Each source repeated and encoded once a row, one row at a time."""
    batch, rows, _ = risk_set.tokens.shape
    found = torch.zeros(risk_set.tokens.shape, dtype=torch.float64)
    for b in range(batch):
        for n in range(rows):
            target = risk_set.tokens[b, n]
            target = target[target.ne(PAD)].unsqueeze(0)
            previous = torch.cat([torch.tensor([[EOS]]), target[:, :-1]], dim=1)
            output = model(
                sample["net_input"]["src_tokens"][b : b + 1],
                sample["net_input"]["src_lengths"][b : b + 1],
                previous,
            )
            lprobs = torch.log_softmax(output[0].double(), dim=-1)
            values = lprobs.gather(-1, target.unsqueeze(-1)).view(-1)
            found[b, n, : len(values)] = values
    return found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_one_call_equals_the_naive_path(arch):
    task = make_task()
    # no left padding of sources here: an lstm or fconv row alone has none to see
    sample = make_sample(task, lengths=((5, 4), (5, 6), (5, 2)))
    model = make_model(arch, task).double().train()
    generator = CandidateGenerator(task.target_dictionary, CandidateOptions(size=3))
    risk_set = generator(model, sample)
    weight = torch.rand(risk_set.tokens.shape, dtype=torch.float64)
    weight = weight * risk_set.tokens.ne(PAD)

    def gradients(lprobs):
        model.zero_grad()
        (lprobs * weight).sum().backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    together, ref_lprobs = score_rows(model, sample, risk_set, PAD)
    alone = naive_lprobs(model, sample, risk_set)
    real = risk_set.tokens.ne(PAD)
    assert torch.allclose(together.double()[real], alone[real], atol=1e-5)
    assert torch.equal(
        ref_lprobs.gather(-1, risk_set.tokens[:, 0].unsqueeze(-1)).squeeze(-1), together[:, 0]
    )
    fast, slow = gradients(together), gradients(alone)
    assert fast.keys() == slow.keys()
    for name in fast:
        assert torch.allclose(fast[name], slow[name], atol=1e-6), name


def test_scoring_changes_neither_sample_nor_model():
    task = make_task()
    model, sample = make_model("transformer_tiny", task), make_sample(task)
    before = {key: value.clone() for key, value in sample["net_input"].items()}
    risk_set = RiskSet(sample["target"].unsqueeze(1), torch.ones(3, 1, dtype=torch.bool))
    score_rows(model, sample, risk_set, PAD)
    assert before.keys() == sample["net_input"].keys()
    assert all(torch.equal(before[key], sample["net_input"][key]) for key in before)
    assert not model.encoder._forward_hooks

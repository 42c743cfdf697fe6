"""Sources without references beside the bitext: the loss by hand, and who is in an epoch."""

import copy

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, data_utils

from simile_plugin.fairseq_training.monolingual import MixedPairs
from simile_plugin.fairseq_training.scoring import score_rows
from simile_plugin.files import InputError
from tests.fairseq_models import judge, make_model, make_sample, numbers, rows_of, with_tag

PAD = 1


def without_references(sample, rows):
    """The batch in which some sentences have no reference, as MixedPairs' are."""
    sample = copy.deepcopy(sample)
    sample["target"][rows] = PAD
    sample["net_input"]["prev_output_tokens"][rows, 1:] = PAD
    return sample


def update(criterion, sample):
    model = make_model("transformer_tiny", criterion.task).train()
    loss, size, log = criterion(model, sample)
    loss.backward()
    return loss.item(), size, log, torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("tag", [None, 9])
def test_risk_of_all_likelihood_of_those_with_a_reference(make_criterion, task, tag):
    criterion = make_criterion(reward="noise", mle_weight=0.4, risk_cost_scale=10.0)
    sample = make_sample(task)
    if tag is not None:  # mBART's layout
        sample = with_tag(sample, tag)
    mixed = without_references(sample, [1])
    loss, size, log, gradient = update(criterion, mixed)
    # Nothing but the sentences' own parts: as three batches, of which one has no reference at all.
    parts = [update(criterion, rows_of(mixed, [row])) for row in range(3)]
    assert loss == pytest.approx(sum(part[0] for part in parts), rel=1e-5)
    torch.testing.assert_close(gradient, sum(part[3] for part in parts), rtol=1e-4, atol=1e-5)
    assert size == 3
    one, all_of = numbers(log), [numbers(part[2]) for part in parts]
    assert one["references"] == 2 and all_of[1]["references"] == all_of[1]["cost_bleu"] == 0
    for name in ("ntokens", "nll_loss", "cost", "cost_bleu", "sim", "words", "expected_words"):
        assert one[name] == pytest.approx(sum(part[name] for part in all_of), rel=1e-4), name
    # The one without is (1 - gamma) scale sum_u Q(u) cost(u), by hand.
    model, alone = make_model("transformer_tiny", task).train(), rows_of(mixed, [1])
    risk_set = criterion.translator.generator(model, alone)
    reward = judge(criterion, alone, risk_set).reward[0, 1:]
    scores = score_rows(model, alone, risk_set, PAD)[0].sum(-1)[0, 1:]
    risk = float((torch.softmax(scores, 0) * (1 - reward)).sum())
    assert parts[1][0] == pytest.approx(0.6 * 10 * risk, rel=1e-5)
    assert bool(risk_set.mask[0, 1:].any()) and not risk_set.mask[0, 0]


def test_its_reference_is_no_candidate(make_criterion, task):
    criterion = make_criterion(reward="noise", risk_include_reference=True)
    mixed = without_references(make_sample(task), [0])
    risk_set = criterion.translator.generator(make_model("transformer_tiny", task), mixed)
    assert risk_set.mask[:, 0].tolist() == [False, True, True]


def test_what_reads_a_reference_is_refused(make_criterion, task):
    mixed = without_references(make_sample(task), [2])
    model = make_model("transformer_tiny", task)
    with pytest.raises(InputError, match="a batch: --reward chrf reads a reference, which some"):
        make_criterion(reward="chrf")(model, mixed)
    with pytest.raises(InputError, match="a validation has sentences without a reference"):
        make_criterion(reward="noise").eval()(model, mixed)
    with pytest.raises(InputError, match="--risk-monolingual: expected --task translation"):
        make_criterion(reward="noise", risk_monolingual="x")
    for share in (0.0, 1.0):
        line = f"--risk-monolingual-share: got {share}, expected a number above 0 and below 1"
        with pytest.raises(InputError, match=line):
            make_criterion(reward="noise", risk_monolingual="x", risk_monolingual_share=share)


def data_set(dictionary, lengths, targets=True):
    rows = [torch.tensor([7] * (length - 1) + [2]) for length in lengths]
    sizes = np.array(lengths)
    both = (rows, sizes, dictionary) if targets else (None, None, dictionary)
    return LanguagePairDataset(rows, sizes, dictionary, *both)


def test_an_epoch_has_the_bitext_and_its_share_of_the_others(task):
    dictionary = task.source_dictionary
    bitext, others = data_set(dictionary, [3, 4] * 10), data_set(dictionary, [4, 5] * 5, False)
    mixed = MixedPairs(bitext, others, 0.2)  # 5 beside 20
    epochs = []
    for epoch in (1, 2, 3):
        mixed.set_epoch(epoch)
        with data_utils.numpy_seed(epoch):
            order = mixed.ordered_indices()
        sizes = mixed.dataset.src_sizes[order].tolist()
        assert sizes == sorted(sizes)
        assert sorted(order[order < 20]) == [*range(20)]
        epochs.append(sorted(order[order >= 20]))
    first, second, third = epochs
    assert sorted([*first, *second]) == [*range(20, 30)]  # in turn, then once more
    assert third == first and len({*first}) == 5
    assert not mixed.can_reuse_epoch_itr_across_epochs
    batch = mixed.collater([mixed[0], mixed[25]])
    rows = batch["id"].tolist()
    assert batch["target"][rows.index(25)].eq(PAD).all()
    assert batch["net_input"]["prev_output_tokens"][:, 0].tolist() == [2, 2]
    assert batch["ntokens"] == 3
    assert len(MixedPairs(bitext, others, 0.5).ordered_indices()) == 40  # all of them twice

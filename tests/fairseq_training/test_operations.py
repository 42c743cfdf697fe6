"""What a GPU is asked for in an update, counted on a CPU that scores as on a GPU."""

from types import SimpleNamespace

import torch

from simile_plugin.fairseq_training.config import SimileRiskConfig
from simile_plugin.fairseq_training.criterion import SimileRiskCriterion
from simile_plugin.risk import log_probabilities, tree_scoring
from tests.fairseq_models import WORDS, make_model, make_sample, make_task
from tests.operations import Operations


def test_an_update_outside_the_search(monkeypatch):
    # transformer-base's layers, narrow, as the count does not depend on widths; 64 sentences, N = 8
    monkeypatch.setattr(tree_scoring, "pays", lambda *_: False)
    monkeypatch.setattr(tree_scoring, "PART_TOKENS", tree_scoring.PART_TOKENS_ON_GPU)
    task = make_task()
    lengths = [(4 + i % 5, 3 + i % 7) for i in range(64)]
    sample = make_sample(task, lengths=lengths)
    layers = {"encoder_layers": 6, "decoder_layers": 6, "share_all_embeddings": True}
    model = make_model("transformer_tiny", task, dropout=0.1, **layers).train()
    flags = {"reward": "bleu", "risk_candidates": 8, "risk_max_len_a": 0.0, "risk_max_len_b": 6}
    criterion = SimileRiskCriterion(SimileRiskConfig(**flags), task)
    count = Operations(vocabulary := len(task.target_dictionary))
    search = criterion.translator.candidates

    def candidates(*args):
        count.seen = False
        found = search(*args)
        count.seen, count.lists = True, found
        return found

    monkeypatch.setattr(criterion.translator, "candidates", candidates)
    with count:
        criterion(model, sample)[0].backward()
    # Of the version before (trees, slices of 16 MiB, fairseq's layers) a GPU was asked for 4,300.
    assert count.count < 1150
    # Logits and their logarithms, then again logits and their gradient, in float32; what is kept of
    # them is computed once.
    positions = int(count.lists.lengths_of_scored(1).sum())
    assert len(WORDS) < vocabulary and positions > 64 * 20
    assert count.bytes <= 4 * (4 + 1) * positions * vocabulary


def test_slices_of_a_gpu(monkeypatch):
    # 65,000 positions over 31,464 words in bfloat16: at most 2^27 // 31,464 = 4,265 a slice; 16 GB
    # / 256 / 2 bytes hold 31,250,000 logits, 993 positions
    for memory, step in ((141 * 10**9, 4265), (16 * 10**9, 993)):
        card = SimpleNamespace(total_memory=memory)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, card=card: card)
        like = SimpleNamespace(device=torch.device("cuda"), element_size=lambda: 2)
        assert log_probabilities.slice_logits(like) // 31_464 == step
    assert log_probabilities.slice_logits(torch.empty(0)) == log_probabilities.SLICE_LOGITS

"""An exported encoder gives the model's means, and its folder is read like any other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary

from simile_plugin.contrib.bgt import export_encoder
from simile_plugin.contrib.bgt.model import BgtConfig, BgtModel
from simile_plugin.encoder import Encoder, Preprocessing, Segmenter, load_encoder, save_encoder
from simile_plugin.files import InputError
from tests.conftest import SENTENCES
from tests.contrib.bgt.test_model import SMALL, make_task
from tests.contrib.papers import BGT, script

token_ids, transfer = (getattr(script(BGT, "transfer"), name) for name in ("token_ids", "transfer"))


def make_trained(spm_proto: bytes, leave_out: int = 0, **flags: Any) -> BgtModel:
    """A model whose dictionary is that of the sentencepiece model, in another order."""
    pieces = Segmenter(spm_proto, Preprocessing()).model.pieces[3 + leave_out :]
    dictionary = Dictionary()
    for piece in reversed(pieces):
        dictionary.add_symbol(piece)
    dictionary.pad_to_multiple_(8)
    task = make_task()
    task.source_dictionary = dictionary
    torch.manual_seed(6)
    return BgtModel.build_model(BgtConfig(**SMALL | flags), task).eval()


@pytest.fixture(scope="module")
def model(spm_proto: bytes) -> BgtModel:
    return make_trained(spm_proto)


@pytest.fixture(scope="module")
def exported(model: BgtModel, spm_proto: bytes) -> Encoder:
    return export_encoder(model, spm_proto, {"updates": 9})


@pytest.mark.parametrize(
    "flags", [{}, {"leave_out": 5}, {"bgt_one_decoder": True}, {"bgt_ablation": "variational"}]
)
def test_vectors_are_the_models_means(spm_proto: bytes, flags: dict[str, Any]) -> None:
    model = make_trained(spm_proto, **flags)
    encoder = export_encoder(model, spm_proto)
    ids = token_ids(model, Segmenter(spm_proto, Preprocessing()), SENTENCES)
    assert bool((ids == model.dictionary.unk()).any()) == ("leave_out" in flags)
    means = model.read(model.semantic, ids).mean.detach()
    torch.testing.assert_close(encoder.embed_text(SENTENCES), means)


def test_a_folder_is_written_and_read(exported: Encoder, tmp_path: Path) -> None:
    save_encoder(tmp_path / "enc", exported)
    found = load_encoder(tmp_path / "enc")
    assert torch.equal(found.embed_text(SENTENCES), exported.embed_text(SENTENCES))
    assert found.fingerprint == exported.fingerprint
    facts = json.loads((tmp_path / "enc" / "config.json").read_text())
    assert facts["kind"] == "transformer" and facts["dim"] == 6
    assert facts["composer"] == {"layers": 2, "heads": 2, "feedforward": 32, "latent": 6}
    assert facts["training"] == {"from": "bgt", "ablation": "none", "updates": 9}


def test_a_wrong_sentencepiece_model(spm_proto: bytes) -> None:
    model = make_trained(spm_proto)
    model.dictionary.add_symbol("▁elsewhere")
    message = "--sentencepiece: lacks 1 of the .* \\('▁elsewhere', "
    with pytest.raises(InputError, match=message):
        export_encoder(model, spm_proto)


def test_a_sentence_is_written_from_two_others(spm_proto: bytes) -> None:
    segmenter = Segmenter(spm_proto, Preprocessing())
    model = make_trained(spm_proto)
    written = transfer(model, segmenter, SENTENCES[:3], 1, SENTENCES[3:6], longest=7)
    assert written == transfer(model, segmenter, SENTENCES[:3], 1, SENTENCES[3:6], longest=7)
    # greedy search by a slow loop, of one sentence alone
    means = [
        model.read(network, token_ids(model, segmenter, [sentence])).mean
        for network, sentence in ((model.semantic, SENTENCES[1]), (model.language[1], SENTENCES[4]))
    ]
    ids: list[int] = []
    while len(ids) < 7 and model.dictionary.eos() not in ids:
        logits = model.write(1, torch.cat(means, 1), torch.tensor([ids], dtype=torch.int64))[0, -1]
        logits[model.pad] = -torch.inf
        ids.append(int(logits.argmax()))
    text = model.dictionary.string(torch.tensor(ids), "sentencepiece")
    assert written[1] == " ".join(text.split())
    assert (
        len(transfer(model, segmenter, SENTENCES[:2], 0)) == 2
    )  # from the prior's mean: a translation

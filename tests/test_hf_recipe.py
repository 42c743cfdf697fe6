"""recipes/hf: models from scratch; translations of sources longer than a model can read."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from recipes.hf import train_mle, translate
from simile_plugin.hugging_face import Pairs, special_tokens
from tests.conftest import SENTENCES
from tests.hugging_face_models import SOURCES, TARGETS, marian


def made(kind: str, folder: Path) -> tuple[Any, Any]:
    """Return a tiny model and its tokenizer, made of the tests' sentences."""
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for line in (*SENTENCES, *SOURCES, *TARGETS)))
    sizes = train_mle.sizes(1, 16, 0.0)
    return train_mle.MAKERS[kind](folder / "tokenizer", [str(text)], 120, sizes)


def test_m2m100_has_the_tags_of_the_languages(tmp_path: Path) -> None:
    model, tokenizer = made("m2m100", tmp_path)
    pair = Pairs(tokenizer, SOURCES[:1], TARGETS[:1], 64)[0]
    first = {name: tokenizer.convert_ids_to_tokens(ids[0]) for name, ids in pair.items()}
    assert (first["input_ids"], first["labels"]) == ("__de__", "__en__")
    tag = pair["labels"][0]
    special = special_tokens(model.eval(), tokenizer)
    assert (special.start, special.tag, special.end) == (2, tag, 2)
    # </s> and the tag come before the sentence, in training as in translation.
    shifted = model.prepare_decoder_input_ids_from_labels(labels=torch.tensor([[tag, 7, 2]]))
    assert shifted.tolist() == [[2, tag, 7]]
    written = model.generate(torch.tensor([pair["input_ids"]]), max_new_tokens=2)
    assert written[0, :2].tolist() == [2, tag]
    # As of the published models: pieces, 100 languages, 8 rows without a token.
    pieces = len(json.loads((tmp_path / "tokenizer/vocab.json").read_text()))
    assert model.config.vocab_size == pieces + 100 + 8


def test_marian_starts_from_its_padding(tmp_path: Path) -> None:
    model, tokenizer = made("marian", tmp_path)
    special = special_tokens(model, tokenizer)
    assert (special.start, special.tag, special.end) == (tokenizer.pad_token_id, None, 0)
    assert model.config.vocab_size == len(tokenizer)


def test_sources_longer_than_the_table_of_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = marian(tmp_path / "made", max_position_embeddings=16)
    # As many a config says: "gare ?" -> "gare?".
    tokenizer.clean_up_tokenization_spaces = True
    tokenizer.init_kwargs["clean_up_tokenization_spaces"] = True
    monkeypatch.setattr(type(tokenizer), "clean_up_tokenization", lambda *_: "cleaned")
    for one in (model, tokenizer):
        one.save_pretrained(tmp_path / "model")
    sources = [SOURCES[0][:8], " ".join(SENTENCES), SOURCES[3]]
    lengths = [len(ids) for ids in tokenizer(sources)["input_ids"]]
    assert lengths[1] > 16 >= max(lengths[0], lengths[2])
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in sources))

    def run(*flags: str) -> list[str]:
        files = [str(tmp_path / name) for name in ("model", "in", "out")]
        monkeypatch.setattr(sys, "argv", ["translate.py", *files, *flags])
        translate.main()
        return (tmp_path / "out").read_text().splitlines()

    found = run("--batch-size", "1", "--beam", "2")
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"translate.py: warning: {tmp_path}/in: 1 of 3 sentences are longer than the 16 tokens "
        f"that {tmp_path}/model can read; they were cut"
    )
    # The first 15 tokens and the end of the sentence; no more is written than there are positions.
    ids = tokenizer(sources[1])["input_ids"]
    cut = torch.tensor([[*ids[:15], tokenizer.eos_token_id]])
    wanted = model.generate(cut, num_beams=2, max_new_tokens=16)
    flags = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    (text,) = tokenizer.batch_decode(wanted, **flags)
    assert len(found) == 3 and found[1] == " ".join(text.split())
    (tmp_path / "in").write_text(f"{sources[0]}\n{sources[2]}\n")
    assert run("--batch-size", "1", "--beam", "2") == [found[0], found[2]]
    assert "cut" not in capsys.readouterr().err

"""recipes/hf: translations of sources that are longer than a model can read."""

import sys
from pathlib import Path

import pytest
import torch

from recipes.hf import translate
from tests.conftest import SENTENCES
from tests.hugging_face_models import SOURCES, marian


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

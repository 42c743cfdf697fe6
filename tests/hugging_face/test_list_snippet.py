"""The snippet of `simile mbr --help` writes samples, which the commands call by no other name."""

import json
import textwrap

from simile_plugin.cli import main, mbr
from tests.hugging_face_models import SOURCES, TARGETS, marian


def snippet() -> str:
    """Return the code between the line that introduces it and the next snippet."""
    after = mbr.DESCRIPTION.partition("Lists from Hugging Face transformers")[2]
    return textwrap.dedent(after.partition(":\n")[2].partition("\nLists from")[0])


def test_the_snippet_writes_samples(tmp_path, capsys):
    model, tokenizer = marian(tmp_path / "model", max_position_embeddings=300)
    model.generation_config.num_beams = 4  # as OPUS-MT's
    model.generation_config.max_length = 4  # T5's says 20, which cuts sentences
    batch = tokenizer(SOURCES, return_tensors="pt", padding=True)
    exec(
        snippet(),
        {"model": model, "tokenizer": tokenizer, "batch": batch, "json": json} | {"first": 0},
    )
    lists = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in lists] == [0, 1, 2, 3]
    assert {len(one["hyps"]) for one in lists} == {16}
    assert max(len(tokenizer.encode(hyp)) for one in lists for hyp in one["hyps"]) > 10
    path, ref = tmp_path / "lists", tmp_path / "ref"
    path.write_text("".join(json.dumps(one) + "\n" for one in lists), "utf-8")
    ref.write_text("".join(f"{target}\n" for target in TARGETS), "utf-8")
    assert main(["mbr", str(path), "--utility", "chrf"]) == 0
    assert "differ from the first of the list" in capsys.readouterr().err
    given = ["report", "--nbest-lists", str(path), "--ref", str(ref), "--only", "headroom"]
    assert main([*given, "--resamples", "40"]) == 0
    out = capsys.readouterr().out
    assert "first of the list" in out and "by the model" not in out and "would be" not in out

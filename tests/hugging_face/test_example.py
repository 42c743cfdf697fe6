"""The Python example of docs/reference/python.md runs."""

from pathlib import Path

from transformers import AutoModelForSeq2SeqLM

from tests.hugging_face_models import SOURCES, TARGETS, marian, save

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"


def test_the_fifteen_lines(tmp_path, monkeypatch):
    blocks = (
        PAGE.read_text("utf-8").split("## The trainer of Hugging Face models\n\n")[1].split("\n\n")
    )
    lines = [line.removeprefix("    ") for line in blocks[0].splitlines()]
    assert len(lines) <= 15
    save(marian(tmp_path / "files"), tmp_path / "model")
    for name in ("train", "dev"):
        (tmp_path / f"{name}.de").write_text("\n".join(SOURCES) + "\n")
        (tmp_path / f"{name}.en").write_text("\n".join(TARGETS) + "\n")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(lines).replace("Helsinki-NLP/opus-mt-de-en", "model")
    code = code.replace("max_steps=600", "max_steps=1")
    assert code.count('"model"') == 2 and "max_steps=1" in code
    names = {}
    exec(code, names)
    assert [log["step"] for log in names["trainer"].state.log_history] == [0, 1, 1]
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned")
    again = "trainer.train(resume_from_checkpoint=True)"
    assert f"\n    {again}\n" in PAGE.read_text("utf-8")
    exec(code.replace("max_steps=1", "max_steps=2").replace("trainer.train()", again), names)
    steps = [log["step"] for log in names["trainer"].state.log_history]
    assert steps[0] == 0 and 1 in steps and steps[-1] == 2  # 1 is from the first run

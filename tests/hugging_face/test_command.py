"""simile finetune-hf on a model made here."""

import json

import pytest
from transformers import AutoModelForSeq2SeqLM, GPT2Config, GPT2LMHeadModel

from simile_plugin.cli import main
from tests.hugging_face_models import SOURCES, TARGETS, marian


@pytest.fixture
def command(tmp_path, encoder_folder):
    model, tokenizer = marian(tmp_path / "files")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    for name, lines in (("src", SOURCES), ("tgt", TARGETS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    files = [str(tmp_path / "src"), str(tmp_path / "tgt")]
    return [
        *("finetune-hf", str(tmp_path / "model"), "--train", *files, "--valid", *files),
        *("--encoder", str(encoder_folder), "--output", str(tmp_path / "tuned")),
        *("--batch-size", "4", "--risk-candidates", "3", "--risk-max-len-a", "1"),
        *("--max-updates", "2", "--valid-interval", "1", "--log-interval", "1"),
    ]


def test_a_model_is_tuned_and_loads(command, tmp_path, capsys):
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "tuned")
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned")
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    assert [log["step"] for log in history if "eval_cost" in log] == [0, 1, 2]
    assert main([*command, "--max-updates", "3"]) == 0  # goes on
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    assert [log["step"] for log in history if "eval_cost" in log] == [0, 1, 2, 3]


def refused(command, capsys):
    assert main(command) == 2
    (line,) = [row for row in capsys.readouterr().err.splitlines() if "error:" in row]
    return line


def test_bad_input_is_one_line(command, tmp_path, capsys):
    GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4)).save_pretrained(tmp_path / "gpt")
    without = [*command[:1], str(tmp_path / "gpt"), *command[2:]]
    assert "has no encoder; expected an encoder-decoder" in refused(without, capsys)
    (tmp_path / "tgt").write_text("a\nb\n\nd\n")
    assert "tgt:3: the target sentence is empty" in refused(command, capsys)
    (tmp_path / "tgt").write_text("a\n")
    assert "src has 4 lines" in refused(command, capsys)
    assert "--risk-alpha: got 0.0" in refused([*command, "--risk-alpha", "0"], capsys)
    nowhere = [*command[:1], str(tmp_path / "nowhere"), *command[2:]]
    assert "nowhere cannot be loaded" in refused(nowhere, capsys)

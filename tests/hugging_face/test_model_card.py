"""README.md of a saved model, and what is uploaded: to a hub that is made up here."""

import sys
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import HfApi
from transformers import AutoModelForSeq2SeqLM
from transformers import trainer as library

import simile_plugin
from simile_plugin.cli import main
from simile_plugin.encoder import load_encoder
from simile_plugin.hugging_face import Pairs, SimileRiskArguments, SimileRiskTrainer
from simile_plugin.hugging_face.model_card import described, validation_table
from simile_plugin.reward import signature
from tests.hugging_face_models import SOURCES, TARGETS, marian, save, write_corpus


@pytest.fixture
def command(tmp_path, encoder_folder, monkeypatch):
    save(marian(tmp_path / "files"), tmp_path / "model")
    files = write_corpus(tmp_path)
    words = [
        *("finetune-hf", str(tmp_path / "model"), "--train", *files, "--valid", *files),
        *("--encoder", str(encoder_folder), "--output", str(tmp_path / "tuned")),
        *("--batch-size", "4", "--risk-candidates", "3", "--max-updates", "2"),
        *("--valid-interval", "1"),
    ]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/simile", *words, "--prefix", "a b"])
    return words


def rows(card):
    cells = [line.strip("|").split(" | ") for line in card.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in cells}


def test_a_card_says_what_the_model_was_made_of(command, tmp_path, encoder_folder, capsys):
    assert main(command) == 0
    card, told = (tmp_path / "tuned/README.md").read_text("utf-8"), capsys.readouterr().out
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: translation\n")
    assert "base_model" not in card  # a folder is none of the hub's
    pairs, found = Pairs(None, SOURCES, TARGETS, 64, ()), rows(card)
    assert found["base model"] == ["`model`"]
    assert found["reward"] == ["`half`"]
    assert found["encoder"] == [f"`{signature(load_encoder(str(encoder_folder)), 0.25)}`"]
    assert found["training data"] == [f"4 pairs (sha256 {pairs.digest()})"]
    assert found["updates"] == ["2, rate 2e-05"] and found["target pieces"] == ["all"]
    assert found["settings"][0].startswith("`--reward half --risk-candidates 3")
    assert found["simile-plugin"] == [simile_plugin.__version__]
    line = next(line for line in told.splitlines() if line.lstrip().startswith("0 "))
    assert [float(number) for number in line.split()[1:4]] == pytest.approx(
        [float(number) for number in found["update 0"][:3]]
    )
    assert f"    simile finetune-hf {tmp_path}/model --train" in card
    assert card.endswith("--prefix 'a b'\n")


def test_a_card_has_the_rate_that_a_run_keeps(command, tmp_path):
    assert main(command) == 0
    assert main([*command, "--max-updates", "3", "--learning-rate", "0.5"]) == 0
    found = rows((tmp_path / "tuned/README.md").read_text("utf-8"))
    assert found["updates"] == ["3, rate 2e-05"]


def test_a_card_of_the_user_stays(command, tmp_path):
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned/README.md").write_text("mine\n")
    assert main(command) == 0
    assert (tmp_path / "tuned/README.md").read_text() == "mine\n"


def test_validations_of_the_card():
    logs = [{"step": step, "eval_cost": 0.5, "eval_bleu": 30.0 + step} for step in (0, 1, 2)]
    state = SimpleNamespace(log_history=logs, best_global_step=1)
    rows = validation_table(state, of_best=True).splitlines()
    assert rows == [
        "| | cost | bleu |",
        "|---|---|---|",
        "| update 0 | 0.5000 | 30.00 |",
        "| update 1 | 0.5000 | 31.00 |",
    ]
    assert "update 2" in validation_table(state, of_best=False)
    state.log_history = logs[:1]
    assert validation_table(state, of_best=False) == ""


def test_data_of_the_card():
    pairs, others = Pairs(None, ["a"], ["b"], 9, ()), Pairs(None, ["c"] * 2, [None] * 2, 9, ())
    assert described([pairs, pairs]) == "2 examples"
    assert described({"x": pairs, "y": others}) == (
        f"1 pairs (sha256 {pairs.digest()}), 2 sources without references (sha256 "
        f"{others.digest()})"
    )
    assert described(None) == "none" and described(iter(())) == "a stream"


@pytest.fixture
def hub(monkeypatch):
    """A hub that notes what it is asked for."""
    asked = []

    def create(*_, **given):
        asked.append(("create", given))
        return SimpleNamespace(repo_id="someone/tuned")

    def upload(*_, **given):
        folder = given["folder_path"]
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        asked.append(("upload", given, model, open(f"{folder}/README.md").read()))

    for name, fake in (("create_repo", create), ("upload_folder", upload)):
        monkeypatch.setattr(HfApi, name, fake)
        monkeypatch.setattr(library, name, fake, raising=False)  # before transformers 5.24
    return asked


@pytest.mark.parametrize("lora", ["0", "2"])
def test_a_run_is_uploaded_when_it_has_ended(command, tmp_path, hub, lora):
    command += ["--push-to-hub", "--hub-model-id", "someone/tuned", "--lora", lora]
    assert main(command) == 0
    (made, _), (pushed, given, model, card) = hub
    assert (made, pushed) == ("create", "upload")
    assert given["repo_id"] == "someone/tuned" and given["folder_path"] == str(tmp_path / "tuned")
    assert "checkpoint-*" in given["ignore_patterns"]
    assert "## Validation" in card and "--push-to-hub" not in card  # sys.argv of the fixture
    saved = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned").state_dict()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())


def test_a_hub_that_refuses(command, tmp_path, hub, monkeypatch, capsys):
    def refuse(*_, **__):
        raise ConnectionError("no route\nto the hub")

    assert main([*command, "--hub-model-id", "someone/tuned"]) == 2
    assert "--hub-model-id: got someone/tuned without --push-to-hub" in capsys.readouterr().err
    command.append("--push-to-hub")
    assert main([*command, "--seeds", "2"]) == 2
    assert "--push-to-hub: got --seeds 2, of which each writes a model" in capsys.readouterr().err
    for owner in (HfApi, library):
        monkeypatch.setattr(owner, "upload_folder", refuse, raising=False)
    assert main(command) == 2
    folder = tmp_path / "tuned"
    assert (
        f"--push-to-hub: no route to the hub; the model is saved in {folder}: hf upload "
        f"someone/tuned {folder}"
    ) in capsys.readouterr().err
    AutoModelForSeq2SeqLM.from_pretrained(folder)
    for owner in (HfApi, library):
        monkeypatch.setattr(owner, "create_repo", refuse, raising=False)
    command[command.index("--output") + 1] = str(tmp_path / "other")
    assert main(command) == 2
    line = "--push-to-hub: no route to the hub; expected a network and a token that may write: hf"
    assert line in capsys.readouterr().err
    assert not (tmp_path / "other/model.safetensors").exists()


def test_a_trainer_writes_a_card_where_it_saves(tmp_path, encoder_folder):
    model, tokenizer = marian(tmp_path / "model")
    model.config._name_or_path = "someone/base"
    args = SimileRiskArguments(
        str(tmp_path / "out"), simile_encoder=str(encoder_folder), use_cpu=True, report_to="none"
    )
    pairs = Pairs(tokenizer, SOURCES, TARGETS, 64)
    trainer = SimileRiskTrainer(model, args, processing_class=tokenizer, train_dataset=pairs)
    trainer.save_model(tmp_path / "saved")
    card = (tmp_path / "saved/README.md").read_text()
    assert "\nbase_model: someone/base\n" in card and "## Validation" not in card
    assert rows(card)["settings"] == ["`defaults`"] and "## Command" not in card
    trainer.save_model(tmp_path / "checkpoint", _internal_call=True)
    assert not (tmp_path / "checkpoint/README.md").exists()

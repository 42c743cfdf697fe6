"""simile finetune-hf on a model made here."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from recipes.hf import translate
from simile_plugin.cli import main
from simile_plugin.files import locked_folder
from simile_plugin.finetuning.hugging_face import KnownPairsCallback
from simile_plugin.hugging_face import silent_ids, special_tokens
from simile_plugin.hugging_face import trainer as trainer_module
from tests.hugging_face_models import (
    SOURCES,
    batch_of,
    m2m100,
    marian,
    mbart,
    mbart50,
    nllb,
    save,
    t5,
    write_corpus,
)


@pytest.fixture
def command(tmp_path, encoder_folder):
    save(marian(tmp_path / "files"), tmp_path / "model")
    files = write_corpus(tmp_path)
    return [
        *("finetune-hf", str(tmp_path / "model"), "--train", *files, "--valid", *files),
        *("--encoder", str(encoder_folder), "--output", str(tmp_path / "tuned")),
        *("--batch-size", "4", "--risk-candidates", "3", "--risk-max-len-a", "1"),
        *("--max-updates", "2", "--valid-interval", "1", "--log-interval", "1"),
    ]


def with_pair(command, flag, source, target):
    """Return the command with another pair of files behind the flag."""
    at = command.index(flag)
    return [*command[: at + 1], str(source), str(target), *command[at + 3 :]]


def test_a_model_is_tuned_and_loads(command, tmp_path, capsys, monkeypatch):
    assert main(command) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == str(tmp_path / "tuned")
    assert "\npairs: candidates for 4 training sentences cost 0." in told
    known = json.loads((tmp_path / "tuned/finetuning.json").read_text())["known_pairs"]
    # Training and validation have the same pairs here.
    assert known["training"] == pytest.approx(known["validation"]) and known["sentences"] == 4
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned")
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    assert [log["step"] for log in history if "eval_cost" in log] == [0, 1, 2]
    assert main([*command, "--max-updates", "3"]) == 0  # goes on
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    assert [log["step"] for log in history if "eval_cost" in log] == [0, 1, 2, 3]
    # Two validations end a gamed run; the checkpoint before them is there to be taken.
    assert len([*(tmp_path / "tuned").glob("checkpoint-*")]) == 3
    # A control's last weights (docs/how-to/choose-pairs.md): a checkpoint is a model of its own.
    files = [str(tmp_path / "tuned/checkpoint-3"), command[3], str(tmp_path / "last")]
    monkeypatch.setattr("sys.argv", ["translate.py", *files])
    assert translate.main() == 0
    assert len((tmp_path / "last").read_text().splitlines()) == len(SOURCES)


def test_the_best_model_is_kept(command, tmp_path, capsys):
    command = [*command, "--reward", "noise", "--risk-cost-scale", "1000", "--learning-rate", "0.1"]
    assert main([*command, "--schedule", "constant", "--max-updates", "3"]) == 0
    told, state = capsys.readouterr().out, tmp_path / "tuned/trainer_state.json"
    history = json.loads(state.read_text())["log_history"]
    bleu = {log["step"]: log["eval_bleu"] for log in history if "eval_bleu" in log}
    best = max((0, 1, 2, 3), key=bleu.__getitem__)
    assert (f"tuned: best BLEU on validation, update {best}\n" in told) == bool(best)
    assert (f"better than {tmp_path / 'model'} itself: " in told) == (best == 0)
    kept = tmp_path / f"tuned/checkpoint-{best}" if best else tmp_path / "model"
    assert same_weights(tmp_path / "tuned", kept)


def same_weights(*folders):
    one, other = (load_file(folder / "model.safetensors") for folder in folders)
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def validate_as(monkeypatch, *bleu):
    """Let the validations of a run have these BLEU scores."""
    left, own = iter(bleu), trainer_module.metrics_of

    def metrics(total):
        found = own(total)
        return found | {"bleu": next(left, bleu[-1])} if "chrf" in found else found

    monkeypatch.setattr(trainer_module, "metrics_of", metrics)
    # The validation of training sentences would take one of the scores.
    monkeypatch.setattr(KnownPairsCallback, "on_evaluate", lambda *_, **__: None)


@pytest.mark.parametrize("lora", ["0", "2"])
def test_a_ruined_model_is_not_kept(command, tmp_path, capsys, monkeypatch, lora):
    validate_as(monkeypatch, 30.0, 0.04, 0.03)
    command = [*command, "--learning-rate", "0.5", "--schedule", "constant", "--lora", lora]
    assert main(command) == 0
    told, tuned = capsys.readouterr().out, tmp_path / "tuned"
    assert f"itself: {tuned} holds that model as it was; docs/how-to/bleu-falls.md" in told
    before = load_file(tmp_path / "model/model.safetensors")
    after = load_file(tuned / "model.safetensors")
    assert all(torch.allclose(after[name], before[name], atol=1e-6) for name in before)
    state = json.loads((tuned / "trainer_state.json").read_text())
    assert (state["best_global_step"], state["best_model_checkpoint"]) == (0, None)
    if lora == "0":
        ruined = load_file(tuned / "checkpoint-2/model.safetensors")
        assert any(not ruined[name].equal(before[name]) for name in before)


def test_a_run_that_was_moved_keeps_its_best_model(command, tmp_path, monkeypatch):
    validate_as(monkeypatch, 1.0, 30.0, 2.0)
    command = [*command, "--learning-rate", "0.1"]
    assert main(command) == 0
    (tmp_path / "tuned/model.safetensors").unlink()  # as a kill before the end leaves it
    moved = (tmp_path / "tuned").rename(tmp_path / "moved")
    command[command.index("--output") + 1] = str(moved)
    assert main(command) == 0
    assert same_weights(moved, moved / "checkpoint-1")
    assert not same_weights(moved, moved / "checkpoint-2")


def test_the_tokenizer_is_saved_as_it_was(command, tmp_path):
    save(t5(), tmp_path / "t5")
    assert main([command[0], str(tmp_path / "t5"), *command[2:]]) == 0
    before = (tmp_path / "t5/tokenizer.json").read_bytes()
    for folder in ("tuned", "tuned/checkpoint-1"):
        assert (tmp_path / folder / "tokenizer.json").read_bytes() == before


def test_sources_without_references(command, tmp_path, capsys):
    (tmp_path / "others").write_text("sie wartet am fluss\nder alte zug\n")
    command = [*command, "--monolingual", str(tmp_path / "others"), "--batch-size", "2"]
    line = "--monolingual: --reward half reads a reference, which some sentences do not have"
    assert line in refused(command, capsys)
    command[command.index("--output") + 1] = str(tmp_path / "whole")
    command += ["--reward", "noise"]
    assert main([*command, "--max-updates", "3"]) == 0  # an epoch: two pairs of pairs, and these
    command[command.index("--output") + 1] = str(tmp_path / "resumed")
    assert main([*command, "--max-updates", "3"]) == 0
    for name in ("checkpoint-2", "checkpoint-3", "model.safetensors"):
        path = tmp_path / "resumed" / name
        (shutil.rmtree if path.is_dir() else type(path).unlink)(path)
    assert main([*command, "--max-updates", "3"]) == 0  # goes on from the first update
    one, other = (load_file(tmp_path / f / "model.safetensors") for f in ("whole", "resumed"))
    assert all(one[name].equal(other[name]) for name in one)
    (tmp_path / "others").write_text("etwas anderes\n")
    assert "was begun with another --monolingual" in refused(command, capsys)


def test_a_finished_run_is_not_trained_any_further(command, tmp_path, caplog):
    command = [*command, "--batch-size", "2", "--max-updates", "1"]  # an epoch has two
    assert main(command) == 0
    once = (tmp_path / "tuned/model.safetensors").read_bytes()
    assert main(command) == 0 and "has ended" not in caplog.text
    assert main([*command, "--risk-alpha", "1", "--learning-rate", "0.5"]) == 0
    for line in ("--risk-alpha: this run had 0.3", "--learning-rate: this run had 2e-05"):
        assert f"{line} and has ended; for " in caplog.text
    assert (tmp_path / "tuned/model.safetensors").read_bytes() == once
    assert json.loads((tmp_path / "tuned/trainer_state.json").read_text())["global_step"] == 1


def test_a_run_without_a_better_validation_stops(command, tmp_path, capsys, monkeypatch):
    validate_as(monkeypatch, 1.0, 3.0, 2.0, 2.5, 4.0)
    assert main([*command, "--max-updates", "9", "--patience", "2"]) == 0
    told = capsys.readouterr().out
    assert "stopped after update 3 of 9: the last 2 validations had no better BLEU (--p" in told
    assert f"{tmp_path / 'tuned'}: best BLEU on validation, update 1\n" in told
    assert same_weights(tmp_path / "tuned", tmp_path / "tuned/checkpoint-1")
    assert main([*command, "--max-updates", "9", "--patience", "2"]) == 0
    assert "ended after update 3 of 9, as the last 2 validations had" in capsys.readouterr().out
    assert main([*command, "--max-updates", "9", "--patience", "3"]) == 0
    assert "stopped after update 7 of 9: the last 3 validations" in capsys.readouterr().out


def test_the_mean_of_two_seeds(command, tmp_path, capsys, monkeypatch):
    validate_as(monkeypatch, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 2.75)
    assert main([*command, "--seeds", "2"]) == 0
    told, mean = capsys.readouterr().out, tmp_path / "tuned/average"
    assert f"use {mean}, the mean: BLEU 2.75" not in told  # below the seeds' average of 3
    assert (
        f"use {tmp_path / 'tuned/seed.1'}: BLEU 3.00; the mean has 2.75, below the seeds'" in told
    )
    assert told.splitlines()[-1] == str(tmp_path / "tuned/seed.1")
    folders = (tmp_path / "tuned/seed.1", tmp_path / "tuned/seed.2", mean)
    one, other, average = (load_file(folder / "model.safetensors") for folder in folders)
    assert all(torch.allclose(average[k], (one[k] + other[k]) / 2) for k in average)
    assert any(not one[k].equal(other[k]) for k in average)
    AutoModelForSeq2SeqLM.from_pretrained(mean)
    before = (tmp_path / "tuned/seed.2/model.safetensors").stat().st_mtime_ns
    validate_as(monkeypatch, 3.5)
    assert main([*command, "--seeds", "2"]) == 0
    told = capsys.readouterr().out
    assert f"done before: {tmp_path / 'tuned/seed.2'} has its 2 updates" in told
    assert (tmp_path / "tuned/seed.2/model.safetensors").stat().st_mtime_ns == before
    assert f"use {mean}, the mean: BLEU 3.50, where the seeds have 3.00 on average" in told
    line = refused([*command, "--seeds", "3", "--risk-cost-scale", "100"], capsys)
    assert "seed.1 was begun with --risk-cost-scale 30.0, got --risk-cost-scale 100.0; giv" in line


def test_two_trainings_in_one_folder(command, tmp_path, capsys):
    (tmp_path / "tuned").mkdir()
    with locked_folder(tmp_path / "tuned"):  # as another process would
        assert main(command) == 2
    assert "--output: another training is at work in" in capsys.readouterr().err
    assert not [*(tmp_path / "tuned").iterdir()]


def test_a_model_saved_in_half_precision_trains_in_single(command, tmp_path):
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")
    model.half().save_pretrained(tmp_path / "model")
    assert main(command) == 0
    assert {w.dtype for w in load_file(tmp_path / "tuned/model.safetensors").values()} == {
        torch.float32
    }


def test_an_output_of_another_run_or_of_no_run(command, tmp_path, capsys, caplog, encoder_folder):
    output, begun = tmp_path / "tuned", f"--output: the run in {tmp_path / 'tuned'} was begun with"
    assert main([*command, "--max-updates", "1"]) == 0
    assert f"{begun} --lora 0, got --lora 2; give the same" in refused(
        [*command, "--lora", "2"], capsys
    )
    line = f"{begun} --reward half, got --reward bleu; give the same, or name another folder"
    assert line in refused([*command, "--reward", "bleu"], capsys)
    for flag, was, now in (
        ("--simile-alpha", "0.25", "1.0"),
        ("--risk-bleu-tokenize", "13a", "char"),
    ):
        line = f"{begun} {flag} {was}, got {flag} {now}; give the same"
        assert line in refused([*command, flag, now], capsys)
    line = f"{begun} another --encoder than default; give the same, or name another folder"
    other = ["default" if word == str(encoder_folder) else word for word in command]
    assert line in refused(other, capsys)
    assert main([*command, "--learning-rate", "0.5", "--seed", "2"]) == 0
    assert "--learning-rate: this run had 2e-05 and keeps it; for 0.5 name anot" in caplog.text
    assert "--seed: this run had 1, it goes on with 2" in caplog.text
    again = with_pair(command, "--train", tmp_path / "tgt", tmp_path / "src")
    assert f"{begun} another --train; give the same" in refused(again, capsys)
    again = with_pair(command, "--valid", tmp_path / "tgt", tmp_path / "src")
    assert f"{begun} another --valid; give the same" in refused(again, capsys)
    model, _ = marian(tmp_path / "same", seed=7)
    model.save_pretrained(tmp_path / "model")  # other weights of the same shapes
    assert f"{begun} another model than {tmp_path / 'model'}" in refused(command, capsys)
    for path in output.glob("checkpoint-*"):
        shutil.rmtree(path)
    assert f"--output: {output} holds a model and no checkpoint" in refused(command, capsys)


def refused(command, capsys):
    assert main(command) == 2
    (line,) = [row for row in capsys.readouterr().err.splitlines() if "error:" in row]
    return line


def test_bad_input_is_one_line(command, tmp_path, capsys):
    def other(model):
        return [*command[:1], str(model), *command[2:]]

    GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4)).save_pretrained(tmp_path / "gpt")
    assert "has no encoder; expected an encoder-decoder" in refused(other(tmp_path / "gpt"), capsys)
    line = refused(other(tmp_path / "nowhere"), capsys)
    assert f"MODEL: {tmp_path / 'nowhere'} is no model (" in line
    mbart()[0].save_pretrained(tmp_path / "alone")  # transformers made an empty tokenizer for it
    line = refused(other(tmp_path / "alone"), capsys)
    assert f"MODEL: the folder {tmp_path / 'alone'} has no tokenizer; expected that of the" in line
    weights = shutil.copytree(tmp_path / "model", tmp_path / "half") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:9000])
    line = refused(other(tmp_path / "half"), capsys)
    assert f"MODEL: {tmp_path / 'half'} cannot be loaded: " in line
    weights.unlink()
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    (weights.parent / "pytorch_model.bin").write_bytes(pointer)
    assert "not git-lfs' pointers to them" in refused(other(tmp_path / "half"), capsys)
    sizes = shutil.copytree(tmp_path / "model", tmp_path / "sizes") / "config.json"
    sizes.write_text(json.dumps(json.loads(sizes.read_text()) | {"encoder_ffn_dim": 7}))
    line = refused(other(tmp_path / "sizes"), capsys)
    assert f"MODEL: {tmp_path / 'sizes'} cannot be loaded: " in line
    model, tokenizer = t5()
    model.save_pretrained(tmp_path / "t5")
    marian(tmp_path / "other")[1].save_pretrained(tmp_path / "t5")
    line = refused(other(tmp_path / "t5"), capsys)
    assert line.endswith("expected the tokenizer that the model was trained with")
    tokenizer.pad_token = None
    for path in [*(tmp_path / "t5").glob("*token*"), *(tmp_path / "t5").glob("*.spm")]:
        path.unlink()
    tokenizer.save_pretrained(tmp_path / "t5")
    assert "its tokenizer has no padding token" in refused(other(tmp_path / "t5"), capsys)
    assert "--risk-alpha: got 0, expected" in refused([*command, "--risk-alpha", "0"], capsys)
    assert "--fp16: there is no GPU here" in refused([*command, "--fp16"], capsys)
    line = refused([*command, "--source-lang", "de", "--target-lang", "en"], capsys)
    assert "--source-lang, --target-lang: the tokenizer of" in line and "has no languages" in line
    (tmp_path / "tgt").write_text("a\nb\n\nd\n")
    assert "tgt:3: the target sentence is empty" in refused(command, capsys)
    (tmp_path / "tgt").write_text("a\n")
    assert "src has 4 lines" in refused(command, capsys)


def test_a_reward_of_ones_own_sees_sources_without_the_prefix(command, tmp_path, monkeypatch):
    (tmp_path / "hf_own_reward.py").write_text(
        "def score(hyps, refs, srcs):\n"
        "    seen.update(srcs)\n"
        "    return [[0.5] * len(row) for row in hyps]\n"
        "seen = set()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    save(t5(), tmp_path / "t5")
    given = ["--prefix", "translate German: ", "--reward", "hf_own_reward:score"]
    assert main([*command[:1], str(tmp_path / "t5"), *command[2:], *given]) == 0
    import hf_own_reward  # type: ignore[import-not-found]

    assert hf_own_reward.seen == set(SOURCES)


@pytest.mark.parametrize("maker", [m2m100, nllb, mbart])
def test_languages_that_are_missing_or_unknown(command, tmp_path, capsys, maker):
    _, tokenizer = save(maker(tmp_path / "made", target=None), tmp_path / "several")
    given = [*command[:1], str(tmp_path / "several"), *command[2:]]
    assert "--target-lang: not given" in refused(given, capsys)
    given += ["--target-lang", "klingon"]
    assert "got one of them; expected both" in refused(given, capsys)
    given += ["--source-lang", tokenizer.src_lang]
    assert "--target-lang: got 'klingon'" in refused(given, capsys)


@pytest.mark.parametrize("maker", [m2m100, nllb, mbart, mbart50])
def test_the_folder_translates_into_its_language(command, tmp_path, maker, monkeypatch):
    model, tokenizer = maker(tmp_path / "made")
    model.generation_config.forced_bos_token_id = 9  # of another training
    model.save_pretrained(tmp_path / "several")
    tokenizer.save_pretrained(tmp_path / "several")
    given = ["--source-lang", tokenizer.src_lang, "--target-lang", tokenizer.tgt_lang]
    assert main([*command[:1], str(tmp_path / "several"), *command[2:], *given]) == 0
    tuned = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned").eval()
    special = special_tokens(tuned, AutoTokenizer.from_pretrained(tmp_path / "tuned"))
    assert special.language == tokenizer.convert_tokens_to_ids(
        {"en": "__en__"}.get(tokenizer.tgt_lang, tokenizer.tgt_lang)
    )
    assert tuned.generation_config.decoder_start_token_id == special.start
    assert tuned.generation_config.forced_bos_token_id == special.tag
    # recipes/hf says so itself, to a folder that does not
    plain = shutil.copytree(tmp_path / "tuned", tmp_path / "plain") / "generation_config.json"
    saved = json.loads(plain.read_text())
    plain.write_text(json.dumps(saved | {"forced_bos_token_id": None}))
    lines = []
    for name in ("tuned", "plain"):
        files = [str(tmp_path / part) for part in (name, "src", "out")]
        monkeypatch.setattr("sys.argv", ["translate.py", *files, "--batch-size", "1"])
        assert translate.main() == 0
        lines.append((tmp_path / "out").read_text().splitlines())
    batch = tokenizer(SOURCES[:1], return_tensors="pt")
    length = int(1.5 * batch["input_ids"].size(1) + 10)
    (ids,) = tuned.generate(**batch, num_beams=5, max_new_tokens=length)
    text = [token for token in ids.tolist() if token not in silent_ids(tokenizer)]
    wanted = " ".join(tokenizer.decode(text).split())
    assert lines[0] == lines[1] and lines[0][0] == wanted


@pytest.mark.parametrize("maker", [m2m100, nllb, mbart])
def test_a_folder_of_adapters_is_as_any_other(command, tmp_path, maker, monkeypatch, capsys):
    model, tokenizer = maker(tmp_path / "made")
    model.save_pretrained(tmp_path / "several")
    tokenizer.save_pretrained(tmp_path / "several")
    monkeypatch.chdir(tmp_path)  # MODEL is relative
    given = ["--source-lang", tokenizer.src_lang, "--target-lang", tokenizer.tgt_lang]
    given = [*command[:1], "several", *command[2:], *given, "--lora", "2"]
    validate_as(monkeypatch, 1.0, 2.0, 3.0)
    assert main([*given, "--learning-rate", "0.1"]) == 0
    monkeypatch.chdir("/")  # from another folder
    tuned = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned").eval()
    adapter = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned/adapter").eval()
    special = special_tokens(tuned, AutoTokenizer.from_pretrained(tmp_path / "tuned"))
    assert tuned.generation_config.forced_bos_token_id == special.tag
    assert tuned.generation_config.decoder_start_token_id == special.start
    batch = batch_of(tokenizer)
    with torch.no_grad():
        logits = [one(**batch).logits for one in (tuned, adapter, model)]
    assert torch.allclose(logits[0], logits[1], atol=1e-4)
    assert not torch.allclose(logits[0], logits[2], atol=1e-2)
    told = json.loads((tmp_path / "tuned/adapter/adapter_config.json").read_text())
    assert told["base_model_name_or_path"] == str(tmp_path / "several")
    # It can be gone on from; the adapters alone cannot.
    again = [*given[:1], str(tmp_path / "tuned"), *given[2:], "--output", str(tmp_path / "more")]
    assert main(again) == 0
    again[1] = str(tmp_path / "tuned/adapter")
    assert f"MODEL: {again[1]} has adapters alone; expected a whole" in refused(again, capsys)


def test_the_rate_of_adapters_is_their_own(command, capsys):
    assert main(command) == 0
    assert "rate        2e-05 falling to 0" in capsys.readouterr().out
    command[command.index("--output") + 1] += ".lora"
    assert main([*command, "--lora", "2"]) == 0
    assert "rate        0.001 falling to 0" in capsys.readouterr().out


def test_a_model_of_several_languages(command, tmp_path, capsys):
    save(nllb(target=None), tmp_path / "nllb")
    given = ["--source-lang", "deu_Latn", "--target-lang", "eng_Latn", "--bf16", "--lora", "2"]
    assert main([*command[:1], str(tmp_path / "nllb"), *command[2:], *given]) == 0
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    assert [log["step"] for log in history if "eval_cost" in log] == [0, 1, 2]

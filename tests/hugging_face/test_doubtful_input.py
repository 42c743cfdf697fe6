"""Input that could be trained on, or translated, in silence: what is said, and the right values."""

import errno
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from recipes.hf import translate
from simile_plugin.cli import main
from simile_plugin.files import InputError
from simile_plugin.finetuning import hugging_face as finetuning
from simile_plugin.finetuning.hugging_face import full_disk_told
from simile_plugin.hugging_face import (
    Pairs,
    SimileRiskArguments,
    SimileRiskTrainer,
    mixed,
    saved_prefix,
    silent_ids,
    special_tokens,
    state,
)
from simile_plugin.hugging_face.text import Text, prefix_warning, tag_warning
from simile_plugin.reward import Scorer
from tests.hugging_face.test_command import command, refused, with_pair  # noqa: F401 (a fixture)
from tests.hugging_face_models import SOURCES, TARGETS, marian, nllb, save, t5

LONG = [f"{target} and {TARGETS[0]} and {TARGETS[1]}" for target in TARGETS]


@pytest.fixture
def tokenizer(tmp_path):
    return marian(tmp_path / "files")[1]


def test_names_of_files_and_lists_of_two_lengths(tokenizer):
    with pytest.raises(InputError, match="sources: got 'tr.de', expected a list of sentences"):
        Pairs(tokenizer, "tr.de", "tr.en", 64)
    with pytest.raises(InputError, match="targets: got 'tr.en', expected a list of sentences"):
        Pairs(tokenizer, SOURCES, "tr.en", 64)
    with pytest.raises(InputError, match="sources, targets: got 4 and 3 sentences; expected a"):
        Pairs(tokenizer, SOURCES, TARGETS[:3], 64)


def test_a_file_as_both_sides(command, tmp_path, capsys):  # noqa: F811
    source = str(tmp_path / "src")
    line = refused(with_pair(command, "--train", source, source), capsys)
    assert f"--train: {source} and {source} have the same text; expected sources and their" in line
    (tmp_path / "copy").write_text((tmp_path / "src").read_text())
    line = refused(with_pair(command, "--valid", source, tmp_path / "copy"), capsys)
    assert "--valid: " in line and "have the same text" in line


def test_how_many_are_cut_is_said_and_validation_is_of_the_whole_text(
    command,  # noqa: F811
    tmp_path,
    encoder,
    caplog,
    monkeypatch,
):
    (tmp_path / "long").write_text("\n".join(LONG) + "\n")
    seen = []
    own = SimileRiskTrainer.risk_loss

    def risk_loss(self, model, inputs):
        loss, sums = own(self, model, inputs)
        if not model.training:
            seen.append((self.translator.references, sums["bleu_stats"].tolist()))
        return loss, sums

    monkeypatch.setattr(SimileRiskTrainer, "risk_loss", risk_loss)
    long = with_pair(command, "--valid", tmp_path / "src", tmp_path / "long")
    assert main([*long, "--max-length", "12", "--max-updates", "1"]) == 0
    assert "--valid: 4 of 4 lines that were looked at have more than 12 tokens" in caplog.text
    assert seen[0][0] == LONG
    words = Scorer().outputs([LONG], LONG).bleu_stats[:, 0].sum(0)  # of the whole references
    assert seen[0][1][1] == words[1]
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    ratio = seen[0][1][0] / int(words[1])
    assert history[0]["eval_length_ratio"] == pytest.approx(ratio, abs=1e-5)


def test_several_validation_sets_and_training_batches(tokenizer, tmp_path, encoder_folder):
    sets = {name: Pairs(tokenizer, SOURCES, LONG, 12) for name in ("news", "talks")}
    args = SimileRiskArguments(
        str(tmp_path / "out"),
        simile_encoder=str(encoder_folder),
        use_cpu=True,
        report_to="none",
        risk_candidates=2,
        risk_max_len_a=1.0,
        predict_with_generate=True,
        generation_max_length=8,
    )
    trainer = SimileRiskTrainer(
        marian(tmp_path / "model")[0],
        args,
        processing_class=tokenizer,
        train_dataset=Pairs(tokenizer, SOURCES, LONG, 12),
        eval_dataset=sets,
    )
    (batch,) = trainer.get_eval_dataloader("talks")
    assert batch["reference"] == LONG
    (batch,) = trainer.get_eval_dataloader(sets["news"])
    assert batch["reference"] == LONG
    assert "reference" not in next(iter(trainer.get_train_dataloader()))
    assert trainer.evaluate(sets["news"])["eval_bleu"] >= 0  # generate does not see the texts


def test_sources_without_references_have_a_share(tokenizer):
    pairs = Pairs(tokenizer, SOURCES, TARGETS, 64)
    more = Pairs(tokenizer, [f"der fluss {i}" for i in range(400)], [None] * 400, 64)
    few = Pairs(tokenizer, ["ja", "ach"], [None] * 2, 64)
    for share, others in ((0.5, more), (0.2, more), (0.5, few)):
        dataset = mixed(pairs, others, share)
        without = sum(not dataset[i]["labels"] for i in range(len(dataset)))
        assert without / len(dataset) == pytest.approx(share, abs=0.01)
    *again, chosen = mixed(pairs, more, 0.5).datasets
    assert again == [pairs] * 100 and sorted(chosen.indices) == [*range(400)]  # all of both
    assert sorted(mixed(pairs, few, 0.5).datasets[-1].indices) == [0, 0, 1, 1]


def test_updates_without_a_reference_log_numbers(command, tmp_path, capsys):  # noqa: F811
    (tmp_path / "others").write_text("sie wartet am fluss\n" * 400)
    given = [*command, "--monolingual", str(tmp_path / "others"), "--reward", "noise"]
    given += ["--batch-size", "1", "--max-updates", "12", "--valid-interval", "12"]
    assert main(given) == 0
    text = (tmp_path / "tuned/trainer_state.json").read_text()
    assert "Infinity" not in text and "NaN" not in text
    history = [log for log in json.loads(text)["log_history"] if "reward_std" in log]
    with_references = sum("nll_loss" in log for log in history)
    assert len(history) == 12 and 2 <= with_references <= 10
    line = refused([*given, "--monolingual-share", "1"], capsys)
    assert "--monolingual-share: got 1, expected a number above 0 and below 1" in line
    line = refused([*given, "--monolingual-share", "0.2"], capsys)
    assert "begun with --monolingual-share 0.5, got --monolingual-share 0.2; give the" in line


def test_a_tag_or_prefix_that_the_model_does_not_know(tmp_path, tokenizer, caplog):
    sources = [f">>eng<< {source}" for source in SOURCES]
    Pairs(tokenizer, sources, TARGETS, 64)
    assert "sources: sources begin with '>>eng<<', which is no token of the model" in caplog.text
    assert tag_warning(tokenizer, SOURCES) == ""
    assert tag_warning(tokenizer, [*SOURCES * 100, sources[0]]) == ""  # one of 401
    vocabulary = tmp_path / "files/vocab.json"
    words = json.loads(vocabulary.read_text())
    vocabulary.write_text(json.dumps(words | {">>eng<<": len(words)}))
    paths = {f"{side}_spm": str(tmp_path / f"files/{side}.spm") for side in ("source", "target")}
    knows = type(tokenizer)(**paths, vocab=str(vocabulary))
    assert tag_warning(knows, sources) == ""
    assert tag_warning(knows, SOURCES) == ""  # it may write one language
    # What the reward reads of a source is its text.
    assert Text(knows).sources(knows(sources).input_ids) == SOURCES
    _, other = t5()
    assert "it reads" in tag_warning(other, [f"<2en> {source}" for source in SOURCES])
    other.add_tokens(["<2en>"], special_tokens=True)
    assert tag_warning(other, [f"<2en> {source}" for source in SOURCES]) == ""
    assert prefix_warning(other, "the old river: ") == "" or "Ж" not in other.get_vocab()
    assert prefix_warning(other, "Ж: ").startswith("--prefix: of 'Ж: ' the model does not know all")


def test_sources_without_a_tag_for_a_model_of_several_languages(
    command,  # noqa: F811
    tmp_path,
    tokenizer,
    caplog,
):
    vocabulary = tmp_path / "files/vocab.json"
    words = json.loads(vocabulary.read_text())
    tags = {f">>{code}<<": len(words) + i for i, code in enumerate(("deu", "fra", "nld", "swe"))}
    vocabulary.write_text(json.dumps(words | tags))
    paths = {f"{side}_spm": str(tmp_path / f"files/{side}.spm") for side in ("source", "target")}
    knows = type(tokenizer)(**paths, vocab=str(vocabulary))
    said = (
        "no source begins with a tag of a target language, of which the model has 4 (>>deu<<, "
        ">>fra<<, >>nld<<, >>swe<<); where it was trained with them give the right one, such as "
        "--prefix '>>deu<< '"
    )
    assert tag_warning(knows, SOURCES) == said
    assert tag_warning(knows, [f">>fra<< {SOURCES[0]}", *SOURCES]) == ""  # a pair of its own
    unknown = tag_warning(knows, [f">>eng<< {source}" for source in SOURCES])
    assert unknown.endswith("was trained with (>>deu<<, >>fra<<, >>nld<<, >>swe<<)")
    vocabulary.write_text(json.dumps(words | tags | {">>dan<<": len(words) + 4}))
    knows = type(tokenizer)(**paths, vocab=str(vocabulary))
    assert "has 5 (>>deu<<, >>fra<<, >>nld<<, >>swe<<, ...)" in tag_warning(knows, SOURCES)

    model = marian(tmp_path / "again")[0]
    model.resize_token_embeddings(len(words) + 5)
    save((model, knows), tmp_path / "several")
    several = [*command[:1], str(tmp_path / "several"), *command[2:], "--max-updates", "1"]
    assert main(several) == 0
    told = [line for line in caplog.messages if "tag of a target language" in line]
    train, _ = told  # and no third line for the sample of the training pairs
    assert train.startswith(
        f"--train: {tmp_path / 'src'}: no source begins with a tag of a target language"
    )


def test_sources_of_two_vocabularies_have_no_tag(tmp_path, tokenizer):
    files = tmp_path / "files"
    words = json.loads((files / "vocab.json").read_text())
    (files / "more.json").write_text(json.dumps(words | {">>eng<<": len(words)}))
    paths = {f"{side}_spm": str(files / f"{side}.spm") for side in ("source", "target")}
    paths |= {"vocab": str(files / "more.json"), "target_vocab_file": str(files / "vocab.json")}
    two = type(tokenizer)(**paths, separate_vocabs=True)
    rows = two([f">>eng<< {source}" for source in SOURCES]).input_ids
    assert rows[0][0] == len(words)
    assert Text(two).sources(rows) == SOURCES


@pytest.mark.parametrize(
    "how", ["additional_special_tokens", "extra_special_tokens", "keep", "add_tokens"]
)
def test_a_language_that_was_added(command, tmp_path, how):  # noqa: F811
    model, tokenizer = nllb()
    if how == "keep":
        added = {"extra_special_tokens": ["zad_Latn"]}
        tokenizer.add_special_tokens(added, replace_extra_special_tokens=False)
    elif how == "add_tokens":
        tokenizer.add_tokens(["zad_Latn"], special_tokens=True)
    else:
        tokenizer.add_special_tokens({how: ["zad_Latn"]})
    model.resize_token_embeddings(len(tokenizer))
    save((model, tokenizer), tmp_path / "added")
    given = ["--source-lang", "deu_Latn", "--target-lang", "zad_Latn"]
    assert main([*command[:1], str(tmp_path / "added"), *command[2:], *given]) == 0
    both = {"src_lang": "deu_Latn", "tgt_lang": "zad_Latn"}
    loaded = AutoTokenizer.from_pretrained(tmp_path / "added", **both)
    tag = loaded.convert_tokens_to_ids("zad_Latn")
    assert special_tokens(model, loaded).tag == special_tokens(model, loaded).language == tag
    assert {tag, loaded.convert_tokens_to_ids("deu_Latn")} <= silent_ids(loaded)
    text = Text(loaded)
    assert text.strings(loaded(text_target=["the old river"]).input_ids) == ["the old river"]
    assert text.sources(loaded(["der alte fluss"]).input_ids) == ["der alte fluss"]
    # the other way round: the tag of the sources is that of the targets
    given = ["--source-lang", "zad_Latn", "--target-lang", "deu_Latn"]
    given += ["--output", str(tmp_path / "back")]
    assert main([*command[:1], str(tmp_path / "added"), *command[2:], *given]) == 0


def translated(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["translate.py", *map(str, arguments)])
    return translate.main()


def test_translating_an_empty_line_and_over_the_input(tmp_path, monkeypatch, capsys):
    save(marian(tmp_path / "files"), tmp_path / "model")
    source = tmp_path / "five.de"
    source.write_text(f"{SOURCES[0]}\n\n  \n{SOURCES[1]}\n")
    assert translated(monkeypatch, tmp_path / "model", source, tmp_path / "out") == 0
    lines = (tmp_path / "out").read_text().split("\n")
    assert lines[0] and lines[3] and lines[1:3] == ["", ""] and len(lines) == 5
    before = source.read_text()
    assert translated(monkeypatch, tmp_path / "model", source, source) == 2
    assert f"output: {source} is" in capsys.readouterr().err and source.read_text() == before


def test_the_prefix_of_a_training_is_that_of_translating(
    command,  # noqa: F811
    tmp_path,
    monkeypatch,
    capsys,
):
    _, tokenizer = save(t5(), tmp_path / "t5")
    given = [*command[:1], str(tmp_path / "t5"), *command[2:], "--prefix", "the old train: "]
    assert main(given) == 0
    assert saved_prefix(tmp_path / "tuned") == "the old train: "
    assert saved_prefix(tmp_path / "t5") == ""
    read = []
    own = type(tokenizer).__call__

    def seen(self, texts=None, **flags):
        read.append(texts)
        return own(self, texts, **flags)

    monkeypatch.setattr(type(tokenizer), "__call__", seen)
    for more, prefix in (([], "the old train: "), (["--prefix", ""], "")):
        read.clear()
        files = [tmp_path / "tuned", tmp_path / "src", tmp_path / "out"]
        assert translated(monkeypatch, *files, *more) == 0
        assert sorted(max(filter(None, read), key=len)) == sorted(prefix + s for s in SOURCES)
    capsys.readouterr()
    assert translated(monkeypatch, *files, "--prefix", "Ж: ") == 0
    assert "translate.py: warning: --prefix: of 'Ж: ' the model" in capsys.readouterr().err


def test_the_first_update_after_a_resumed_schedule_has_a_rate(command, tmp_path, capsys):  # noqa: F811
    flags = ["--learning-rate", "0.01", "--batch-size", "2"]
    assert main([*command, *flags]) == 0  # two updates, after which the rate is 0
    before = load_file(tmp_path / "tuned/checkpoint-2/model.safetensors")
    capsys.readouterr()
    assert main([*command, "--batch-size", "2", "--max-updates", "4"]) == 0
    assert "rate        0.01 falling to 0" in capsys.readouterr().out  # the run's, which it keeps
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    rates = {log["step"]: log["learning_rate"] for log in history if "learning_rate" in log}
    assert [rates[step] for step in (3, 4)] == pytest.approx([0.01 * 2 / 4, 0.01 * 1 / 4])
    after = load_file(tmp_path / "tuned/checkpoint-3/model.safetensors")
    assert any(not after[name].equal(before[name]) for name in before)


def test_a_rate_without_a_schedule_of_factors_stays():
    state.set_rate(None, None)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 4)
    optimizer.param_groups[0]["lr"] = 0.0
    schedule.last_epoch = 3
    state.set_rate(optimizer, schedule)
    assert optimizer.param_groups[0]["lr"] == schedule.get_last_lr()[0] == 0.125


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        Exception("No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0"),
    ],
)
def test_a_full_disk_is_one_line(tmp_path, error):
    with pytest.raises(InputError, match=f"--output: the disk of {tmp_path} is full"):
        with full_disk_told(tmp_path):
            raise error
    with pytest.raises(KeyError), full_disk_told(tmp_path):
        raise KeyError("another fault")


def test_a_disk_that_fills_up_in_a_training(command, tmp_path, capsys, monkeypatch):  # noqa: F811
    def save(*_, **__):
        raise Exception("No space left on device (os error 28)")

    monkeypatch.setattr(finetuning.SimileRiskTrainer, "save_model", save)
    assert "is full, or its quota; make room and repeat the" in refused(command, capsys)
    monkeypatch.undo()


def test_layers_computed_again_in_the_older_way(tmp_path, encoder_folder):
    with pytest.raises(InputError, match="--gradient-checkpointing-kwargs: got use_reentrant true"):
        SimileRiskArguments(
            str(tmp_path),
            simile_encoder=str(encoder_folder),
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": True},
        )
    model, tokenizer = marian(tmp_path / "model")
    model.gradient_checkpointing_enable({"use_reentrant": True})
    args = SimileRiskArguments(
        str(tmp_path), simile_encoder=str(encoder_folder), report_to="none", use_cpu=True
    )
    pairs = Pairs(tokenizer, SOURCES, TARGETS, 64)
    with pytest.raises(InputError, match="gradient checkpointing has use_reentrant=True"):
        SimileRiskTrainer(model, args, processing_class=tokenizer, train_dataset=pairs)


def test_the_best_before_the_first_update_is_said(command, tmp_path, caplog, monkeypatch):  # noqa: F811
    from tests.hugging_face.test_command import validate_as

    validate_as(monkeypatch, 30.0, 0.04, 0.03)
    assert main(command) == 0
    assert "no validation was better, by bleu, than the one before the first update" in caplog.text


def test_the_plan_of_a_run_that_goes_on_is_what_it_does(command, tmp_path, capsys):  # noqa: F811
    assert main(command) == 0
    capsys.readouterr()
    more = ["--max-updates", "6", "--valid-interval", "2", "--learning-rate", "0.5"]
    assert main([*command, *more]) == 0
    told = capsys.readouterr().out
    assert "before the first update and every 2" in told and "rate        2e-05 falling" in told
    history = json.loads((tmp_path / "tuned/trainer_state.json").read_text())["log_history"]
    assert [log["step"] for log in history if "eval_cost" in log] == [0, 1, 2, 4, 6]

"""`simile train-encoder` and `simile eval-encoder` as they are typed."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder.format import load_encoder, load_own_encoder
from simile_plugin.encoder_training.run_folder import RunFolder
from tests.encoder_training.test_processes import free_port

ROOT = Path(__file__).parents[2]
SYNONYMS = [("quick", "fast"), ("begins", "starts"), ("garden", "yard"), ("rain", "wet weather")]
NOUNS = "baker teacher sailor clerk painter farmer tailor judge".split()
SMALL = ["--dim", "16", "--batch-size", "16", "--vocab-size", "150", "--log-every", "10"]


def sentence(rng: random.Random) -> tuple[str, str]:
    """One meaning said in two ways."""
    (quick, fast), (begins, starts), (garden, yard), (rain, wet) = SYNONYMS
    noun, other, count = rng.choice(NOUNS), rng.choice(NOUNS), rng.randint(2, 9)
    return rng.choice(
        [
            (f"The {quick} {noun} {begins} to dig.", f"The {fast} {noun} {starts} to dig."),
            (f"A {noun} is in the {garden} of the {other}.", f"In the {other}'s {yard}: a {noun}."),
            (f"{count} days of {rain} for the {noun}", f"{wet} for {count} days, said the {noun}"),
        ]
    )


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    rng = random.Random(1)
    path = tmp_path / "pairs.tsv"
    lines = ["\t".join(sentence(rng)) for _ in range(400)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def sts(tmp_path: Path) -> Path:
    """Sentences and their paraphrases (5), and sentences with others (0)."""
    folder = tmp_path / "STS"
    folder.mkdir()
    rng = random.Random(2)
    pairs = [sentence(rng) for _ in range(40)]
    rows = [(a, b, 5) for a, b in pairs]
    rows += [(a, pairs[i - 1][1], 0) for i, (a, _) in enumerate(pairs) if pairs[i - 1][0] != a]
    text = "".join(f"{a}\t{b}\n" for a, b, _ in rows)
    (folder / "STS.input.own.txt").write_text(text)
    (folder / "STS.gs.own.txt").write_text("".join(f"{gold}\n" for _, _, gold in rows))
    return folder


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail; its last line on standard error."""
    assert main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_train_and_evaluate(
    tsv: Path, sts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    command = ["train-encoder", str(tsv), "--output", str(out), *SMALL, "--steps", "300"]
    assert main([*command, "--eval-sts", str(sts)]) == 0
    shown = capsys.readouterr()
    assert f"{out}: encoder {load_encoder(out).fingerprint}" in shown.out
    assert "400 pairs of" in shown.err
    assert not (tmp_path / "enc.training").exists()

    facts = load_encoder(out).training_facts
    assert facts["pairs"] == 400
    assert facts["flags"]["steps"] == 300
    assert facts["flags"]["eval_every"] == 15
    assert facts["pair_cosine"] > facts["random_cosine"] + 0.3

    log = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    steps = [record for record in log if "loss" in record]
    assert [record["step"] for record in steps] == list(range(10, 301, 10))
    assert steps[-1]["loss"] < steps[0]["loss"]
    scores = {r["step"]: r["sts_pearson"][str(sts)] for r in log if "sts_pearson" in r}
    assert facts["chosen_step"] == max(scores, key=lambda step: scores[step])

    assert main(["eval-encoder", str(out), "--sts", str(sts), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["encoder"] == load_encoder(out).fingerprint
    (part,) = result["sts"]
    assert part["mean_pearson"] == pytest.approx(max(scores.values()), abs=1e-3)
    assert part["mean_pearson"] > 80
    assert main(["eval-encoder", str(out), "--sts", str(sts)]) == 0
    table = capsys.readouterr().out
    assert "mean of sets" in table
    assert f"{part['all_spearman']:.1f}" in table


def test_json_prints_the_config(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    arguments = ["train-encoder", str(tsv), "--output", str(out), *SMALL, "--epochs", "0.4"]
    assert main([*arguments, "--json", "--keep-case"]) == 0
    config = json.loads(capsys.readouterr().out)
    assert config["preprocessing"]["lowercase"] is False
    assert config["training"]["flags"]["steps"] == 10  # 0.4 * (400 // 16)
    assert config["fingerprint"] == load_encoder(out).fingerprint


def test_a_given_sentencepiece_model_is_used(tsv: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    command = ["train-encoder", str(tsv), *without(SMALL, "--vocab-size"), "--steps", "5"]
    assert main([*command, "--output", str(first), "--vocab-size", "150"]) == 0
    model = first / "sentencepiece.model"
    assert main([*command, "--output", str(second), "--sentencepiece", str(model)]) == 0
    assert load_encoder(first).fingerprint == load_encoder(second).fingerprint


def test_killed_and_started_again(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SMALL, "--steps", "500", "--save-every", "33", "--dropout", "0.1"]
    flags += ["--megabatch", "5", "--megabatch-anneal", "20"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(["train-encoder", str(tsv), "--output", str(whole), *flags]) == 0

    command = ["train-encoder", str(tsv), "--output", str(killed), *flags]
    process = subprocess.Popen(
        [sys.executable, "-m", "simile_plugin", *command], stderr=subprocess.DEVNULL
    )
    state = tmp_path / "killed.training" / "state" / "state.json"
    try:
        while process.poll() is None and not state.is_file():
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    assert not killed.exists()

    capsys.readouterr()
    assert main(command) == 0
    assert "going on from step" in capsys.readouterr().err
    assert load_encoder(killed).fingerprint == load_encoder(whole).fingerprint
    log, expected = (
        [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
        for folder in (killed, whole)
    )
    assert [record["step"] for record in log] == list(range(10, 501, 10))
    for record in (*log, *expected):
        del record["seconds"], record["pairs_per_s"]
    assert log == expected


def test_an_interrupt_in_the_middle_of_a_step_waits_for_its_end(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simile_plugin.encoder_training.trainer import Trainer

    real = Trainer._gradient
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    command = ["train-encoder", str(tsv), *SMALL, "--steps", "30", "--output"]
    assert main([*command, str(whole)]) == 0

    def interrupt(self: Trainer, batch: Any) -> Any:
        if self.step == 12:
            signal.raise_signal(signal.SIGINT)
        return real(self, batch)

    monkeypatch.setattr(Trainer, "_gradient", interrupt)
    # A shell starts what runs in the background with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert main([*command, str(cut)]) == 130
    assert "the same command goes on from step 13" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.setattr(Trainer, "_gradient", real)
    assert main([*command, str(cut)]) == 0
    assert load_encoder(cut).fingerprint == load_encoder(whole).fingerprint


def test_interrupted_with_other_flags(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simile_plugin.encoder_training.trainer import Trainer

    real, out = Trainer.train_step, tmp_path / "enc"
    command = ["train-encoder", str(tsv), "--output", str(out), *SMALL, "--steps", "30"]

    def interrupt(self: Trainer) -> object:
        if self.step == 12:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(Trainer, "train_step", interrupt)
    assert main(command) == 130
    assert "interrupted; the same command goes on from step 12" in capsys.readouterr().err
    monkeypatch.setattr(Trainer, "train_step", real)
    message = error_of(capsys, *command, "--lr", "0.1")
    assert "holds an interrupted run with another --lr (0.005, now 0.1)" in message
    assert "add --restart" in message
    assert main([*command, "--lr", "0.1", "--restart"]) == 0
    assert "going on" not in capsys.readouterr().err
    assert load_encoder(out).training_facts["flags"]["lr"] == 0.1


def test_a_start_that_failed_is_nothing_to_go_on_from(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    command = ["train-encoder", str(tsv), "--output", str(out), *SMALL, "--steps", "3"]
    missing = tmp_path / "vectors.txt"
    assert "no such file" in error_of(capsys, *command, "--init-embeddings", missing)
    assert "interrupted" not in error_of(capsys, *command, "--lr", "-1")
    assert main(command) == 0  # without the flag that was wrong
    assert not (tmp_path / "enc.training").exists()


def test_a_model_of_another_library_is_never_replaced(
    tsv: Path, encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "opus-mt-de-en"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_text("{}")
    command = ["train-encoder", tsv, *SMALL, "--steps", "2"]
    for words in (command, ["convert-encoder", "--from", encoder_folder]):
        for more in ([], ["--overwrite"]):
            message = error_of(capsys, *words, "--output", model, *more)
            assert "holds other files (no encoder.safetensors among them)" in message
    assert len(list(model.iterdir())) == 2


@pytest.mark.parametrize("restart", [[], ["--restart"]])
def test_a_folder_of_that_name_that_is_not_ours(
    restart: list[str], tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "de-en.training" / "corpus.de"
    corpus.parent.mkdir()
    corpus.write_text("years of work\n")
    command = ["train-encoder", tsv, "--output", tmp_path / "de-en", *SMALL, "--steps", "2"]
    message = error_of(capsys, *command, *restart)
    assert f"--output: {corpus.parent}, where the state of the training would be" in message
    assert "holds other files (corpus.de) and is not replaced" in message
    assert corpus.read_text() == "years of work\n"
    corpus.unlink()
    assert main([str(part) for part in command]) == 0


def test_the_log_of_fewer_pairs_than_a_minibatch(tsv: Path, tmp_path: Path) -> None:
    command = ["train-encoder", str(tsv), *SMALL, "--batch-size", "5000", "--steps", "20"]
    assert main([*command, "--output", str(tmp_path / "enc")]) == 0
    lines = (tmp_path / "enc" / "training.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [10, 20]  # of all 400 pairs


def test_an_sts_that_says_nothing(
    tsv: Path, sts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = sts / "STS.gs.own.txt"
    gold.write_text("3\n" * len(gold.read_text().splitlines()))
    out = str(tmp_path / "enc")
    command = ["train-encoder", str(tsv), "--output", out, *SMALL, "--steps", "4"]
    assert main([*command, "--eval-sts", str(sts)]) == 0
    assert "warning: --eval-sts: no mean Pearson was defined" in capsys.readouterr().err


@pytest.mark.parametrize("output", [".", "/", ".."])
def test_an_output_without_a_name(
    output: str, tsv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = error_of(capsys, "train-encoder", tsv, "--output", output, *SMALL, "--steps", "3")
    assert f"--output: got '{output}', expected the name of a folder to make" in message


def test_a_collapsed_encoder_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # "Paraphrases" with nothing in common, and the hardest negatives from the start.
    rng = random.Random(3)
    words = "the a of in on and to is it at we he she they you".split() + NOUNS
    weights = [1 / (rank + 2) for rank in range(len(words))]
    lines = [
        "\t".join(" ".join(rng.choices(words, weights, k=9)) for _ in range(2)) for _ in range(600)
    ]
    path, out = tmp_path / "noise.tsv", tmp_path / "enc"
    path.write_text("\n".join(lines) + "\n")
    command = ["train-encoder", path, "--output", out, *SMALL, "--steps", "300"]
    hard = [*command, "--megabatch", "30", "--megabatch-anneal", "1", "--init-std", "0.1"]
    assert main([str(part) for part in hard]) == 2
    shown = capsys.readouterr().err
    assert "warning: collapse at step" in shown
    assert "error: the encoder collapsed: pairs have mean cosine 0.9" in shown
    assert "slow the annealing (larger --megabatch-anneal)" in shown
    assert not out.exists()
    log = (tmp_path / "enc.training" / "log.jsonl").read_text()
    assert '"collapsed": true' in log
    # Other flags may be tried at once: there is nothing to go on from.
    assert main([str(part) for part in [*command, "--steps", "3"]]) == 0


def test_bad_lines_are_reported_and_fatal_if_strict(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tsv.open("ab") as stream:
        stream.write(b"no column\n\xc3\x28\tx\n")
    command = ["train-encoder", str(tsv), "--output", str(tmp_path / "enc"), *SMALL, "--steps", "2"]
    assert f"error: {tsv}:401: no second column" in error_of(capsys, *command, "--strict")
    assert main(command) == 0
    warning = "warning: 2 lines skipped (1 no second column, 1 not UTF-8): "
    assert warning + f"{tsv}:401" in capsys.readouterr().err
    assert load_encoder(tmp_path / "enc").training_facts["skipped_lines"] == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--margin", "-1"], "--margin: got -1, expected above 0"),
        (["--epochs", "0"], "--epochs: got 0, expected a number above 0"),
        (["--vocab-size", "0"], "--vocab-size: got 0, expected a whole number of at least 1"),
        (["--vocab-size", "3"], "--vocab-size 3: sentencepiece could not be trained"),
        (["--sentencepiece", "{tsv}"], "--sentencepiece: .*not a sentencepiece model"),
        (["--sentencepiece", "nowhere.model"], "nowhere.model: No such file"),
        (["--sentencepiece", "m", "--vocab-size", "90"], "--vocab-size: got 90, but the pieces"),
        (["--dim", "1000000000"], r"--dim: got 1000000000: training \d+ embeddings takes .* GiB"),
        (["--seed", "1" + 22 * "0"], "--seed: got 10{22}, expected a whole number from 0 to"),
        (["--epochs", "nan"], "--epochs: got nan, expected a number above 0"),
        (["--eval-every", "0"], "--eval-every: got 0, expected a whole number of at least 1"),
        (["--eval-every", "5"], "--eval-every: got 5, but there is nothing"),
        (["--output", "{tsv}"], "--output: .* is an input of this command"),
        (["--eval-sts", "nowhere"], "--eval-sts: nowhere: no STS.input"),
        (["--device", "abacus"], "--device: got 'abacus'"),
    ],
)
def test_bad_flags(
    tsv: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    import re

    filled = [flag.format(tsv=tsv) for flag in flags]
    out = tmp_path / "enc"
    small = without(SMALL, "--vocab-size") if "--sentencepiece" in flags else SMALL
    line = error_of(capsys, "train-encoder", tsv, "--output", out, *small, *filled)
    assert line.startswith("simile train-encoder: error: ")
    assert re.search(message, line)
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"--dim 4\n--output 'x\n", "--output 'x: No closing quotation"),
        (None, "No such file or directory: "),
    ],
)
def test_bad_flag_files(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.flags"
    if content is not None:
        own.write_bytes(content.replace(b"{own}", str(own).encode()))
    assert main(["train-encoder", f"@{own}", "x.tsv", "--output", "y"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("simile train-encoder: error: ") and message in line


def test_a_flag_file_may_name_another(tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"--steps 3 @{tmp_path / 'b'}\n")
    (tmp_path / "b").write_text("--dim 4\n")
    out = tmp_path / "enc"
    assert main(["train-encoder", f"@{tmp_path / 'a'}", str(tsv), "--output", str(out)]) == 0
    assert load_encoder(out).dim == 4


def test_standard_input_that_is_closed(tmp_path: Path) -> None:
    simile = f"{sys.executable} -m simile_plugin"
    for command in ("train-encoder - --output enc", "filter-pairs -"):
        done = subprocess.run(
            f"{simile} {command} <&-", shell=True, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            f"simile {command.split()[0]}: error: standard input (-) is closed; pipe the text in, "
            "or name a file"
        ]


@pytest.mark.parametrize("text", ["a b\tb c\n", "a b\tb c\nb c\ta b\nA b\ta b\n"])
def test_pairs_that_nothing_can_be_learned_from(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder, out = tmp_path / "one.tsv", tmp_path / "one.bin", tmp_path / "enc"
    path.write_text(text)
    command = ["binarize-pairs", str(path), "--output", str(folder), "--tokens", "word"]
    assert main(command) == 0
    for pairs in (path, folder):
        message = error_of(capsys, "train-encoder", pairs, "--output", out, "--kind", "word")
        count = text.count("\n")
        assert f"got {count} pairs of the same two sentences, expected different" in message
        assert not out.exists() and not (tmp_path / "enc.training").exists()


def test_an_encoder_that_tells_nothing_apart_is_said_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "few.tsv"
    path.write_text("".join(f"{a} x\t{b} x\n" for a, b in ("ab", "cd", "ef", "gh")))
    command = ["train-encoder", str(path), "--output", str(tmp_path / "enc"), "--kind", "word"]
    assert main([*command, "--steps", "1", "--dim", "200"]) == 0
    shown = capsys.readouterr().err
    assert "warning: after 1 steps on 4 pairs, pairs have mean cosine" in shown
    assert "hardly tells them apart; train on more pairs, or longer" in shown


def test_no_steps_give_the_random_encoder(tsv: Path, tmp_path: Path) -> None:
    out = tmp_path / "enc"
    flags = [*SMALL, "--steps", "0", "--seed", "5"]
    assert main(["train-encoder", str(tsv), "--output", str(out), *flags]) == 0
    encoder = load_own_encoder(out)
    drawn = torch.randn(*encoder.weight.shape, generator=torch.Generator().manual_seed(5))
    drawn[~encoder.segmenter.known(np.arange(len(drawn)))] = 0  # the unknown piece is left out
    assert torch.equal(encoder.weight.detach(), drawn)
    assert encoder.training_facts["chosen_step"] == 0


def test_bad_outputs(tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "enc"
    command = ["train-encoder", tsv, "--output", out, *SMALL, "--steps", "2"]
    assert main([str(part) for part in command]) == 0
    assert "holds an encoder; name another folder or add --overwrite" in error_of(capsys, *command)
    assert main([str(part) for part in [*command, "--overwrite"]]) == 0
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("")
    command[3] = precious
    assert "is not replaced" in error_of(capsys, *command)
    command[3] = tmp_path / "a" / "new" / "folder"
    assert main([str(part) for part in command]) == 0
    command[3] = tmp_path / "file"
    (tmp_path / "file").write_text("")
    assert "is a file, expected a folder" in error_of(capsys, *command)
    inside = out / "pairs.tsv"
    inside.write_bytes(tsv.read_bytes())
    message = error_of(capsys, "train-encoder", inside, "--output", out, "--overwrite", *SMALL)
    assert "--output: " in message and f"replaced with all in it, {inside} too" in message
    assert inside.is_file()


def test_eval_encoder_bad_input(
    encoder_folder: Path, sts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = error_of(capsys, "eval-encoder", tmp_path / "nowhere", "--sts", sts)
    assert "no such encoder folder" in message
    with (sts / "STS.gs.own.txt").open("a") as stream:
        stream.write("3\n")
    message = error_of(capsys, "eval-encoder", encoder_folder, "--sts", sts)
    assert "they must be parallel" in message
    assert "STS.gs.own.txt has" in message


@pytest.mark.parametrize("command", ["train-encoder", "eval-encoder"])
def test_help_needs_no_torch(command: str) -> None:
    code = f"""if True:
        import sys
        from simile_plugin.cli import main
        try:
            main([{command!r}, "--help"])
        finally:
            assert "torch" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if command == "train-encoder":
        for phrase in ("papers: 60", "papers: 150", "default and papers: 0.4"):
            assert phrase in " ".join(done.stdout.split())


def test_two_trainings_in_one_folder(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    folder = RunFolder(str(out))
    folder.open({"steps": 5}, restart=False)  # as another process would
    for extra in ([], ["--restart"]):
        message = error_of(capsys, "train-encoder", tsv, "--output", out, *SMALL, *extra)
        assert f"--output: another training is at work in {out}.training" in message
    assert (folder.path / "run.json").is_file()  # untouched


@pytest.fixture
def binarized(tsv: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "pairs.bin"
    command = ["binarize-pairs", str(tsv), "--output", str(folder), "--vocab-size", "150"]
    assert main(command) == 0
    return folder


def without(flags: list[str], flag: str) -> list[str]:
    """A command line without a flag and its value."""
    place = flags.index(flag)
    return flags[:place] + flags[place + 2 :]


def test_binarized_pairs_give_the_same_encoder(tsv: Path, binarized: Path, tmp_path: Path) -> None:
    flags = [*without(SMALL, "--vocab-size"), "--steps", "60", "--megabatch-anneal", "10"]
    model = binarized / "sentencepiece.model"
    text, mapped = tmp_path / "text", tmp_path / "mapped"
    command = ["train-encoder", str(tsv), "--output", str(text), *flags]
    assert main([*command, "--sentencepiece", str(model)]) == 0
    command = ["train-encoder", str(binarized), "--output", str(mapped), *flags]
    assert main(command) == 0
    assert load_encoder(text).fingerprint == load_encoder(mapped).fingerprint
    facts = load_encoder(mapped).training_facts
    assert facts["data"] == load_encoder(text).training_facts["data"]
    assert facts["pairs"] == 400


def test_binarized_pairs_have_their_own_pieces(
    tsv: Path, binarized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    message = error_of(
        capsys,
        *("train-encoder", binarized, "--output", out),
        *("--sentencepiece", binarized / "sentencepiece.model"),
    )
    assert "--sentencepiece" in message
    assert "is binarized, which decided it" in message
    message = error_of(capsys, "train-encoder", binarized, tsv, "--output", out)
    assert f"{binarized}: is a folder, expected TSV files, or one folder" in message


@pytest.mark.parametrize("flag", ["--vocab-size 90", "--keep-case", "--no-nfkc"])
def test_what_binarizing_decided(
    flag: str, binarized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train-encoder", binarized, "--output", tmp_path / "enc", *flag.split()]
    message = error_of(capsys, *command)
    assert f"{flag.split()[0]}: {binarized} is binarized, which decided it" in message


def test_flags_from_a_file(tsv: Path, tmp_path: Path) -> None:
    flags = tmp_path / "own.flags"
    flags.write_text(
        "# of nobody's paper\n--dim 12 --margin 0.3  # as a test\n\n--pool all\n--steps 5\n"
    )
    out = tmp_path / "enc"
    command = ["train-encoder", f"@{flags}", str(tsv), "--vocab-size", "150", "--margin", "0.2"]
    assert main([*command, "--output", str(out)]) == 0
    facts = load_encoder(out).training_facts["flags"]
    # What comes later on the command line wins, --epochs over --steps too.
    assert (facts["dim"], facts["margin"], facts["pool"]) == (12, 0.2, "all")
    assert facts["steps"] == 5
    assert main([*command, "--epochs", "2", "--output", str(out), "--overwrite"]) == 0
    assert load_encoder(out).training_facts["flags"]["steps"] == 2 * (400 // 128)


@pytest.mark.parametrize(
    "name",
    sorted(
        {path.name for path in (ROOT / "recipes/encoder").glob("*.flags")}
        - {"paragram-phrase.flags"}
    ),
)
def test_flags_of_the_papers_are_understood(name: str, tsv: Path, tmp_path: Path) -> None:
    out = tmp_path / "enc"
    command = ["train-encoder", f"@{ROOT}/recipes/encoder/{name}", str(tsv), "--output", str(out)]
    assert main([*command, "--vocab-size", "150", "--epochs", "1", "--dim", "8"]) == 0


def test_two_processes_through_the_command(binarized: Path, tmp_path: Path) -> None:
    flags = [*SMALL, "--steps", "40", "--megabatch-anneal", "10", "--save-every", "15"]
    flags = without(flags, "--vocab-size")
    alone, two = tmp_path / "alone", tmp_path / "two"
    assert main(["train-encoder", str(binarized), "--output", str(alone), *flags]) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-port", str(free_port()), "-m", "simile_plugin"]
    command = ["train-encoder", str(binarized), "--output", str(two), *flags]
    done = subprocess.run([*torchrun, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": encoder ") == 1
    first, second = load_encoder(alone), load_encoder(two)
    torch.testing.assert_close(first.weight, second.weight, atol=1e-4, rtol=1e-3)
    assert second.training_facts["processes"] == 2
    assert not (tmp_path / "two.training").exists()


def test_several_processes_need_binarized_pairs(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simile_plugin.encoder_training.run.rank_and_world", lambda: (0, 2))
    message = error_of(capsys, "train-encoder", tsv, "--output", tmp_path / "enc", *SMALL)
    assert "several processes need binarized pairs" in message
    assert "simile binarize-pairs" in message


def test_killed_again_and_again(binarized: Path, tmp_path: Path) -> None:
    flags = [*without(SMALL, "--vocab-size"), "--steps", "2500", "--save-every", "20"]
    flags += ["--megabatch", "5", "--megabatch-anneal", "20"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main(["train-encoder", str(binarized), "--output", str(whole), *flags]) == 0
    # One interpreter whose children train: importing torch takes longer than training here.
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    arguments = ["train-encoder", str(binarized), "--output", str(killed), *flags]
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "going on from step" in done.stderr
    assert load_encoder(killed).fingerprint == load_encoder(whole).fingerprint
    logs = [
        [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
        for folder in (whole, killed)
    ]
    for one, other in zip(*logs, strict=True):
        for record in (one, other):
            del record["pairs_per_s"], record["seconds"]
        assert one == other


# Twenty times: train until another state is saved, then kill at any moment. At last, train on.
KILLER = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
from simile_plugin.cli import main
random.seed(0)
state = sys.argv[sys.argv.index("--output") + 1] + ".training/state/state.json"

def saved():
    try:
        return os.stat(state).st_mtime_ns
    except FileNotFoundError:
        return 0

for _ in range(20):
    child, before = os.fork(), saved()
    if child == 0:
        os._exit(main(sys.argv[1:]))
    while saved() == before and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "it had ended"
sys.exit(main(sys.argv[1:]))
"""


def test_binarized_pairs_carry_their_tokens(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, mixed = tmp_path / "words", tmp_path / "mixed"
    binarize = ["binarize-pairs", str(tsv), "--vocab-size", "120", "--workers", "1"]
    assert main([*binarize, "--tokens", "word", "--output", str(folder)]) == 0
    assert main([*binarize, "--tokens", "sp+trigram", "--output", str(mixed)]) == 0
    train = ["--steps", "3", *without(SMALL, "--vocab-size")]
    for kind, source in (("word", folder), ("sp+trigram", mixed)):
        first, second = tmp_path / f"{kind}1", tmp_path / f"{kind}2"
        command = ["train-encoder", "--kind", kind, *train]
        assert main([*command, str(source), "--output", str(first)]) == 0
        text = [*command, str(tsv), "--vocab-size", "120", "--output", str(second)]
        assert main(text) == 0
        one, two = load_own_encoder(first), load_own_encoder(second)
        assert one.segmenter.files == two.segmenter.files
        assert one.kind == two.kind == kind
    capsys.readouterr()
    message = error_of(capsys, "train-encoder", folder, *train, "--output", tmp_path / "no")
    assert f"{folder}: holds words, expected pieces; binarize the pairs again" in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--kind", "elmo"], "--kind: got 'elmo', expected one of sp, word, trigram"),
        (["--kind", "sp+lstm"], "expected a mixture of different ones of sp, word"),
        (["--kind", "gran"], "simile contrib train-encoder trains the papers' other kinds"),
        (["--kind", "word", "--sentencepiece", "m"], "--sentencepiece: got m, but the tokens of"),
        (["--vocab-size", "0"], "--vocab-size: got 0, expected a whole number of at least 1"),
    ],
)
def test_flags_of_kinds(
    flags: list[str], message: str, tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train-encoder", tsv, "--output", tmp_path / "enc", *flags]
    assert message in error_of(capsys, *command)


@pytest.mark.parametrize("tokens", ["letter", "sp+sp"])
def test_wrong_tokens(
    tokens: str, tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = error_of(
        capsys, "binarize-pairs", tsv, "--tokens", tokens, "--output", tmp_path / "x"
    )
    assert f"--tokens: got '{tokens}', expected one of sp, word, trigram, ngram, or diff" in message


def test_another_script_is_pointed_out(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, folder = tmp_path / "enc", tmp_path / "STS"
    command = ["train-encoder", str(tsv), "--output", str(out), *SMALL, "--steps", "3"]
    assert main([*command, "--kind", "trigram"]) == 0
    folder.mkdir()
    (folder / "STS.input.x.txt").write_text("ели шумят\tшум елей\nдождь\tснег\n")
    (folder / "STS.gs.x.txt").write_text("4\n1\n")
    capsys.readouterr()
    assert main(["eval-encoder", str(out), "--sts", str(folder), "--resamples", "100"]) == 0
    assert "warning: enc: 100% of the tokens of 4 sentences are unknown" in capsys.readouterr().err

"""`simile train-encoder` and `simile eval-encoder` as they are typed."""

import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder.format import load_encoder
from simile_plugin.encoder_training.state import RunFolder
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


def without(flags: list[str], flag: str) -> list[str]:
    """A command line without a flag and its value."""
    place = flags.index(flag)
    return flags[:place] + flags[place + 2 :]


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


def test_a_given_sentencepiece_model_is_used(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    command = ["train-encoder", str(tsv), *without(SMALL, "--vocab-size"), "--steps", "5"]
    assert main([*command, "--output", str(first), "--vocab-size", "150"]) == 0
    model = first / "sentencepiece.model"
    capsys.readouterr()
    assert main([*command, "--output", str(second), "--sentencepiece", str(model), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["fingerprint"]
    assert printed == load_encoder(first).fingerprint == load_encoder(second).fingerprint


def test_an_interrupt_in_the_middle_of_a_step_waits_for_its_end(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simile_plugin.encoder_training.trainer import Trainer

    whole, cut, other = (str(tmp_path / name) for name in ("whole", "cut", "other"))
    command = ["train-encoder", str(tsv), *SMALL, "--steps", "30", "--output"]
    assert main([*command, whole]) == 0
    real = Trainer._gradient

    def interrupt(self: Trainer, *batch: Any) -> Any:
        if self.step == 12:
            signal.raise_signal(signal.SIGINT)
        return real(self, *batch)

    # A shell starts what runs in the background with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_gradient", interrupt)
        for out in (cut, other):
            assert main([*command, out]) == 130
            assert "the same command goes on from step 13" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert main([*command, cut]) == 0
    assert load_encoder(cut).fingerprint == load_encoder(whole).fingerprint
    capsys.readouterr()
    message = error_of(capsys, *command, other, "--lr", "0.1")
    assert "holds an interrupted run with another --lr (0.005, now 0.1)" in message
    assert main([*command, other, "--lr", "0.1", "--restart"]) == 0
    assert "going on" not in capsys.readouterr().err
    assert load_encoder(other).training_facts["flags"]["lr"] == 0.1


def test_other_files_are_never_replaced(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, state = tmp_path / "opus-mt-de-en", tmp_path / "de-en.training"
    for path in (model / "config.json", model / "model.safetensors", state / "corpus.de"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    command = ["train-encoder", tsv, *SMALL, "--steps", "2", "--output"]
    message = error_of(capsys, *command, model, "--overwrite")
    assert "holds other files (no encoder.safetensors among them)" in message
    message = error_of(capsys, *command, tmp_path / "de-en", "--restart")
    assert f"--output: {state}, where the state of the training would be" in message
    assert len(list(tmp_path.glob("*/*"))) == 3
    assert main([*map(str, command), str(tmp_path / "a" / "new" / "folder")]) == 0
    out = tmp_path / "a" / "new" / "folder"
    assert "holds an encoder; name another" in error_of(capsys, *command, out)
    inside = out / "pairs.tsv"
    inside.write_bytes(tsv.read_bytes())
    message = error_of(capsys, "train-encoder", inside, "--output", out, "--overwrite", *SMALL)
    assert f"replaced with all in it, {inside} too" in message


def test_two_trainings_in_one_folder(
    tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "enc"
    folder = RunFolder(str(out))
    folder.open({"steps": 5}, restart=False)  # as another process would
    message = error_of(capsys, "train-encoder", tsv, "--output", out, *SMALL, "--restart")
    assert f"--output: another training is at work in {out}.training" in message
    assert (folder.path / "run.json").is_file()  # untouched


def test_pairs_that_nothing_can_be_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "one.tsv", tmp_path / "enc"
    path.write_text("a b\tb c\nb c\ta b\nA b\ta b\n")
    message = error_of(capsys, "train-encoder", path, "--output", out, "--kind", "word")
    assert "got 3 pairs of the same two sentences, expected different" in message
    assert not out.exists() and not (tmp_path / "enc.training").exists()


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--margin", "-1"], "--margin: got -1, expected above 0"),
        (["--vocab-size", "3"], "--vocab-size 3: sentencepiece could not be trained"),
        (["--sentencepiece", "{tsv}"], "--sentencepiece: .*not a sentencepiece model"),
        (["--sentencepiece", "m", "--vocab-size", "90"], "--vocab-size: got 90, but the pieces"),
        (["--dim", "1000000000"], r"--dim: got 1000000000: training \d+ embeddings takes .* GiB"),
        (["--eval-every", "5"], "--eval-every: got 5, but there is nothing"),
        (["--output", "."], "--output: got '.', expected the name of a folder to make"),
        (["--kind", "sp+gru"], "got 'gru', expected one of sp, word"),
        (["--kind", "sp+sp"], "expected a mixture of different ones of sp, word"),
        (["--output", "{tsv}"], "--output: .* is an input of this command"),
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
    filled = [flag.format(tsv=tsv) for flag in flags]
    out = tmp_path / "enc"
    small = without(SMALL, "--vocab-size") if "--sentencepiece" in flags else SMALL
    line = error_of(capsys, "train-encoder", tsv, "--output", out, *small, *filled)
    assert line.startswith("simile train-encoder: error: ")
    assert re.search(message, line)
    assert not out.exists()


@pytest.fixture
def binarized(tsv: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "pairs.bin"
    command = ["binarize-pairs", str(tsv), "--output", str(folder), "--vocab-size", "150"]
    assert main(command) == 0
    return folder


def test_what_binarizing_decided(
    binarized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train-encoder", binarized, "--output", tmp_path / "enc"]
    for flag in ("--vocab-size 90", "--keep-case", "--sentencepiece own.model"):
        message = error_of(capsys, *command, *flag.split())
        assert f"{flag.split()[0]}: " in message
        assert f"{binarized} is binarized, which decided it" in message
    message = error_of(capsys, *command, "--kind", "word")
    assert f"{binarized}: holds pieces, expected words; binarize the pairs again" in message


def test_flags_from_a_file(tsv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, named = tmp_path / "own.flags", tmp_path / "named.flags"
    flags.write_text(f"# of nobody's paper\n--dim 12 --margin 0.3  # as a test\n\n@{named}\n")
    named.write_text("--pool all --steps 5\n")
    out = tmp_path / "enc"
    command = ["train-encoder", f"@{flags}", str(tsv), "--vocab-size", "150", "--margin", "0.2"]
    assert main([*command, "--epochs", "2", "--output", str(out)]) == 0
    facts = load_encoder(out).training_facts["flags"]
    # What comes later on the command line wins, --epochs over --steps too.
    assert (facts["dim"], facts["margin"], facts["pool"]) == (12, 0.2, "all")
    assert facts["steps"] == 2 * (400 // 128)
    named.write_text("--pool 'x\n")
    assert "--pool 'x: No closing quotation" in error_of(capsys, *command, "--output", out)


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (ROOT / "recipes/encoder").glob("*.flags"))
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
    monkeypatch.setattr("simile_plugin.encoder_training.reading.rank_and_world", lambda: (0, 2))
    message = error_of(capsys, "train-encoder", tsv, "--output", tmp_path / "enc", *SMALL)
    assert "several processes need binarized pairs" in message
    assert "simile binarize-pairs" in message


def test_killed_again_and_again(binarized: Path, tmp_path: Path) -> None:
    flags = [
        *without(SMALL, "--vocab-size"),
        "--steps",
        "2500",
        "--save-every",
        "20",
        "--dropout",
        "0.1",
    ]
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

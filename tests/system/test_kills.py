"""Trainings that are killed, or meet a full disk or a damaged file, by fairseq's own command."""

import re
import signal

import pytest
import torch

from recipes.reliability import kills
from recipes.reliability.trainings import RISK, Fault, Job, Trainings
from simile_plugin.fairseq_hooks import checkpoints


def read(trainings: Trainings, name: str) -> str:
    return (trainings.folder / name).read_text()


def errors(trainings: Trainings, name: str) -> list[str]:
    """The errors of one line in a log, which has no traceback then."""
    log = read(trainings, name)
    found = re.findall(r"^(?:\[rank\d\]: )?fairseq-train: error: (.*)$", log, re.MULTILINE)
    assert not found or "Traceback" not in log
    return found


@pytest.mark.parametrize(
    ("variant", "faults"),
    [
        # in the second epoch, whose batches fairseq would draw anew; amid a save; validating
        (
            "beam",
            [
                Fault(function="fairseq.trainer:Trainer.train_step", call=5),
                Fault(function="shutil:copyfileobj", call=1),
                Fault(function="fairseq_cli.train:validate", call=1, after=True),
            ],
        ),
        (
            "sampling",
            [
                Fault(function="os:replace", call=2),
                Fault(
                    function="simile_plugin.fairseq_training.translator:FairseqTranslator.texts",
                    call=3,
                ),
            ],
        ),
        # an epoch has 7 updates: amid the first, and amid the second, which has other sources
        (
            "monolingual",
            [Fault(function="fairseq.trainer:Trainer.train_step", call=call) for call in (5, 8)],
        ),
    ],
)
def test_a_killed_run_ends_as_one_that_nobody_killed(
    trainings: Trainings, variant: str, faults: list[Fault]
) -> None:
    kills.chain(trainings, variant, f"whole-{variant}", iter([None]))
    struck = kills.chain(trainings, variant, f"killed-{variant}", iter([*faults, None]))
    assert len(struck) == len(faults)
    assert kills.differences(trainings.folder, f"whole-{variant}", f"killed-{variant}") == []


def test_a_run_that_is_done_does_nothing_more(trainings: Trainings) -> None:
    assert short(trainings, "done")[0] == 0
    path = trainings.folder / "done" / "checkpoint_last.pt"
    before = path.read_bytes()
    status, log = short(trainings, "done")
    assert status == 0 and path.read_bytes() == before
    assert "nothing left to do after 2 updates (--max-update 2)" in read(trainings, log)


def test_the_comparison_finds_differences(trainings: Trainings) -> None:
    # 3 updates of the same run, and 3 of one with another seed
    for name, seed in (("seed-7", 7), ("seed-8", 8)):
        flags = f"{RISK} --max-update 3 --seed {seed} --save-dir {name}"
        assert trainings.run(Job(flags, f"{name}.log")) == [0]
    found = kills.differences(trainings.folder, "seed-7", "seed-8")
    assert any("encoder.embed_tokens.weight" in line for line in found)
    assert any(line.startswith("log/train_inner 2/loss") for line in found)


def short(trainings: Trainings, name: str, more: str = "", setup: str = "", **environment: str):
    flags = f"{RISK} --save-dir {name} --max-update 2 {more}"
    log = f"{name.split('/')[-1]}.log"
    return trainings.run(Job(flags, log, setup=setup, environment=environment))[0], log


def test_a_resumed_run_says_what_was_changed_and_refuses_a_newer_version(
    trainings: Trainings,
) -> None:
    assert short(trainings, "changed")[0] == 0
    status, log = short(trainings, "changed", "--max-update 3 --reward bleu")
    assert status == 0
    assert "--reward: the run in changed/checkpoint_last.pt had simile, it goes on with bleu" in (
        read(trainings, log)
    )
    path = trainings.folder / "changed" / "checkpoint_last.pt"
    state = torch.load(path)
    record = state["extra_state"][checkpoints.RECORD]
    assert record["format_version"] == 1 and record["objective"]["--reward"] == "bleu"
    record |= {"format_version": 2, "simile_plugin": "9.0"}
    torch.save(state, path)
    assert short(trainings, "changed", "--max-update 4")[0] == 1
    (error,) = errors(trainings, log)
    assert "changed/checkpoint_last.pt: its simile_risk record has format_version 2, newer" in error
    assert "update simile-plugin (the file was written by 9.0" in error


def test_a_checkpoint_that_finds_no_room_leaves_the_old_ones(trainings: Trainings) -> None:
    # files may have 200 kB and no more; a checkpoint needs 350
    setup = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    assert short(trainings, "room", "--save-interval-updates 1")[0] == 0
    run = trainings.folder / "room"
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    more = "--save-interval-updates 1 --max-update 3"
    status, log = short(trainings, "room", more, setup)
    assert status == 1
    (error,) = errors(trainings, log)
    assert error.startswith("room/checkpoint_1_3.pt: cannot be written: File too large; the check")
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert short(trainings, "room", more)[0] == 0
    state = torch.load(run / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 3


def ranks(trainings: Trainings, name: str, jobs: list[dict]) -> list[int]:
    """Two ranks by fairseq's own flags; each item changes one rank."""
    store = trainings.folder / f"{name}.store"
    common = (
        f"{RISK} --save-dir {name} --max-update 6 --save-interval-updates 2 --cpu "
        f"--distributed-world-size 2 --distributed-init-method file://{store} "
        "--distributed-backend gloo --distributed-no-spawn --ddp-backend legacy_ddp"
    )
    made = [
        Job(
            f"{common} --distributed-rank {rank} {job.get('flags', '')}",
            f"{name}-{rank}.log",
            job.get("fault"),
            setup=job.get("setup", ""),
        )
        for rank, job in enumerate(jobs)
    ]
    statuses = trainings.run(*made)
    store.unlink(missing_ok=True)
    return statuses


STEP = "fairseq.trainer:Trainer.train_step"


def test_a_rank_that_is_gone_ends_the_other_one(trainings: Trainings) -> None:
    name = "gone"
    fault = Fault(function=STEP, call=4)
    assert ranks(trainings, name, [{}, {"fault": fault}]) == [1, -signal.SIGKILL]
    (error,) = errors(trainings, f"{name}-0.log")
    assert "rank 0: another process of this training ended or does not answer" in error
    assert "Run the same command again" in error
    assert ranks(trainings, name, [{}, {}]) == [0, 0]
    log = read(trainings, f"{name}-0.log")
    assert f"Loaded checkpoint {name}/checkpoint_last.pt (epoch 1 @ 2 updates)" in log
    assert ranks(trainings, f"{name}-whole", [{}, {}]) == [0, 0]
    states = [
        kills.plain(torch.load(trainings.folder / run / "checkpoint_last.pt"))
        for run in (name, f"{name}-whole")
    ]
    assert states[0]["optimizer_history"]["num_updates"] == 6
    assert kills.compare(states[0], states[1], "checkpoint_last.pt") == []


def test_a_batch_beside_an_empty_one_counts(trainings: Trainings) -> None:
    # three batches of ten: with --update-freq 2 the second rank has one, and an empty one
    same = "--max-update 1 --batch-size 10 --dropout 0 --risk-max-len-a 0 --no-save"
    assert short(trainings, "three", f"{same} --update-freq 3") == (0, "three.log")
    assert ranks(trainings, "two", [{"flags": f"{same} --update-freq 2"}] * 2) == [0, 0]
    found = [
        kills.numbers(trainings.folder / log)["train_inner 1"] for log in ("three.log", "two-0.log")
    ]
    assert found[0]["bsz"] == "30"
    for name in ("bsz", "gnorm", "loss", "cost", "nll_loss", "bleu", "length_ratio"):
        assert found[0][name] == found[1][name], name


# Gradients of the updates in a set become NaN, on the ranks that execute this.
POISON = """
import torch
from fairseq.trainer import Trainer
from fairseq.optim import fairseq_optimizer
reduce = fairseq_optimizer.FairseqOptimizer.all_reduce_grads
def all_reduce_grads(self, module):
    if Trainer.current.get_num_updates() in {poisoned}:
        next(module.parameters()).grad.view(-1)[0] = float("nan")
    reduce(self, module)
fairseq_optimizer.FairseqOptimizer.all_reduce_grads = all_reduce_grads
step = Trainer.train_step
def train_step(self, *args, **kwargs):
    Trainer.current = self
    before = [p.detach().clone() for p in self.model.parameters()]
    out = step(self, *args, **kwargs)
    same = all(torch.equal(a, b) for a, b in zip(before, self.model.parameters()))
    print("UPDATE", self.get_num_updates(), "unchanged" if same else "changed", flush=True)
    return out
Trainer.train_step = train_step
"""


def updates(trainings: Trainings, log: str) -> list[str]:
    return re.findall(r"^UPDATE \d+ (\w+)$", read(trainings, log), re.MULTILINE)


def test_an_update_with_a_gradient_that_is_no_number_is_skipped(trainings: Trainings) -> None:
    setup = POISON.format(poisoned={1, 2, 4})
    status, log = short(trainings, "skips", "--max-update 6 --risk-max-skipped 2", setup)
    assert status == 0
    # Adam's momentum must not move the model either
    wanted = ["changed", "unchanged", "unchanged", "changed", "unchanged", "changed"]
    assert updates(trainings, log) == wanted
    assert "update 3: the gradient is NaN or infinite; the update is skipped (2 in a row)" in (
        read(trainings, log)
    )
    found = kills.numbers(trainings.folder / log)
    assert [found[f"train_inner {n}"]["skipped"] for n in range(1, 7)] == list("011010")
    state = torch.load(trainings.folder / "skips" / "checkpoint_last.pt")
    assert all(weight.isfinite().all() for weight in state["model"].values())
    state = torch.load(trainings.folder / "skips" / "checkpoint_best.pt")
    assert all(weight.isfinite().all() for weight in state["model"].values())


def test_ranks_skip_together(trainings: Trainings) -> None:
    setup = POISON.format(poisoned={2})
    clean = POISON.format(poisoned=set())
    assert ranks(trainings, "skip", [{"setup": clean}, {"setup": setup}]) == [0, 0]
    found = [updates(trainings, f"skip-{rank}.log") for rank in (0, 1)]
    assert found[0] == found[1] == ["changed", "changed", "unchanged"] + ["changed"] * 3


def test_a_run_that_is_gamed_is_stopped_after_its_checkpoint(trainings: Trainings) -> None:
    # the validations at updates 0, 1, 2, ... see these costs, length ratios, BLEU and repetition
    setup = (
        "from simile_plugin.fairseq_hooks import watch\n"
        "from simile_plugin.risk.run_watch import Validation\n"
        "see = watch.Watch.see\n"
        "fake = iter([(0.5, 0.9, 30, 0), (0.4, 2.0, 20, 0), (0.4, 1.0, 20, 0), "
        "(0.4, 1.6, 20, 0), (0.3, 1.7, 20, 0), (0.2, 2.0, 20, 0)])\n"
        "watch.Watch.see = lambda self, _, band, n: see(self, Validation(*next(fake)), band, 50)\n"
    )
    more = "--max-update 9 --save-interval-updates 1"
    status, log = short(trainings, "gamed", more, setup)
    assert status == 1
    (error,) = errors(trainings, log)
    assert "training stopped: cost fell from 0.5000 to 0.3000, but the length ratio went" in error
    assert "from 0.900 to 1.700, and BLEU fell from 30.00 to 20.00: the reward is" in error
    assert "--risk-length-band 0 never stops" in error
    assert read(trainings, log).count("training stops if the next validation finds the same") == 1
    state = torch.load(trainings.folder / "gamed" / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 4
    assert state["extra_state"][checkpoints.RECORD]["outside"] == 2
    status, log = short(trainings, "gamed", more)
    assert status == 1 and "this run was stopped: the reward is" in errors(trainings, log)[-1]


def test_the_start_is_the_best_until_a_validation_is_better(trainings: Trainings) -> None:
    """A rate that ruins the model; gone on with where nothing but the weights was saved."""
    metric = "--best-checkpoint-metric repetition"
    flags = f"{metric} --lr 0.5 --risk-max-skipped 0 --no-save-optimizer-state"
    status, log = short(trainings, "ruined", flags)
    assert status == 0
    said = kills.numbers(trainings.folder / log)
    for name in ("cost", "cost_simile", "bleu", "sim", "length_ratio", "entropy_q", "zero_std"):
        assert f"valid_{name}" in said["valid 0"]
    best, ruined = (float(said[f"valid {update}"]["valid_repetition"]) for update in (0, 2))
    assert ruined > best and "is the model of update 0 until" in read(trainings, log)
    begun = torch.load(trainings.folder / "mle" / "checkpoint_last.pt")
    kept = torch.load(trainings.folder / "ruined" / "checkpoint_best.pt")
    assert kills.compare(begun["model"], kept["model"], "model") == []
    # It is a checkpoint of this run, as small as others.
    assert kept.get("last_optimizer_state") is None
    assert kept["optimizer_history"][-1]["criterion_name"] == "SimileRiskCriterion"
    # Without an optimizer's state the run goes on at update 0, and that is not its start.
    (trainings.folder / log).unlink()
    assert short(trainings, "ruined", flags)[0] == 0
    again = kills.numbers(trainings.folder / log)["valid 0"]
    assert float(again["valid_repetition"]) == ruined
    assert float(again["valid_best_repetition"]) == best
    assert "is the model of update 0 until" not in read(trainings, log)

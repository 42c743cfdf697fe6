"""What is found before training starts, by functions; tests/system has the command lines."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.data import data_utils
from fairseq_cli import train

from simile_plugin import fairseq_hooks
from simile_plugin.fairseq_hooks import checkpoints, preflight, watch
from simile_plugin.fairseq_hooks.torch_load import allow_fairseq_checkpoints
from simile_plugin.risk import CORPUS_METRICS, SENTENCE_MEANS, LengthControl

FIXTURE = Path(__file__).parents[1] / "fixtures" / "formats-1" / "bin"


def passed(*_: Any, **__: Any) -> Any:
    return "passed"


def config(**changes: Any) -> Any:
    """As fairseq's; names with a dot are changed: **{"common.seed": 3}."""
    cfg = SimpleNamespace(
        criterion=SimpleNamespace(_name="simile_risk"),
        common=SimpleNamespace(
            seed=1, cpu=True, fp16=False, memory_efficient_fp16=False,
        ),
        optimizer=SimpleNamespace(_name="adam"), optimization=SimpleNamespace(lr=[1e-4]),
        distributed_training=SimpleNamespace(distributed_world_size=1),
        task=SimpleNamespace(data="."),
        dataset=SimpleNamespace(train_subset="train", valid_subset="valid,valid1"),
        checkpoint=SimpleNamespace(
            save_dir="run", finetune_from_model=None, restore_file="checkpoint_last.pt",
            no_save=False, best_checkpoint_metric="loss", maximize_best_checkpoint_metric=False,
        ),
    )  # fmt: skip
    for name, value in changes.items():
        group, key = name.split(".")
        setattr(getattr(cfg, group), key, value)
    return cfg


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_flags_before_any_process() -> None:
    cfg = config(**{"common.seed": -1})
    with pytest.raises(ValueError, match="--seed: got -1, expected 0 to"):
        preflight.check_flags(passed, cfg, None)
    cfg.criterion._name = "cross_entropy"  # of no concern of ours
    assert preflight.check_flags(passed, cfg, None) == "passed"


def test_the_model_to_begin_from_stays(tmp_path: Path) -> None:
    """fairseq writes checkpoint_best.pt over, and removes checkpoint_EPOCH_UPDATES.pt."""
    folder = tmp_path / "m"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint_3_100.pt", "mle.pt"):
        (folder / name).touch()
        flags = {"checkpoint.finetune_from_model": f"m/{name}", "checkpoint.save_dir": "link"}
        assert preflight.check_flags(passed, config(**flags | {"checkpoint.no_save": True}))
        if name == "mle.pt":  # no file of fairseq's
            assert preflight.check_flags(passed, config(**flags)) == "passed"
            continue
        with pytest.raises(ValueError) as error:
            preflight.check_flags(passed, config(**flags))
        assert str(error.value) == (
            f"--save-dir: --finetune-from-model m/{name} is link/{name}, which the training would "
            "write over; name a new folder (a run in that folder goes on without "
            "--finetune-from-model)"
        )
        flags["checkpoint.save_dir"] = "new"
        assert preflight.check_flags(passed, config(**flags)) == "passed"


def test_checkpoints_of_another_run_stay(tmp_path: Path) -> None:
    """Without a checkpoint_last.pt fairseq begins anew, and writes over checkpoint_best.pt."""
    allow_fairseq_checkpoints()
    begun = {"save_dir": "run", "finetune_from_model": "mle.pt"}
    flags = config(**{f"checkpoint.{name}": value for name, value in begun.items()})
    run = tmp_path / "run"
    run.mkdir()
    foreign = "--save-dir: run/checkpoint_best.pt is not of a run from mle.pt, and the training wo"

    def saved(**changes: Any) -> None:
        state = torch.load(FIXTURE.parent / "risk_checkpoint.pt")
        state["cfg"]["checkpoint"].update(begun | changes)
        torch.save(state, run / "checkpoint_best.pt")

    saved()  # by this command, which was killed before its first checkpoint_last.pt
    assert preflight.check_flags(passed, flags) == "passed"
    for other in ({"finetune_from_model": None}, {"finetune_from_model": "a"}, {"save_dir": "b"}):
        saved(**other)
        with pytest.raises(ValueError, match=foreign):
            preflight.check_flags(passed, flags)
    (run / "checkpoint_best.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match=foreign):
        preflight.check_flags(passed, flags)
    (run / "checkpoint_last.pt").touch()  # the run goes on
    assert preflight.check_flags(passed, flags) == "passed"


def test_one_text_as_both_sides(tmp_path: Path) -> None:
    def write(**files: str) -> None:
        for name, content in files.items():
            (tmp_path / name.replace("_", ".").replace("TO", "-")).write_text(content)

    write(train_deTOen_de_bin="5 6 2", train_deTOen_en_bin="5 7 2")
    write(dict_de_txt="a 1", dict_en_txt="a 1", valid_deTOen_de_bin="", valid_deTOen_en_bin="")
    assert preflight.check_flags(passed, config()) == "passed"
    write(valid1_deTOen_de_bin="5 6 2", valid1_deTOen_en_bin="5 6 2")
    with pytest.raises(ValueError, match="valid1.de-en.de.bin and valid1.de-en.en.bin have the sa"):
        preflight.check_flags(passed, config())
    write(dict_en_txt="b 1")  # these numbers are other words: a cipher of the sources
    assert preflight.check_flags(passed, config()) == "passed"


def test_settings_of_a_trainer() -> None:
    with pytest.raises(ValueError, match="--lr: got 0.25, fairseq's default, with --opt"):
        preflight.check_settings(passed, None, config(**{"optimization.lr": [0.25]}))


@pytest.mark.parametrize(
    ("metric", "maximize", "message"),
    [
        ("bleu", False, "metric bleu: higher is better; expected --maximize-best-checkpoint-m"),
        ("cost", True, "metric cost: lower is better; leave out --maximize-best-checkpoint-met"),
        ("chrf", False, "metric chrf: higher is better; expected --maximize-best-checkpoint-m"),
        ("simile", True, None),
        ("length_ratio", True, None),  # neither is better
    ],
)
def test_the_best_checkpoint_is_not_the_worst(
    metric: str, maximize: bool, message: str | None
) -> None:
    cfg = config(
        **{
            "checkpoint.best_checkpoint_metric": metric,
            "checkpoint.maximize_best_checkpoint_metric": maximize,
        }
    )
    with pytest.raises(ValueError, match=message) if message else contextlib.nullcontext():
        preflight.check_settings(passed, None, cfg)


def test_every_metric_has_its_direction() -> None:
    directed = preflight.HIGHER_IS_BETTER | preflight.LOWER_IS_BETTER
    assert not preflight.HIGHER_IS_BETTER & preflight.LOWER_IS_BETTER
    undirected = {"candidates", "distinct", "entropy_q", "reward_std", "zero_std", "length_ratio"}
    assert {*SENTENCE_MEANS, *CORPUS_METRICS} - directed == undirected


def test_processes_that_would_train_each_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in preflight.LAUNCHED:
        monkeypatch.setenv(name, "2")
    cfg = config(**{"distributed_training.distributed_world_size": 2})
    assert preflight.check_flags(passed, cfg) == "passed"
    cfg.distributed_training.distributed_world_size = 1
    with pytest.raises(ValueError, match="size: got 1, but torchrun has started 2 processes"):
        preflight.check_flags(passed, cfg)


@pytest.fixture
def data() -> str:
    """Both files of a data set, copied: data.en.idx and data.en.bin."""
    for end in ("idx", "bin"):
        shutil.copy(FIXTURE / f"train.xx-en.en.{end}", f"data.en.{end}")
    return "data.en"


def load(path: str, dictionary: Any = None) -> Any:
    fairseq_hooks.install()
    try:
        return data_utils.load_indexed_dataset(path, dictionary)
    finally:
        fairseq_hooks.uninstall()


@pytest.mark.parametrize("end", ["idx", "bin"])
@pytest.mark.parametrize("content", [b"", b"MMIDIDX\0\0" + b"x" * 200, None])
def test_data_that_is_damaged(data: str, end: str, content: bytes | None) -> None:
    path = Path(f"{data}.{end}")
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    with pytest.raises(ValueError, match=rf"^{data}.idx \(.* bytes\) and .bin .* copy both again"):
        load(data)


SIZES = (
    "Error(s) in loading state_dict for M:\n\tsize mismatch for {0}: copying a param with shape "
    "torch.Size([{1}]) from checkpoint, the shape in current model is torch.Size([{2}])."
)


@pytest.mark.parametrize(
    ("torch_says", "line"),
    [
        (
            SIZES.format("encoder.embed_tokens.weight", "40, 32", "44, 32"),
            r"its vocabulary has 40 entries, the dictionary in DATA makes 44 \(encoder.embed_tok",
        ),
        (
            SIZES.format("encoder.embed_tokens.weight", "40, 32", "40, 64"),
            r"another shape \(size mismatch for encoder.embed_tokens.weight: copying a param with",
        ),
        ("'model'", "holds no parameters of a model"),
    ],
)
def test_parameters_that_do_not_fit(torch_says: str, line: str) -> None:
    def load_checkpoint(trainer: Any, filename: str) -> None:
        try:
            raise RuntimeError(torch_says)
        except RuntimeError:
            raise Exception(f"{checkpoints.NOT_LOADED} {filename}; please")  # noqa: B904

    trainer = SimpleNamespace(cfg=config(**{"checkpoint.finetune_from_model": "mle.pt"}))
    with pytest.raises(ValueError, match=f"^--finetune-from-model mle.pt: .*{line}") as caught:
        checkpoints.load_with_record(load_checkpoint, trainer, "mle.pt")
    assert "\n" not in str(caught.value)


SEEN = (0.5, 1.0, 30.0, 0.01)


def resumed(
    reset: bool = False, updates: int = 7, metric: str = "loss", **flags: str
) -> tuple[LengthControl, watch.Watch, dict[str, Any]]:
    """What a run gets back from a checkpoint of another one, with these flags in their place."""
    Path("run.pt").touch()
    held = LengthControl(updates=30, covariance=-0.1, variance=0.2, first=0.9, ratio=0.95)
    before = {"--reward": "simile", "--mle-weight": "0.3"}
    record = {
        "format_version": 1,
        "objective": before,
        "metric": "loss",
        "patience": [0.25, 3],
        "length_control": held.state(),
        "first": [*SEEN],
        "outside": 1,
        "seen": 2,
    }
    state = {checkpoints.RECORD: record, "best": 0.25, "train_iterator": {"iterations_in_epoch": 3}}
    given = before | {f"--{name.replace('_', '-')}": flags[name] for name in flags}
    criterion = SimpleNamespace(objective=lambda: given, length_control=LengthControl())
    trainer = SimpleNamespace(
        data_parallel_world_size=1,
        cfg=config(**{"checkpoint.best_checkpoint_metric": metric}),
        get_criterion=lambda: criterion,
        get_num_updates=lambda: updates,
        simile_watch=watch.Watch(),
    )
    load = checkpoints.load_with_record
    assert load(lambda *_, **__: state, trainer, "run.pt", reset_meters=reset) is state
    assert criterion.length_control == (held if updates else LengthControl())
    return criterion.length_control, trainer.simile_watch, state


@pytest.fixture
def stopping() -> Iterator[Any]:
    """fairseq's function that keeps the patience."""
    function = train.should_stop_early
    yield function
    for name in {"best", "num_runs"} & vars(function).keys():
        delattr(function, name)


@pytest.mark.parametrize("updates", [0, 7])
@pytest.mark.parametrize("reset", [False, True])
def test_reset_meters_leaves_what_is_optimised(updates: int, reset: bool, stopping: Any) -> None:
    """0 updates: --reset-optimizer, which begins a run."""
    control, watched, _ = resumed(reset, updates)
    assert control.updates == (30 if updates else 0)
    assert watched.first == (SEEN if updates and not reset else None)


def test_only_the_best_of_the_same_metric_and_flags_is_compared(
    stopping: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"metric": "bleu"}, "loss"),
        ({"reward": "bleu"}, "loss of other flags"),
    ]
    for changes, had in cases:
        _, watched, state = resumed(**changes)
        assert "best" not in state and not hasattr(stopping, "best")
        said = f"metric {changes.get('metric', 'loss')}: its best begins anew; the run in run.pt"
        assert f"{said} had {had}\n" in caplog.text
    # Costs of another reward are not compared either; a run that was stopped stays so.
    assert watched.first is None and watched.outside == 1
    assert resumed(mle_weight="0.5")[1].first == SEEN
    assert resumed()[2]["best"] == 0.25 and (stopping.best, stopping.num_runs) == (0.25, 3)

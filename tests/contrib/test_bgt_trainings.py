"""BGT trainings by fairseq's own command: killed and resumed, refused, and read again."""

import re
from typing import Any

import pytest
import torch

from recipes.reliability.trainings import ROOT, Fault, Job, Trainings
from simile_plugin.contrib.bgt import read_bgt
from simile_plugin.files import InputError

START = (
    f"bin -s xx -t en --user-dir {ROOT}/user_dir --task bgt --arch bgt --criterion bgt "
    "--bgt-dim 16 --bgt-latent 8 --bgt-encoder-layers 2 --bgt-ffn 32 --bgt-heads 2 "
    "--kl-anneal-updates 6 --optimizer adam --lr 1e-3 --batch-size 6 --num-workers 0 --seed 7 "
    "--log-format json --log-interval 1 --max-update 9 --save-interval-updates 2 "
    "--max-source-positions 40 --max-target-positions 40 --required-batch-size-multiple 1"
)


def last_parameters(trainings: Trainings, run: str) -> dict[str, torch.Tensor]:
    path = trainings.folder / run / "checkpoint_last.pt"
    parameters: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["model"]
    return parameters


@pytest.mark.parametrize("flags", ["", "--bgt-one-decoder --bgt-ablation variational"])
def test_a_killed_run_ends_as_one_that_nobody_killed(trainings: Trainings, flags: str) -> None:
    name = f"bgt{len(flags)}"
    whole, killed = f"{name}-whole", f"{name}-killed"
    fault = Fault(function="fairseq.trainer:Trainer.train_step", call=6)
    jobs = [
        Job(f"{START} {flags} --save-dir {whole}", f"{whole}.log"),
        Job(f"{START} {flags} --save-dir {killed}", f"{killed}.log", fault),
    ]
    assert trainings.run(*jobs) == [0, -9]
    again = Job(f"{START} {flags} --save-dir {killed}", f"{killed}.log")
    assert trainings.run(again) == [0]
    first, second = (last_parameters(trainings, run) for run in (whole, killed))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    log = (trainings.folder / f"{whole}.log").read_text()
    names = ["kl_sem", "kl_weight", "translation", "elbo"] + (["kl_src"] if not flags else [])
    assert all(f'"{name}"' in log for name in names)
    weights = [float(found) for found in re.findall(r'"kl_weight": "([\d.]+)"', log)]
    assert weights[0] == 0.0 and 1.0 in weights


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--bgt-ablation what", "--bgt-ablation: got 'what', expected one of none, no-prior"),
        ("--eval-bleu", "--eval-bleu: a BGT does not translate while it trains; leave it out"),
    ],
)
def test_what_cannot_go_well_is_one_line(trainings: Trainings, flags: str, message: str) -> None:
    name = re.sub(r"\W+", "-", flags)
    assert trainings.run(Job(f"{START} --save-dir refused{name} {flags}", f"{name}.log")) == [1]
    log = (trainings.folder / f"{name}.log").read_text()
    assert "Traceback" not in log and f"fairseq-train: error: {message}" in log


def test_a_checkpoint_is_read(trainings: Trainings) -> None:
    jobs = [Job(f"{START} --max-update 1 --save-dir read", "read.log")]
    assert trainings.run(*jobs) == [0]
    folder, data = trainings.folder, str(trainings.folder / "bin")
    model: Any = read_bgt(str(folder / "read" / "checkpoint_last.pt"), data)
    assert not model.training and model.cfg.bgt_latent == 8
    with pytest.raises(InputError, match="mle/checkpoint_last.pt: holds a model of --arch trans"):
        read_bgt(str(folder / "mle" / "checkpoint_last.pt"), data)

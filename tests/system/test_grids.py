"""The Snakefiles of recipes by snakemake: which steps run, and which run again."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEP = r"""#!/bin/bash
echo "$*" >>"$WORK/calls"
name=$(echo "${3:-}" | tr ,: ++)
case $1 in
encoder) [ -n "$SIZE" ] || touch "$WORK/.done/encoder" ;;
data | bin | mle) touch "$WORK/$SIZE$ARCH/$2/.done/$1" ;;
risk) touch "$WORK/$SIZE$ARCH/$2/.done/$name.$4${5:+.$5}" ;;
merge) touch "$WORK/$SIZE/$2/.done/$name@merged.$4" ;;
average) touch "$WORK/$SIZE/$2/.done/$name@averaged.${4// /-}" ;;
size) touch "$WORK/$ARCH/$2/.done/size.$3.$4" ;;
report) touch "$WORK/$SIZE$ARCH/$2/results/"{report.html,test.flags} ;;
table) touch "$WORK/$SIZE$ARCH/"{table.md,report.html} ;;
esac
"""
ONE = ("corpora=tatoeba-de", "seeds=1")


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    if shutil.which("snakemake") is None:
        pytest.skip("needs the extra grid")
    for recipe in ("evidence", "wmt18"):
        shutil.copytree(ROOT / "recipes" / recipe, tmp_path / recipe)
        (tmp_path / recipe / "step.sh").write_text(STEP)
    (tmp_path / "work").mkdir()
    for name in ("e", "j"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    return tmp_path


def run(grid: Path, *settings: str, recipe: str = "evidence") -> tuple[str, list[str]]:
    """What snakemake says, and the steps that it has run."""
    calls = grid / "work" / "calls"
    calls.write_text("")
    command = ["snakemake", "-s", f"{recipe}/Snakefile", "--cores", "1"]
    done = subprocess.run(
        [*command, "--config", "work=work", *settings], cwd=grid, capture_output=True, text=True
    )
    return done.stdout + done.stderr, calls.read_text().splitlines()


def test_a_step_runs_again_where_its_flags_change(grid: Path) -> None:
    mix, variant = "simile:0.7,bleu:0.3", "bleu@n16"
    rewards = f"rewards=bleu {variant} {mix}"
    _, first = run(grid, *ONE, rewards, "given=")
    assert sorted(first) == sorted([
        *("encoder", "judge", "data tatoeba-de", "mle tatoeba-de"),
        *(f"risk tatoeba-de {reward} 1" for reward in ("bleu", variant, mix)),
        *(f"report tatoeba-de bleu {variant} {mix} 1", "table tatoeba-de"),
    ])  # fmt: skip
    assert run(grid, *ONE, rewards)[1] == []
    study = grid / "evidence" / "study.tsv"
    study.write_text(study.read_text().replace("--risk-candidates 16", "--risk-candidates 15"))
    repeated = run(grid, *ONE, rewards)[1]
    assert [call for call in repeated if call.startswith("risk")] == [
        f"risk tatoeba-de {variant} 1"
    ]
    assert len(repeated) == 3  # the report and the table, too
    repeated = run(grid, *ONE, rewards, "judge=j")[1]
    assert repeated == [f"report tatoeba-de bleu {variant} {mix} 1", "table tatoeba-de"]


def test_an_average_needs_its_seeds(grid: Path) -> None:
    settings = ("corpora=tatoeba-de", "rewards=bleu@averaged simile")
    _, first = run(grid, *settings, "seeds=1 2")
    report = "report tatoeba-de bleu@averaged simile 1 2"
    average = "average tatoeba-de bleu 1 2"
    assert sorted(first) == sorted([
        *("encoder", "judge", "data tatoeba-de", "mle tatoeba-de", average, report),
        *(f"risk tatoeba-de {reward} {seed}" for reward in ("bleu", "simile") for seed in (1, 2)),
        "table tatoeba-de",
    ])  # fmt: skip
    assert first.index(average) > first.index("risk tatoeba-de bleu 2")
    _, more = run(grid, *settings, "seeds=1 2 3")
    assert "average tatoeba-de bleu 1 2 3" in more and "risk tatoeba-de bleu 1" not in more
    said, calls = run(grid, "rewards=bleu@n17")
    assert "--config rewards: got n17, expected some of updates200" in said and calls == []


def test_a_merged_model_needs_its_own_alone(grid: Path) -> None:
    rewards = "rewards=noise shuffled:bleu@merged"
    _, calls = run(grid, *ONE, rewards, "encoder=default")  # the package's is not made
    report = "report tatoeba-de noise shuffled:bleu@merged 1"
    assert calls.index("merge tatoeba-de shuffled:bleu 1") > calls.index(
        "risk tatoeba-de shuffled:bleu 1"
    )
    assert sorted(calls) == sorted([
        *("judge", "data tatoeba-de", "mle tatoeba-de", "risk tatoeba-de noise 1"),
        *("risk tatoeba-de shuffled:bleu 1", "merge tatoeba-de shuffled:bleu 1", report),
        "table tatoeba-de",
    ])  # fmt: skip


def test_the_papers_experiment_too(grid: Path) -> None:
    one = ("languages=de", "costs=bleu", "gammas=0.3", "seeds=1", "sizes=2", "arch=cpu")
    risk = ["risk de bleu 0.3 1", "size de bleu 2 0.3 1", "report de bleu 0.3 1", "table de"]
    first = run(grid, *one, recipe="wmt18")[1]
    assert sorted(first) == sorted(["encoder", "data de", "bin de", "mle de", *risk])
    assert run(grid, *one, recipe="wmt18")[1] == []
    flags = grid / "wmt18/config/cpu/mle.flags"
    flags.write_text(flags.read_text() + "--dropout 0.2\n")
    assert run(grid, *one, recipe="wmt18")[1] == ["mle de", *risk]
    assert run(grid, *one, "encoder=e", recipe="wmt18")[1] == risk

"""recipes/wmt18: cleaning, archives, choice of gamma, tables, cost, architecture and schedule."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import subprocess
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.optim.lr_scheduler.fixed_schedule import FixedLRSchedule
from sacrebleu.dataset import DATASETS

from recipes.wmt18 import corpus, cost, extract, page, results
from simile_plugin.fairseq_training import architectures
from simile_plugin.report import Answer, Table
from simile_plugin.risk.distribution import candidate_distribution, expected_cost

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "wmt18"
CONFIGS = sorted(path.name for path in (RECIPE / "config").iterdir())


def flags(path: Path) -> dict[str, str]:
    """Each flag of a file and the word after it."""
    words = shlex.split(path.read_text("utf-8"), comments=True)
    return dict(zip(words, [*words[1:], ""], strict=True))


# --- corpus.py


def test_cleaning_says_why_a_pair_is_left_out() -> None:
    pairs = [
        ("\ufeffZwei  Hähne\u200bkrä\u00adhen .", "Two cocks crow ."),
        ("", "Nothing"),
        ("ein zwei drei vier fünf sechs", "one two three four five six"),
        ("ein zwei drei vier fünf", "one"),
        ("Wer weiß?", "Who knows?"),
        ("Zwei Hähne krähen .", "Two cocks crow ."),
    ]
    found = list(corpus.clean(pairs, 5, 4, frozenset({"whoknows"}), dedup=True))
    assert found == [
        ("Zwei Hähne krähen .", "Two cocks crow ."),
        *("empty", "too long", "odd lengths", "in valid or test", "duplicate"),
    ]
    # without limits only empty sides go
    assert len([pair for pair in corpus.clean(pairs) if isinstance(pair, tuple)]) == 5


# --- sources.tsv, extract.py


def test_every_corpus_is_in_the_table() -> None:
    rows = [line.split("\t") for line in (RECIPE / "sources.tsv").read_text().splitlines()]
    assert {len(row) for row in rows} == {8}
    for origin in ("paper", "stand-in"):
        for src in ("cs", "de", "ru", "tr"):
            assert {row[2] for row in rows if row[:2] == [origin, src]} == {
                *("train", "valid", "test")
            }
    for row in rows[1:]:
        assert re.fullmatch(r"-|sha256:[0-9a-f]{64}", row[6])
        if row[4].startswith("sacrebleu:"):
            assert f"{row[1]}-en" in DATASETS[row[4].split(":")[1]].langpairs
    for src in ("cs", "de", "ru", "tr"):  # validation never trains
        train = {row[3] for row in rows if row[:3] == ["stand-in", src, "train"]}
        held_out = {row[3] for row in rows if row[1] == src and row[2] in ("valid", "test")}
        assert not train & held_out - {"newstest2016"}  # the paper's validation, not the stand-in's


def test_a_member_of_either_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        for language in ("de", "en"):
            member = tarfile.TarInfo(f"folder/nc.de-en.{language}")
            member.size = 3
            tar.addfile(member, io.BytesIO(f"{language}\n".encode()))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("one/sim.pt", "1")
        packed.writestr("two/sim.pt", "2")
        packed.writestr("nc.de-en.de", "zip\n")
    extract.extract(str(tmp_path / "a.tgz"), "folder/nc.de-en.de", str(tmp_path / "out.de"))
    assert (tmp_path / "out.de").read_text() == "de\n"
    extract.extract(str(tmp_path / "a.zip"), "nc.de-en.de", str(tmp_path / "out.de"))
    assert (tmp_path / "out.de").read_text() == "zip\n"
    with pytest.raises(ValueError, match="2 members end with sim.pt; expected one"):
        extract.extract(str(tmp_path / "a.zip"), "sim.pt", str(tmp_path / "sim.pt"))


# --- results.py


def write_scores(folder: Path, system: str, **values: float) -> None:
    scores = [{"name": name.upper(), "score": value} for name, value in values.items()]
    (folder / f"{system}.json").write_text(json.dumps(scores))


def test_gamma_is_chosen_by_the_mean_over_seeds(tmp_path: Path) -> None:
    # BLEU: 0.2 has (20 + 24) / 2 = 22, 0.3 has (23 + 23) / 2 = 23. SIM: 71 beats 70.
    write_scores(tmp_path, "simile.0.2.1", bleu=20, sim=71)
    write_scores(tmp_path, "simile.0.2.2", bleu=24, sim=71)
    write_scores(tmp_path, "simile.0.3.1", bleu=23, sim=70)
    write_scores(tmp_path, "simile.0.3.2", bleu=23, sim=70)
    chosen = {
        measure: results.choose(tmp_path, "simile", ["0.2", "0.3"], ["1", "2"], measure)
        for measure in ("bleu", "sim")
    }
    assert chosen == {"bleu": "0.3", "sim": "0.2"}
    assert results.choose(tmp_path, "half", ["0.3"], ["1"], "bleu") == "0.3"  # no choice
    with pytest.raises(
        ValueError, match=r"simile.0.4.1.json: cannot be read .* train simile.0.4.1"
    ):
        results.choose(tmp_path, "simile", ["0.4", "0.2"], ["1"], "bleu")


def system(
    name: str, file: str, value: float, *against: tuple[str, float, float]
) -> dict[str, Any]:
    score = {
        "value": value,
        "seeds": [value],
        "against": [
            {"baseline": base, "difference": difference, "p_value": p}
            for base, difference, p in against
        ],
    }
    return {"name": name, "files": [file], "scores": dict.fromkeys(results.MEASURES, score)}


def write_report(folder: Path) -> None:
    systems = [
        system("MLE", "out/mle.txt", 20.0),
        system("BLEU", "out/bleu.0.3.1.txt", 21.0, ("MLE", 1.0, 0.01)),
        system("SIMILE", "out/simile.0.2.1.txt", 21.6, ("MLE", 1.6, 0.001), ("BLEU", 0.6, 0.2)),
    ]
    report = {
        "results": {
            "systems": systems,
            "signatures": {"BLEU": "tok:13a"},
            "test": {"kind": "bootstrap", "resamples": 1000},
        }
    }
    (folder / "results").mkdir(parents=True)
    for measure in results.MEASURES:
        (folder / "results" / f"test.{measure}.json").write_text(json.dumps(report))


def test_one_table_of_all_languages(tmp_path: Path) -> None:
    folders = {src: tmp_path / src for src in ("de", "tr")}
    for folder in folders.values():
        write_report(folder)
    head, (mle, bleu, simile) = results.score_groups(folders, "test")
    assert head[:5] == ["Model", "de-en BLEU", "de-en SIM", "de-en SIMILE", "tr-en BLEU"]
    assert [row[0] for row in mle] == ["MLE", "paper"]
    assert bleu[0][:2] == ["BLEU", "21.00 ‡"] and simile[0][:3] == ["SIMILE", "21.60 ‡", "21.60 ‡"]
    assert simile[1] == ["paper", "28.56 ‡†", "77.52 ‡†", "", "15.47 ‡†", "67.76 ‡†", ""]
    with pytest.raises(ValueError, match="run the step report first"):
        results.score_groups({"ru": tmp_path / "ru"}, "test")


def test_the_papers_figures_are_whole() -> None:
    """Each table has its cells, and the means of Table 70 are those of its four languages."""
    sizes = {"68": 4 * 4 * 2, "69": 4 * 3, "70": 19 * 5, "7.5.1": 4, "7.5.2": 4}
    found = {table: results.paper_figures(table) for table in sizes}
    assert {table: len(cells) for table, cells in found.items()} == sizes
    for (src, row, kind), mean in found["70"].items():
        if src == "mean" and row != "1001+":  # printed as 0.08, of -0.2, 0.5, 0.4 and -0.0
            four = [float(found["70"][src, row, kind]) for src in ("cs", "de", "ru", "tr")]
            # printed to a tenth, the mean to a hundredth: of rounded figures up to 0.05 off
            assert float(mean) == pytest.approx(sum(four) / 4, abs=0.051), row


# --- page.py


def texts_of(answer: Answer) -> list[list[list[str]]]:
    """The grids of an answer's tables."""
    return [part.grid() for part in answer.parts if isinstance(part, Table)]


def test_word_f1_is_averaged_over_the_languages() -> None:
    def found(differences: dict[str, float]) -> dict[str, Any]:
        rows = [
            {"bucket": bucket, "against": {"SIMILE": {"difference": difference}}}
            for bucket, difference in differences.items()
        ]
        return {
            **{"first_name": "BLEU", "second_name": "SIMILE", "notes": ["by a tagger"]},
            "tables": {"frequency": rows, "pos": rows},
        }

    data = {"de": {"lexical": found({"1": 2.0, "NUM": 1.0})}, "tr": {"lexical": found({"1": -1.0})}}
    answer = page.lexical(data)
    frequency, pos = texts_of(answer)
    assert frequency[0][1:] == ["de-en", "tr-en", "mean", "de-en, paper", "tr-en, paper",
                                "mean, paper"]  # fmt: skip
    assert frequency[1] == ["1", "+2.00", "-1.00", "+0.50", "+0.8", "+0.1", "+0.30"]
    assert pos[2] == ["NUM", "+1.00", "", "+1.00", "+2.2", "+1.3", "+1.48"]
    assert "de-en: by a tagger" in answer.notes


def test_partial_credit_and_people_beside_the_paper(tmp_path: Path) -> None:
    costs = {
        "cost_bleu": {"above_zero_share": 0.5, "mean_difference": 0.031},
        "cost_simile": {"above_zero_share": 0.875, "mean_difference": 0.02},
    }
    rated = [{"name": "MLE", "mean": 2.0}, {"name": "SIMILE", "mean": 3.25}]
    data: dict[str, dict[str, Any]] = {
        "de": {"headroom": {"costs": costs}, "human": {"systems": rated}},
        "tr": {"headroom": {"costs": costs}},
    }
    (grid,) = texts_of(page.partial_credit(data))
    assert grid[1] == ["de-en", "SIMILE", "87.5 %", "99.0 %", "2.0", "4.8"]
    assert grid[2] == ["de-en", "BLEU", "50.0 %", "85.1 %", "3.1", "4.3"]
    assert grid[3] == ["tr-en", "SIMILE", "87.5 %", "", "2.0", ""]  # the paper: German alone
    folders = {src: tmp_path / src for src in data}
    (note,) = page.human(folders, data).notes
    assert note == "tr-en: no sheets for people; the step report says why"
    (tmp_path / "tr/human/sheets").mkdir(parents=True)
    answer = page.human(folders, data)
    (grid,) = texts_of(answer)
    assert grid[1] == ["de-en", "2.00", "", "3.25", "0.93", "0.85", "1.00"]
    assert grid[2] == ["tr-en", "", "", "", "0.98", "1.03", "0.78"]
    (note,) = answer.notes
    assert note.startswith("tr-en: nobody has rated it; sheets for people are in ")


# --- cost.py


def log_of(path: Path, seconds: float, epoch: int) -> str:
    path.write_text(
        "".join(
            f"2026 | INFO | train_inner | epoch 001:  {update:5} / {epoch} loss=9, "
            f"num_updates={update}, lr=0.25, train_wall=1, wall={20 + seconds * update:.2f}\n"
            for update in (10, 20, 100)
        )
    )
    return str(path)


def test_cost_of_the_paper(tmp_path: Path) -> None:
    # 200 epochs at 0.25, then 0.025, 0.0025 and 0.00025: 203 epochs of 1,000 updates; risk 10 + 3.
    updates = {
        kind: cost.planned_updates(str(RECIPE / f"config/fconv/{kind}.flags"), 1000)
        for kind in ("mle", "risk")
    }
    assert updates == {"mle": 203_000, "risk": 13_000}
    args = argparse.Namespace(
        mle=log_of(tmp_path / "mle.log", 0.05, 1000),
        risk=log_of(tmp_path / "risk.log", 0.6, 2000),
        mle_flags=str(RECIPE / "config/fconv/mle.flags"),
        risk_flags=str(RECIPE / "config/fconv/risk.flags"),
        trainings=18,
        more=[],
    )
    text = cost.report(args)
    # 203,000 x 0.05 s = 2.8 h; 18 x 26,000 x 0.6 s = 78.0 h
    assert "| MLE | 1 | 203,000 | 203 | 0.050 | 2.8 |" in text
    assert "| risk | 18 | 26,000 | 13 | 0.600 | 78.0 |" in text
    assert "Together 80.8 h" in text


# --- architecture, schedule, configurations


def test_the_papers_architecture() -> None:
    assert architectures.fconv_beyond_bleu
    args = argparse.Namespace()
    ARCH_CONFIG_REGISTRY["fconv_beyond_bleu"](args)
    assert eval(args.encoder_layers) == [(256, 3)] * 4
    assert eval(args.decoder_layers) == [(256, 3)] * 3
    assert args.encoder_embed_dim == args.decoder_embed_dim == args.decoder_out_embed_dim == 256


@pytest.mark.parametrize("name", ["fconv", "paper"])
@pytest.mark.parametrize(("kind", "full"), [("mle", 200), ("risk", 10)])
def test_the_papers_schedule(name: str, kind: str, full: int) -> None:
    found = flags(RECIPE / f"config/{name}/{kind}.flags")
    scheduler = FixedLRSchedule.__new__(FixedLRSchedule)
    scheduler.cfg = SimpleNamespace(
        force_anneal=int(found["--force-anneal"]), lr_shrink=float(found["--lr-shrink"]), lr=[0.25]
    )
    assert found["--lr"] == "0.25"
    # Not by --stop-min-lr: fairseq compares it with the rate of the epoch that was, one too late.
    assert "--stop-min-lr" not in found
    rates = [scheduler.get_next_lr(epoch + 1) for epoch in range(int(found["--max-epoch"]))]
    assert rates[:full] == [0.25] * full
    assert rates[full:] == pytest.approx([0.025, 0.0025, 0.00025])


def test_the_objective_as_printed() -> None:
    """Thesis, 7.3: Q = p / sum p, cost = 1 - reward, no factor, momentum 0.99, 8 candidates."""
    own = flags(RECIPE / "config/paper/risk.flags")
    assert "--risk-compat" not in own and "--risk-include-reference" not in own
    printed = {
        **{"--risk-score": "sum", "--risk-alpha": "1", "--risk-cost-scale": "1"},
        **{"--risk-length-control": "0", "--risk-length-band": "0", "--risk-candidates": "8"},
        **{"--optimizer": "nag", "--momentum": "0.99", "--clip-norm": "0.1", "--lr": "0.25"},
    }
    assert printed.items() <= own.items()
    # two candidates of probability 0.06 and 0.02: Q is 3/4 and 1/4; their costs 0.2 and 0.6
    scores, costs = torch.tensor([[0.06, 0.02]]).log(), torch.tensor([[0.2, 0.6]])
    q = candidate_distribution(scores, torch.ones(1, 2, dtype=torch.bool), sharpness=1.0)
    assert expected_cost(q, costs).item() == pytest.approx(0.75 * 0.2 + 0.25 * 0.6)
    code = flags(RECIPE / "config/fconv/risk.flags")
    assert (code["--risk-compat"], code["--momentum"]) == ("beyond-bleu", "0.9")


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_are_whole(name: str) -> None:
    folder = RECIPE / "config" / name
    assert {path.name for path in folder.iterdir()} == {"settings.env", "mle.flags", "risk.flags"}
    mle, risk = flags(folder / "mle.flags"), flags(folder / "risk.flags")
    assert mle["--arch"] == risk["--arch"]
    assert mle["--criterion"] == "label_smoothed_cross_entropy"
    assert risk["--criterion"] == "simile_risk"
    # fairseq leaves out the last batch where its size is no multiple of this
    assert mle["--required-batch-size-multiple"] == risk["--required-batch-size-multiple"] == "1"
    names = re.findall(r"^([A-Z_]+)=", (folder / "settings.env").read_text(), re.M)
    assert names == [
        *("LINES", "WORDS", "RATIO", "VALID", "TEST", "PIECES", "SEGMENT"),
        *("RISK_CHECKPOINT", "AFTER_EPOCH", "RATED"),
    ]
    cost.planned_updates(str(folder / "mle.flags"), 100)
    cost.planned_updates(str(folder / "risk.flags"), 100)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("step.sh train de", "got step 'train', see --help"),
        ("step.sh mle fr", "mle: got SRC 'fr', expected cs, de, ru or tr"),
        ("step.sh risk de bleu", "risk: got 2 arguments, expected 4 (see --help)"),
        ("run.sh de --arch rnn", "--arch: got 'rnn', expected one of: cpu fconv modern paper tiny"),
    ],
)
def test_wrong_words_are_one_line(words: str, message: str, tmp_path: Path) -> None:
    script, *more = words.split()
    environment = {"PATH": "/usr/bin:/bin", "WORK": str(tmp_path / "w")}
    command = ["bash", str(RECIPE / script), *more]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (1, f"{script}: error: {message}\n")
    assert not (tmp_path / "w").exists()


def test_steps_side_by_side_have_a_gpu_each(tmp_path: Path) -> None:
    script = tmp_path / "step.sh"
    script.write_text(
        f". '{ROOT}/recipes/common.sh'; . '{ROOT}/recipes/training.sh'\n"
        "python() { echo 2; }  # GPUs of this machine\n"
        f"one_gpu '{tmp_path}'\n"
        'echo "$CUDA_VISIBLE_DEVICES"\n'
        '[ "$1" = 1 ] || env -u CUDA_VISIBLE_DEVICES bash "$0" $(($1 - 1))\n'
    )

    def run(steps: int, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: v for name, v in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        words = ["bash", str(script), str(steps)]
        return subprocess.run(words, capture_output=True, text=True, env=kept | variables)

    assert run(2).stdout.split() == ["0", "1"]
    done = run(3)
    assert done.stdout.split() == ["0", "1"]
    assert "step.sh: error: all 2 GPUs are taken by other steps" in done.stderr
    assert run(1, CUDA_VISIBLE_DEVICES="5").stdout == "5\n"

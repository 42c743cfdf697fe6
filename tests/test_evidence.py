"""recipes/evidence: the table, the goals, METEOR's files, settings, wrong calls."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from recipes.evidence import meteor, results
from recipes.wmt18 import cost
from simile_plugin.files import flag_name
from simile_plugin.risk import RiskSettings

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "evidence"
CONFIGS = sorted(path.name for path in (RECIPE / "config").iterdir())
JUDGES = ("bleu", "chrf", "METEOR", "sim")


def system(name: str, value: float, over_mle: float, over_bleu: float, p: float) -> dict[str, Any]:
    against = [
        {"baseline": "MLE", "difference": over_mle, "p_value": p},
        {"baseline": "BLEU", "difference": over_bleu, "p_value": p},
    ]
    score = {"value": value, "seeds": [value - 1, value + 1]}
    tests = [test for test in against if test["baseline"] != name]
    return {"name": name, "scores": {key: score | {"against": tests} for key in JUDGES}}


def signs(name: str, length: float, repeated: float) -> dict[str, Any]:
    return {"name": name, "length_ratio": length, "repeated": repeated, "copied": 0.001}


def write_results(folder: Path) -> None:
    systems = [
        system("MLE", 30, 0, 0, 1) | {"scores": system("", 30, 0, 0, 1)["scores"]},
        system("BLEU", 31, 1, 0, 0.001),
        system("SIMILE", 31.9, 1.9, 0.9, 0.001),
        system("LEARNED", 31.4, 1.4, 0.4, 0.02),
    ]
    for part in systems[0]["scores"].values():
        part["against"] = []
    found = {
        "results": {
            "systems": systems,
            "signatures": {"BLEU": "tok:13a"},
            "test": {"kind": "bootstrap", "resamples": 1000},
        },
        "gaming": {
            "systems": [
                *(signs("MLE", 0.98, 0.020), signs("BLEU", 0.99, 0.021)),
                *(signs("SIMILE", 1.03, 0.025), signs("LEARNED", 1.015, 0.020)),
            ]
        },
    }
    (folder / "results").mkdir(parents=True)
    for split in ("valid", "test", "heldout"):
        (folder / "results" / f"{split}.json").write_text(json.dumps(found))


def test_goals_by_hand(tmp_path: Path) -> None:
    write_results(tmp_path)
    systems = results.read_systems(tmp_path, "test")
    assert results.goals_of(systems, "SIMILE") == {
        "BLEU above BLEU-trained": "yes: +0.90, p 0.001",
        "chrF above BLEU-trained": "yes: +0.90, p 0.001",
        "METEOR above BLEU-trained": "yes: +0.90, p 0.001",
        "SIM above BLEU-trained": "yes: +0.90, p 0.001",
        "BLEU over MLE >= 1.5": "yes: +1.900",
        "length within 0.02 of 1": "no: 1.030",
        "repetition <= MLE's": "no: 2.50 % after 2.00 %",
    }
    learned = results.goals_of(systems, "LEARNED")
    assert learned["chrF above BLEU-trained"] == "no: +0.40, p 0.020"
    assert learned["BLEU over MLE >= 1.5"] == "no: +1.400"
    assert learned["length within 0.02 of 1"] == "yes: 1.015"
    assert learned["repetition <= MLE's"] == "yes: 2.00 % after 2.00 %"
    assert results.best_on_validation(systems) == "SIMILE"


def test_the_whole_page(tmp_path: Path) -> None:
    write_results(tmp_path / "a")
    write_results(tmp_path / "b")
    page = results.render({"a-de": tmp_path / "a", "b-fr": tmp_path / "b"})
    for corpus in ("a-de", "b-fr"):
        for split in ("test", "heldout", "valid"):
            assert f"## {corpus}, {split}" in page
        assert f"| {corpus} | heldout | SIMILE (best) | yes: +0.90, p 0.001 |" in page
    assert "| SIMILE | 31.90 (30.9, 32.9) |" in page and "| 1.030 | 2.50 % | 0.10 % |" in page
    assert "| SIMILE - MLE | +1.90 (p 0.001) |" in page
    assert "| BLEU - BLEU" not in page and "| MLE - " not in page
    assert "by judges that none" not in page and "BLEU judges what was trained on it, too" in page
    with pytest.raises(ValueError, match=r"test\.json: cannot be read; run the step report"):
        results.render({"c": tmp_path / "c"})


def test_the_rewards_share_of_the_gain(tmp_path: Path) -> None:
    refs = [f"the {a} saw a {b} near the old house" for a in "abcdefgh" for b in "stuvwxyz"]
    worse = [ref.replace("near the", "by") for ref in refs]
    halfway = [*worse[:32], *refs[32:]]
    outputs = {"MLE": worse, "BLEU": refs, "MORE-MLE": halfway, "NOISE": worse, "MODEL": refs}
    (tmp_path / "raw").mkdir()
    (tmp_path / "out" / "test").mkdir(parents=True)
    (tmp_path / "raw" / "test.en").write_text("".join(f"{ref}\n" for ref in refs))
    systems = {}
    for name, lines in (outputs | {"LEARNED": worse}).items():
        file = tmp_path / "out" / "test" / f"{name.lower()}.txt"
        file.write_text("".join(f"{line}\n" for line in lines))
        systems[name] = {"files": [f"elsewhere/{file.name}"] * 2}
    bleu, learned = results.share_rows(tmp_path, "test", systems)
    score = {name: sacrebleu.corpus_bleu(lines, [refs]).score for name, lines in outputs.items()}
    share = 100 * (100 - score["MORE-MLE"]) / (100 - score["MLE"])
    assert bleu["gain over MLE"] == f"{100 - score['MLE']:+.2f} (p <0.001)"
    assert bleu["beside MORE-MLE"].startswith(f"{share:.0f} % (")
    assert bleu["beside NOISE"] == "100 % (100 to 100)"
    assert bleu["beside MODEL"] == "0 % (0 to 0)"
    low, high = map(int, re.findall(r"(\d+) to (\d+)", bleu["beside MORE-MLE"])[0])
    assert low < share - 5 and high > share + 5
    assert learned == {"Reward": "LEARNED", "gain over MLE": "+0.00 (p 1.000)"}
    assert results.share_rows(tmp_path, "test", {"MLE": systems["MLE"]}) == []


def test_meteor_is_made_where_it_is_missing_or_older(tmp_path: Path) -> None:
    for name in ("old", "new", "none"):
        (tmp_path / f"{name}.txt").write_text("a\n")
    for name, time in (("old", 1), ("new", 1e10)):
        (tmp_path / f"{name}.meteor").write_text("0.5\n")
        os.utime(tmp_path / f"{name}.meteor", (time, time))
    assert [path.stem for path in meteor.wanted(tmp_path)] == ["none", "old"]


def test_variants_are_compared_with_the_first_bleu() -> None:
    systems = {name: system(name, 30, 0, 0, 1) for name in ("MLE", "LEARNED@N16", "HALF", "CHRF")}
    assert results.bleu_trained(systems) == ""
    systems["BLEU@N16"] = system("BLEU@N16", 31, 0, 0, 1)
    systems["BLEU"] = system("BLEU", 31, 0, 0, 1)
    assert results.bleu_trained(systems) == "BLEU@N16"
    assert results.semantic(systems) == ["LEARNED@N16", "HALF"]
    mixes = ["SIMILE:0.7,BLEU:0.3@N16", "BLEU:0.5,CHRF++:0.5", "MORE-MLE", "BLEU&LEARNED@AVERAGED"]
    found = results.semantic({name: system(name, 30, 0, 0, 1) for name in mixes})
    assert found == ["SIMILE:0.7,BLEU:0.3@N16", "BLEU&LEARNED@AVERAGED"]
    table = results.difference_table(systems)
    assert "| LEARNED@N16 - BLEU@N16 |" in table and "| BLEU - BLEU@N16 |" in table
    assert "| BLEU@N16 - MLE |" in table and "BLEU@N16 - BLEU@N16" not in table


def test_sets_share_no_line() -> None:
    """Lines of the same text never meet: FIRST~STEP, several of them, or all but these."""
    rows = [line.split("\t") for line in (RECIPE / "corpora.tsv").read_text().splitlines()][1:]
    for corpus in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == corpus]
        splits = list(dict.fromkeys(row[2] for row in own if row[2] != "risk"))
        assert splits == ["train", "valid", "test", "heldout"]
        taken: dict[str, set[int]] = {}
        for _, _, _, text, lines in own:
            found: set[int] = set()
            for address in lines.removesuffix("!").split():
                first, step = map(int, address.split("~"))
                found |= set(range(first, 20_000, step))
            if lines.endswith("!"):
                found = set(range(1, 20_000)) - found
            assert not taken.get(text, set()) & found, (corpus, text)
            taken[text] = taken.get(text, set()) | found


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_are_whole(name: str) -> None:
    folder = RECIPE / "config" / name
    rows = [line.split("\t") for line in (RECIPE / "corpora.tsv").read_text().splitlines()][1:]
    families = {f".{row[0].partition('-')[0]}" for row in rows} - {".bitext"}  # not on a CPU
    if (folder / "mle.flags").exists():
        families = {""}
    kinds = [f"{kind}{family}.flags" for kind in ("mle", "risk") for family in sorted(families)]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*kinds, "settings.env"])
    for family in families:
        flags = {}
        for kind in ("mle", "risk"):
            path = folder / f"{kind}{family}.flags"
            words = shlex.split(path.read_text("utf-8"), comments=True)
            flags[kind] = dict(zip(words, [*words[1:], ""], strict=True))
            assert cost.planned_updates(str(path), 100) == int(flags[kind]["--max-update"])
            assert flags[kind]["--total-num-update"] == flags[kind]["--max-update"]
            # fairseq leaves out the last batch where its size is no multiple of this
            assert flags[kind]["--required-batch-size-multiple"] == "1"
        for same in ("--arch", "--dropout", "--encoder-layers", "--decoder-embed-dim"):
            assert flags["mle"][same] == flags["risk"][same]
    assert set(re.findall(r"\b([A-Z_]+)=", (folder / "settings.env").read_text())) == {
        *("LINES", "PIECES", "JUDGE_STEPS")
    }


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "mle: got CORPUS 'fr', expected one of: multi30k-de multi30k-fr tatoeba-de bitext-de"),
        ({"SIZE": "huge"}, "SIZE: got 'huge', expected one of: cpu gpu tiny"),
        ({"SIMILE_DATA": "/no"}, "SIMILE_DATA: got '/no', expected the folder of the corpora"),
        ({"CORPUS": "bitext-de"}, "SIZE: cpu has no settings for bitext-de"),
    ],
)
def test_wrong_steps_are_one_line(variables: dict[str, str], message: str, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "SIMILE_DATA": "/", "WORK": str(tmp_path / "w")}
    environment |= variables
    command = ["bash", str(RECIPE / "step.sh"), "mle", variables.get("CORPUS", "fr")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"step.sh: error: {message}")
    assert not (tmp_path / "w").exists()


def test_the_studys_flags_are_flags_of_the_criterion() -> None:
    rows = [line.split("\t") for line in (RECIPE / "study.tsv").read_text().splitlines()][1:]
    assert len({row[0] for row in rows}) == len(rows)
    known = {flag_name(name) for name in RiskSettings.__dataclass_fields__} | {
        *("--lr", "--max-update", "--total-num-update")
    }
    for _, flags in rows:
        assert {word for word in flags.split() if word.startswith("--")} <= known

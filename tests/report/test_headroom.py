"""Headroom of n-best lists: by hand, and the section of the report."""

import itertools
import json
from pathlib import Path

import pytest

from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.nbest import choose, expected_utilities, read_nbest_lists
from simile_plugin.report.inputs.options import PairedTest
from simile_plugin.report.questions import headroom
from simile_plugin.report.questions.headroom import Headroom, measure_headroom
from simile_plugin.reward import Reward, Scorer, corpus_bleu
from tests.conftest import SENTENCES

TEST = PairedTest(resamples=40)
REFS = SENTENCES[:4]
# The reference is the second candidate, the only one, in the middle, and not there; the last list
# has copies alone. Scores make the last candidate the model's choice in the first list.
HYPS = [
    ["the grey heron", REFS[0], "the grey heron waits"],
    [REFS[1]],
    ["a ferry", REFS[2], "ferry at noon"],
    ["the oven", "the oven"],
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    lines = [
        {"id": n, "hyps": hyps, "scores": [-1.0, -2.0, -0.5][: len(hyps)]}
        for n, hyps in enumerate(HYPS)
    ]
    file = tmp_path / "lists.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(file)


def headroom_of(path: str, encoder: Encoder) -> Headroom:
    lists = read_nbest_lists(path, "LISTS", refs=REFS)
    return measure_headroom(lists, Scorer(encoder=encoder), TEST)


@pytest.fixture
def result(path: str, encoder: Encoder) -> Headroom:
    return headroom_of(path, encoder)


def bleu(hyps: list[str]) -> float:
    stats = Scorer().lists([[hyp] for hyp in hyps], REFS).bleu_stats
    return float(corpus_bleu(stats.sum((0, 1))))


def test_choices_by_hand(result: Headroom, path: str, encoder: Encoder) -> None:
    assert (result.sentences, result.list_sizes) == (4, (1, 3))
    last = "the oven"
    expected = {
        "first": ["the grey heron waits", REFS[1], "ferry at noon", last],
        "best_bleu": [REFS[0], REFS[1], REFS[2], last],
        "worst_bleu": ["the grey heron", REFS[1], "a ferry", last],
    }
    for choice, hyps in expected.items():
        assert result.choices[choice]["bleu"].value == pytest.approx(bleu(hyps))
    lists = read_nbest_lists(path, "LISTS", refs=REFS)
    utilities = expected_utilities(lists, Scorer(Reward("simile"), encoder))
    hyps = [one.hyps[p or 0] for one, p in zip(lists, map(choose, lists, utilities), strict=True)]
    assert result.choices["mbr"]["bleu"].value == pytest.approx(bleu(hyps))
    simile = Scorer(encoder=encoder).lists([[ref] for ref in expected["best_bleu"]], REFS).simile
    assert simile is not None
    assert result.choices["best_simile"]["simile"].value == pytest.approx(
        100 * float(simile.double().mean())
    )


def test_equal_lists(result: Headroom) -> None:
    # one candidate, and copies of one: two lists of four
    assert result.equal == {"bleu": 0.5, "chrf": 0.5, "simile": 0.5}


def test_partial_credit_is_that_of_a_slow_loop(tmp_path: Path, encoder: Encoder) -> None:
    lists = [{"id": n, "hyps": SENTENCES, "ref": ref} for n, ref in enumerate(REFS)]
    lists.append({"id": 4, "hyps": ["one"], "ref": "one"})  # a list without a pair
    file = tmp_path / "lists.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lists), encoding="utf-8")
    found = measure_headroom(read_nbest_lists(str(file), "LISTS"), Scorer(encoder=encoder), TEST)
    assert found.pairs == 4 * 28  # of eight candidates
    scores = Scorer(encoder=encoder).lists([SENTENCES] * 4, REFS)
    apart = {}
    for name, reward in (("cost_bleu", scores.bleu), ("cost_simile", scores.simile)):
        assert reward is not None
        rows = [[float(value) for value in row] for row in reward]
        apart[name] = [abs(a - b) for row in rows for a, b in itertools.combinations(row, 2)]
        own = found.costs[name]
        assert own.mean_difference == pytest.approx(sum(apart[name]) / 112, abs=1e-6)
        equal = sum(value <= 1e-6 for value in apart[name]) / 112
        assert own.zero_share == pytest.approx(equal) == 1 - own.above_zero_share
        assert sum(own.counts) == 112
    only = sum(a <= 1e-6 < b for a, b in zip(*apart.values(), strict=True)) / 112
    assert found.only_bleu_equal == pytest.approx(only)


def test_expected_gain_is_a_share_of_the_headroom(
    path: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (("A", "simile", 0.1), ("B", "simile", 0.3), ("C", "bleu", 0.2))
    monkeypatch.setattr(headroom, "MEASURED", runs)
    drawn = headroom_of(path, encoder)  # scores in no order: no beam's choice to begin from
    assert (drawn.first, drawn.gain) == ("highest score", {})
    beam = Path(path).read_text("utf-8").replace("-0.5]", "-3.0]")
    Path(path).write_text(beam, "utf-8")
    found = headroom_of(path, encoder)
    choices, gain = found.choices, found.gain
    assert found.first == "model's choice"
    best, first = (choices[name]["simile"].value for name in ("best_simile", "first"))
    assert gain["simile"] == pytest.approx((0.1 * (best - first), 0.3 * (best - first)))
    assert gain["bleu"][0] == gain["bleu"][1] and "chrf" not in gain


def test_the_section(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ref").write_text("".join(f"{ref}\n" for ref in REFS), encoding="utf-8")
    given = ["report", "--nbest-lists", path, "--only", "headroom", "--resamples", "40"]
    assert main([*given, "--ref", str(tmp_path / "ref"), "--svg", str(tmp_path / "a.svg")]) == 0
    out = capsys.readouterr().out
    assert "MBR by chrF" in out and "best by BLEU" in out and "SIMILE" not in out
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert main(given) == 2
    assert "has candidates of sentence 0 but no reference" in capsys.readouterr().err


def test_lists_that_are_no_plain_text_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lists.jsonl"
    file.write_text('{"id": 0, "hyps": ["it&#39;s", "it"], "scores": [-1, -2], "ref": "it is"}')
    assert main(["report", "--nbest-lists", str(file)]) == 0
    assert f"warning: {file} has HTML escapes ('&#39;')" in capsys.readouterr().out


def test_references_that_are_empty_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"hyps": ["a boat", "the ship"], "scores": [-1, -2]}\n' * 5)
    (tmp_path / "ref").write_text("a ship\n\n \n\na boat\n")
    told = f"warning: 3 of 5 references of {lists} are empty (line 2 first)"
    given = [str(lists), "--ref", str(tmp_path / "ref")]
    assert main(["mbr", *given, "--utility", "chrf", "--against", "references"]) == 0
    assert f"simile mbr: {told}" in capsys.readouterr().err
    assert main(["report", "--nbest-lists", *given, "--only", "headroom"]) == 0
    assert told in capsys.readouterr().out
    outputs = tmp_path / "out"
    outputs.write_text("a boat\n" * 5)
    systems = ["--sys", f"A={outputs}", "--resamples", "40"]
    assert main(["report", "--ref", given[2], *systems]) == 0
    assert f"3 of 5 references of {given[2]} are empty (line 2 first)" in capsys.readouterr().out

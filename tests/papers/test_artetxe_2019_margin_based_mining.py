"""bitext.Neighbours against sorting, margins against the formula's loops, F1 by hand."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.papers.scripts import script

PAPER = "artetxe-2019-margin-based-mining"
bitext, mine_bitext = script(PAPER, "bitext"), script(PAPER, "mine_bitext")
plant_bitext = script(PAPER, "plant_bitext")


def unit(rows: int, dim: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, dim, generator=generator), dim=1)


def candidates(*triples: tuple[int, int, float]) -> Any:
    source, target, scores = zip(*triples, strict=True)
    return bitext.Candidates(np.array(source), np.array(target), np.array(scores, dtype=float))


@settings(max_examples=40)
@given(st.integers(1, 23), st.integers(1, 23), st.integers(1, 6), st.integers(1, 9))
def test_neighbours_are_those_of_sorting_everything(n: int, m: int, k: int, block: int) -> None:
    x, y = unit(n, 5, n), unit(m, 5, 100 + m)
    forward, backward = bitext.nearest(x, y, k, block)
    sims = x @ y.T
    for found, table in ((forward, sims), (backward, sims.T)):
        assert found.sims.shape == (table.shape[0], min(k, table.shape[1]))
        for i, row in enumerate(table.tolist()):
            order = sorted(range(len(row)), key=lambda j: -row[j])[:k]
            assert found.rows[i].tolist() == order
            assert found.sims[i].tolist() == pytest.approx([row[j] for j in order], abs=1e-6)


def test_margins_by_hand() -> None:
    a, b = np.array([0.8, -0.2, 0.5]), np.array([0.4, 0.5, 0.0])
    assert bitext.margin_scores(a, b, "absolute").tolist() == [0.8, -0.2, 0.5]
    assert bitext.margin_scores(a, b, "distance").tolist() == pytest.approx([0.4, -0.7, 0.5])
    # 0.8 / 0.4, -0.2 / 0.5, and nothing where the neighbourhood is 0
    assert bitext.margin_scores(a, b, "ratio").tolist() == pytest.approx([2.0, -0.4, 0.0])


def slow_score(x: torch.Tensor, y: torch.Tensor, i: int, j: int, k: int, margin: str) -> float:
    """Equations 1 and 2 of Artetxe and Schwenk 2019, literally."""
    cos = x @ y.T
    of_x = sorted(cos[i].tolist(), reverse=True)[:k]
    of_y = sorted(cos[:, j].tolist(), reverse=True)[:k]
    b = sum(c / (2 * len(of_x)) for c in of_x) + sum(c / (2 * len(of_y)) for c in of_y)
    a = float(cos[i, j])
    return {"absolute": a, "distance": a - b, "ratio": a / b if b > 0 else 0.0}[margin]


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
def test_proposals_against_slow_loops(margin: str) -> None:
    x, y, k = unit(9, 4, 1), unit(7, 4, 2), 3
    cos = x @ y.T
    both: dict[tuple[int, int], float] = {}
    for i in range(9):
        for j in range(7):
            near = j in cos[i].topk(k).indices or i in cos[:, j].topk(k).indices
            best_of_x = max(
                cos[i].topk(k).indices.tolist(), key=lambda j: slow_score(x, y, i, j, k, margin)
            )
            best_of_y = max(
                cos[:, j].topk(k).indices.tolist(), key=lambda i: slow_score(x, y, i, j, k, margin)
            )
            if near and (best_of_x == j or best_of_y == i):
                both[i, j] = slow_score(x, y, i, j, k, margin)
    expected: dict[tuple[int, int], float] = {}
    for i, j in sorted(both, key=lambda pair: -both[pair]):
        if all(i != used[0] and j != used[1] for used in expected):
            expected[i, j] = both[i, j]
    found = bitext.propose(*bitext.nearest(x, y, k, block=4), margin)
    pairs = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    assert dict(zip(pairs, found.scores.tolist(), strict=True)) == pytest.approx(expected, abs=1e-6)
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)


def test_precision_recall_and_f1_by_hand() -> None:
    pairs = candidates((0, 0, 1.9), (1, 1, 1.7), (2, 5, 1.6), (3, 3, 1.2), (4, 6, 1.1))
    gold = {(0, 0), (1, 1), (3, 3), (7, 7)}
    found = bitext.evaluate_mining(pairs, gold, 1.5)  # three mined, two of them right, four to find
    assert (found.mined, found.correct, found.gold) == (3, 2, 4)
    assert found.precision == pytest.approx(100 * 2 / 3)
    assert found.recall == pytest.approx(100 * 2 / 4)
    # 2 P R / (P + R) = 2 * (2/3) * (1/2) / (2/3 + 1/2) = 4/7
    assert found.f1 == pytest.approx(100 * 4 / 7)
    nothing = bitext.evaluate_mining(pairs, gold, 2.0)
    assert math.isnan(nothing.precision)
    assert (nothing.recall, nothing.f1) == (0, 0)


def test_the_threshold_with_the_best_f1() -> None:
    pairs = candidates((0, 0, 1.9), (1, 1, 1.7), (2, 5, 1.6), (3, 3, 1.2), (4, 6, 1.1))
    # F1 after 1..5 pairs: 2/5, 4/6, 4/7, 6/8, 6/9: the fourth is best
    assert bitext.tune_threshold(pairs, {(0, 0), (1, 1), (3, 3), (7, 7)}) == pytest.approx(1.15)
    # all are right: the last score itself
    assert bitext.tune_threshold(candidates((0, 0, 1.9), (1, 1, 1.7)), {(0, 0), (1, 1)}) == 1.7


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=12))
def test_no_threshold_is_better(rows: list[tuple[int, bool]]) -> None:
    rows = sorted(rows, reverse=True)
    pairs = candidates(*((i, i, score / 2) for i, (score, _) in enumerate(rows)))
    gold = {(i, i) for i, (_, right) in enumerate(rows) if right} | {(99, 99)}
    if len(gold) == 1:
        with pytest.raises(ValueError, match="no threshold can be tuned"):
            bitext.tune_threshold(pairs, gold)
        return
    best = bitext.evaluate_mining(pairs, gold, bitext.tune_threshold(pairs, gold)).f1
    every = [bitext.evaluate_mining(pairs, gold, score / 2 - 0.25).f1 for score in range(8)]
    assert best == pytest.approx(max(every))


def test_retrieval_by_hand() -> None:
    forward = bitext.Neighbours(torch.ones(4, 1), torch.tensor([[0], [2], [2], [1]]))
    backward = bitext.Neighbours(torch.ones(4, 1), torch.tensor([[0], [1], [3], [0]]))
    # Source 3 finds line 1, which is a copy of line 3; of the targets only 0 and 1 are found.
    found = bitext.retrieval_accuracy(["a", "b", "c", "d"], ["A", "B", "C", "B"], forward, backward)
    assert (found.forward, found.backward, found.mean) == (75, 50, 62.5)


def test_what_the_encoder_does_not_know_finds_no_translation() -> None:
    # Of a zero vector all cosines are 0, so that whichever comes first would be its bitext.nearest.
    source, target = torch.tensor([[0.0], [0.0], [1.0]]), torch.tensor([[-1.0], [-1.0], [1.0]])
    found = bitext.retrieval_accuracy(
        ["?", "?", "c"], ["A", "B", "C"], *bitext.nearest(source, target, k=1)
    )
    assert (found.forward, found.backward) == (100 / 3, 100 / 3)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_identical_sentences_are_one(tmp_path: Path) -> None:
    source = bitext.read_corpus(
        write(tmp_path / "s", "s1\tRegen\ns2\tSchnee\ns3\tRegen\n"), "--source"
    )
    target = bitext.read_corpus(write(tmp_path / "t", "t1\train\nt2\tsnow\n"), "--target")
    assert (source.ids, source.sentences) == (["s1", "s2"], ["Regen", "Schnee"])
    gold = bitext.read_gold(write(tmp_path / "g", "s3\tt1\ns2\tt2\n"), "--gold", source, target)
    assert gold == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tx\nno tab\n", "text:2: got 1 tab-separated columns, expected an id, a TAB and a sent"),
        ("a\tx\nb\t \n", "text:2: 'b' has an empty id or sentence; remove the line"),
    ],
)
def test_bad_texts(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bitext.read_corpus(write(tmp_path / "text", text), "--source")


LEFT = [
    "the grey heron waits",
    "two boys skip stones",
    "an old ferry crosses",
    "nobody told the baker",
    "she folded the map",
    "our train was late",
    "the museum opens",
    "he paid for tickets",
]
RIGHT = [f"{line} today" for line in LEFT]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    status = mine_bitext.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert mine_bitext.main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


@pytest.fixture
def bucc(tmp_path: Path) -> list[object]:
    for name, lines in (("source", LEFT), ("target", [*reversed(RIGHT)])):
        text = "".join(f"{name}-{i}\t{line}\n" for i, line in enumerate(lines))
        (tmp_path / name).write_text(text)
    (tmp_path / "gold").write_text("".join(f"source-{i}\ttarget-{7 - i}\n" for i in range(6)))
    return ["--source", tmp_path / "source", "--target", tmp_path / "target"]


def test_mining(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    gold, output = tmp_path / "gold", tmp_path / "mined.tsv"
    command = [encoder_folder, *bucc]
    assert "tuned               True" in run(capsys, *command, "--gold", gold)
    found = json.loads(run(capsys, *command, "--gold", gold, "--output", output, "--json"))
    assert (found["recall"], found["gold"]) == (100, 6)
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    assert len(rows) == found["mined"] == found["written"]
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert ["source-0", "target-7", LEFT[0], RIGHT[0]] in [row[1:] for row in rows]
    # On other texts, by the threshold of these.
    other = ["--threshold", found["threshold"], "--output", tmp_path / "again.tsv"]
    assert json.loads(run(capsys, *command, *other, "--json"))["written"] == len(rows)
    assert (tmp_path / "again.tsv").read_text() == output.read_text()


def test_retrieval_of_aligned_lines(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text("\n".join(LEFT) + "\n")
    (tmp_path / "t").write_text("\n".join(RIGHT) + "\n")
    texts = ("--source", tmp_path / "s", "--target", tmp_path / "t", "--aligned")
    command = (encoder_folder, *texts)
    assert "forward             100.0" in run(capsys, *command)
    found = json.loads(run(capsys, *command, "--json"))
    assert (found["forward"], found["backward"], found["sentences"]) == (100, 100, 8)
    (tmp_path / "t").write_text("\n".join(RIGHT[1:]) + "\n")
    assert "has 8 lines but" in fails(capsys, *command)


def test_mining_refuses_what_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], encoder_folder: Path, bucc: list[object], tmp_path: Path
) -> None:
    gold, foreign = tmp_path / "gold", tmp_path / "foreign"
    gold.write_text("source-0\ttarget-0\n")
    foreign.write_text("a\tдождь идёт\nb\tснег\n")
    start = [encoder_folder, *bucc]
    for flags, message in (
        (["--threshold", 1], "expected --gold, --aligned, or --threshold with --output"),
        (["--aligned", "--gold", gold], "--aligned: only measures; leave out --gold"),
        (
            ["--threshold", 1, "--output", tmp_path / "o", "--source", foreign],
            f"--source: {foreign}: the encoder knows no piece of any sentence",
        ),
        (["--gold", gold, "--output", gold], f"--output: {gold} is an input of this command"),
    ):
        assert message in fails(capsys, *start, *flags)
    assert gold.read_text() == "source-0\ttarget-0\n"
    assert not (tmp_path / "o").exists()


def test_planted_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(arguments: list[object]) -> int:
        monkeypatch.setattr(sys, "argv", ["plant_bitext.py", *map(str, arguments)])
        return int(plant_bitext.main())

    (tmp_path / "s").write_text("".join(f"Satz {i}\n" for i in range(40)) + "Satz 3\n\n")
    (tmp_path / "t").write_text("".join(f"line {i}\n" for i in range(40)) + "line 99\nx\n")
    out = tmp_path / "out"
    flags = ["--source", tmp_path / "s", "--target", tmp_path / "t", "--output", out]
    counts = ["--pairs", 10, "--distractors", 15]
    assert run(flags + counts) == 0
    texts = {}
    for side in ("source", "target"):
        rows = [line.split("\t") for line in (tmp_path / f"out.{side}").read_text().splitlines()]
        texts[side] = dict(rows)
        assert len(rows) == len(texts[side]) == len(set(texts[side].values())) == 25
    gold = [line.split("\t") for line in (tmp_path / "out.gold").read_text().splitlines()]
    assert len(gold) == 10

    def number(sentence: str) -> str:
        return sentence.split()[1]

    for one, other in gold:
        assert number(texts["source"][one]) == number(texts["target"][other])
    shared = {number(s) for s in texts["source"].values()} & {
        number(s) for s in texts["target"].values()
    }
    assert len(shared) == 10  # no distractor's translation is there
    before = out.with_suffix(".gold").read_text()
    run(flags + counts)
    assert out.with_suffix(".gold").read_text() == before

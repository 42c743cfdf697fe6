"""The oracle: the candidate of each list that a reward of the references puts first."""

import json
from pathlib import Path

import pytest

from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.nbest import NbestList, choose, expected_utilities
from simile_plugin.reward import Reward, Scorer
from tests.conftest import SENTENCES

LISTS = [
    NbestList(0, SENTENCES[0], tuple(SENTENCES[:3]), (-3.0, -1.0, -2.0), src=SENTENCES[1]),
    NbestList(1, SENTENCES[4], (), ()),
    NbestList(2, SENTENCES[5], (SENTENCES[5], SENTENCES[6]), (-2.0, -1.0), src=SENTENCES[5]),
]


def words(hyps: list[list[str]], refs: list[str], srcs: list[str]) -> list[list[int]]:
    return [[len(hyp.split()) for hyp in row] for row in hyps]


def test_the_utility_of_one_reference_is_the_reward(encoder: Encoder) -> None:
    pseudo = [NbestList(one.sentence, None, (one.ref or "",)) for one in LISTS]
    scorer = Scorer(Reward("half"), encoder)
    values = expected_utilities(LISTS, scorer, pseudo)
    for one, row in zip(LISTS, values, strict=True):
        expected = [float(scorer.values([[hyp]], [one.ref or ""], [])) for hyp in one.hyps]
        assert row.tolist() == pytest.approx(expected, abs=1e-6)
    assert [*map(choose, LISTS, values)] == [0, None, 0]
    counted = expected_utilities(LISTS, Scorer(Reward("tests.nbest.test_oracle:words")), pseudo)
    assert [row.tolist() for row in counted] == [[8, 8, 8], [], [10, 8]]


# --- the command ---


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "lists.jsonl"
    records = [
        {"id": one.sentence, "ref": one.ref, "src": one.src or "", "hyps": one.hyps,
         "scores": one.scores}
        for one in LISTS
    ]  # fmt: skip
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main(["mbr", "--against", "references", *map(str, arguments)])


def test_the_oracle_with_its_figures(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lists, "--utility", "bleu") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [SENTENCES[0], "", SENTENCES[5]]
    assert "highest score" in err and "oracle" in err
    assert "1 sentences without candidates" in err
    assert run(lists, "--utility", "tests.nbest.test_oracle:words", "--json") == 0
    out, err = capsys.readouterr()
    assert "1 sentences without candidates have no line (fairseq-gen" in err
    records = [json.loads(line) for line in out.splitlines()]
    # as many words in each candidate of the first list: the one with the highest score
    assert [(one["id"], one["place"], one["utility"]) for one in records] == [(0, 1, 8), (2, 0, 10)]


def test_what_is_refused(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = lists.with_name("bare.jsonl")
    bare.write_text('{"hyps": ["a", "b"], "scores": [1, 2]}\n')
    other = lists.with_name("other.jsonl")
    for flags, message in (
        ([lists, "--utility", "sim"], "--encoder: not given, but --utility sim needs a reward"),
        ([bare, "--utility", "bleu"], "no reference (fairseq: no T-0); give --ref FILE, or lists"),
        ([lists, "--pseudo-refs", other], "--pseudo-refs: is for --against candidates"),
        ([lists, "--weights", "model"], "--weights: is for --against candidates"),
        ([lists, "--against", "candidates", "--ref", other], "--ref: is for --against references"),
    ):
        assert run(*flags) == 2
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("against", ["candidates", "references"])
def test_text_that_is_not_plain_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], against: str
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"id": 0, "hyps": ["it&#39;s"], "scores": [-1], "ref": "it is"}')
    assert main(["mbr", str(lists), "--utility", "bleu", "--against", against]) == 0
    told = f"simile mbr: warning: {lists} has HTML escapes ('&#39;')"
    assert told in capsys.readouterr().err

"""Reranking: rewards one by one, the command."""

import json
from pathlib import Path

import pytest

from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.nbest import NbestList, list_rewards
from simile_plugin.nbest import rerank as module
from simile_plugin.reward import Reward, Scorer
from tests.conftest import SENTENCES

LISTS = [
    NbestList(0, SENTENCES[0], tuple(SENTENCES[:3]), (-3.0, -1.0, -2.0), src=SENTENCES[1]),
    NbestList(1, SENTENCES[4], (), ()),
    NbestList(2, SENTENCES[5], (SENTENCES[5], SENTENCES[6]), (-2.0, -1.0), src=SENTENCES[5]),
]


def words(hyps: list[list[str]], refs: list[str], srcs: list[str]) -> list[list[int]]:
    return [[len(hyp.split()) for hyp in row] for row in hyps]


def test_rewards_are_those_of_training_one_by_one(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRINGS_AT_ONCE", 3)
    scorer = Scorer(Reward("half"), encoder)
    refs = [one.ref or "" for one in LISTS]
    found = list_rewards(LISTS, refs, scorer)
    for one, ref, values in zip(LISTS, refs, found, strict=True):
        singly = [Scorer(encoder=encoder).lists([[hyp]], [ref]) for hyp in one.hyps]
        expected = [float(scorer.reward.from_scores(scores)) for scores in singly]
        assert values.tolist() == pytest.approx(expected, abs=1e-6)
    counted = list_rewards(LISTS, refs, Scorer(Reward("tests.nbest.test_rerank:words")))
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
    return main(["rerank", *map(str, arguments)])


def test_the_oracle_with_its_figures(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lists) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [SENTENCES[0], "", SENTENCES[5]]
    assert "model's choice" in err and "reranked" in err
    assert "1 sentences without candidates" in err
    assert run(lists, "--reward", "tests.nbest.test_rerank:words", "--json") == 0
    out, err = capsys.readouterr()
    assert "simile rerank: 1 sentences without candidates have no line (fairseq-gen" in err
    records = [json.loads(line) for line in out.splitlines()]
    # as many words in each candidate of the first list: the one with the highest score
    assert [(one["id"], one["place"], one["value"]) for one in records] == [(0, 1, 8), (2, 0, 10)]


def test_what_is_refused(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = lists.with_name("bare.jsonl")
    bare.write_text('{"hyps": ["a", "b"], "scores": [1, 2]}\n')
    for flags, message in (
        (
            [lists, "--reward", "sim"],
            "--encoder: not given, but --reward sim needs a reward encoder",
        ),
        ([bare], "sentence 0 but no reference (fairseq: no T-0); give --ref FILE, or lists"),
    ):
        assert run(*flags) == 2
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("words", ["mbr --utility bleu", "rerank --reward bleu"])
def test_text_that_is_not_plain_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"id": 0, "hyps": ["it&#39;s"], "scores": [-1], "ref": "it is"}')
    command, *flags = words.split()
    assert main([command, str(lists), *flags]) == 0
    told = f"simile {command}: warning: {lists} has HTML escapes ('&#39;')"
    assert told in capsys.readouterr().err

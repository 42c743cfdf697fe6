"""Reranking: features by hand, tuning against all weights, the command."""

import json
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.cli import main
from simile_plugin.encoder import cosine
from simile_plugin.encoder.models import Encoder
from simile_plugin.nbest import (
    NbestList,
    Utility,
    cosine_feature,
    mean_reward,
    reward_feature,
    tune_weights,
    weighted,
)
from simile_plugin.nbest import rerank as module
from simile_plugin.reward import Reward, score_lists
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
    utility = Utility(Reward("half"), encoder)
    refs = [one.ref or "" for one in LISTS]
    found = reward_feature(LISTS, refs, utility)
    for one, ref, values in zip(LISTS, refs, found, strict=True):
        singly = [score_lists([[hyp]], [ref], encoder) for hyp in one.hyps]
        expected = [float(utility.reward.from_scores(scores)) for scores in singly]
        assert values.tolist() == pytest.approx(expected, abs=1e-6)
    counted = reward_feature(LISTS, refs, Utility(Reward("tests.nbest.test_rerank:words")))
    assert [row.tolist() for row in counted] == [[8, 8, 8], [], [10, 8]]


def test_cosines_of_source_and_candidates(encoder: Encoder) -> None:
    found = cosine_feature(LISTS, [one.src or "" for one in LISTS], encoder)
    assert found[0][1] == pytest.approx(1)  # the candidate that is the source
    vectors = encoder.embed_text([SENTENCES[5], SENTENCES[6]])
    assert found[2][1] == pytest.approx(float(cosine(vectors[0], vectors[1])), abs=1e-6)
    assert len(found[1]) == 0


def test_weighted_sums_and_their_mean_reward() -> None:
    one, two = [np.array([1.0, 2.0])], [np.array([10.0, 0.0])]
    assert weighted([one, two], [2.0, 0.1])[0].tolist() == [3.0, 4.0]
    assert mean_reward([np.array([0.2, 0.9]), np.array([])], [1, None]) == 0.45


def test_tuning_finds_what_no_feature_alone_does() -> None:
    # The sum a + b is highest at the good candidate; a alone and b alone prefer a bad one.
    lists = [NbestList(n, "r", ("x", "y", "z")) for n in range(4)]
    a = [np.array([3.0, 2.0, 0.0]) for _ in lists]
    b = [np.array([0.0, 200.0, 300.0]) for _ in lists]
    rewards = [np.array([0.1, 1.0, 0.2]) for _ in lists]
    first, second = tune_weights(lists, [a, b], rewards)
    assert weighted([a, b], [first, second])[0].argmax() == 1
    # What an own function has no number for is worth nothing, and ends nothing.
    unknown = [np.array([np.nan, 1.0, np.inf])] * 3 + [np.full(3, np.nan)]
    assert tune_weights(lists, [a, b], unknown) == (first, second)
    with pytest.raises(ValueError, match="a feature is the same for all candidates"):
        tune_weights(lists, [a, [np.zeros(3) for _ in lists]], rewards)
    with pytest.raises(ValueError, match="--tune: no list has a candidate"):  # and NumPy is silent
        tune_weights([NbestList(0, "r", ())], [[np.array([])]] * 2, [np.array([])])


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


def test_the_oracle_the_score_and_the_cosine(
    lists: Path, encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lists, "--by", "reward") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [SENTENCES[0], "", SENTENCES[5]]
    assert "model's choice" in err and "1 sentences without candidates" in err
    assert run(lists, "--by", "score", "--json") == 0
    out, err = capsys.readouterr()
    assert "simile rerank: 1 sentences without candidates have no line (fairseq-gen" in err
    records = [json.loads(line) for line in out.splitlines()]
    assert [(one["id"], one["place"], one["value"]) for one in records] == [
        (0, 1, -1.0), (2, 1, -1.0),
    ]  # fmt: skip
    of_sources = ["--source-encoder", encoder_folder, "--device", "cpu"]
    assert run(lists, "--by", "cosine", *of_sources) == 0
    assert capsys.readouterr().out.splitlines() == [SENTENCES[1], "", SENTENCES[5]]


def test_tuned_weights_are_shown_with_the_figures(
    lists: Path, encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--by", "score", "cosine", "--source-encoder", encoder_folder, "--tune", lists]
    assert run(lists, *flags, "--reward", "simile", "--encoder", encoder_folder) == 0
    err = capsys.readouterr().err
    assert err.count("reranked") == 2 and "SIMILE" in err
    assert f"weights tuned on {lists}: score " in err


TUNED = ["--by", "score", "cosine", "--source-encoder", "ENCODER", "--tune", "bare.jsonl"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--by", "reward", "score"], "--by: got reward score; expected reward alone"),
        (["--by", "reward", "--reward", "sim"], "--reward sim: needs --encoder DIR"),
        (TUNED[:-2], "--by: score cosine: give as many --weights, or --tune LISTS"),
        (["--by", "score", "--tune", "x"], "--tune: finds the weights of --by score cosine"),
        (TUNED, "sentence 0 but no source (fairseq: no S-0); give --tune-src FILE, or lists"),
    ],
)
def test_what_is_refused(
    flags: list[str],
    message: str,
    lists: Path,
    encoder_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lists.with_name("bare.jsonl").write_text('{"hyps": ["a", "b"], "scores": [1, 2]}\n')
    known = {"bare.jsonl": lists.with_name("bare.jsonl"), "ENCODER": encoder_folder}
    assert run(lists, *(known.get(flag, flag) for flag in flags)) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("words", ["mbr --utility bleu", "rerank --by score"])
def test_text_that_is_not_plain_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"id": 0, "hyps": ["it&#39;s"], "scores": [-1], "ref": "it is"}')
    command, *flags = words.split()
    assert main([command, str(lists), *flags]) == 0
    told = f"simile {command}: warning: {lists} has HTML escapes ('&#39;')"
    assert told in capsys.readouterr().err

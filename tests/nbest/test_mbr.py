"""MBR decoding: by hand, and against the double loop of its definition."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.nbest import NbestList, choose, expected_utilities
from simile_plugin.nbest import mbr as module
from simile_plugin.nbest.mbr import Side, expected_sim, expected_simile, model_weights
from simile_plugin.reward import Reward, Scorer, load_learned
from tests.conftest import SENTENCES

# A list with a copy and an empty string, one of one candidate, an empty one, one of two.
LISTS = [
    NbestList(0, None, (*SENTENCES[:5], SENTENCES[1], ""), (-1.0, -2.0, -2.5, -3, -4, -2.0, -9)),
    NbestList(1, None, (SENTENCES[6],), (-1.0,)),
    NbestList(2, None, (), ()),
    NbestList(4, None, (SENTENCES[0], SENTENCES[7]), (-2.0, -1.0)),
]


def words_in_common(hyps: list[list[str]], refs: list[str], srcs: list[str]) -> list[list[float]]:
    """A user's reward: common words, over the words of the reference."""
    return [
        [len({*hyp.split()} & {*ref.split()}) / max(1, len({*ref.split()})) for hyp in row]
        for row, ref in zip(hyps, refs, strict=True)
    ]


def slow(
    found: NbestList, refs: NbestList, scorer: Scorer, weights: dict[str, float] | None
) -> list[float]:
    """The definition: a sum over pseudo-references, each pair scored alone."""
    values = []
    for hyp in found.hyps:
        total = 0.0
        for ref in refs.hyps if weights is None else weights:
            if scorer.reward.function is not None:
                value = words_in_common([[hyp]], [ref], [""])[0][0]
            else:
                scores = scorer.lists([[hyp]], [ref], chrf_words=2)
                value = float(scorer.reward.from_scores(scores))
            total += value * (1 / len(refs.hyps) if weights is None else weights[ref])
        values.append(total)
    return values


SPECS = ("sim", "bleu", "chrf++", "simile:0.25,chrf:0.5,bleu:0.25")


@pytest.mark.parametrize("weights", ["uniform", "model"])
@pytest.mark.parametrize("spec", [*SPECS, "tests.nbest.test_mbr:words_in_common"])
def test_the_double_loop_agrees(
    spec: str, weights: str, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRINGS_AT_ONCE", 9)
    monkeypatch.setattr(module, "REFS_AT_ONCE", 4)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 13)
    scorer = Scorer(Reward(spec), encoder, alpha=0.5)
    done: list[int] = []
    found = expected_utilities(LISTS, scorer, weights=weights, progress=done.append)
    assert sum(done) == len(LISTS) and len(done) > 1
    for one, values in zip(LISTS, found, strict=True):
        by_text = model_weights(one) if weights == "model" and one.hyps else None
        assert values.tolist() == pytest.approx(slow(one, one, scorer, by_text), abs=1e-6)


def test_a_learned_reward_and_a_second_list(encoder: Encoder, tmp_path: Path) -> None:
    from simile_plugin.reward import FEATURES, LearnedReward, make_lexicon, save_learned

    weights = dict.fromkeys(FEATURES, 0.5)
    reward = LearnedReward(weights, make_lexicon(SENTENCES), encoder.fingerprint)
    save_learned(tmp_path / "learned", reward)
    assert load_learned(tmp_path / "learned").fingerprint == reward.fingerprint
    scorer = Scorer(Reward(f"learned:{tmp_path / 'learned'}"), encoder)
    pseudo = [NbestList(0, None, tuple(SENTENCES[2:])), NbestList(1, None, ())]
    found = expected_utilities(LISTS, scorer, pseudo)
    assert found[0].tolist() == pytest.approx(slow(LISTS[0], pseudo[0], scorer, None), abs=1e-6)
    # without pseudo-references nothing is known: all tie, and the model's choice stands
    assert (found[1].tolist(), found[3].tolist()) == ([0.0], [0.0, 0.0])
    assert choose(LISTS[3], found[3]) == 1


def test_no_lists_have_no_utilities() -> None:
    scorer = Scorer(Reward("bleu"))
    assert expected_utilities([], scorer) == []
    (empty,) = expected_utilities([NbestList(0, None, ())], scorer)
    assert empty.shape == (0,)


def test_by_hand() -> None:
    # h1 = (1, 0) of length 2, h2 = (0.6, 0.8) of length 4; weights 0.25 and 0.75
    x = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    w = torch.tensor([0.25, 0.75])
    assert expected_sim(x, x, w).tolist() == pytest.approx(
        [0.25 * 1 + 0.75 * 0.6, 0.25 * 0.6 + 0.75 * 1]
    )
    side = Side(["a", "b"], x, torch.tensor([2, 4]))
    penalty = math.exp(1 - 4 / 2) ** 0.5
    assert expected_simile(side, side, w, 0.5).tolist() == pytest.approx(
        [0.25 * 1 + 0.75 * penalty * 0.6, 0.25 * penalty * 0.6 + 0.75 * 1]
    )


def test_weights_of_the_model() -> None:
    # log-probabilities where there are some; a copy counts once, with its better score
    found = NbestList(0, None, ("a", "b", "a"), (-9.0, -9.0, -9.0), lprobs=(-2.0, -1.0, -1.0))
    assert model_weights(found) == pytest.approx({"a": 0.5, "b": 0.5})
    scored = NbestList(0, None, ("a", "b"), (-1.0, -1.0 - math.log(3)))
    assert model_weights(scored) == pytest.approx({"a": 0.75, "b": 0.25})
    with pytest.raises(ValueError, match="the list of sentence 7 has no scores"):
        model_weights(NbestList(7, None, ("a",)))


def test_ties_nan_and_nothing_to_choose() -> None:
    found = NbestList(0, None, ("a", "b", "c"), (-2.0, -1.0, -1.0))
    assert choose(found, np.array([0.5, 0.5, 0.5])) == 1  # the model's, then the first
    assert choose(found, np.array([0.5, 0.5 - 1e-8, 0.4])) == 1  # rounding is no difference
    assert choose(found, np.array([0.6, np.nan, 0.5])) == 0
    assert choose(found, np.array([0.6, np.inf, 0.5])) == 0  # a reward of it is left out, too
    assert choose(found, np.array([np.nan, np.inf, -np.inf])) == 1
    assert choose(NbestList(0, None, ("a", "b")), np.array([0.5, 0.5])) == 0
    assert choose(NbestList(0, None, ()), np.array([])) is None


# --- the command ---

# pandas writes 3.0 where another row has no number.
RECORDS = [
    {"id": 0, "src": "null\teins", "hyps": ["a red kite", "a red kite!", "rain"]},
    {"id": 1, "src": "eins", "hyps": []},
    {"id": 3.0, "source": "drei", "hyps": ["only\none"], "scores": [-1]},
]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    return path


def run(*arguments: object) -> int:
    return main(["mbr", *map(str, arguments)])


def test_a_line_for_each_sentence(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lists, "--utility", "chrf") == 0
    out, err = capsys.readouterr()
    assert out == "a red kite!\n\n\nonly one\n"
    assert "3 lists, 4 candidates; 1 choices differ from the first of the list; 2" in err
    assert run(lists, "--utility", "chrf", "--json", "--candidates", 1) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records[1] == {
        **{"id": 3, "hyp": "only\none", "place": 0, "utility": 1.0, "utility_of_first": 1.0}
    }


def test_pseudo_references_of_other_lines_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "anna boris clara dario elena farid gita hugo ines jonas karla liam".split()
    texts = [f"{name} sells {name}ford {name}ish near {name}wood" for name in names]
    written = {
        "nbest": [[text, text.replace("sells", "sold")] for text in texts],
        "samples": [[text.replace("near", "by"), text] for text in texts],
        "shifted": [[text.replace("near", "by"), text] for text in texts[1:] + texts[:1]],
    }
    for name, hyps in written.items():
        lines = [json.dumps({"id": n, "hyps": own}) + "\n" for n, own in enumerate(hyps)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    flags = [tmp_path / "nbest.jsonl", "--utility", "chrf", "--pseudo-refs"]
    assert run(*flags, tmp_path / "samples.jsonl") == 0
    assert "warning" not in capsys.readouterr().err
    assert run(*flags, tmp_path / "shifted.jsonl") == 0
    told = capsys.readouterr().err.replace(f"{tmp_path}/", "")
    assert told.startswith(
        "simile mbr: warning: line 1 of nbest.jsonl ('anna sells annaford annaish near annawoo') "
        "is like line 12 of the references ('anna sells annaford annaish by annawood'), not like "
        "line 1, and so are 12 of 12 lines looked at"
    )


def test_pairs_for_training(lists: Path, encoder_folder: Path, tmp_path: Path) -> None:
    stem = tmp_path / "pairs"
    flags = ["--encoder", encoder_folder, "--output", tmp_path / "out", "--write-pairs", stem]
    assert run(lists, *flags) == 0
    (record,) = map(json.loads, stem.with_suffix(".jsonl").read_text("utf-8").splitlines())
    assert (record["prompt"], record["rejected"]) == ("null\teins", "rain")
    assert record["score_chosen"] > record["score_rejected"]
    best = (tmp_path / "out").read_text("utf-8").splitlines()
    assert stem.with_suffix(".tsv").read_text("utf-8").splitlines() == [
        *(f"null eins\t{best[0]}", "drei\tonly one"),
    ]


def by_source(hyps: list[list[str]], refs: list[str], srcs: list[str]) -> list[list[float]]:
    """1 for a candidate that is the source."""
    return [[float(hyp == src) for hyp in row] for row, src in zip(hyps, srcs, strict=True)]


def test_src_is_for_a_function_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists, source = tmp_path / "lists.tsv", tmp_path / "src"
    lists.write_text("0\tkite\n0\teins\n")
    source.write_text("eins\n")
    spec = "tests.nbest.test_mbr:by_source"
    assert run(lists, "--utility", spec, "--src", source) == 0
    out, err = capsys.readouterr()
    assert out == "eins\n" and "warning" not in err
    assert run(lists, "--utility", spec) == 0
    told = f"simile mbr: warning: {spec} gets an empty source for 1 of 1 lists, which have none; "
    assert f"{told}give --src FILE if it reads sources\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--utility", "simile"],
            "--encoder: not given, but --utility simile needs a reward encoder",
        ),
        (["--utility", "chrf", "--weights", "model"], "sentence 0 has no scores"),
        (["--utility", "chrf", "--output", "no/where.txt"], "--output: no folder for no/where.txt"),
        (["--utility", "chrf", "--output", "x.tsv", "--write-pairs", "x"], "what --output writes"),
    ],
)
def test_what_is_refused(
    flags: list[str], message: str, lists: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lists, *flags) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1

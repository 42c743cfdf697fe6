"""Correlation with judgements: by hand, by slow loops over real resamples, from files."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch

from simile_plugin.cli import main
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.segmenter import Preprocessing
from simile_plugin.encoder.tokens import WordTokenizer
from simile_plugin.evaluation.judgements import (
    Judgements,
    evaluate_judgements,
    metric_scores,
    read_judgements,
)
from simile_plugin.evaluation.sentence_metrics import Metrics, check_direction
from simile_plugin.files import InputError
from simile_plugin.reward.bleu import sentence_bleu
from simile_plugin.significance import pearson
from tests.bleu import bleu_statistics

ROWS = [
    ("the grey heron waits", "the grey heron waits beside the water", 0.9),
    ("nobody told the baker", "she folded the map", -1.2),
    ("a train was late", "our train was late", 0.6),
    ("two boys skip stones over the pond", "two boys skip flat stones over the pond", 1.1),
    ("", "he paid for the tickets", -1.5),
]


def write(path: Path, header: str = "id\thypothesis\treference\thuman_z") -> Path:
    lines = [header, *(f"{n}\t{h}\t{r}\t{z}" for n, (h, r, z) in enumerate(ROWS))]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_scores_are_those_of_training_and_of_sacrebleu(encoder: Encoder, tmp_path: Path) -> None:
    judged = read_judgements(str(write(tmp_path / "j.tsv")))
    scores = metric_scores(Metrics({"e": encoder}), judged)
    assert tuple(scores) == ("SIM", "SIMILE", "BLEU", "chrF")
    chrf = [sacrebleu.sentence_chrf(h, [r]).score for h, r, _ in ROWS]
    assert scores["chrF"].tolist() == pytest.approx(chrf)
    assert (scores["SIMILE"] <= scores["SIM"] + 1e-6).all()
    assert scores["SIM"][4] == scores["SIMILE"][4] == scores["BLEU"][4] == 0


def test_bleu_of_text_without_spaces_has_its_own_tokeniser(encoder: Encoder) -> None:
    rows = [("我明天去看海", "我们明天去看海"), ("她不在家", "他今天在家")]
    rows += [("下雨了", "下雨了"), ("路很长", "路长")]
    refs = [ref for _, ref in rows]
    judged = Judgements("zh", [hyp for hyp, _ in rows], refs, np.arange(4.0))
    scores = {
        tok: metric_scores(Metrics({"e": encoder}, tokenize=tok), judged) for tok in ("13a", "zh")
    }
    assert scores["13a"]["BLEU"].tolist() == pytest.approx([0, 0, 1, 0])
    for (hyp, ref), found in zip(rows, scores["zh"]["BLEU"], strict=True):
        own = sentence_bleu(torch.tensor(bleu_statistics(hyp, ref, "zh")))
        assert found == pytest.approx(float(own)) and found > 0


def test_pairs_that_are_alike_to_the_encoder_have_one_rank() -> None:
    # In float32 the cosine of a vector with itself is 1 but for rounding, by another bit each time.
    segmenter = WordTokenizer([f"w{row}" for row in range(40)], Preprocessing())
    weight = torch.randn(len(segmenter), 300, generator=torch.Generator().manual_seed(4))
    encoder = Encoder(weight, segmenter)
    hyps = [f"w{row} w{row + 1}" for row in range(30)]
    judged = Judgements("j", [*hyps, "w1"], [*hyps, "w2"], np.arange(31.0))
    for metric in ("SIM", "SIMILE"):
        scores = metric_scores(Metrics({"e": encoder}), judged)[metric]
        assert len(set(scores[:30].tolist())) == 1
    quality = evaluate_judgements(Metrics({"e": encoder}), [judged], resamples=40)
    # Of 465 pairs 30 differ in SIM, all in the same direction: -30 / sqrt(30 * 465).
    assert quality.mean["kendall"]["SIM"].value == pytest.approx(-100 * 30 / (30 * 465) ** 0.5)
    # All of them alike: no correlation, and not one with the rounding.
    alike = Judgements("j", hyps, hyps, np.arange(30.0))
    found = evaluate_judgements(Metrics({"e": encoder}), [alike], resamples=40).mean["pearson"][
        "SIM"
    ]
    assert math.isnan(found.value)


def test_mean_and_differences_over_files(encoder: Encoder, tmp_path: Path) -> None:
    first = read_judgements(str(write(tmp_path / "a.tsv")))
    path = tmp_path / "b.tsv.gz"
    mlqe = "source\tmt\tpost_edit\tda_mean\tda_z_mean\n" + "".join(
        f"s\t{h}\t{r}\t50\t{-z}\n" for h, r, z in ROWS[:4]
    )
    path.write_bytes(gzip.compress(mlqe.encode()))
    second = read_judgements(str(path))
    quality = evaluate_judgements(Metrics({"e": encoder}), [first, second], resamples=80, seed=3)
    assert list(quality.segments.values()) == [5, 4]
    for metric in ("SIM", "SIMILE", "BLEU", "chrF"):
        values = [part["pearson"][metric].value for part in quality.files.values()]
        by_hand = [
            100 * pearson(metric_scores(Metrics({"e": encoder}), part)[metric], part.human)
            for part in (first, second)
        ]
        assert values == pytest.approx(by_hand)
        mean = quality.mean["pearson"][metric]
        assert mean.value == pytest.approx(sum(values) / 2)
        assert mean.low <= mean.high
    difference = quality.difference["pearson"]["SIM - chrF"].value
    assert difference == pytest.approx(
        quality.mean["pearson"]["SIM"].value - quality.mean["pearson"]["chrF"].value
    )
    again = evaluate_judgements(Metrics({"e": encoder}), [first, second], resamples=80, seed=3)
    assert again == quality
    metrics = Metrics({"e": encoder}, rewards=["half"])
    rewards = evaluate_judgements(metrics, [first, second], resamples=80, seed=3)
    of, means = rewards.difference["pearson"], rewards.mean["pearson"]
    assert {*of} == {
        f"{name} - {other}" for name in ("SIM", "SIMILE", "half") for other in ("BLEU", "chrF")
    } | {"SIM - half", "SIMILE - half"}
    expected = means["half"].value - means["chrF"].value
    assert of["half - chrF"].value == pytest.approx(expected)


@pytest.mark.parametrize("header", ["n\tour\ttheir\tgrade", "0\tx\ty\t1.5"])
def test_columns_by_number(tmp_path: Path, header: str) -> None:
    judged = read_judgements(str(write(tmp_path / "x.tsv", header)), ["2", "3", "4"])
    # A first line whose score is a number is a segment.
    assert len(judged.human) == len(ROWS) + header.endswith("1.5")
    assert judged.hyps[-1] == "" and judged.refs[-1] == "he paid for the tickets"


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("a\tb\tc\n", None, "x.tsv:1: no column 'hypothesis' or 'hyp' or 'mt' .*judgement-columns"),
        ("hyp\tref\tz\na\tb\tgood\n", None, "x.tsv:2: got human score 'good' in column 3"),
        ("hyp\tref\tz\n" + "a\tb\t1\nc\td\t2\ne\tf\t3\n", None, "3 judged segments, expected 4"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, columns: list[str] | None, message: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_judgements(str(path), columns)


def test_scores_of_which_low_ones_are_good_are_refused(encoder: Encoder) -> None:
    words = "the grey heron waits beside the water and sees two boys".split()
    hyps = [" ".join(words[:n]) for n in range(1, 11)] * 2
    refs = [" ".join(words)] * 20
    good = np.array([float(len(hyp)) for hyp in hyps])
    evaluate_judgements(
        Metrics({"e": encoder}), [Judgements("good", hyps, refs, good)], resamples=40
    )
    bad = Judgements("mqm.tsv", hyps, refs, -good, score_column=3)
    with pytest.raises(InputError, match=r"--judgements: mqm.tsv: every metric correlates") as told:
        evaluate_judgements(Metrics({"e": encoder}), [bad], resamples=40)
    assert "'$3 + 0 == $3 { $3 = 0 - $3 } 1'" in str(told.value)
    with pytest.raises(InputError, match="got no file of judgements"):
        evaluate_judgements(Metrics({"e": encoder}), [])


def test_direction_by_hand() -> None:
    people = np.arange(10.0)
    check_direction({"a": -people, "b": people}, people, "x")  # one rises
    check_direction({"a": -people[:4]}, people[:4], "x")  # chance: -1 * sqrt(3) > -2.33
    check_direction({"a": np.ones(10)}, people, "x")  # no correlation is defined
    with pytest.raises(InputError, match=r"x: .*\(Spearman: a -100.0\).*\$N = 5 - \$N"):
        check_direction({"a": -people, "c": np.ones(10)}, people, "x", highest=5)


def test_marks_of_mqm_and_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, marked = write(tmp_path / "plain"), tmp_path / "marked"
    marked.write_text(plain.read_text().replace("grey heron waits", "<v>grey heron</v> waits"))
    assert read_judgements(str(marked)).hyps == read_judgements(str(plain)).hyps
    assert "1 segments have MQM's marks of errors (<v>, </v>)" in capsys.readouterr().err
    (tmp_path / "c").write_text("hypothesis,reference,score\na,b,1\n")
    with pytest.raises(InputError, match="c:1: .*it has commas where TABs are expected"):
        read_judgements(str(tmp_path / "c"))


def test_references_that_are_empty_are_told(
    encoder_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"the boat {n}\t{'' if n % 2 else f'the ship {n}'}\t{n}" for n in range(6)]
    path = tmp_path / "judged.tsv"
    path.write_text("\n".join(["hypothesis\treference\tscore", *lines]) + "\n")
    given = ["eval-encoder", str(encoder_folder), "--judgements", str(path), "--resamples", "40"]
    assert main(given) == 0
    told = f"simile eval-encoder: warning: 3 of 6 references of --judgements {path} are empty"
    assert told in capsys.readouterr().err

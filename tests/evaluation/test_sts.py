"""STS folders as they come."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from simile_plugin.encoder.models import Encoder
from simile_plugin.evaluation.sts import evaluate_sts, read_sts, similarities
from simile_plugin.significance import pearson, spearman


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def write_set(folder: Path, name: str, pairs: list[tuple[str, str]], gold: str) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(f"{a}\t{b}\n" for a, b in pairs)
    (folder / f"STS.input.{name}.txt").write_text(text, encoding="utf-8")
    (folder / f"STS.gs.{name}.txt").write_text(gold, encoding="utf-8")


PAIRS = [
    ("the red house", "a red house on the hill"),
    ("the ferry at noon", "nobody told the baker"),
    ("she folded the map", "he folded a map"),
    ("snow on the line", "the museum opens in the spring"),
]


def test_a_folder(encoder: Encoder, tmp_path: Path) -> None:
    write_set(tmp_path, "one", PAIRS, "5\n0.5\n4\n1\n")
    write_set(tmp_path, "two.more", PAIRS[:3], "1\n5\n2\n")
    (tmp_path / "correlation.pl").write_text("other files are left alone")
    sets = read_sts(tmp_path)
    assert [part.name for part in sets] == ["one", "two.more"]
    scores = evaluate_sts(encoder, tmp_path, sets)
    sims = {n: similarities(encoder, *zip(*PAIRS[:n], strict=True)) for n in (3, 4)}
    one = 100 * pearson(sims[4], array(5, 0.5, 4, 1))
    two = 100 * pearson(sims[3], array(1, 5, 2))
    assert scores.pearson == pytest.approx({"one": one, "two.more": two})
    assert scores.mean_pearson == pytest.approx((one + two) / 2)
    every = np.concatenate([sims[4], sims[3]]), array(5, 0.5, 4, 1, 1, 5, 2)
    assert scores.all_pearson == pytest.approx(100 * pearson(*every))
    assert scores.all_spearman == pytest.approx(100 * spearman(*every))
    assert scores.pairs == 7
    assert scores.constant == []


def test_pairs_without_a_gold_score_are_left_out(tmp_path: Path) -> None:
    write_set(tmp_path, "gaps", PAIRS, "5\n\n4\n \n")
    (part,) = read_sts(tmp_path)
    assert part.left == [PAIRS[0][0], PAIRS[2][0]]
    assert part.gold.tolist() == [5, 4]


def test_equal_cosines_are_said_to_be_undefined(encoder: Encoder, tmp_path: Path) -> None:
    flat = Encoder(torch.ones_like(encoder.weight), encoder.segmenter)
    write_set(tmp_path, "one", PAIRS, "5\n1\n4\n0\n")
    scores = evaluate_sts(flat, tmp_path, read_sts(tmp_path))
    assert scores.constant == ["one"]
    assert math.isnan(scores.mean_pearson)
    assert math.isnan(scores.all_spearman)


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no STS.input.*.txt there"):
        read_sts(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no STS.input.*.txt there"):
        read_sts(tmp_path)
    (tmp_path / "STS.input.x.txt").write_text("a\tb\n")
    with pytest.raises(ValueError, match="has no gold scores, expected .*STS.gs.x.txt"):
        read_sts(tmp_path)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (
            "1\n2\n3\n",
            "STS.input.x.txt has 4 lines but .*STS.gs.x.txt has 3; they must be parallel",
        ),
        ("1\n2\n3\nfour\n", "STS.gs.x.txt:4: got gold score 'four' in column 1, expected a number"),
    ],
)
def test_bad_gold(tmp_path: Path, gold: str, message: str) -> None:
    write_set(tmp_path, "x", PAIRS, gold)
    with pytest.raises(ValueError, match=message):
        read_sts(tmp_path)


def test_names_of_2016_and_of_the_cross_lingual_tracks(tmp_path: Path) -> None:
    rows = "the red house\ta house\tsource one\nsnow on the line\tthe museum\tsource two\n"
    (tmp_path / "STS2016.input.answer-answer.txt").write_text(rows)
    (tmp_path / "STS2016.gs.answer-answer.txt").write_text("4\n0\n")
    write_set(
        tmp_path, "track4a.es-en", [("la casa", "the house"), ("la nieve", "a bus")], "5\n0\n"
    )
    first, second = read_sts(tmp_path)
    assert (first.name, second.name) == ("answer-answer", "track4a.es-en")
    assert first.right == ["a house", "the museum"]
    assert second.left == ["la casa", "la nieve"]


def test_sets_of_one_name_in_one_folder_both_count(encoder: Encoder, tmp_path: Path) -> None:
    for year, gold in (("STS", "4\n0\n"), ("STS2016", "0\n4\n")):
        (tmp_path / f"{year}.input.headlines.txt").write_text("a house\ta house\nsnow\ta bus\n")
        (tmp_path / f"{year}.gs.headlines.txt").write_text(gold)
    scores = evaluate_sts(encoder, tmp_path, read_sts(tmp_path))
    assert sorted(scores.pearson) == ["STS headlines", "STS2016 headlines"]
    assert scores.mean_pearson == pytest.approx(0)  # of 100 and -100


def test_sts_b_and_three_columns(tmp_path: Path) -> None:
    benchmark = tmp_path / "sts-dev.csv"
    row = "main-news\theadlines\t2013\t{}\t{}\t{}\t{}{}\n"
    benchmark.write_text(
        row.format("0001", "4.25", 'a "quoted ferry', "a boat", "")
        + row.format("0002", "0.5", "snow", "the baker", "\tsome licence\tanother")
    )
    (part,) = read_sts(benchmark)
    assert (part.name, part.left) == ("sts-dev", ['a "quoted ferry', "snow"])
    assert (part.right, part.gold.tolist()) == (["a boat", "the baker"], [4.25, 0.5])
    plain = tmp_path / "hard-pos.txt"
    plain.write_text("a ferry\ta boat\t4.5\nthe map\ta chart\t5\n")
    (part,) = read_sts(plain)
    assert (part.right, part.gold.tolist()) == (["a boat", "a chart"], [4.5, 5.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a\tb\t1\nc\td\n",
            "set.tsv:2: got 2 tab-separated columns, expected 7 or more as in STS-B",
        ),
        ("a\tb\t1\nc\td\tinf\n", "set.tsv:2: got gold score 'inf' in column 3, expected a number"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "set.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_sts(tmp_path / "set.tsv")


GLUE = "7\tmain\tcaptions\t2012\t{}\tnone\tother\ta red house\tthe red house\t4.5\n"
GLUE_HEADER = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
)
SICK = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\n"


@pytest.mark.parametrize(
    "text",
    [
        GLUE_HEADER + GLUE.format("0003") + GLUE.format(52),
        GLUE.format("0003") + GLUE.format(52),
        SICK + "1\ta red house\tthe red house\tENTAILMENT\t4.5\n" * 2,
        "Sentence1\tSentence2\tScore\n" + "a red house\tthe red house\t4.5\n" * 2,
    ],
)
def test_layouts_by_name_and_glue(tmp_path: Path, text: str) -> None:
    (tmp_path / "dev.tsv").write_text(text)
    (part,) = read_sts(tmp_path / "dev.tsv")
    assert (part.left[0], part.right[0]) == ("a red house", "the red house")
    assert part.gold.tolist() == [4.5, 4.5]


def test_gold_scores_of_another_scale_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("a\tb\t5\na\tb\t52\n")
    with pytest.raises(ValueError, match="x.tsv:2: got gold score '52' .* a number from 0 to 5"):
        read_sts(tmp_path / "x.tsv")

"""n-best lists of fairseq-generate and of other systems."""

import gzip
import json
import math
from pathlib import Path

import pytest

from simile_plugin.nbest.mbr import model_weights
from simile_plugin.nbest.readers import NbestList, read_lists, read_nbest_lists

GENERATED = [
    "INFO:fairseq.tasks.translation:dictionary: 90 types",
    "S-1\tzwei",
    "T-1\ttwo boats",
    "H-1\t-0.25\ttwo bo@@ ats",
    "D-1\t-0.25\ttwo boats",
    "P-1\t-0.2 -0.3",
    "H-1\t-1.5\ta bo@@ at",
    "D-1\t-1.5\ta boat",
    "S-0\teins",
    "T-0\tone",
    "D-0\t-0.5\tone",
    "D-0\t-2.5\t",
    "Generate test with beam=2: BLEU4 = 30.1",
]


def read(
    tmp_path: Path, *lines: str
) -> list[tuple[int, str | None, tuple[str, ...], tuple[float, ...]]]:
    path = tmp_path / "lists"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = read_nbest_lists(str(path), "--nbest-lists")
    return [(one.sentence, one.ref, one.hyps, one.scores) for one in found]


def in_json(sentence: object, **changes: object) -> str:
    record = {"id": sentence, "ref": "one", "hyps": ["one", "won"], "scores": [-1.0, -2.0]}
    return json.dumps({**record, **changes})


def test_generated_lists_come_in_the_order_of_the_test_set(tmp_path: Path) -> None:
    assert read(tmp_path, *GENERATED) == [
        (0, "one", ("one", ""), (-0.5, -2.5)),
        (1, "two boats", ("two boats", "a boat"), (-0.25, -1.5)),
    ]


def test_lines_whose_last_tab_was_stripped_are_read_alike(tmp_path: Path) -> None:
    lines = [*GENERATED, "S-2", "T-2\tthree", "D-2\t-0.1\t", "P-2\t-0.1", "D-2\t-0.5\tthree", "T-3"]
    lists = read(tmp_path, *lines, "D-3\t-0.1\tx", "end")
    assert lists == read(tmp_path, *map(str.rstrip, lines), "D-3\t-0.1\tx", "end")
    assert lists[2:] == [(2, "three", ("", "three"), (-0.1, -0.5)), (3, "", ("x",), (-0.1,))]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "lists has no D- lines among its 0; expected what fairseq-generate --nbest"),
        (GENERATED[:5], "has one candidate a sentence; expected n-best lists"),
        (
            GENERATED[3:8],
            r"has candidates of sentence 1 but no reference \(fairseq: no T-1\); give --ref",
        ),
        ([*GENERATED, "D-0\tnan\tone"], "lists:14: got score 'nan', not a number"),
        ([in_json(1), '{"id": 2, "hyps": ["a\x0cb"]}'], r"lists:2: not JSON: Invalid control"),
        (
            ['{"id": 1}'],
            r"lists:1: has no hyps; expected hyps, and perhaps id, ref, src, scores$",
        ),
        ([in_json("one")], r"lists:1: got id one; expected a line of the source, from 0$"),
        ([in_json(1), in_json(1)], "lists:2: a second list of id 1; expected all candidates of"),
        ([in_json(1, scores=[-1.0])], r"lists:1: scores: got \[-1.0\]; expected 2 finite numbers"),
    ],
)
def test_bad_files_are_refused(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, *lines)


MARIAN = [
    "0 ||| one ||| F0= -0.5 ||| -0.25",
    "0 ||| won now ||| F0= -2.5 ||| -0.83",
    "1 ||| two boats ||| F0= -1.5 ||| -0.5",
]
MOSES = "0 ||| one ||| LM0= -9.1 PhrasePenalty0= 2 WordPenalty0= -3 ||| -4.5 ||| 0-0 1-1"
# What the lines of Python in `simile mbr --help` print for Hugging Face and CTranslate2.
HUGGING_FACE = ['{"id": 0, "hyps": ["one", "won now"]}', '{"id": 1, "hyps": ["two boats"]}']
CTRANSLATE2 = [
    '{"id": 0, "hyps": ["one", "won now"], "scores": [-0.25, -0.83]}',
    '{"id": 1, "hyps": ["two boats"], "scores": [-0.5]}',
]
TSV = ["0\tone\t-0.25", "0\twon now\t-0.83", "1\ttwo boats\t-0.5"]
SCORES = [(-0.25, -0.83), (-0.5,)]


@pytest.mark.parametrize(
    ("lines", "scores"),
    [
        (MARIAN, SCORES),
        (CTRANSLATE2, SCORES),
        (TSV, SCORES),
        (HUGGING_FACE, [(), ()]),
        ([line.rpartition("\t")[0] for line in TSV], [(), ()]),
        ([MOSES, MOSES.replace("one", "won now"), MOSES.replace("0 ||| one", "1 ||| two boats")],
         [(-4.5, -4.5), (-4.5,)]),
    ],
)  # fmt: skip
def test_lists_of_other_systems(
    lines: list[str], scores: list[tuple[float, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "lists.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    found = read_lists(str(path), "LISTS")
    assert [one.hyps for one in found] == [("one", "won now"), ("two boats",)]
    assert [one.scores for one in found] == scores
    assert [(one.sentence, one.ref, one.src) for one in found] == [(0, None, None), (1, None, None)]


def test_fairseq_lists_have_sources_and_log_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    path.write_text("\n".join([*GENERATED[:10], "D-0\t-0.5\tone"]), encoding="utf-8")
    one, two = read_lists(str(path), "LISTS")
    assert (one.src, two.src, two.ref) == ("eins", "zwei", "two boats")
    assert one.lprobs == ()  # no P- line
    assert two.lprobs == ()  # only one P- line for two candidates
    lines = ["D-1\t-0.25\ttwo boats", "P-1\t-0.2 -0.3", "D-1\t-1.5\ta boat", "P-1\t-1 -2 -0.5"]
    path.write_text("\n".join(lines), encoding="utf-8")
    (found,) = read_lists(str(path), "LISTS")
    # the sum, from base 2 to nats
    assert found.lprobs == pytest.approx((-0.5 * math.log(2), -3.5 * math.log(2)))


def test_log_probabilities_that_a_sorted_log_parted_from_their_candidates(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    lines = ["D-1\t-2\ttwo boats", "P-1\t-4", "D-1\t-1\ta boat", "P-1\t-3", "D-2\t-1\tone"]
    path.write_text("\n".join([*lines, "P-2\t-1"]), encoding="utf-8")
    both = [one.lprobs for one in read_lists(str(path), "LISTS")]
    assert both == [pytest.approx((-4 * math.log(2), -3 * math.log(2))), (-math.log(2),)]
    path.write_text("\n".join(sorted([*lines, "P-2\t-1"])), encoding="utf-8")
    one, _ = read_lists(str(path), "LISTS")  # P-1's lines are in the other order than D-1's
    assert (one.hyps, one.scores, one.lprobs) == (("a boat", "two boats"), (-1.0, -2.0), ())


def test_logs_whose_ids_begin_again_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    log = ["S-0\tzwei", "D-0\t-0.5\ttwo", "S-0\tdrei", "D-0\t-0.5\tthree"]
    path.write_text("\n".join(log), encoding="utf-8")
    with pytest.raises(ValueError, match=r"lists:3: a second S-0 with another text, .* number the"):
        read_lists(str(path), "LISTS")
    path.write_text("\n".join(log).replace("drei", "zwei"), encoding="utf-8")  # more samples of it
    assert [one.hyps for one in read_lists(str(path), "LISTS")] == [("two", "three")]


def test_marian_lists_with_alignments(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    lines = [
        "0 ||| two boats ||| 0-0 1-1 ||| F0= -1.5 ||| -0.5",  # --alignment
        "0 ||| a boat ||| 1-1 ||| F0= -2.5 ||| -0.8",
    ]
    for more in ("", "WordScores= -0.5 -1 ||| "):  # --word-scores
        path.write_text("\n".join(lines).replace("F0", more + "F0"), encoding="utf-8")
        (found,) = read_lists(str(path), "LISTS")
        assert (found.hyps, found.scores) == (("two boats", "a boat"), (-0.5, -0.8))
        assert found.lprobs == (-1.5, -2.5)


def test_only_the_feature_of_a_single_model_is_a_log_probability(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    path.write_text("\n".join(MARIAN), encoding="utf-8")
    assert [one.lprobs for one in read_lists(str(path), "LISTS")] == [(-0.5, -2.5), (-1.5,)]
    path.write_text(MARIAN[0].replace("-0.5", "-0.5 F1= -2"), encoding="utf-8")
    assert [one.lprobs for one in read_lists(str(path), "LISTS")] == [()]
    path.write_text(MOSES, encoding="utf-8")
    assert [one.lprobs for one in read_lists(str(path), "LISTS")] == [()]


def test_a_candidate_that_fairseq_ruled_out_is_never_first(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    path.write_text("D-0\t-inf\ta\nD-0\t-2\tb\nD-1\t-inf\tc", encoding="utf-8")
    some, alone = read_lists(str(path), "LISTS")
    assert (some.scores, some.first, alone.first) == ((-math.inf, -2.0), 1, 0)
    assert model_weights(some) == {"a": 0.0, "b": 1.0} and model_weights(alone) == {"c": 1.0}
    path.write_text("D-0\tinf\ta", encoding="utf-8")
    with pytest.raises(ValueError, match="lists:1: got score 'inf', not a number"):
        read_lists(str(path), "LISTS")


def test_the_models_choice_and_a_cut() -> None:
    found = NbestList(0, None, ("a", "b", "c"), (-3.0, -1.0, -1.0))
    assert (found.first, NbestList(0, None, ("a", "b")).first) == (1, 0)
    assert found.cut(2) == NbestList(0, None, ("a", "b"), (-3.0, -1.0))


def test_references_of_another_file(tmp_path: Path) -> None:
    path = tmp_path / "lists"
    path.write_text("\n".join(MARIAN), encoding="utf-8")
    found = read_nbest_lists(str(path), "--nbest-lists", refs=["eine", "zwei"])
    assert [one.ref for one in found] == ["eine", "zwei"]
    with pytest.raises(ValueError, match="has a list of sentence 1, but there are 1 references"):
        read_nbest_lists(str(path), "--nbest-lists", refs=["eine"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([MARIAN[0], "0 ||| one", MARIAN[1]], r"lists:2: got '0 \|\|\| one'; expected id \|\|\|"),
        (["0 ||| one ||| -0.5", MARIAN[0]], r"lists:1: got .* expected id .* features .* score"),
        (["0 ||| one ||| F0= 1 ||| nan"], "lists:1: got score 'nan', not a number"),
        ([TSV[0], "x\tone\t1"], r"lists:2: got 'x\\tone\\t1'; expected id TAB text"),
        (['{"id": 0, "hyps": [["on", "e"]]}'], "lists:1: hyps: .* expected texts in quotes"),
    ],
)
def test_bad_lines_of_other_systems(lines: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "lists"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_lists(str(path), "LISTS")

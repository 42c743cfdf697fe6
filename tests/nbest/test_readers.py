"""n-best lists from fairseq-generate and from the criterion's dump."""

import json
from pathlib import Path

import pytest

from simile_plugin.nbest.readers import read_nbest_lists

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


def read(tmp_path: Path, *lines: str) -> list[tuple[int, str, tuple[str, ...], tuple[float, ...]]]:
    path = tmp_path / "lists"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = read_nbest_lists(str(path), "--nbest-lists")
    return [(one.sentence, one.ref, one.hyps, one.scores) for one in found]


def dumped(sentence: int, **changes: object) -> str:
    record = {"id": sentence, "ref": "one", "hyps": ["one", "won"], "scores": [-1.0, -2.0]}
    return json.dumps({**record, "cost_bleu": [0.0, 1.0], "cost_simile": [0.0, 0.5], **changes})


def test_generated_lists_come_in_the_order_of_the_test_set(tmp_path: Path) -> None:
    assert read(tmp_path, *GENERATED) == [
        (0, "one", ("one", ""), (-0.5, -2.5)),
        (1, "two boats", ("two boats", "a boat"), (-0.25, -1.5)),
    ]


def test_a_log_cut_in_the_middle_keeps_whole_lines(tmp_path: Path) -> None:
    assert read(tmp_path, *GENERATED[:9], "T-0\tone", "D-0\t-0.5\tone", "D-0\t-2.")[0] == (
        *(0, "one", ("one",), (-0.5,)),
    )


def test_the_last_line_of_a_sentence_counts_in_a_dump(tmp_path: Path) -> None:
    again = dumped(3, hyps=["won", "one"])
    assert read(tmp_path, dumped(3), dumped(2), again, dumped(4)[:-9]) == [
        (2, "one", ("one", "won"), (-1.0, -2.0)),
        (3, "one", ("won", "one"), (-1.0, -2.0)),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "lists has no D- lines among its 0; expected what fairseq-generate --nbest"),
        (["two boats", "a boat"], "has no D- lines among its 2"),
        (GENERATED[:5], "has one candidate a sentence; expected n-best lists"),
        (GENERATED[3:8], "has candidates of sentence 1 but no reference \(fairseq: no T-1\); give --ref"),
        ([*GENERATED, "D-0\tnan\tone"], "lists:14: got score 'nan', not a number"),
        ([dumped(1)[:-9], dumped(2)], r"lists:1: not JSON: Expecting"),
        ([dumped(1)[:-9]], "holds no whole line; expected what fairseq-generate"),
        (['{"id": 1}'], r"lists:1: expected hyps, and perhaps id, ref, .* \(KeyError: 'hyps'\)"),
        ([dumped(1, scores=[-1.0])], r"lists:1: scores has \[-1.0\]; expected 2 finite numbers"),
        ([dumped(1, cost_simile=[0.5, float("nan")])], r"lists:1: cost_simile has \[0.5, nan\]"),
    ],
)
def test_bad_files_are_refused(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, *lines)

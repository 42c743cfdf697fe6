"""Word F1 by bucket: by hand, against a slow count, intervals, averages over pairs."""

import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from simile_plugin.report.questions.lexical import (
    LexicalPair,
    LexicalResult,
    analyse_lexical,
    answer_lexical,
)
from simile_plugin.report.render.compare_mt import write_compare_mt
from simile_plugin.report.render.text import render_text

from .test_results import REFS, noisy

# "the" stands 6 times in the references, "cat" 2 times, the rest once.
HAND_REFS = [s.split() for s in ("the cat sat", "the cat the the", "the dog the")]
FIRST = [s.split() for s in ("the cat sat", "the the dog", "the bird the the")]
SECOND = [s.split() for s in ("a cat", "the cat the the", "the dog the")]
NAMES = ("BLEU", "SIMILE")


def words(sentences: tuple[str, ...] | list[str]) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def tagged(sentences: list[list[str]]) -> list[list[str]]:
    """A tag for each word: by its length, so that equal words have equal tags."""
    return [["NOUN" if len(word) > 3 else "DET" for word in words] for words in sentences]


def pair(name: str, first_seed: int = 1, tags: bool = False) -> LexicalPair:
    texts = [words(text) for text in (REFS, noisy(0.3, first_seed), noisy(0.1, 2), noisy(0.1, 3))]
    labels = [tagged(text) for text in texts] if tags else None
    return LexicalPair(name, texts[0], [texts[1]], texts[2:], labels)


@pytest.fixture(scope="module")
def result() -> LexicalResult:
    pairs = [pair("de-en", 1, tags=True), pair("cs-en", 5)]
    return analyse_lexical(NAMES, pairs, resamples=200, notes=["parts of speech: by length"])


def test_by_hand() -> None:
    found = analyse_lexical(NAMES, [LexicalPair("x-en", HAND_REFS, [FIRST], [SECOND])], 50)
    rows = {row.bucket: row.cells.get("x-en") for row in found.tables["frequency"]}
    the, cat, once = rows["6-10"], rows["2-5"], rows["1"]
    assert the is not None and cat is not None and once is not None
    # "the": 6 in the references. First: 1 + 2 + 3 = 6 words, 1 + 2 + 2 = 5 matched.
    assert the.ref_count == 6 and the.first_f1 == pytest.approx(100 * 2 * 5 / (6 + 6))
    # Second: 0 + 3 + 2 words, all matched.
    assert the.second_f1 == pytest.approx(100 * 2 * 5 / (6 + 5))
    # "cat": 2. First 1 of 1 matched; second 2 of 2.
    assert cat.ref_count == 2 and cat.first_f1 == pytest.approx(100 * 2 * 1 / (2 + 1))
    assert cat.second_f1 == 100 and cat.difference == pytest.approx(100 - 200 / 3)
    # "sat", "dog": 2 words. First: sat matched, dog (in the wrong sentence) not: 2 words.
    assert once.ref_count == 2 and once.first_f1 == pytest.approx(100 * 2 * 1 / (2 + 2))
    # Second: dog matched; "a" is in no reference and in no bucket.
    assert once.second_f1 == pytest.approx(100 * 2 * 1 / (2 + 1))
    assert rows["11-100"] is None and rows["1001+"] is None
    assert all(row.average is None for row in found.tables["frequency"])


def test_a_slow_count_agrees(result: LexicalResult) -> None:
    counts = Counter(word for ref in words(REFS) for word in ref)
    cell = next(row for row in result.tables["frequency"] if row.bucket == "11-100").cells["de-en"]
    f1 = []
    for seed in (2, 3):
        matched = out = 0
        for hyp, ref in zip(words(noisy(0.1, seed)), words(REFS), strict=True):
            kept = {word: n for word, n in Counter(hyp).items() if 11 <= counts[word] <= 100}
            out += sum(kept.values())
            matched += sum(min(n, Counter(ref)[word]) for word, n in kept.items())
        f1.append(200 * matched / (out + cell.ref_count))
    assert cell.second_f1 == pytest.approx(sum(f1) / 2)  # the mean of the seeds
    assert cell.ref_count == sum(n for n in counts.values() if 11 <= n <= 100)
    assert cell.low < cell.difference < cell.high and cell.low > 0


def test_averages_are_means_over_pairs(result: LexicalResult) -> None:
    for row in result.tables["frequency"]:
        if row.average is not None:
            differences = [row.cells[name].difference for name in ("de-en", "cs-en")]
            assert row.average == pytest.approx(sum(differences) / 2)
    assert any(row.average is not None for row in result.tables["frequency"])


def test_parts_of_speech_are_sorted_by_count(result: LexicalResult) -> None:
    rows = result.tables["pos"]
    counts = {row.bucket: row.cells["de-en"].ref_count for row in rows}
    tags = Counter(tag for line in tagged(words(REFS)) for tag in line)
    assert counts == tags and list(counts) == [tag for tag, _ in tags.most_common()]
    assert all("cs-en" not in row.cells and row.average is None for row in rows)


def test_an_empty_reference_has_no_parts_of_speech() -> None:
    refs, outs = [["the", "cat"], []], [["the", "cat"], ["a"]]
    tags = [tagged(refs), tagged(outs), tagged(outs)]
    found = analyse_lexical(NAMES, [LexicalPair("x-en", refs, [outs], [outs], tags)], 10)
    (row,) = found.tables["pos"]
    assert (row.bucket, row.cells["x-en"].ref_count) == ("DET", 2)
    assert row.cells["x-en"].first_f1 == 100


def test_equal_systems_do_not_differ() -> None:
    outputs = [words(noisy(0.3, 1))]
    found = analyse_lexical(NAMES, [LexicalPair("x-en", words(REFS), outputs, outputs)], 50)
    for row in found.tables["frequency"]:
        for cell in row.cells.values():
            assert (cell.difference, cell.low, cell.high) == (0, 0, 0)
    assert "*" not in render_text(answer_lexical(found)).split("count:")[0]


def test_text_json_and_picture(result: LexicalResult) -> None:
    answer = answer_lexical(result)
    text = render_text(answer)
    assert text.startswith("Word F1 in percent, SIMILE - BLEU\n")
    row = next(line for line in text.splitlines() if line.startswith("11-100 "))
    assert "]*" in row and row.split()[-1].startswith("+")
    assert "parts of speech: by length" in text
    assert "over the sentences, 200 resamples, seed 12345, *" in text
    assert f"F1: compare-mt {version('compare_mt')}'s bucketers" in text
    content = json.loads(json.dumps(answer.data, allow_nan=False))
    assert content["language_pairs"] == ["de-en", "cs-en"]
    assert answer.chart is not None
    svg = answer.chart.inline()
    assert ">de-en<" in svg and ">cs-en<" in svg and ">NOUN<" in svg and ">101-1000<" in svg


def test_a_pair_whose_name_begins_with_a_mark_is_in_the_legend() -> None:
    found = analyse_lexical(NAMES, [pair("_x", 1), pair("y", 5)], 50)
    chart = answer_lexical(found).chart
    assert chart is not None
    assert ">_x<" in chart.inline() and ">y<" in chart.inline()


def test_compare_mts_report_is_written_whole_and_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [words(text) for text in (REFS, noisy(0.3, 1), noisy(0.1, 2))]
    folder = tmp_path / "de-en"
    for _ in range(2):  # over an older one too
        write_compare_mt(str(folder), "two systems", NAMES, texts[0], texts[1:])
    assert capsys.readouterr().out == ""
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "two systems" in page and "SIMILE" in page and "[101,1001)" in page
    assert "bootstrap" not in page.casefold() and (folder / "compare_mt.css").is_file()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"holds other files \(no index.html among them\)"):
        write_compare_mt(str(tmp_path / "mine"), "t", NAMES, texts[0], texts[1:])

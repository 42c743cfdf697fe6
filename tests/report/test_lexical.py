"""Word F1 by bucket: by hand, against a slow count, intervals."""

from collections import Counter

import pytest

from simile_plugin.report.answer import Data
from simile_plugin.report.questions.lexical import compare_words

from .test_results import REFS, noisy

# "the" stands 6 times in the references, "cat" 2 times, the rest once.
HAND_REFS = [s.split() for s in ("the cat sat", "the cat the the", "the dog the")]
FIRST = [s.split() for s in ("the cat sat", "the the dog", "the bird the the")]
SECOND = [s.split() for s in ("a cat", "the cat the the", "the dog the")]


def words(sentences: tuple[str, ...] | list[str]) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def tagged(sentences: list[list[str]]) -> list[list[str]]:
    """A tag for each word: by its length, so that equal words have equal tags."""
    return [["NOUN" if len(word) > 3 else "DET" for word in words] for words in sentences]


@pytest.fixture(scope="module")
def tables() -> dict[str, list[Data]]:
    texts = [words(text) for text in (REFS, noisy(0.3, 1), noisy(0.1, 2), noisy(0.1, 3))]
    return compare_words(texts, 1, [tagged(text) for text in texts], 200, 12345)


def test_by_hand() -> None:
    tables = compare_words([HAND_REFS, FIRST, SECOND], 1, None, 50, 1)
    rows = {row["bucket"]: row["cells"].get("test") for row in tables["frequency"]}
    the, cat, once = rows["6-10"], rows["2-5"], rows["1"]
    # "the": 6 in the references. First: 1 + 2 + 3 = 6 words, 1 + 2 + 2 = 5 matched.
    assert the["ref_count"] == 6 and the["first_f1"] == pytest.approx(100 * 2 * 5 / (6 + 6))
    # Second: 0 + 3 + 2 words, all matched.
    assert the["second_f1"] == pytest.approx(100 * 2 * 5 / (6 + 5))
    # "cat": 2. First 1 of 1 matched; second 2 of 2.
    assert cat["ref_count"] == 2 and cat["first_f1"] == pytest.approx(100 * 2 * 1 / (2 + 1))
    assert cat["second_f1"] == 100 and cat["difference"] == pytest.approx(100 - 200 / 3)
    # "sat", "dog": 2 words. First: sat matched, dog (in the wrong sentence) not: 2 words.
    assert once["ref_count"] == 2 and once["first_f1"] == pytest.approx(100 * 2 * 1 / (2 + 2))
    # Second: dog matched; "a" is in no reference and in no bucket.
    assert once["second_f1"] == pytest.approx(100 * 2 * 1 / (2 + 1))
    assert rows["11-100"] is None and rows["1001+"] is None


def test_a_slow_count_agrees(tables: dict[str, list[Data]]) -> None:
    counts = Counter(word for ref in words(REFS) for word in ref)
    row = next(row for row in tables["frequency"] if row["bucket"] == "11-100")
    cell = row["cells"]["test"]
    f1 = []
    for seed in (2, 3):
        matched = out = 0
        for hyp, ref in zip(words(noisy(0.1, seed)), words(REFS), strict=True):
            kept = {word: n for word, n in Counter(hyp).items() if 11 <= counts[word] <= 100}
            out += sum(kept.values())
            matched += sum(min(n, Counter(ref)[word]) for word, n in kept.items())
        f1.append(200 * matched / (out + cell["ref_count"]))
    assert cell["second_f1"] == pytest.approx(sum(f1) / 2)  # the mean of the seeds
    assert cell["ref_count"] == sum(n for n in counts.values() if 11 <= n <= 100)
    assert cell["low"] < cell["difference"] < cell["high"] and cell["low"] > 0


def test_parts_of_speech_are_sorted_by_count(tables: dict[str, list[Data]]) -> None:
    counts = {row["bucket"]: row["cells"]["test"]["ref_count"] for row in tables["pos"]}
    tags = Counter(tag for line in tagged(words(REFS)) for tag in line)
    assert counts == tags and list(counts) == [tag for tag, _ in tags.most_common()]

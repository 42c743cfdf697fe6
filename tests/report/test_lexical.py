"""Word F1 by bucket: by hand, against a slow count, intervals."""

from collections import Counter

import pytest

from simile_plugin.report.bucketed import BucketRow
from simile_plugin.report.questions.lexical import compare_ngrams, compare_words

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
def tables() -> dict[str, list[BucketRow]]:
    texts = [words(text) for text in (REFS, noisy(0.3, 1), noisy(0.1, 2), noisy(0.1, 3))]
    counts = Counter(word for ref in texts[0] for word in ref)
    tags = [tagged(text) for text in texts]
    return compare_words(texts, {"A": 1, "B": 2}, "A", tags, counts, 200, 12345)


def test_by_hand() -> None:
    counts = Counter(word for ref in HAND_REFS for word in ref)
    texts = [HAND_REFS, FIRST, SECOND]
    tables = compare_words(texts, {"A": 1, "B": 1}, "A", None, counts, 50, 1)
    rows = {row.bucket: row for row in tables["frequency"]}
    the, cat, once = rows["6-10"], rows["2-5"], rows["1"]
    # "the": 6 in the references. First: 1 + 2 + 3 = 6 words, 1 + 2 + 2 = 5 matched.
    # Second: 0 + 3 + 2 words, all matched.
    f1 = {"A": 100 * 2 * 5 / (6 + 6), "B": 100 * 2 * 5 / (6 + 5)}
    assert the.count == 6 and the.values == pytest.approx(f1)
    # "cat": 2. First 1 of 1 matched; second 2 of 2.
    assert cat.count == 2 and cat.values == pytest.approx({"A": 200 / 3, "B": 100})
    assert cat.against["B"].difference == pytest.approx(100 - 200 / 3)
    # "sat", "dog": 2 words. First: sat matched, dog (in the wrong sentence) not: 2 words.
    # Second: dog matched, 1 word. "a" and "bird" are in no reference: in the bucket below 1.
    assert once.count == 2
    assert once.values == pytest.approx({"A": 100 * 2 / (2 + 2), "B": 100 * 2 / (2 + 1)})
    assert rows["<1"].count == 0 and rows["11-100"].values["A"] is None


def test_ngrams_by_hand() -> None:
    found = compare_ngrams(HAND_REFS, FIRST, SECOND)
    # Of A: "the cat sat" once and its parts, "the the" once (of two); of B "the cat the the" ...
    best = {one.ngram: (one.first, one.second) for one in found["first"]}
    assert best["the cat sat"] == (1, 0) and "the" not in best
    other = {one.ngram: (one.first, one.second) for one in found["second"]}
    assert other["the cat the the"] == other["the dog the"] == (0, 1)
    # 1 + 1 over 2 + 2 is even; 0 + 1 over 1 + 2 is a third
    assert found["second"][0].score == pytest.approx(1 / 3)


def test_a_slow_count_agrees(tables: dict[str, list[BucketRow]]) -> None:
    counts = Counter(word for ref in words(REFS) for word in ref)
    row = next(row for row in tables["frequency"] if row.bucket == "11-100")
    around = row.against["B"]
    f1 = []
    for seed in (2, 3):
        matched = out = 0
        for hyp, ref in zip(words(noisy(0.1, seed)), words(REFS), strict=True):
            kept = {word: n for word, n in Counter(hyp).items() if 11 <= counts[word] <= 100}
            out += sum(kept.values())
            matched += sum(min(n, Counter(ref)[word]) for word, n in kept.items())
        f1.append(200 * matched / (out + row.count))
    assert row.values["B"] == pytest.approx(sum(f1) / 2)  # the mean of the seeds
    assert row.count == sum(n for n in counts.values() if 11 <= n <= 100)
    assert 0 < around.low < around.difference < around.high


def test_parts_of_speech_are_sorted_by_count(tables: dict[str, list[BucketRow]]) -> None:
    counts = {row.bucket: row.count for row in tables["pos"]}
    tags = Counter(tag for line in tagged(words(REFS)) for tag in line)
    assert counts == tags and list(counts) == [tag for tag, _ in tags.most_common()]

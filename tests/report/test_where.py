"""Buckets, n-grams and word F1 are compare-mt's; sentences won; groups; links to examples."""

import gzip
import os
from collections import Counter
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from simile_plugin.cli import main
from simile_plugin.report.inputs import buckets
from simile_plugin.report.inputs.buckets import FREQUENCIES
from simile_plugin.report.questions import choose_questions, lexical, where
from tests.report.test_html import inputs_of
from tests.report.test_report import write


@pytest.mark.skipif(
    "SIMILE_DATA" not in os.environ, reason="SIMILE_DATA, the folder of real data, is not set"
)
def test_numbers_are_compare_mts_on_two_wmt_systems() -> None:
    from compare_mt import bucketers, ngram_utils, scorers, stat_utils

    wmt = Path(os.environ["SIMILE_DATA"], "outputs", "de-en")
    names = ("Online-Y", "UEdin")
    files = [str(wmt / f"newstest2021.de-en.hyp.{name}.en.gz") for name in names]
    ref = str(wmt / "newstest2021.de-en.ref.A.en.gz")
    flags = [f"--sys={name}={path}" for name, path in zip(names, files, strict=True)]
    inputs = inputs_of(f"--ref={ref}", *flags, "--resamples=40")
    found, words = where.ask(inputs).data, lexical.ask(inputs).data

    from simile_plugin.report.inputs.texts import tokenised

    refs, *outputs = (
        tokenised("13a", tuple(gzip.open(path, "rt", encoding="utf-8").read().splitlines()))
        for path in (ref, *files)
    )
    by_length = bucketers.create_sentence_bucketer_from_profile("length")
    by_difference = bucketers.create_sentence_bucketer_from_profile("lengthdiff")
    counts = Counter(w for ref in refs for w in ref)
    by_frequency = bucketers.FreqWordBucketer(freq_counts=counts, bucket_cutoffs=[*FREQUENCIES])
    scorer = scorers.create_scorer_from_profile("bleu")
    for name, output in zip(names, outputs, strict=True):
        parts = by_length.create_bucketed_corpus(output, ref=refs)
        theirs = [scorer.score_corpus(ref, out)[0] for out, ref, _ in parts]
        # Of sentences of fewer than 4 words compare-mt counts a 4-gram all the same; sacreBLEU not.
        short, of_short = ([" ".join(words) for words in text] for text in parts[0][:2])
        theirs[0] = BLEU(tokenize="none").corpus_score(short, [of_short]).score
        assert [row["values"][name] for row in found["bleu"]["length"]] == pytest.approx(theirs)
        parts = by_difference.create_bucketed_corpus(output, ref=refs)
        own = [row["values"][name] for row in found["length_difference"]]
        assert own == [len(out) for out, *_ in parts]
        (statistics,) = by_frequency.calc_statistics(refs, [output])[0]
        own = [row["values"][name] or 0.0 for row in words["tables"]["frequency"]]
        assert own[1:] == pytest.approx([100 * numbers[-1] for numbers in statistics][1:])
    matches = [ngram_utils.compare_ngrams(refs, output)[1] for output in outputs]
    scores = stat_utils.extract_salient_features(*matches)
    for key, theirs in (
        ("first", sorted(scores.values())[::-1]),
        ("second", sorted(scores.values())),
    ):
        assert [one["score"] for one in words["ngrams"][key]] == theirs[: lexical.MOST_NGRAMS]
        for one in words["ngrams"][key]:
            ngram = tuple(one["ngram"].split())
            assert (one["first"], one["second"]) == (matches[0][ngram], matches[1][ngram])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    refs = ["a cat sat on the mat", "it is so", "the dog ran to the old house", "yes"] * 3
    worse = ["a cat sat on a mat", "it was so", "the dog ran to the old house", "yes"] * 3
    write(tmp_path / "ref", refs)
    write(tmp_path / "a", worse)
    write(tmp_path / "b", [*refs[:9], *worse[9:11], "no"])
    write(tmp_path / "groups", ["news", "talk"] * 6)
    return ["--ref=ref", "--sys=A=a", "--sys=B=b", "--groups=groups", "--resamples=40"]


def test_groups_and_sentences_won(files: list[str]) -> None:
    found = where.ask(inputs_of(*files)).data
    # B is A but for: lines 1, 2, 5, 6, 9 right; line 10 as A; the last one wrong
    assert found["won"] == [{"name": "B", "BLEU": {"won": 5, "tied": 6, "lost": 1}}]
    rows = {row["bucket"]: row for row in found["bleu"]["group"]}
    assert {name: row["count"] for name, row in rows.items()} == {"news": 6, "talk": 6}
    assert rows["news"]["values"]["B"] == pytest.approx(100)
    assert rows["news"]["against"] == {}  # 6 sentences are too few
    # "cat": three times in the references, no word of the first sentence is rarer
    rarest = {row["bucket"]: row["count"] for row in found["bleu"]["rarest"]}
    assert rarest == {"2-5": 12}


def test_buckets_of_few_sentences_have_no_star(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refs = [f"house {n} stands by the old river" for n in range(39)]
    write(tmp_path / "ref", refs)
    write(tmp_path / "a", [ref.replace("old", "new") for ref in refs])
    write(tmp_path / "b", refs)
    write(tmp_path / "groups", ["news"] * 20 + ["talk"] * 19)
    rows = where.ask(inputs_of(*files)).data["bleu"]["group"]
    assert [row["count"] for row in rows] == [20, 19]
    assert rows[0]["against"]["B"]["low"] > 0 and rows[1]["against"] == {}
    assert main(["report", *files, "--only=where"]) == 0
    out = capsys.readouterr().out
    starred = [line.split()[0] for line in out.splitlines() if line.endswith("100.00*")]
    assert "news" in starred and "talk" not in starred
    assert "leaves out 0, of each bucket of 20 sentences or more by itself" in out


def test_groups_beyond_the_largest_are_one_row(files: list[str], tmp_path: Path) -> None:
    write(tmp_path / "groups", ["news", *"abc", "news", *"defg", "news", *"hi"][:12])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "MOST_GROUPS", 3)
        answer = where.ask(inputs_of(*files))
    rows = {row["bucket"]: row["count"] for row in answer.data["bleu"]["group"]}
    assert rows == {"news": 3, "a": 1, "b": 1, "the 7 smallest groups": 7}


def test_flags_of_several_names_are_repeated_or_joined(files: list[str]) -> None:
    apart = inputs_of(*files, "--baseline=B", "--baseline=A", "--only=where", "--only=length")
    joined = inputs_of(*files, "--baseline=B,A", "--only=where,length")
    assert apart.baselines == joined.baselines == ("B", "A")
    assert choose_questions(apart) == choose_questions(joined) == ["length", "where"]


def test_words_are_counted_in_a_corpus(files: list[str], tmp_path: Path) -> None:
    write(tmp_path / "corpus", ["the cat the mat on a sat"] * 20)
    found = inputs_of(*files, "--corpus=corpus")
    assert found.frequencies == Counter(
        {"the": 40} | dict.fromkeys(("cat", "mat", "on", "a", "sat"), 20)
    )
    rarest = {row["bucket"]: row["count"] for row in where.ask(found).data["bleu"]["rarest"]}
    assert rarest == {"<1": 9, "11-100": 3}
    assert "corpus" in found.frequency_note


def test_buckets_lead_to_their_sentences(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *files, "--html=page.html"]) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    for tag in ("length-0", "group-0", "group-1"):
        assert f'<a href="#examples/{tag}">' in page
    assert 'data-tags="length-0 rarest-2 group-0"' in page and "_blank" not in page
    assert main(["report", *files[:3], "--only=where", "--groups=a", "--src=ref"]) == 0
    Path("groups").write_text("one\n")
    assert main(["report", *files, "--only=where"]) == 2
    assert "--groups: groups has 1 sentences but --ref has 12" in capsys.readouterr().err

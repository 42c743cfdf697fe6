"""SIMILE with the methods of sacreBLEU's metrics."""

import doctest

import pytest

from simile_plugin import __version__
from simile_plugin.encoder import Encoder
from simile_plugin.files import InputError
from simile_plugin.reward import SIMILE, Scorer
from tests.conftest import SENTENCES

HYPS = ["two boys skip stones", "the old ferry crosses at noon", SENTENCES[3]]
REFS, OTHERS = SENTENCES[1:4], ["boys skip flat stones", "a ferry crosses at noon", "nobody knew"]


def values(encoder: Encoder, refs: list[str], alpha: float = 0.25) -> list[float]:
    scores = Scorer(encoder=encoder, alpha=alpha).lists([[hyp] for hyp in HYPS], refs)
    assert scores.simile is not None
    found: list[float] = scores.simile[:, 0].tolist()
    return found


def test_the_mean_of_sentences_in_percent(encoder: Encoder) -> None:
    found = SIMILE(encoder).corpus_score(HYPS, [REFS])
    one, two, three = values(encoder, REFS)
    assert three == pytest.approx(1) and found.score == pytest.approx(100 * (one + two + three) / 3)
    assert str(found) == f"SIMILE = {found.score:.2f}"


def test_the_best_of_several_references_counts(encoder: Encoder) -> None:
    own = SIMILE(encoder, alpha=0.5)
    pairs = [*zip(values(encoder, REFS, 0.5), values(encoder, OTHERS, 0.5), strict=True)]
    assert {first > second for first, second in pairs} == {True, False}
    best = [max(pair) for pair in pairs]
    assert own.corpus_score(HYPS, [REFS, OTHERS]).score == pytest.approx(100 * sum(best) / 3)
    for hyp, ref, other, value in zip(HYPS, REFS, OTHERS, best, strict=True):
        assert own.sentence_score(hyp, [ref, other]).score == pytest.approx(100 * value)


def test_the_signature_says_how_many_references(encoder: Encoder) -> None:
    own = SIMILE(encoder, alpha=0.5)
    own.corpus_score(HYPS, [REFS, OTHERS])
    assert own.get_signature().startswith(f"nrefs:2|enc:{encoder.fingerprint}|kind:")
    assert own.get_signature().endswith(f"|alpha:0.5|version:{__version__}")
    own.sentence_score(HYPS[0], REFS[:1])
    assert own.get_signature().startswith("nrefs:1|")


def test_an_encoder_by_its_folder(encoder: Encoder, encoder_folder: object) -> None:
    own = SIMILE(str(encoder_folder))
    assert own.corpus_score(HYPS, [REFS]).score == SIMILE(encoder).corpus_score(HYPS, [REFS]).score


def test_what_is_no_list_of_lists(encoder: Encoder) -> None:
    own = SIMILE(encoder)
    with pytest.raises(InputError, match=r"references: got 'two boys .* expected a list of .*refs"):
        own.corpus_score(HYPS, REFS)
    with pytest.raises(InputError, match="got 'two boys skip .*' as references; expected a list"):
        own.sentence_score(HYPS[0], REFS[0])
    with pytest.raises(InputError, match="references: got none"):
        own.sentence_score(HYPS[0], [])
    with pytest.raises(InputError, match="hypotheses: got none"):
        own.corpus_score([], [[]])
    with pytest.raises(InputError, match="got outputs of 3 sentences for 2 references"):
        own.corpus_score(HYPS, [REFS[:2]])


def test_the_example() -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (example,) = finder.find(SIMILE, globs={"SIMILE": SIMILE})
    assert runner.run(example) == doctest.TestResults(failed=0, attempted=3)

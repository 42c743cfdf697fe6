"""The rules by which a run is stopped."""

import math

import pytest

from simile_plugin.files import InputError
from simile_plugin.risk import RunWatch
from simile_plugin.risk.run_watch import Validation


def seen(
    *validations: tuple[float, ...], band: float = 1.5, bleu: tuple[float, ...] = (30, 20)
) -> RunWatch:
    """A watch after validations; BLEU goes through `bleu` and stays at its last value.

    A validation is a cost, a length ratio and a share of repeated bigrams (if not said, 2 %).
    """
    watch = RunWatch()
    for number, (cost, ratio, *repetition) in enumerate(validations):
        score = bleu[min(number, len(bleu) - 1)]
        validation = Validation(cost, ratio, score, repetition[0] if repetition else 0.02)
        watch.see(validation, band)
    return watch


@pytest.mark.parametrize(
    ("validations", "stops"),
    [
        ([(0.5, 1.0), (0.4, 1.6), (0.3, 1.7), (0.3, 1.7)], True),  # above 1.5 * 1
        ([(0.5, 1.0), (0.4, 1.6), (0.3, 1.7)], False),  # the first after the start is no verdict
        ([(0.5, 1.0), (0.4, 0.6), (0.3, 0.5), (0.3, 0.5)], True),  # below 1 / 1.5 = 0.67
        ([(0.5, 1.0), (0.4, 1.5), (0.3, 1.5), (0.3, 1.5)], False),  # on the edge is inside
        ([(0.5, 1.0), (0.4, 1.6), (0.3, 1.6), (0.3, 1.0), (0.3, 1.6)], False),  # not in a row
        (
            [(0.5, 1.0), (0.6, 1.6), (0.6, 1.7), (0.6, 1.7)],
            False,
        ),  # the reward does not rise: not gamed
        ([(0.5, 2.0), (0.4, 2.9), (0.3, 2.9), (0.3, 2.9)], False),  # it began so: 1.5 * 2 = 3
        ([(0.5, 0.4), (0.4, 1.0), (0.3, 1.0), (0.3, 1.0)], False),  # towards the references' length
        ([(0.5, 1.0, 0.02), *3 * [(0.4, 1.0, 0.041)]], True),  # more than twice 2 %
        ([(0.5, 1.0, 0.02), *3 * [(0.4, 1.0, 0.039)]], False),
        ([(0.5, 1.0, 0.02), *3 * [(0.4, 1.4, 0.055)]], False),  # twice of 1.4 times as long: 5.6 %
    ],
)
def test_gaming(validations: list[tuple[float, ...]], stops: bool) -> None:
    assert bool(seen(*validations).stop) is stops
    assert seen(*validations, band=0).stop == ""
    assert seen(*validations, bleu=(30, 30.1)).stop == ""  # longer, and better
    assert seen(*validations, bleu=(30, 29.8)).stop == ""  # less than a hundredth below


def test_the_first_sign_is_a_warning_and_the_second_has_advice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = seen((0.5, 1.0), (0.4, 1.6), (0.4, 1.6))
    assert caplog.messages == [
        "cost fell from 0.5000 to 0.4000, but the length ratio went from 1.000 to 1.600, and "
        "BLEU fell from 30.00 to 20.00; training stops if the next validation finds the same",
    ]
    after = RunWatch()
    after.restore(watch.state())  # a resumed run goes on from what it saw
    after.see(Validation(0.4, 1.6, 20, 0.02), band=1.5)
    assert "--mle-weight" in after.stop and not watch.stop


@pytest.mark.parametrize(
    ("first", "second", "sign"),
    [
        ((0.5, 0.98, 0.02), (0.4, 1.06, 0.02), "the length ratio went from 0.980 to 1.060, and"),
        ((0.5, 0.98, 0.02), (0.4, 1.03, 0.02), None),  # 3 % beyond 1 at most
        ((0.5, 1.00, 0.02), (0.4, 0.96, 0.02), "the length ratio went from 1.000 to 0.960, and"),
        ((0.5, 1.00, 0.02), (0.4, 1.00, 0.03), "repeated bigrams from 2.00% to 3.00%, and"),
        ((0.5, 1.00, 0.02), (0.4, 1.00, 0.024), None),  # less than a quarter more
        ((0.5, 1.00, 0.001), (0.4, 1.00, 0.003), None),  # two in a thousand are chance
        ((0.5, 1.00, 0.02), (0.6, 1.20, 0.06), "cost rose from 0.5000 to 0.6000: lower the learn"),
        ((0.5, 1.00, 0.02), (0.4, 1.05, 0.03), "1.000 to 1.050 and repeated bigrams from 2.00%"),
        ((0.5, 1.00, 0.02), (0.4, 1.03, 0.0255), None),  # 0.0206 at this length, a quarter more
    ],
)
def test_signs_of_gaming_are_warned_of(
    first: tuple[float, ...],
    second: tuple[float, ...],
    sign: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = seen(first, second, second, second, bleu=(30, 31))
    watch.see(Validation(second[0], second[1], 20, second[2]), band=1.5, updates=49)
    assert watch.stop == "" and not caplog.messages  # better, or too early to say
    seen(first, second, second, bleu=(30, 29.8))
    assert not caplog.messages  # level
    watch = seen(first, second, second, bleu=(30, 29))
    assert watch.stop == ""
    assert (sign is None and not caplog.messages) or (sign and sign in caplog.messages[0])


def test_sentences_known_by_heart_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = RunWatch()
    found = {"cost": 0.5, "length_ratio": 1.0, "bleu": 20.0, "repetition": 0.02}
    for updates, trained in ((0, None), (49, 0.3), (50, 0.43), (50, math.nan)):  # 0.425 is the edge
        watch.see_metrics(found, 1.5, updates, trained=trained)
    assert not caplog.messages
    for updates in (100, 200):
        watch.see_metrics(found, 1.5, updates, trained=0.42)
    (said,) = caplog.messages
    assert said.startswith("candidates for training sentences cost 0.42, those of validation 0.50:")


def test_skips_in_a_row() -> None:
    watch = RunWatch()
    for _ in range(3):
        watch.skip(3, 8)
    with pytest.raises(InputError, match=r"4 times in a row \(--risk-max-skipped 3\): low"):
        watch.skip(3, 8)


def test_a_model_that_does_not_translate_these_sources(caplog: pytest.LogCaptureFixture) -> None:
    metrics = {"cost": 0.9, "length_ratio": 1.2, "bleu": 0.22, "repetition": 0.0}
    for bleu, updates in ((0.22, 0), (1.3, 0), (0.22, 50)):
        RunWatch().see_metrics(metrics | {"bleu": bleu}, 1.5, updates)
    (said,) = caplog.messages
    assert said == (
        "BLEU is 0.22 before the first update: are source and target exchanged, or is the model "
        "of another direction, language or vocabulary?"
    )

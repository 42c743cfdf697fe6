"""Signs of gaming: by hand, bands and warnings, per system and per validation."""

from pathlib import Path

import pytest

from simile_plugin.encoder.models import Encoder
from simile_plugin.report.answer import Answer
from simile_plugin.report.inputs.scores import ScoreSettings
from simile_plugin.report.questions import gaming
from simile_plugin.report.questions.gaming import (
    copied_share,
    epoch_signs,
    repeated_share,
    system_signs,
    system_warnings,
)
from simile_plugin.report.render.text import render_text
from tests.report.test_html import inputs_of

from .test_results import REFS, noisy, system

SOURCES = [f"eins zwei drei vier fünf {i}" for i in range(len(REFS))]


def test_repetition_by_hand() -> None:
    # bigrams: ab ba ab ba ab (5, of which 3 said before); none in a word; four different ones
    sentences = [list("ababab"), list("a"), list("vwxyz")]
    assert repeated_share(sentences) == 3 / 9
    assert repeated_share([["a"]]) == 0.0


def test_untranslated_copies_by_hand() -> None:
    source = "in Ulm um Ulm herum".split()
    name = "Herr Otto Karl Maria Meyer".split()
    cases = [
        ("he said in Ulm um Ulm".split(), source, "he said around Ulm".split()),  # 4 in a row
        ("he said in Ulm um".split(), source, "he said around Ulm".split()),  # 3 only
        (name, name, name),  # the reference has them too
        (["nein"], ["nein"], ["no"]),  # a short sentence, whole
        ("nein no".split(), ["nein"], ["no"]),  # not whole
        (["a"], [], ["a"]),
        (["ich", "war", "在北京的公园"], ["我在北京的公园。"], ["ich", "war", "im", "Park"]),
        ("the 7 : 3 ( CSU )".split(), "das 7 : 3 ( CSU )".split(), "a win for CSU".split()),
    ]
    hyps, sources, refs = (list(column) for column in zip(*cases, strict=True))
    assert copied_share(hyps, sources, refs) == 3 / 8


def test_signs_of_outputs(encoder: Encoder) -> None:
    good = noisy(0.1, 1)
    gamed = tuple(f"{line} and the the the the the the" for line in REFS)
    copied = tuple(SOURCES[:8]) + good[8:]
    systems = [system("MLE", noisy(0.6, 2)), system("gamed", gamed), system("copied", copied)]
    signs = system_signs(systems, REFS, ScoreSettings(encoder), "MLE", SOURCES)
    mle, game, copy = signs
    tokens = [line.split() for line in gamed]
    assert game["repeated"] == repeated_share(tokens) > 0.1
    assert game["distinct"] == len({token for line in tokens for token in line})
    ref_types = len({token for line in REFS for token in line.split()})
    assert game["distinct_ratio"] == pytest.approx(game["distinct"] / ref_types)
    words = sum(len(line.split()) for line in REFS)
    assert game["length_ratio"] == pytest.approx((words + 7 * len(REFS)) / words)
    assert mle["outside"] == [] and {"length", "repetition"} <= {*game["outside"]}
    assert copy["copied"] == 0.1 and "copies" in copy["outside"]
    assert game["sim"] > mle["sim"] and game["reward"] > mle["reward"]
    warning = next(text for text in system_warnings(signs, "MLE") if text.startswith("gamed: SIM"))
    assert " and SIMILE is " in warning and warning.endswith("around MLE")
    assert "MLE's, but length and repetition outside" in warning


def write_log(path: Path, rows: list[tuple[int, float, float, float]]) -> str:
    lines = [
        f"valid on 'valid' subset | cost {cost} | distinct 0.75 | bleu {bleu} | "
        f"length_ratio {ratio} | num_updates {update}"
        for update, cost, bleu, ratio in rows
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def logs(tmp_path: Path) -> Answer:
    # Start: BLEU 30, ratio 0.9. Band: BLEU from 29, ratio from 0.9 / 1.03 = 0.874 to 1.03.
    good = [(0, 0.5, 30.0, 0.9), (10, 0.4, 29.0, 1.03), (20, 0.3, 31.0, 0.875)]
    gamed = [(0, 0.5, 30.0, 0.9), (10, 0.4, 29.5, 1.02), (20, 0.3, 28.9, 1.06)]
    worse = [(0, 0.5, 30.0, 0.9), (10, 0.6, 20.0, 1.5)]
    files = {
        "good": write_log(tmp_path / "good.log", good),
        "gamed": ",".join(write_log(tmp_path / f"gamed{i}.log", gamed) for i in (1, 2)),
        "worse": write_log(tmp_path / "worse.log", worse),
        "nan": write_log(tmp_path / "nan.log", [(0, 0.5, float("nan"), 1.0)]),
    }
    return gaming.ask(inputs_of(*(f"--log={name}={paths}" for name, paths in files.items())))


def test_nothing_to_watch_is_no_all_clear(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.log", [(0, 0.5, float("nan"), 1.0)])
    text = render_text(gaming.ask(inputs_of(f"--log=A={path}")))
    assert "nothing to watch" in text and "inside its band" not in text


def test_a_warning_needs_a_rising_reward_and_a_left_band(logs: Answer) -> None:
    epochs = logs.data["epochs"]
    assert [epoch["outside"] for epoch in epochs["good"]] == [[], [], []]
    assert [epoch["outside"] for epoch in epochs["gamed"]] == [[], [], ["BLEU", "length"]]
    assert epochs["worse"][1]["outside"] == ["BLEU", "length"]
    assert logs.warnings == [
        "gamed: from update 20 the reward is above its start while BLEU and length left the band "
        "(BLEU 28.90, length ratio 1.060, repeated bigrams -)",
    ]
    assert epochs["nan"] == []
    assert logs.data["notes"] == ["nan: no validation has both bleu and length_ratio in all seeds"]
    assert epochs["gamed"][1]["reward"] == pytest.approx(0.6)


# A quarter more than 2 % is 2.5 %, and half a percent more than 1 % is 1.5 %.
def test_repetition_in_a_log() -> None:
    same = {"cost": 0.5, "bleu": 30.0, "length_ratio": 1.0}
    for share, more, outside in (
        (0.02, 0.0251, ["repetition"]),
        (0.02, 0.0249, []),
        (0.01, 0.0149, []),
    ):
        epochs = epoch_signs([{0: {**same, "repetition": share}, 10: {**same, "repetition": more}}])
        assert epochs[1]["outside"] == outside


def test_the_training_watches_for_the_same() -> None:
    from simile_plugin.risk import run_watch as watch

    same = (gaming.LENGTH_BAND, gaming.REPETITION_BAND, gaming.REPETITION_FLOOR)
    assert same == (watch.LENGTH_SIGN, watch.REPETITION_SIGN, watch.REPETITION_FLOOR)

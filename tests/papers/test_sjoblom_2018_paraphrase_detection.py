"""Paraphrase detection: graded files, splits and noise by hand; the ranking of encoders."""

import math
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from simile_plugin.files import InputError
from tests.papers.scripts import script

PAPER = "sjoblom-2018-paraphrase-detection"
data, encoders = script(PAPER, "detection_data"), script(PAPER, "detection_encoders")
detect = script(PAPER, "detect")


def read(tmp_path: Path, text: str) -> tuple[list[tuple[str, str]], np.ndarray]:
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    return data.read_labelled(str(path), "PAIRS")


def test_graded_files(tmp_path: Path) -> None:
    lines = ["fi-D1\tja niin\tniin kai\t4.0", "fi-D2\ta .\tb .\t2.5", "fi-D3\tc .\td .\t1.5"]
    pairs, labels = read(tmp_path, "\n".join([*lines, "fi-D4\te .\tf .\t3.0"]) + "\n")
    assert pairs == [("ja niin", "niin kai"), ("c .", "d ."), ("e .", "f .")]  # 2.5 is left out
    assert labels.tolist() == [True, False, True]
    pairs, labels = read(tmp_path, "label\ttext1\ttext2\n4<i\ta\tb\n2\tc\td\n")
    assert (pairs, labels.tolist()) == ([("a", "b"), ("c", "d")], [True, False])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\t1\nc\td\n", "pairs.tsv:2: got 2 tab-separated columns, expected 3 as in"),
        (
            "a\tb\t1\nc\td\t7\n",
            "pairs.tsv:2: got grade '7' in column 3, expected a number from 0 to 4",
        ),
        ("a\tb\t4\nc\td\t0\n", "pairs.tsv:2: got grade 0, expected 1 to 4"),
        ("a\tb\t3\nc\td\t4\n", "2 of its 2 pairs are paraphrases, expected pairs of both"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_halves_share_no_sentence() -> None:
    pairs = [("a", "b"), ("c", "d"), ("b", "c"), ("e", "f"), ("g", "e")]
    # a-b, b-c, c-d hang together, e-f and g-e too.
    assert data.sentence_groups(pairs).tolist() == [0, 0, 0, 1, 1]
    rng = Random(1)
    drawn = [(f"s{rng.randrange(99)}", f"s{rng.randrange(99, 300)}") for _ in range(60)]
    test = data.halves(drawn, 1)
    sides = [{text for i in np.flatnonzero(side) for text in drawn[i]} for side in (test, ~test)]
    assert sides[0] and sides[1] and not sides[0] & sides[1]


@pytest.mark.parametrize("percent", [100, 80, 60, 0])
def test_noise_at_a_stated_rate(percent: int) -> None:
    clean = [(f"a{i}", f"b{i}") for i in range(50)]
    mixed = data.mix(clean, percent, 30, 1)
    assert len(set(mixed)) == 30
    assert sum(one[1:] == other[1:] for one, other in mixed) == 30 * percent / 100
    assert mixed == data.mix(clean, percent, 30, 1) != data.mix(clean, percent, 30, 2)


def test_the_most_similar_sentence_of_another_pair() -> None:
    pairs = [("red cat here", "a red cat"), ("blue dog", "dog of blue"), ("cat red", "red old cat")]
    assert data.nearest(pairs)[0] == ("red cat here", "red old cat")
    assert data.nearest(pairs)[2] == ("cat red", "a red cat")


def test_the_loss_by_hand() -> None:
    angle = math.radians(60)
    left = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    right = torch.tensor([[math.cos(angle), math.sin(angle)], [0.0, 2.0]])
    # Positive pairs: d = 1 - cos 60 = 0.5, and 0. Negative ones: left 0 with right 1, d = 1 > 0.6;
    # left 1 with right 0, d = 1 - cos 30.
    negative = (0.6 - (1 - math.cos(math.radians(30)))) ** 2
    expected = ((0.5 + 0) + (0 + negative)) / 2 / 2
    assert float(encoders.pair_loss(left, right, 0.6)) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def paraphrases() -> list[tuple[str, str]]:
    """Sentences of six of 40 words, each of which has a synonym that looks like it."""
    rng = Random(5)
    stems = [
        "".join(rng.choice("bdgklmnprst") + rng.choice("aeiou") for _ in "123") for _ in "x" * 40
    ]

    def sentence(drawn: list[str]) -> str:
        return " ".join(stem + rng.choice(("ssa", "sta")) for stem in drawn)

    meanings = [rng.sample(stems, 6) for _ in range(900)]
    return [(sentence(drawn), sentence(drawn)) for drawn in meanings]


def test_a_batch_is_its_sentences_one_by_one(paraphrases: list[tuple[str, str]]) -> None:
    encoder = encoders.train_encoder(paraphrases[:200], "gran", 60, 1, 1)
    texts = ["", paraphrases[0][0], paraphrases[1][0] + " " + paraphrases[2][0]]
    together = encoder.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        torch.testing.assert_close(encoder.embed([text])[0], vector)


def test_order_is_seen_by_gates_alone(paraphrases: list[tuple[str, str]]) -> None:
    text = paraphrases[0][0]
    backwards = " ".join(reversed(text.split()))
    same = {}
    for kind in ("wa", "gran"):
        vectors = encoders.train_encoder(paraphrases[:200], kind, 60, 1, 1).embed([text, backwards])
        same[kind] = bool(torch.allclose(vectors[0], vectors[1], atol=1e-6))
    assert same == {"wa": True, "gran": False}


def test_detection_as_typed(
    paraphrases: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.write(str(tmp_path / "all.tsv"), paraphrases[:500])
    out = str(tmp_path / "toy")
    assert data.main(["nearest", str(tmp_path / "all.tsv"), "--count", "400", "--output", out]) == 0
    data.write(str(tmp_path / "p.tsv"), paraphrases[500:])
    flags = ["--sets", f"toy={out}", "--vocab-size", "60", "--seeds", "1", "--kinds", "wa"]
    assert detect.main(["--pairs", f"right={tmp_path}/p.tsv", *flags]) == 0
    table = capsys.readouterr().out
    found = re.search(r"\| toy \| wa \| right: 400 \| (\S+) \| \S+ \| (\S+) \|", table)
    assert found and float(found[2]) > 90  # AUC: these paraphrases have all stems in common
    assert "| toy | always 'paraphrase' | - | 50.0 |" in table
    assert detect.main(["--pairs", f"{tmp_path}/p.tsv", *flags]) == 2
    assert "--pairs: got '" in capsys.readouterr().err

"""Human evaluation: draw, blinded sheets, answers, agreement."""

import csv
import io
import itertools
import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.report.human.ratings import (
    Agreement,
    agreement,
    compare_ratings,
    mean_ratings,
    read_answers,
)
from simile_plugin.report.human.sheets import render_tsv, write_sheets
from simile_plugin.report.human.study import (
    DrawSettings,
    Study,
    draw_study,
    key_text,
    read_key,
)
from simile_plugin.report.inputs.texts import System
from simile_plugin.report.questions.human import answer_ratings
from simile_plugin.report.render.text import render_text
from simile_plugin.significance import holm

REFS = [f"the number {i} bus stops near the old mill" for i in range(30)]
HOSTILE = "=1+1 <script>alert(1)</script> \"quoted\" 'a' & </fieldset>"


def systems() -> list[System]:
    first = [ref if i % 3 else f"{ref} again" for i, ref in enumerate(REFS)]
    second = [ref.replace("old", "new") if i % 2 else ref for i, ref in enumerate(REFS)]
    third = list(first)
    third[7] = HOSTILE
    outputs = {"MLE": first, "BLEU": second, "SIMILE": third}
    return [System(name, (f"{name}.txt",), (tuple(lines),)) for name, lines in outputs.items()]


def study_of(sentences: int = 12, annotators: int = 2, seed: int = 1) -> Study:
    settings = DrawSettings(sentences=sentences, annotators=annotators, seed=seed)
    return draw_study(systems(), REFS, None, settings, ("BLEU", "SIMILE"))


def fill(study: Study, annotator: int, ratings: dict[int, int]) -> str:
    """The TSV of an annotator with every rating filled in, rows as on the sheet."""
    rows = list(csv.reader(io.StringIO(render_tsv(study, annotator)), dialect="excel-tab"))
    for row in rows[1:]:
        row[1] = str(ratings[int(row[0].split("-")[2])])
    return "".join("\t".join(row[:2]) + "\n" for row in rows)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_only_eligible_sentences_are_drawn() -> None:
    refs = ["too short", *REFS, "long " * 26]
    outputs = [("x", *REFS, "y"), ("z", *(f"{ref} indeed" for ref in REFS[:9]), *REFS[9:], "y")]
    pair = [System(n, (n,), (o,)) for n, o in zip("AB", outputs, strict=True)]
    study = draw_study(pair, refs, None, DrawSettings(sentences=9), ("A", "B"))
    assert {item.line for item in study.items} == set(range(2, 11))
    with pytest.raises(ValueError, match=r"^--sentences: got 10, but only 9 of 32 references"):
        draw_study(pair, refs, None, DrawSettings(sentences=10), ("A", "B"))


def test_equal_outputs_are_one_item() -> None:
    study = study_of()
    by_line: dict[int, list[str]] = {}
    for item in study.items:
        by_line.setdefault(item.line, []).extend(item.systems)
    assert len(by_line) == 12
    assert all(sorted(names) == ["BLEU", "MLE", "SIMILE"] for names in by_line.values())
    # MLE and SIMILE differ on line 8 alone, so they share their items elsewhere.
    assert len(study.items) == 24 + (8 in by_line)


def test_draw_is_seeded_and_orders_differ() -> None:
    assert key_text(study_of()) == key_text(study_of())
    assert study_of().fingerprint != study_of(seed=2).fingerprint
    study = study_of()
    assert study.order(1) != study.order(2)
    assert sorted(study.order(1)) == list(range(1, len(study.items) + 1))


def test_sheets_do_not_tell_systems_apart(tmp_path: Path) -> None:
    study = study_of()
    paths = write_sheets(study, str(tmp_path))
    assert [Path(p).name for p in paths] == [
        *("sheet.1.tsv", "sheet.1.html", "sheet.2.tsv", "sheet.2.html")
    ]
    for path in paths:
        text = Path(path).read_text(encoding="utf-8")
        assert not any(word in text for word in ("MLE", "BLEU", "SIMILE", ".txt"))


def hostile_study() -> Study:
    lines = [HOSTILE, *REFS[1:]]
    pair = [System("A", ("a",), (tuple(lines),)), System("B", ("b",), (tuple(REFS),))]
    return draw_study(
        pair, lines, lines, DrawSettings(sentences=1, shortest=1, longest=100), ("A", "B")
    )


def test_a_sheet_holds_no_formula() -> None:
    study = hostile_study()
    rows = list(csv.reader(io.StringIO(render_tsv(study, 1)), dialect="excel-tab"))
    assert rows[0] == ["item", "rating", "source", "reference", "translation", "scale"]
    # The scale stands beside the first items: of two, its two highest ratings.
    assert [row[5].partition(":")[0] for row in rows[1:]] == ["5", "4"]
    shown = {row[4] for row in rows[1:]}
    assert shown == {f"\u200b{HOSTILE}", REFS[0]}


def test_means_by_hand(tmp_path: Path) -> None:
    # Three sentences, two systems, two annotators. Items are numbered by the draw, so ratings are
    # given by line and system: A gets 4 5 3 and 2 5 3, B gets 1 5 4 and 3 3 4.
    outputs = {"A": [f"{ref} a" for ref in REFS[:3]], "B": [f"{ref} b" for ref in REFS[:3]]}
    pair = [System(n, (n,), (tuple(o),)) for n, o in outputs.items()]
    study = draw_study(pair, REFS[:3], None, DrawSettings(sentences=3, annotators=2), ("A", "B"))
    given_ratings = [{"A": (4, 5, 3), "B": (1, 5, 4)}, {"A": (2, 5, 3), "B": (3, 3, 4)}]
    paths = []
    for annotator, own in enumerate(given_ratings, start=1):
        by_item = {
            n: own[item.systems[0]][item.line - 1] for n, item in enumerate(study.items, start=1)
        }
        paths.append(write(tmp_path / f"{annotator}.tsv", fill(study, annotator, by_item)))
    found = compare_ratings(study, [read_answers(path, study) for path in paths[::-1]])
    first, second = found.systems
    assert found.annotators == paths
    assert first.mean == pytest.approx((4 + 5 + 3 + 2 + 5 + 3) / 6)
    assert second.mean == pytest.approx((1 + 5 + 4 + 3 + 3 + 4) / 6)
    assert second.by_annotator == pytest.approx((10 / 3, 10 / 3))
    # B - A by sentence: (1 + 3 - 4 - 2) / 2 = -1, (5 + 3 - 5 - 5) / 2 = -1, (4 + 4 - 3 - 3) / 2 = 1
    (compared,) = found.pairs
    assert compared.difference == pytest.approx(-1 / 3)
    assert (compared.better, compared.equal, compared.worse) == (1, 0, 2)
    assert 0 < compared.p_value <= 1
    answer = answer_ratings(found)
    text = render_text(answer)
    assert "Krippendorff's alpha (interval)" in text and "B - A" in text
    assert text.splitlines()[2].split() == ["System", "Rating", "±", "1", "2"]  # by their files
    json.dumps(answer.data, allow_nan=False)
    assert compared.p_holm == compared.p_value and "Holm" not in text
    sure = replace(compared, p_holm=1e-4)
    assert "<0.001" in render_text(answer_ratings(replace(found, pairs=[sure])))


def test_p_is_after_holm_over_all_pairs(tmp_path: Path) -> None:
    study = study_of(annotators=1)
    liked = {n: 4 if "BLEU" in item.systems else 1 for n, item in enumerate(study.items, start=1)}
    found = compare_ratings(
        study, [read_answers(write(tmp_path / "1.tsv", fill(study, 1, liked)), study)]
    )
    assert len(found.pairs) == 3
    assert [pair.p_holm for pair in found.pairs] == holm([pair.p_value for pair in found.pairs])
    assert found.pairs[0].p_holm == pytest.approx(3 * found.pairs[0].p_value)
    assert "after Holm over 3 comparisons" in render_text(answer_ratings(found))


def test_unfinished_sheets_count_where_all_have_rated(tmp_path: Path) -> None:
    pair = [System(n, (n,), (tuple(f"{ref} {n}" for ref in REFS[:3]),)) for n in "AB"]
    study = draw_study(pair, REFS[:3], None, DrawSettings(sentences=3, annotators=2), ("A", "B"))
    places = {(item.systems[0], item.line): n for n, item in enumerate(study.items, start=1)}
    paths = []
    # The first did not rate B of line 1, the second neither output of line 3: line 2 is left.
    for annotator, lacking in ((1, [("B", 1)]), (2, [("A", 3), ("B", 3)])):
        rows = fill(study, annotator, {n: 4 if key[0] == "A" else 1 for key, n in places.items()})
        for key in lacking:
            name = study.item_id(annotator, places[key])
            rows = rows.replace(f"{name}\t{4 if key[0] == 'A' else 1}", f"{name}\t")
        paths.append(write(tmp_path / f"{annotator}.tsv", rows))
    with pytest.raises(ValueError, match="has no rating; expected 0 to 5"):
        read_answers(paths[0], study)
    answers = [read_answers(path, study, partial=True) for path in paths]
    found = compare_ratings(study, answers)
    assert (found.sentences, found.drawn) == (1, 3)
    assert [system.mean for system in found.systems] == [4.0, 1.0]
    assert found.agreement.equal == 1.0  # of three items that both have
    assert "1 sentence of 3 (the others are not yet rated by all)" in answer_ratings(found).heading
    assert mean_ratings(study, answers)[3, f"{REFS[2]} A"] == 4.0  # by the first alone


def test_mean_rating_of_every_item(tmp_path: Path) -> None:
    study = study_of(2)
    paths = []
    for annotator in (1, 2):
        ratings = {n: (n + annotator) % 6 for n in range(1, len(study.items) + 1)}
        paths.append(write(tmp_path / f"{annotator}.tsv", fill(study, annotator, ratings)))
    found = mean_ratings(study, [read_answers(path, study) for path in paths])
    assert len(found) == len(study.items)
    for n, item in enumerate(study.items, start=1):
        assert found[item.line, item.translation] == ((n + 1) % 6 + (n + 2) % 6) / 2


def test_equal_items_count_for_every_system(tmp_path: Path) -> None:
    study = study_of(annotators=1)
    ratings = {n: 3 if "MLE" in item.systems else 1 for n, item in enumerate(study.items, 1)}
    path = write(tmp_path / "a.tsv", fill(study, 1, ratings))
    found = compare_ratings(study, [read_answers(path, study)])
    assert found.systems[0].mean == 3.0
    assert found.agreement.alpha is None
    assert "one annotator" in render_text(answer_ratings(found))


def test_alpha_by_hand() -> None:
    # Items rated (1, 1) and (3, 4): D_o = (0 + 1) / 2. All four ratings 1 1 3 4, six pairs:
    # 0 + 4 + 9 + 4 + 9 + 1 = 27, D_e = 27 / 6. alpha = 1 - 0.5 / 4.5 = 8 / 9.
    found = agreement(np.array([[1.0, 3.0], [1.0, 4.0]]))
    assert asdict(found) == {
        "alpha": pytest.approx(8 / 9),
        "pearson": pytest.approx(1.0),
        "equal": 0.5,
    }


def test_agreement_at_its_ends() -> None:
    same = np.array([[0.0, 2.0, 5.0]] * 3)
    assert agreement(same).alpha == pytest.approx(1.0)
    flat = agreement(np.full((2, 4), 3.0))
    assert flat == Agreement(None, None, 1.0)
    assert agreement(np.array([[1.0, 2.0]])).equal is None
    opposite = agreement(np.array([[0.0, 5.0], [5.0, 0.0]]))
    assert opposite.pearson == pytest.approx(-1.0)
    assert opposite.alpha is not None and opposite.alpha < 0


@given(st.integers(2, 4), st.integers(2, 6), st.randoms(use_true_random=False))
def test_alpha_is_the_slow_one(people: int, items: int, rng: random.Random) -> None:
    ratings = [[rng.randint(0, 5) for _ in range(items)] for _ in range(people)]
    within = [
        (row[a] - row[b]) ** 2
        for row in zip(*ratings, strict=True)
        for a, b in itertools.permutations(range(people), 2)
    ]
    flat = [rating for row in ratings for rating in row]
    between = [(x - y) ** 2 for x, y in itertools.permutations(flat, 2)]
    found = agreement(np.array(ratings, dtype=np.float64)).alpha
    if not any(between):
        assert found is None
    else:
        expected = sum(between) / len(between)
        assert found == pytest.approx(1 - sum(within) / len(within) / expected)


def test_answers_of_spreadsheets_are_read(tmp_path: Path) -> None:
    study = study_of()
    ratings = {n: n % 6 for n in range(1, len(study.items) + 1)}
    lines = fill(study, 2, ratings).splitlines()
    shuffled = [lines[0], *reversed(lines[1:]), ""]
    tabs = write(tmp_path / "a.tsv", "\r\n".join(shuffled))
    quoted = "\n".join(
        '"' + line.replace("\t", '";"') + '.0"' if i else line.replace("\t", ";")
        for i, line in enumerate(shuffled[:-1])
    )
    semicolons = write(tmp_path / "b.csv", "\ufeff" + quoted)
    mac = write(tmp_path / "c.txt", "\r".join(shuffled))
    for path in (tabs, semicolons, mac):
        found = read_answers(path, study)
        assert (found.annotator, found.ratings) == (2, ratings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [rows[0], *rows[2:]], r":\d+: the file ends without item \S+ \(\d+ of \d+"),
        (lambda rows: [*rows, rows[1]], r":\d+: item \S+ is also on line 2; keep one"),
        (lambda rows: [rows[0], rows[1][:-1] + "6", *rows[2:]], r":2: item \S+ has the rating '6'"),
        (lambda rows: [rows[0], rows[1][:-1], *rows[2:]], r":2: item \S+ has no rating"),
        (lambda rows: [rows[0], "x" + rows[1], *rows[2:]], r":2: item \S+ belongs to study x"),
        (lambda rows: [*rows, rows[1].replace("-1-", "-2-")], r":\d+: an item of sheet 2 among"),
        (lambda rows: rows[1:], r":1: no columns 'item' and 'rating'"),
    ],
)
def test_bad_answers_name_the_line(change, message: str, tmp_path: Path) -> None:
    study = study_of()
    rows = fill(study, 1, dict.fromkeys(range(1, len(study.items) + 1), 3)).splitlines()
    path = write(tmp_path / "a.tsv", "".join(f"{row}\n" for row in change(rows)))
    with pytest.raises(ValueError, match=rf"^--answers: .*a\.tsv{message}"):
        read_answers(path, study)


def test_key_is_read_back_and_guarded(tmp_path: Path) -> None:
    study = study_of()
    path = tmp_path / "key.json"
    write(path, key_text(study))
    assert read_key(str(path)) == study
    write(path, key_text(study).replace("again", "anew"))
    with pytest.raises(ValueError, match=r"^--key: .*key.json: the key was changed after"):
        read_key(str(path))
    for text, message in (
        ("{", "not a key that simile human-eval sheet wrote, or damaged"),
        ('{"format": 1}', "not a key"),
        ('{"format": 2}', "format 2 is newer than 1"),
    ):
        write(path, text)
        with pytest.raises(ValueError, match=rf"^--key: .*key.json: {message}"):
            read_key(str(path))

"""The report as an HTML page: structure, escaping, honest sentences."""

import itertools
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.report import page_parts, provenance
from simile_plugin.report.curves import analyse_curves
from simile_plugin.report.page_answer import answer_ratings, answer_results
from simile_plugin.report.page_parts import Bar, Cell, interval_chart, marked, nice_ticks, table
from simile_plugin.report.report_page import Made, report_page
from simile_plugin.report.results import (
    Comparison,
    PairedTest,
    Results,
    Score,
    SystemScores,
    analyse_results,
)
from simile_plugin.report.scores import ScoreSettings
from simile_plugin.statistics.resampling import Interval
from tests.report.test_human import HOSTILE, fill, hostile_study
from tests.report.test_results import REFS, noisy, system

VOID = {"meta", "input", "br", "hr", "link", "img"}


class Document(HTMLParser):
    """Checks nesting while it reads; keeps tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        where = self.open[-1] if self.open else ""
        if where == "script":
            self.scripts.append(data)
        elif where != "style":
            self.texts.append(data)

    def ids(self) -> list[str]:
        return [value for _, name, value in self.attributes if name == "id"]


def check(text: str) -> Document:
    """What holds of every page."""
    document = Document(text)
    ids = document.ids()
    assert len(set(ids)) == len(ids)
    assert not re.search(r"https?:|//\w|@import|src=", re.sub(r"<pre>.*?</pre>", "", text))
    for _, name, value in document.attributes:
        assert not name.startswith("on") and name != "src"
        if name == "href":
            assert value.startswith("#") and value[1:] in ids
        for target in re.findall(r"url\(#([^)]*)\)", value):
            assert target in ids
    assert document.tags["script"] == 1
    return document


@pytest.fixture(scope="module")
def results() -> Results:
    systems = [
        system("MLE", noisy(0.4, 1)),
        system("BLEU", noisy(0.3, 2)),
        system(HOSTILE, noisy(0.1, 3), noisy(0.15, 4)),
    ]
    return analyse_results(systems, REFS, HOSTILE, ScoreSettings(), PairedTest(resamples=200))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("logs") / "run.log"
    config = "{'common': {'seed': 7}, 'criterion': {'_name': 'simile_risk', 'reward': 'half'}}"
    lines = [f"2026-01-0{day} 10:00:00 | INFO | {config}" for day in (1, 2)]
    lines += [
        f'{{"valid_cost_bleu": "{0.6 - u / 1000}", "valid_cost_simile": "0.3", '
        f'"valid_num_updates": "{u}"}}'
        for u in (0, 50, 100)
    ]
    path.write_text("\n".join(lines))
    return str(path)


def test_the_page_is_well_formed_and_alone(results: Results, log: str) -> None:
    curves = analyse_curves({HOSTILE: [log], "B": [log]})
    made = Made("simile report '<b>'", {"reference": ()}, {HOSTILE: (log,)}, left_out=(HOSTILE,))
    text = report_page({"results": results, "curves": curves}, made)
    document = check(text)
    assert text == report_page({"results": results, "curves": curves}, made)
    # Hostile strings are text, wherever they stand: no tag of theirs came to life.
    assert "alert(1)" in "".join(document.texts)
    assert not any("alert(1)" in script for script in document.scripts)
    assert "b" not in document.tags and document.tags["svg"] == 3
    assert [i for i in document.ids() if "-" not in i] == [
        *("fold", "theme", "results", "curves", "made")
    ]


def test_the_browser_is_told_to_run_our_script_only(results: Results) -> None:
    import base64
    import hashlib

    text = report_page({"results": results}, Made("", {}, {}))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_every_table_and_picture_can_be_read_without_scripts(results: Results) -> None:
    document = check(report_page({"results": results}, Made("", {}, {})))
    assert document.tags["table"] == 3  # scores, differences, files
    assert document.tags["caption"] == 1 and document.tags["figcaption"] == 2
    opened = [
        value for tag, name, value in document.attributes if (tag, name) == ("details", "open")
    ]
    assert len(opened) == 1
    assert "js" in {value for tag, name, value in document.attributes if name == "class"}


def test_human_ratings_stand_on_the_page(tmp_path: Path) -> None:
    from simile_plugin.report.human_ratings import analyse_ratings, read_answers

    study = hostile_study()
    ratings = {n: 5 if "B" in item.systems else 2 for n, item in enumerate(study.items, 1)}
    path = tmp_path / "a.tsv"
    path.write_text(fill(study, 1, ratings))
    found = analyse_ratings(study, [read_answers(str(path), study)])
    text = "".join(check(report_page({"human": found}, Made("", {}, {}))).texts)
    assert "People (1 annotator) rate B 3.00 points of 5 above A" in text


def score(value: float, *against: Comparison, seeds: tuple[float, ...] = ()) -> Score:
    return Score(value, seeds or (value,), Interval(value - 1, value + 1, value), against)


def made_up(
    difference: float, p: float, seeds: tuple[float, ...] = (), sim: float = 0.5
) -> Results:
    """Two systems with the given difference in BLEU, and one in SIM with p = 0.001."""
    focus = {
        "bleu": score(30 + difference, Comparison("MLE", difference, p), seeds=seeds),
        "sim": score(80 + sim, Comparison("MLE", sim, 0.001)),
    }
    rows = (
        SystemScores("MLE", ("m",), {"bleu": score(30.0), "sim": score(80.0)}, score(1.0)),
        SystemScores("RISK", ("r",) * max(1, len(seeds)), focus, score(1.0)),
    )
    return Results(rows, ("MLE",), "ref", 100, PairedTest(), {}, 0.0)


@pytest.mark.parametrize(
    ("difference", "p", "sentence"),
    [
        (0.6, 0.01, "RISK beats MLE by 0.60 BLEU (p = 0.010)."),
        (-0.6, 0.01, "RISK loses to MLE by 0.60 BLEU (p = 0.010)."),
        (0.6, 0.05, "RISK scores 0.60 BLEU above MLE, which may be chance (p = 0.050)."),
        (-0.6, 0.3, "RISK scores 0.60 BLEU below MLE, which may be chance (p = 0.300)."),
        (0.6, 0.0001, "RISK beats MLE by 0.60 BLEU (p < 0.001)."),
        (0.0, 1.0, "RISK and MLE score the same BLEU (p = 1.000)."),
    ],
)
def test_the_answer_is_as_sure_as_the_test(difference: float, p: float, sentence: str) -> None:
    found = answer_results(made_up(difference, p))
    assert found[0] == sentence
    assert found[1] == (
        "RISK against MLE by the other metrics, clearly better: SIM +0.50 (p 0.001)."
    )


def test_the_answer_tells_of_seeds_and_of_worse_metrics() -> None:
    found = answer_results(made_up(0.6, 0.01, seeds=(29.9, 31.3), sim=-0.5))
    assert "clearly worse: SIM -0.50" in found[1]
    assert (
        found[2] == "Seeds: RISK 29.90 to 31.30 BLEU, MLE 30.00 (one seed); their ranges overlap."
    )
    apart = answer_results(made_up(0.6, 0.01, seeds=(30.5, 30.7)))
    assert apart[2].endswith("no seed of one reaches the other.")


def test_one_system_is_not_compared() -> None:
    one = replace(made_up(0.6, 0.01), baselines=("MLE",))
    alone = replace(one, systems=one.systems[:1])
    assert answer_results(alone) == [
        "MLE scores 30.00 BLEU (95% interval 29.00 to 31.00), 80.00 SIM (95% interval 79.00 to "
        "81.00).",
        "One system: there is nothing to compare it with.",
    ]
    assert "Report on MLE" in report_page({"results": alone}, Made("", {}, {}))


def test_the_best_system_is_named_when_it_is_another() -> None:
    assert answer_results(made_up(-0.6, 0.01))[-1] == "Highest BLEU: MLE, 30.00."


def test_a_hundred_systems_have_a_table_and_no_picture() -> None:
    rows = tuple(
        replace(made_up(0.6, 0.01).systems[i > 0], name=f"S{i}" if i else "MLE") for i in range(100)
    )
    document = check(
        report_page({"results": replace(made_up(0, 1), systems=rows)}, Made("", {}, {}))
    )
    assert document.tags["svg"] == 0 and document.tags["tbody"] == 100 + 99
    assert "Comparison of 100 systems" in document.texts


def test_answer_ratings_without_a_clear_difference() -> None:
    from simile_plugin.report.human_ratings import Agreement, HumanResult, RatedPair

    pair = RatedPair("A", "B", -0.02, 0.4, 1, 2, 1)
    found = HumanResult("x", ("a", "b"), 4, 8, (), (pair,), Agreement(None, None, None), 100, 1)
    assert answer_ratings(found) == [
        "People (2 annotators) see no clear difference between B and A: -0.02 points of 5 "
        "(p = 0.400)."
    ]


def test_tables_refuse_ragged_rows_and_bad_numbers() -> None:
    with pytest.raises(ValueError, match=r"^table: got 1 cells under 2 headings"):
        table(["a", "b"], [[["only"]]])
    text = table(["a"], [[[Cell("x", float("nan"))]], [[Cell("y", 1.5)]]])
    assert 'data-sort="1.5"' in text and "nan" not in text


def test_ids_of_pictures_are_their_own() -> None:
    svg = (
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="x">'
        '<style>*{stroke: red}</style><defs><path id="m1"/></defs>'
        '<use xlink:href="#m1" clip-path="url(#c)"/><clipPath id="c"></clipPath></svg>'
    )
    one, two = (page_parts.picture(svg, "c", name) for name in ("p", "q"))
    assert 'id="p-m1"' in one and 'href="#q-m1"' in two and "url(#q-c)" in two
    assert "xmlns" not in one and "<style" not in one and "xml version" not in one


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_ticks_are_few_and_inside(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert 1 <= len(ticks) <= 7
    assert all(b > a for a, b in itertools.pairwise(ticks))
    if len(ticks) > 1:
        assert ticks[0] >= low - 1e-6 and ticks[-1] <= low + span + 1e-6


def test_ticks_by_hand() -> None:
    # 36.1 to 40.4 in at most 7: steps of 0.5 would be 8 (36.5 ... 40), so steps of 1.
    assert nice_ticks(36.1, 40.4) == [37, 38, 39, 40]
    assert nice_ticks(2, 2) == [2]


def test_charts_shorten_names_and_keep_them_as_tooltips() -> None:
    name = "<long> " * 9
    svg = interval_chart([Bar(name, 1.0, 0.5, 1.5, (0.4, 2.0)), Bar("b", 1.0, 1.0, 1.0)], "x & y")
    document = Document(svg)
    assert document.tags["circle"] == 4
    assert any(text.endswith("…") for text in document.texts)
    assert f"{name}: 1.00 [0.50, 1.50]" in document.texts


def test_marked_words() -> None:
    assert marked("a red & old boat", "a blue boat now") == (
        'a <mark class="first">red &amp; old</mark> boat',
        'a <mark class="second">blue</mark> boat <mark class="second">now</mark>',
    )
    assert marked("", "x") == ("", '<mark class="second">x</mark>')


def test_provenance_of_files_and_trainings(tmp_path: Path, log: str) -> None:
    import gzip

    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text("one\ntwo")
    packed.write_bytes(gzip.compress(b"one\ntwo"))
    found = provenance.describe_files({"x": (str(plain), str(packed), "-", str(tmp_path))})
    assert [file.lines for file in found] == [2, 2]
    assert found[0].digest == found[1].digest
    (training,) = provenance.describe_trainings({"S": [log]})
    assert (training.first, training.last) == ("2026-01-01 10:00:00", "2026-01-02 10:00:00")
    assert training.settings == {"seed": "7", "criterion": "simile_risk", "reward": "half"}

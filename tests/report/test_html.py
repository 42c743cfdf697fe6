"""The report as an HTML page: structure, escaping, honest sentences."""

import argparse
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from simile_plugin.cli import report as command
from simile_plugin.report.answer import Answer, Table
from simile_plugin.report.comparison import (
    Comparison,
    Difference,
    Lead,
    LengthRatio,
    References,
    SameLength,
    Score,
    SystemScores,
    compare_systems,
)
from simile_plugin.report.inputs import Inputs
from simile_plugin.report.inputs.logs import read_runs
from simile_plugin.report.inputs.options import PairedTest
from simile_plugin.report.questions.curves import answer_curves, collect_curves
from simile_plugin.report.questions.results import answer_results, headline
from simile_plugin.report.render.page import report_page
from simile_plugin.report.render.provenance import describe_report
from simile_plugin.reward import Scorer
from simile_plugin.significance import Interval
from tests.report.test_human import HOSTILE
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
            assert value.startswith("#") and value[1:].partition("/")[0] in ids
        for target in re.findall(r"url\(#([^)]*)\)", value):
            assert target in ids
    assert document.tags["script"] == 1
    return document


def inputs_of(*flags: str, command_line: str = "") -> Inputs:
    """What the flags of `simile report` name."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.read_inputs(parser.parse_args(flags), command_line or "simile report")


def page_of(answers: Sequence[Answer], *flags: str) -> str:
    return report_page(inputs_of(*flags), answers)


@pytest.fixture(scope="module")
def results() -> Comparison:
    systems = [
        system("MLE", noisy(0.4, 1)),
        system("BLEU", noisy(0.3, 2)),
        system(HOSTILE, noisy(0.1, 3), noisy(0.15, 4)),
    ]
    return compare_systems(systems, References(HOSTILE, REFS), Scorer(), PairedTest(200))


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


def test_the_page_is_well_formed_and_alone(results: Comparison, log: str) -> None:
    curves = collect_curves(read_runs({HOSTILE: [log], "B": [log]}))
    answers = [answer_results(results), answer_curves(curves)]
    inputs = inputs_of("--log", f"{HOSTILE[1:]}={log}", command_line="simile report '<b>'")
    text = report_page(inputs, answers)
    document = check(text)
    assert text == report_page(inputs, answers)
    # Hostile strings are text, wherever they stand: no tag of theirs came to life.
    assert "alert(1)" in "".join(document.texts) and "'<b>'" in "".join(document.texts)
    assert not any("alert(1)" in script for script in document.scripts)
    assert "b" not in document.tags and document.tags["svg"] == 3
    own = [i for i in document.ids() if not re.fullmatch("[mp][0-9a-f]{10}", i)]
    assert own == ["fold", "results", "curves", "made"]


def test_the_browser_is_told_to_run_our_script_only(results: Comparison) -> None:
    import base64
    import hashlib

    text = page_of([answer_results(results)])
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def score(value: float, *against: Difference, seeds: tuple[float, ...] = ()) -> Score:
    interval = Interval(value - 1, value + 1, value)
    return Score(value, list(seeds or (value,)), interval, list(against))


def against(
    baseline: str,
    difference: float,
    p: float,
    level: float | None = None,
    people: float | None = None,
) -> Difference:
    same = SameLength(difference if level is None else level, p)
    return Difference(difference, p, p, people, baseline, p, same)


def row(name: str, seeds: int = 1, **scores: Score) -> SystemScores:
    ratio = LengthRatio(1.0, [1.0] * seeds)
    return SystemScores(name, ["x"] * seeds, scores, ratio, 1.0, [50.0] * 4, 60.0, 60.0)


def data_of(*systems: SystemScores, lead: Lead | None = None) -> Comparison:
    return Comparison(
        systems=list(systems),
        baselines=["MLE"],
        reference="ref",
        sentences=100,
        comparisons=len(systems) - 1,
        test=PairedTest(),
        signatures={},
        unknown_share=0.0,
        lead=lead,
        language="",
        unspaced=False,
        text_warnings=[],
    )


def made_up(
    difference: float, p: float, seeds: tuple[float, ...] = (), sim: float = 0.5
) -> Comparison:
    """Two systems with the given difference in BLEU, and one in SIM with p = 0.001."""
    bleu = score(30 + difference, against("MLE", difference, p), seeds=seeds)
    risk = row(
        "RISK", max(1, len(seeds)), bleu=bleu, sim=score(80 + sim, against("MLE", sim, 0.001))
    )
    return data_of(row("MLE", bleu=score(30.0), sim=score(80.0)), risk)


@pytest.mark.parametrize(
    ("difference", "p", "sentence"),
    [
        (0.6, 0.01, "RISK beats MLE by 0.60 BLEU (p = 0.010)."),
        (-0.6, 0.01, "RISK loses to MLE by 0.60 BLEU (p = 0.010)."),
        (0.6, 0.05, "RISK scores 0.60 BLEU above MLE, which may be chance (p = 0.050)."),
        (0.0, 1.0, "RISK and MLE score the same BLEU (p = 1.000)."),
    ],
)
def test_the_answer_is_as_sure_as_the_test(difference: float, p: float, sentence: str) -> None:
    found = headline(made_up(difference, p))
    assert found[0] == sentence
    assert found[1] == (
        "RISK against MLE by the other metrics, clearly better: SIM +0.50 (p <=0.001)."
    )


@pytest.mark.parametrize(
    ("difference", "level", "sentence"),
    [
        (2.0, -1.0, "All of it is length: at MLE's brevity penalty the difference is -1.00 BLEU."),
        (2.0, 0.5, "75% of it is length: at MLE's brevity penalty the difference is +0.50 BLEU."),
        (2.0, 3.0, "Length hides some: at MLE's brevity penalty the difference is +3.00 BLEU."),
        (-2.0, 0.1, "All of it is length: at MLE's brevity penalty the difference is +0.10 BLEU."),
        (2.0, 1.9, ""),
    ],
)
def test_the_answer_tells_what_is_length(difference: float, level: float, sentence: str) -> None:
    bleu = score(30 + difference, against("MLE", difference, 0.01, level))
    found = headline(data_of(row("MLE", bleu=score(30.0)), row("RISK", bleu=bleu)))
    assert [text for text in found if "length" in text.lower()] == ([sentence] if sentence else [])


def test_the_answer_tells_whether_people_would_see_it() -> None:
    told = "f WMT systems so far apart in BLEU, people order 6{} % as BLEU does."
    for share, sentence in (
        (62.0, "A person would hardly see it: o" + told.format(2)),
        (66.0, "O" + told.format(6)),
    ):
        bleu = score(30.9, against("MLE", 0.9, 0.01, people=share))
        found = headline(data_of(row("MLE", bleu=score(30.0)), row("RISK", bleu=bleu)))
        assert found[1] == sentence


def test_a_system_called_as_a_metric_is_told_apart() -> None:
    own = {
        "bleu": score(31.0, against("MLE", 1.0, 0.01)),
        "simile": score(70.0, against("MLE", 1.0, 0.01)),
    }
    data = data_of(row("MLE", bleu=score(30.0), simile=score(69.0)), row("SIMILE", 1, **own))
    assert "clearly better: SIMILE score +1.00" in headline(data)[1]


def test_the_answer_tells_of_seeds_and_of_worse_metrics() -> None:
    found = headline(made_up(0.6, 0.01, seeds=(29.9, 31.3), sim=-0.5))
    assert "clearly worse: SIM -0.50" in found[1]
    assert (
        found[2] == "Seeds: RISK 29.90 to 31.30 BLEU, MLE 30.00 (one seed); their ranges overlap."
    )
    apart = headline(made_up(0.6, 0.01, seeds=(30.5, 30.7)))
    assert apart[2].endswith("no seed of one reaches the other.")


def test_one_system_is_not_compared() -> None:
    alone = data_of(row("MLE", bleu=score(30.0), sim=score(80.0)))
    assert headline(alone) == [
        "MLE scores 30.00 BLEU (95% interval 29.00 to 31.00), 80.00 SIM (95% interval 79.00 to "
        "81.00).",
        "One system: there is nothing to compare it with.",
    ]
    assert "Report on MLE" in page_of([answer_results(alone)], "--sys", "MLE=m")


def three(lead: Lead, beat: tuple[str, ...] = ("A", "B")) -> Comparison:
    """MLE 30, A 31, B 32 BLEU; those in `beat` are clearly above MLE."""
    rows = [row("MLE", bleu=score(30.0))]
    for name, value in (("A", 31.0), ("B", 32.0)):
        p = 0.01 if name in beat else 0.2
        rows.append(row(name, bleu=score(value, against("MLE", value - 30, p))))
    return data_of(*rows, lead=lead)


def test_of_three_systems_the_best_comes_first() -> None:
    assert headline(three(Lead("A", 1.0, 0.03, 0.03, None))) == [
        "B has the highest BLEU, 32.00: 1.00 above A, the second (p = 0.030).",
        "2 of 2 systems beat MLE, the baseline, in BLEU (p < 0.05 after Holm): A, B.",
        "B beats MLE by 2.00 BLEU (p = 0.010).",
    ]
    found = headline(three(Lead("A", 1.0, 0.3, 0.3, None), beat=("A",)))
    assert found[0].endswith("1.00 above A, the second, which may be chance (p = 0.300).")
    assert found[1] == "1 of 2 systems beat MLE, the baseline, in BLEU (p < 0.05 after Holm): A."


def test_provenance_of_files(tmp_path: Path, log: str) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text("one\ntwo")
    packed.write_bytes(gzip.compress(b"one\ntwo"))
    inputs = inputs_of(f"--ref={plain}", f"--sys=x={packed},{tmp_path},-", f"--log=S={log}")
    _, files = describe_report(inputs, []).parts
    assert isinstance(files, Table)
    rows = files.grid()[1:]
    assert [cells[2] for cells in rows[:2]] == ["2", "2"] and len(rows) == 3
    assert rows[0][3] == rows[1][3]
    assert [cells[1] for cells in rows[:2]] == [
        f"{tmp_path.name}/a.txt",
        f"{tmp_path.name}/a.txt.gz",
    ]


def test_the_machines_folders_are_not_on_the_page(tmp_path: Path) -> None:
    ref, own = tmp_path / "ref.txt", tmp_path / "systems" / "a.txt"
    own.parent.mkdir()
    for path in (ref, own):
        path.write_text("one\n")
    flags = (
        f"--ref {ref} --sys A={own},x.txt --reward learned:/models/l --html '/pages/of mine/p.html'"
    )
    inputs = inputs_of(
        f"--ref={ref}", f"--sys=A={own},x.txt", command_line=f"simile report {flags}"
    )
    text = report_page(inputs, [])
    assert "--ref ref.txt --sys A=systems/a.txt,x.txt --reward learned:l" in unescape(text)
    assert str(tmp_path) not in text and "/models" not in text

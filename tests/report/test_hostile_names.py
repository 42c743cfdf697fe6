"""What a stranger wrote, in every place of the report and of the rating form, stays text."""

import json
from pathlib import Path

import pytest

from simile_plugin.cli import main
from simile_plugin.report.human.study import SCALE
from tests.report.test_html import Document
from tests.report.test_report import write
from tests.report.test_results import REFS, noisy

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "]]><svg onload=alert(1)>",
    '" onmouseover="alert(1)" x=\'',
    "<a href=javascript:alert(1)>x</a>",
    "<!-- --><iframe srcdoc='<b>'>",
    "&lt;script&gt; &amp; &#60;b&#62;",
    "</title></text></details>{{7*7}}${7*7}",
]
NAMES = ["<script>alert(1)<", "\"'><svg onload><img src>", "]]>$x$ javascript:alert(1)"]


def texts(share: float, seed: int, shift: int) -> list[str]:
    """Outputs in which every ninth line or so is hostile."""
    lines = list(noisy(share, seed))
    for i, bad in enumerate(HOSTILE):
        lines[(9 * i + shift) % len(lines)] = f"{bad} {lines[i]} {bad}"
    return lines


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """--ref, --src, --sys and --log with hostile contents under hostile names."""
    monkeypatch.chdir(tmp_path)
    write(Path("<b>ref<script>"), texts(0.0, 0, 0))
    write(Path("src"), [HOSTILE[i % len(HOSTILE)] for i in range(len(REFS))])
    arguments = ["--ref", "<b>ref<script>", "--src", "src", "--title", HOSTILE[8]]
    for number, name in enumerate(NAMES):
        file = f"{number}{name}"
        write(Path(file), texts(0.1 * (number + 1), number, number))
        arguments += ["--sys", f"{name}={file}"]
        costs = '"valid_cost_bleu": "0.5", "valid_cost_simile": "0.3"'
        log = [f'{{{costs}, "valid_num_updates": "{u}"}}' for u in (0, 50)]
        log += [f"2026-01-01 10:00:00 | INFO | x | {bad}" for bad in HOSTILE]
        write(Path(f"{file}.log"), log)
        arguments += ["--log", f"{name}={file}.log"]
    return arguments


def tame(document: Document) -> None:
    """No tag, attribute, style or script of a stranger came to life."""
    assert not {"img", "iframe", "b"} & document.tags.keys()
    assert not any("alert(1)" in script for script in document.scripts)
    for tag, name, value in document.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("src", "srcdoc")
        assert name != "href" or value.startswith("#")


def test_report(files: list[str], encoder_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--encoder", str(encoder_folder), "--resamples", "50", "--html", "page.html"]
    assert main(["report", *files, *flags]) == 0, capsys.readouterr().err
    document = Document(Path("page.html").read_text(encoding="utf-8"))
    tame(document)
    shown = "".join(document.texts)
    for text in (*NAMES, HOSTILE[8], "<b>ref<script>", f"0{NAMES[0]}"):
        assert text in shown, text
    assert sum(bad in shown for bad in HOSTILE) >= 3  # among the examples


def test_rating_form(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    kept = [files[i : i + 2] for i in range(0, len(files), 2)]
    flags = [part for pair in kept if pair[0] in ("--ref", "--src", "--sys") for part in pair]
    drawn = ["--sentences", "40", "--annotators", "1", "--out", "s", "--key", "key.json"]
    limits = ["--min-tokens", "1", "--max-tokens", "99"]
    assert main(["human-eval", "sheet", *flags, *drawn, *limits]) == 0, capsys.readouterr().err
    (form,) = Path("s").glob("*.html")
    document = Document(form.read_text(encoding="utf-8"))
    tame(document)
    assert document.tags["script"] == document.tags["style"] == 1
    items = len(json.loads(Path("key.json").read_text())["items"])
    assert document.tags["fieldset"] == items
    radios = [
        value for tag, name, value in document.attributes if (tag, name) == ("input", "value")
    ]
    assert radios == [*"012345"] * items
    assert all(words in "".join(document.texts) for words in SCALE.values())
    assert any(bad in text for bad in HOSTILE for text in document.texts)

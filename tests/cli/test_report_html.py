"""`simile report --html`, the real command line."""

import hashlib
from pathlib import Path

import pytest

from simile_plugin.cli import main
from tests.report.test_html import check
from tests.report.test_human import HOSTILE
from tests.report.test_report import write
from tests.report.test_results import REFS, noisy

FEW = ["--resamples", "50"]
PAIR = ["--sys", "BLEU=BLEU.txt", "--sys", "SIMILE=SIMILE.txt"]


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder_folder: Path) -> list[str]:
    """Flags of four systems, one of two seeds, with logs, sources, lists and an encoder."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ref.txt", REFS)
    write(tmp_path / "src.txt", [f"quelle {i}" for i in range(len(REFS))])
    for name, share, seed in (("MLE", 0.4, 1), ("BLEU", 0.3, 2), ("HALF.2", 0.2, 3)):
        write(tmp_path / f"{name}.txt", noisy(share, seed))
    write(tmp_path / "HALF.10.txt", [HOSTILE, *noisy(0.2, 4)[1:]])
    write(tmp_path / "SIMILE.txt", [HOSTILE, *noisy(0.1, 5)[1:]])
    costs = '"valid_cost_bleu": "0.5", "valid_cost_simile": "0.3"'
    write(tmp_path / "a.log", [f'{{{costs}, "valid_num_updates": "{u}"}}' for u in (0, 50)])
    lists = []
    for i, ref in enumerate(REFS[:8]):
        lists += [f"S-{i}\tquelle", f"T-{i}\t{ref}"]
        lists += [f"D-{i}\t-0.{n}\t{ref} {HOSTILE * (n % 2)} {n}" for n in range(4)]
    write(tmp_path / "lists.txt", lists)
    (tmp_path / "sizes").mkdir()
    for n in (2, 8):
        write(tmp_path / "sizes" / f"SIMILE.n{n}.txt", noisy(0.1, n))
    systems = ["--sys", "MLE=MLE.txt", "--sys", "HALF=HALF.2.txt,HALF.10.txt", *PAIR]
    texts = ["--ref", "ref.txt", "--src", "src.txt", "--encoder", str(encoder_folder)]
    logs = ["--log", "BLEU=a.log", "--log", "SIMILE=a.log"]
    return [*texts, *systems, *logs, "--nbest-lists", "lists.txt", "--nbest-folder", "sizes", *FEW]


def test_every_question_has_its_section(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *flags, "--html", "a.html", "--title", HOSTILE]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Results on 80 sentences of ref.txt")
    assert "Examples" not in captured.out  # the page has more than the terminal
    assert captured.err.splitlines()[-1] == "wrote a.html"
    document = check(Path("a.html").read_text(encoding="utf-8"))
    sections = [
        value for tag, name, value in document.attributes if (tag, name) == ("details", "id")
    ]
    assert sections == [
        *("results", "length", "where", "lexical", "examples", "gaming"),
        *("curves", "nbest", "headroom", "made"),
    ]
    assert document.tags["article"] > 1 and document.tags["mark"] > 1
    assert not any("alert(1)" in script for script in document.scripts)
    text = "".join(document.texts)
    assert HOSTILE in document.texts and "4 systems (5 outputs), 80 sentences" in text
    assert "simile report --ref ref.txt" in text


def test_every_file_is_on_the_page_with_its_digest(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--baseline", "BLEU, MLE", "--only", "results"]
    assert main(["report", *flags, *only, "--html", "a.html"]) == 0
    texts = "|".join(check(Path("a.html").read_text(encoding="utf-8")).texts)
    for path in ("src.txt", "a.log"):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
        assert path in texts and digest in texts
    assert main(["report", *flags, *only, "--html", "a.pdf"]) == 2
    assert "--html: got a.pdf; expected a name that ends" in capsys.readouterr().err


def test_ratings_are_on_the_page(flags: list[str]) -> None:
    sheet = ["human-eval", "sheet", "--ref", "ref.txt", *PAIR, "--sentences", "9"]
    assert main([*sheet, "--annotators", "1", "--out", "s", "--key", "key.json"]) == 0
    filled = Path("s/sheet.1.tsv").read_text().replace("\t\t", "\t3\t")
    Path("anna.tsv").write_text(filled)
    human = ["--human", "key.json=anna.tsv", "--html", "a.html"]
    assert main(["report", "--ref", "ref.txt", *PAIR, *human, *FEW]) == 0
    text = "".join(check(Path("a.html").read_text(encoding="utf-8")).texts)
    assert "People (1 annotator) see no clear difference between SIMILE and BLEU" in text

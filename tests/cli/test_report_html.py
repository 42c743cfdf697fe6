"""`simile report FOLDER --html`, the real command line."""

import hashlib
import shutil
from pathlib import Path

import pytest

from simile_plugin.cli import main
from tests.report.test_html import check
from tests.report.test_human import HOSTILE
from tests.report.test_report import write
from tests.report.test_results import REFS, noisy

FEW = ["--resamples", "50"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoder_folder: Path) -> Path:
    """A folder in the layout of --help, made current's `exp`."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "exp"
    (root / "systems").mkdir(parents=True)
    (root / "logs").mkdir()
    shutil.copytree(encoder_folder, root / "encoder")
    write(root / "ref.txt", REFS)
    write(root / "src.txt", [f"quelle {i}" for i in range(len(REFS))])
    for name, share, seed in (("MLE", 0.4, 1), ("BLEU", 0.3, 2), ("HALF.2", 0.2, 3)):
        write(root / "systems" / f"{name}.txt", noisy(share, seed))
    write(root / "systems" / "HALF.10.txt", [HOSTILE, *noisy(0.2, 4)[1:]])
    write(root / "systems" / "SIMILE.txt", [HOSTILE, *noisy(0.1, 5)[1:]])
    write(root / "systems" / "MLE.txt.log", ["noise"])
    costs = '"valid_cost_bleu": "0.5", "valid_cost_simile": "0.3"'
    for name in ("BLEU", "SIMILE"):
        lines = [f'{{{costs}, "valid_num_updates": "{u}"}}' for u in (0, 50)]
        write(root / "logs" / f"{name}.log", lines)
    write(root / "logs" / "MLE.log", ['{"valid_loss": "3", "valid_num_updates": "50"}'])
    return root


def test_a_folder_becomes_a_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", "exp", "--html", "a.html", "--title", HOSTILE, *FEW]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Results on 80 sentences of ref.txt")
    assert captured.err.splitlines()[-1] == "wrote a.html"
    document = check(Path("a.html").read_text(encoding="utf-8"))
    text = "".join(document.texts)
    assert HOSTILE in document.texts and "4 systems (5 outputs), 80 sentences" in text
    assert "left out: log of MLE: no validation costs" in text
    assert "simile report exp --html a.html" in text
    assert {"results", "curves", "made"} <= set(document.ids())
    assert text.index("HALF.2.txt") < text.index("HALF.10.txt")


def test_odd_names_in_a_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "systems" / "lr=3e-4,x.txt", noisy(0.1, 9))
    write(folder / "systems" / "reference.txt", noisy(0.1, 8))
    odd = folder.rename(folder.with_name("a,b=c"))
    assert main(["report", str(odd), "--html", "a.html", *FEW]) == 0, capsys.readouterr().err
    document = check(Path("a.html").read_text(encoding="utf-8"))
    assert "lr=3e-4,x" in document.texts
    # A system does not hide the file of the role that it is named like.
    assert {"ref.txt", "systems/reference.txt"} <= set(document.texts)
    write(folder.with_name("a,b=c") / "systems" / "x\n.txt", REFS)
    assert main(["report", str(odd)]) == 2
    assert "got control characters in a name" in capsys.readouterr().err


def test_every_question_has_its_section(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = []
    for i, ref in enumerate(REFS[:8]):
        lists += [f"S-{i}\tquelle", f"T-{i}\t{ref}"]
        lists += [f"D-{i}\t-0.{n}\t{ref} {HOSTILE * (n % 2)} {n}" for n in range(4)]
    write(folder / "nbest.txt", lists)
    (folder / "nbest").mkdir()
    for n in (2, 8):
        write(folder / "nbest" / f"SIMILE.n{n}.txt", noisy(0.1, n))
    assert main(["report", "exp", "--html", "a.html", *FEW]) == 0
    captured = capsys.readouterr()
    assert "Examples" not in captured.out  # the page has more than the terminal
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
    assert "<script>alert(1)</script>" in "".join(document.texts)


def test_every_file_is_on_the_page_with_its_digest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--baseline", "BLEU, MLE", "--only", "results"]
    assert main(["report", "exp", *only, "--html", "a.html", *FEW]) == 0
    texts = "|".join(check(Path("a.html").read_text(encoding="utf-8")).texts)
    for path in ("exp/src.txt", "exp/logs/SIMILE.log"):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
        assert path in texts and digest in texts


def test_ratings_of_the_folder_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = ["--sys", "BLEU=exp/systems/BLEU.txt", "--sys", "SIMILE=exp/systems/SIMILE.txt"]
    sheet = ["human-eval", "sheet", "--ref", "exp/ref.txt", *pair, "--sentences", "9"]
    (folder / "human").mkdir()
    assert main([*sheet, "--annotators", "1", "--out", "s", "--key", "exp/human/key.json"]) == 0
    filled = Path("s/sheet.1.tsv").read_text().replace("\t\t", "\t3\t")
    (folder / "human" / "anna.tsv").write_text(filled)
    assert main(["report", "exp", "--html", "a.html", *FEW]) == 0
    text = "".join(check(Path("a.html").read_text(encoding="utf-8")).texts)
    assert "People (1 annotator) see no clear difference between SIMILE and BLEU" in text
    (folder / "human" / "key.json").unlink()
    assert main(["report", "exp"]) == 2
    assert "holds answers but no key.json" in capsys.readouterr().err


def drop(name: str):
    return lambda root: (root / name).unlink()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (
            drop("ref.txt"),
            ["exp"],
            "results: needs --ref and --sys, but exp does not give --ref; see simile report --help",
        ),
        (
            lambda root: write(root / "systems" / "BLEU.txt~", REFS),
            ["exp"],
            "FOLDER: exp/systems/BLEU.txt and BLEU.txt~ are one seed of BLEU; keep one of them, or",
        ),
        (lambda root: None, ["exp/encoder"], "FOLDER: exp/encoder holds neither systems/"),
        (lambda root: None, ["exp", "--html", "a.pdf"], "--html: got a.pdf; expected a name that"),
    ],
)
def test_bad_folders_get_one_line_and_no_page(
    change,
    arguments: list[str],
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(folder)
    pages = [] if "--html" in arguments else ["--html", "a.html"]
    assert main(["report", *arguments, *pages]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"simile report: error: {message}") and error.count("\n") == 1
    assert not Path("a.html").exists()

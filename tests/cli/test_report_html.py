"""`simile report FOLDER --html`, the real command line."""

import hashlib
import json
import os
import shutil
import threading
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
    assert captured.out.startswith("Results on 80 sentences of exp/ref.txt")
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
    assert {str(odd / "ref.txt"), str(odd / "systems/reference.txt")} <= set(document.texts)
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
        *("results", "examples", "curves", "nbest", "costs", "headroom", "lexical"),
        *("gaming", "made"),
    ]
    assert document.tags["article"] > 1 and document.tags["mark"] > 1
    assert not any("alert(1)" in script for script in document.scripts)
    assert "<script>alert(1)</script>" in "".join(document.texts)


def test_equal_input_gives_equal_bytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for _ in range(2):
        assert main(["report", "exp", "--html", "a.html", *FEW]) == 0
        pages.append(Path("a.html").read_bytes())
    assert pages[0] == pages[1]
    assert b"<h1>Comparison of MLE, BLEU, HALF and SIMILE</h1>" in pages[0]


def test_flags_go_before_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ["report", "exp", "--sys", "X=exp/systems/MLE.txt", "--only", "results", "--json"]
    assert main([*only, *FEW]) == 0
    content = json.loads(capsys.readouterr().out)
    assert list(content) == ["results"]
    assert [system["name"] for system in content["results"]["systems"]] == ["X"]


def test_a_pipe_is_read_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=write, args=(Path("pipe"), REFS))
    writer.start()
    pair = ["--sys", "A=exp/systems/MLE.txt", "--sys", "B=exp/systems/BLEU.txt"]
    assert main(["report", "--ref", "pipe", *pair, "--html", "a.html", *FEW]) == 0
    writer.join()
    assert check(Path("a.html").read_text(encoding="utf-8")).ids().count("gaming") == 1


def test_a_file_whose_name_is_not_utf_8(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"MLE\xff.txt")
    shutil.copy("exp/systems/MLE.txt", name)
    command = ["report", "--ref", "exp/ref.txt", "--sys", f"X={name}", "--only", "results", *FEW]
    assert main([*command, "--html", "a.html", "--out", "a.md"]) == 0
    assert "MLE?.txt" in Path("a.html").read_text(encoding="utf-8")


def test_every_file_is_on_the_page_with_its_digest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "report",
                "exp",
                "--baseline",
                "BLEU, MLE",
                "--only",
                "results",
                "--html",
                "a.html",
                *FEW,
            ]
        )
        == 0
    )
    texts = "|".join(check(Path("a.html").read_text(encoding="utf-8")).texts)
    for path in ("exp/src.txt", "exp/logs/SIMILE.log"):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
        assert path in texts and digest in texts


def test_a_folder_of_logs_needs_no_systems(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "systems")
    assert main(["report", "exp", "--html", "a.html"]) == 0
    assert 'id="curves"' in Path("a.html").read_text(encoding="utf-8")


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
            lambda root: write(root / "ref.en", REFS),
            ["exp"],
            "FOLDER: exp holds ref.en and ref.txt",
        ),
        (lambda root: write(root / "ref.txt", REFS[1:]), ["exp"], "--sys MLE: exp/systems/MLE.txt"),
        (lambda root: write(root / "ref.txt", []), ["exp"], "--ref: exp/ref.txt is empty"),
        (
            lambda root: write(root / "systems" / "BLEU.txt", []),
            ["exp"],
            "--sys: exp/systems/BLEU.txt is empty",
        ),
        (
            lambda root: write(root / "systems" / "BLEU.txt~", REFS),
            ["exp"],
            "FOLDER: exp/systems/BLEU.txt and BLEU.txt~ are one seed of BLEU; keep one of them, or",
        ),
        (lambda root: None, ["nowhere"], "FOLDER: nowhere is no folder"),
        (lambda root: None, ["exp/encoder"], "FOLDER: exp/encoder holds neither systems/"),
        (lambda root: None, ["exp", "--html", "a.pdf"], "--html: got a.pdf; expected a name that"),
        (lambda root: None, ["exp", "--html", "no/a.html"], "--html: no folder for no/a.html"),
        (lambda root: None, ["exp", "--human", "key"], "--human: got 'key'; expected NAME=FILE"),
        (lambda root: None, ["exp", "--baseline", "GONE"], "--baseline: got GONE; expected one of"),
        (
            lambda root: write(root / "logs" / "BLEU.log", ['{"valid_cost_bleu": "nan"}']),
            ["exp"],
            "--log: exp/logs/BLEU.log has no validation lines among its 1",
        ),
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

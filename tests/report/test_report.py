"""`simile report`, the real command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simile_plugin.cli import main
from simile_plugin.encoder.format import load_encoder
from simile_plugin.report import questions
from simile_plugin.reward import Scorer

from .test_results import REFS, noisy


def write(path: Path, lines: tuple[str, ...] | list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with references, three systems (one of two seeds) and two logs, made current."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ref.txt", REFS)
    for name, share, seed in (("mle", 0.4, 1), ("bleu", 0.3, 2), ("s1", 0.1, 3), ("s2", 0.15, 4)):
        write(tmp_path / f"{name}.txt", noisy(share, seed))
    for name in ("bleu", "simile"):
        lines = [
            f'{{"valid_cost_bleu": "{0.6 - u / 1000}", "valid_cost_simile": "0.3", '
            f'"valid_bleu": "30", "valid_length_ratio": "1", "valid_num_updates": "{u}"}}'
            for u in (0, 50, 100)
        ]
        write(tmp_path / f"{name}.log", lines)
    return tmp_path


SYSTEMS = ["--sys", "MLE=mle.txt", "--sys", "BLEU=bleu.txt", "--sys", "SIMILE=s1.txt,s2.txt"]
RESULTS = ["report", "--ref", "ref.txt", *SYSTEMS, "--resamples", "100"]
CURVES = ["--log", "BLEU=bleu.log", "--log", "SIMILE=simile.log"]


def test_everything_in_one_command(files: Path, encoder_folder: Path) -> None:
    command = [sys.executable, "-m", "simile_plugin", *RESULTS, *CURVES]
    command += ["--encoder", str(encoder_folder), "--svg", "c.svg", "--out", "report.md"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.stdout.startswith("Results on 80 sentences of ref.txt")
    assert "SIMILE - BLEU" in done.stdout and "Expected SIMILE cost" in done.stdout
    assert done.stderr.splitlines() == ["wrote c.svg", "wrote report.md"]
    markdown = (files / "report.md").read_text(encoding="utf-8")
    assert markdown.startswith("## Results on 80 sentences of `ref.txt`")
    assert "](c.svg)" in markdown
    assert (files / "c.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_words_that_are_sentences_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refs = ["雨停了，孩子们出去玩。", "他走了。"]
    outputs = ["雨停了，他们出门去玩。", "她走了。"]
    lists = [{"id": n, "hyps": [outputs[n], ref], "ref": ref} for n, ref in enumerate(refs)]
    write(tmp_path / "lists.jsonl", [json.dumps(line) for line in lists])
    own = ["--ref", write(tmp_path / "ref", refs), "--sys", "A=out", "--sys", "B=ref"]
    write(tmp_path / "out", outputs)
    warning = "warning: the references have next to no spaces, so that BLEU and Length take"
    for only, given in (
        ("headroom", ["--nbest-lists", "lists.jsonl"]),
        ("gaming,lexical,results", own),
    ):
        for tokenize in ("13a", "zh"):
            flags = [*given, "--only", only, "--tokenize", tokenize, "--resamples", "40"]
            assert main(["report", *flags, "--html", "page.html"]) == 0
            expected = len(only.split(",")) if tokenize == "13a" else 0
            assert capsys.readouterr().out.count(warning) == expected
            page = (tmp_path / "page.html").read_text("utf-8")
            assert page.count("next to no spaces") == (expected and expected + 1)  # once at its top


def test_json_scores_are_those_of_scorer_lists(
    files: Path, encoder_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RESULTS, "--encoder", str(encoder_folder), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert list(content) == ["results", "length"]
    found = content["results"]["systems"][1]["scores"]["simile"]["value"]
    hyps = [[line] for line in (files / "bleu.txt").read_text().splitlines()]
    simile = Scorer(encoder=load_encoder(encoder_folder)).lists(hyps, REFS).simile
    assert simile is not None
    assert found == pytest.approx(100 * simile.double().mean().item(), abs=1e-5)


def test_sentence_scores_are_a_metric(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*RESULTS]
    for name, stem in (("MLE", "mle"), ("BLEU", "bleu"), ("SIMILE", "s1")):
        hyps = (files / f"{stem}.txt").read_text().splitlines()
        exact = [f"{int(h == r)}\tnote" for h, r in zip(hyps, REFS, strict=True)]
        path = write(files / f"{stem}.exact", exact)
        seeds = f"{path},{write(files / 's2.exact', exact)}" if name == "SIMILE" else path
        command += ["--sentence-scores", f"exact:{name}={seeds}"]
    hidden = [part.replace("exact:", "chrF:") for part in command]
    assert main(hidden) == 2
    assert "--sentence-scores: got chrF, which is computed; name" in capsys.readouterr().err
    assert main(command) == 0
    text = capsys.readouterr().out
    header = next(line for line in text.splitlines() if line.startswith("System"))
    assert header.split() == ["System", "Seeds", "BLEU", "score", "chrF", "exact", "Length"]


def test_a_log_of_a_killed_run_may_end_within_a_letter(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *CURVES, "--json"]) == 0
    whole = capsys.readouterr().out
    with open("bleu.log", "ab") as log:
        log.write("\0\0epoch 002:  50%|██".encode()[:-1])
    assert main(["report", *CURVES, "--json"]) == 0
    assert capsys.readouterr().out == whole


@pytest.fixture
def more(files: Path, encoder_folder: Path) -> list[str]:
    """Flags of every question: sources, n-best lists, a folder of outputs by N."""
    write(files / "src.txt", [f"Satz {i}" for i in range(len(REFS))])
    lists = []
    for i, ref in enumerate(REFS[:4]):
        lists += [f"T-{i}\t{ref}", f"D-{i}\t-0.5\t{noisy(0.1, 5)[i]}", f"D-{i}\t-1\t{ref}"]
    write(files / "lists.txt", lists)
    (files / "sizes").mkdir()
    for n in (2, 4):
        write(files / "sizes" / f"simile.n{n}.txt", noisy(0.3 / n, n))
    flags = ["--encoder", str(encoder_folder), "--src", "src.txt", "--nbest-lists", "lists.txt"]
    return [*RESULTS, *CURVES, *flags, "--nbest-folder", "sizes", "--examples", "2"]


@pytest.mark.parametrize("compare", ["MLE,SIMILE", "SIMILE,BLEU"])
def test_shared_scores_give_what_each_question_gives_alone(
    compare: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["results", "examples", "gaming"]
    command = [*more, "--json", "--compare", compare, "--only"]
    assert main([*command, ",".join(names)]) == 0
    together = json.loads(capsys.readouterr().out)
    for name in names:
        assert main([*command, name]) == 0
        assert json.loads(capsys.readouterr().out)[name] == together[name]


@pytest.mark.parametrize("name", [name for name in questions.NEEDS if name != "human"])
def test_each_question_by_name(
    name: str, more: list[str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = ["--svg", f"{name}.svg"] if name not in ("length", "examples", "gaming") else []
    assert main([*more, "--only", name, "--out", f"{name}.md", *picture]) == 0
    printed = capsys.readouterr()
    markdown = (files / f"{name}.md").read_text(encoding="utf-8")
    assert markdown.startswith("## ") and printed.out.strip()
    for path in picture[1:]:
        assert (
            "<svg" in (files / path).read_text(encoding="utf-8") and f"wrote {path}" in printed.err
        )
    assert main([*more, "--only", name, "--json"]) == 0
    content = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(text))
    assert list(content) == [name]


def test_files_ask_for_their_questions(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*more, "--json"]) == 0
    asked = ["results", "length", "curves", "nbest", "headroom"]
    assert list(json.loads(capsys.readouterr().out)) == asked
    for flag, value, chosen in (
        ("--nbest-folder", "sizes", ["nbest"]),
        ("--nbest-lists", "lists.txt", ["headroom"]),
    ):
        assert main(["report", "--ref", "ref.txt", flag, value, "--json"]) == 0
        assert list(json.loads(capsys.readouterr().out)) == chosen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to report: give --ref and --sys for results, --log for curves"),
        (["--ref", "ref.txt"], "nothing to report: give --ref and --sys for results"),
        (["--sys", "A=mle.txt"], "results: needs --ref and --sys; see simile report --help"),
        ([*RESULTS[1:], "--only", "gaming", "--svg", "a.svg"], "--svg: gaming has no picture"),
        (["--only", "table", *CURVES], "--only: got table; expected results, length, human, wh"),
        ([*RESULTS[1:], "--simile-alpha", "-1"], "--simile-alpha: got -1, expected a number of"),
        ([*RESULTS[1:], "--simile-alpha", "0.5"], "--simile-alpha: is for the reward encoder"),
        ([*CURVES, "--resamples", "0"], "--resamples: got 0, expected a whole number from 40 to"),
        (["--ref", "-", "--sys", "A=-"], "-: standard input is named twice; name a file instead"),
        (["--ref", "ref.txt", "--nbest-folder", "."], "--nbest-folder: . has no outputs"),
        (
            [*RESULTS[1:], "--only", "lexical", "--compare", "MLE"],
            "--compare: got MLE; expected two different systems",
        ),
        (
            [*RESULTS[1:], "--only", "gaming", "--src", "bleu.log"],
            "--src: bleu.log has 3 sentences but --ref has 80; they must be parallel",
        ),
    ],
)
def test_bad_input_gets_one_line(
    arguments: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(files.iterdir())
    assert main(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"simile report: error: {message}")
    assert captured.err.count("\n") == 1
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize(
    ("flag", "path", "given"),
    [
        ("--out", "in.md", ["--ref", "in.md", "--sys", "A=mle.txt"]),
        ("--out", "link.md", ["--ref", "ref.txt", "--sys", "A=in.md"]),
        ("--svg", "in.svg", ["--log", "A=in.svg"]),
    ],
)
def test_no_output_goes_over_an_input(
    flag: str, path: str, given: list[str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("md", "html", "svg"):
        write(files / f"in.{kind}", REFS)
    (files / "link.md").symlink_to("in.md")
    before = {file: file.read_bytes() for file in files.iterdir()}
    assert main(["report", *given, flag, path]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"simile report: error: {flag}: {path} is an input of this command")
    assert {file: file.read_bytes() for file in files.iterdir()} == before


def test_templates_styles_and_scripts_are_in_the_package() -> None:
    root = Path(__file__).resolve().parents[2]
    setup = (root / "setup.py").read_text(encoding="utf-8")
    patterns = ["*/*.j2", "*/*.css", "*/*.js"]
    assert all(f'"{pattern}"' in setup for pattern in patterns)
    report = root / "simile_plugin" / "report"
    others = {p for p in report.rglob("*.*") if p.is_file() and p.suffix not in (".py", ".pyc")}
    assert others == {path for pattern in patterns for path in report.glob(pattern)}

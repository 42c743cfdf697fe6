"""`simile probe` by its command line."""

import json

import pytest

from simile_plugin.cli import main
from tests.conftest import SENTENCES


@pytest.fixture
def files(tmp_path):
    """Names of files that belong together."""

    def write(name, lines):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return str(tmp_path / name)

    lists = [
        line
        for number, ref in enumerate(SENTENCES)
        for line in (f"T-{number}\t{ref}", f"D-{number}\t-1\t{ref}", f"D-{number}\t-2\ta boat")
    ]
    return {
        "ref": write("ref", SENTENCES),
        "other": write("other", [*SENTENCES[:-1], f"then {SENTENCES[-1]}"]),
        "src": write("src", [line[::-1] for line in SENTENCES]),
        "nbest": write("nbest", lists),
        "short": write("short", SENTENCES[:3]),
        "blank": write("blank", ["", " "]),
    }


def probe(*arguments):
    return main(["probe", "--search-words", "4", "--resamples", "40", *map(str, arguments)])


def test_tables_json_and_picture(capsys, tmp_path, files, encoder_folder):
    arguments = ["--ref", files["ref"], "--src", files["src"], "--other-ref", files["other"]]
    arguments += ["--nbest", files["nbest"]]
    arguments += ["--encoder", encoder_folder, "--reward", "simile", "--reward", "bleu"]
    assert probe(*arguments, "--svg", tmp_path / "x.svg") == 0
    printed = capsys.readouterr().out
    for text in ("not lower, %", "other-reference (harmless)", "shuffle"):
        assert text in printed
    for text in ("correlation with length", "one fixed text", "fixed text for bleu: ", "enc:"):
        assert text in printed
    assert "<svg" in (tmp_path / "x.svg").read_text()
    assert probe(*arguments, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [*found["rewards"]] == ["simile", "bleu"] and found["sentences"] == len(SENTENCES)
    bleu = found["rewards"]["bleu"]
    assert bleu["changes"]["other-reference"]["count"] == 1  # of text that changes
    assert bleu["changes"]["empty"]["mean"] == -1 and bleu["length"] == pytest.approx(1)
    # words in another order: an average of vectors does not see it
    assert found["rewards"]["simile"]["changes"]["shuffle"]["not_lower"] == 100
    assert bleu["changes"]["shuffle"]["not_lower"] < 50
    assert probe(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out) == found


SOURCES: list[str] = []


def own(hyps, refs, srcs):
    """A reward of one's own, which says what it was asked."""
    SOURCES.extend(srcs)
    return [[len(hyp) for hyp in row] for row in hyps]


def test_a_reward_of_ones_own_gets_the_sources_of_lists(capsys, tmp_path, files):
    path = tmp_path / "lists.jsonl"
    record = {"id": 0, "ref": "one", "src": "eins", "hyps": ["one", "won"]}
    path.write_text(json.dumps(record) + "\n")
    reward = ("--reward", "tests.cli.test_probe:own", "--search-words", 0)
    SOURCES.clear()
    assert probe("--ref", files["ref"], "--nbest", path, *reward) == 0
    assert {*SOURCES} == {"", "eins"}


def test_bad_input_is_one_line(capsys, tmp_path, files, encoder_folder, monkeypatch):
    def fails(*arguments):
        assert probe(*arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        return error

    ref = ("--ref", files["ref"])
    assert "no line can be harmed" in fails("--ref", files["blank"])
    error = fails(*ref, "--src", files["short"])
    assert "--ref" in error and "8 lines" in error and "--src" in error and "3" in error
    assert "got 'chrff'; expected" in fails(*ref, "--reward", "chrff")
    assert "--encoder: not given, but --reward simile needs a" in fails(*ref, "--reward", "simile")
    (tmp_path / "bare.jsonl").write_text('{"hyps": ["a", "b"]}\n')
    error = fails(*ref, "--nbest", tmp_path / "bare.jsonl")
    assert error.endswith("(fairseq: no T-0); give lists with references\n")
    assert "a name in .svg or .png" in fails(*ref, "--svg", tmp_path / "x.pdf")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "METEOR 1.5" in fails(*ref, "--reward", "meteor")

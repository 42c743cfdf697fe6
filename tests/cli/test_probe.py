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
        "src": write("src", [line[::-1] for line in SENTENCES]),
        "nbest": write("nbest", lists),
        "short": write("short", SENTENCES[:3]),
        "blank": write("blank", ["", " "]),
    }


def probe(*arguments):
    return main(["probe", "--search-words", "4", "--resamples", "40", *map(str, arguments)])


def test_tables_json_and_picture(capsys, tmp_path, files, encoder_folder):
    arguments = ["--ref", files["ref"], "--src", files["src"], "--other-ref", files["ref"]]
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
    assert bleu["changes"]["other-reference"]["mean"] == 0
    assert bleu["changes"]["empty"]["mean"] == -1 and bleu["length"] == pytest.approx(1)
    # words in another order: an average of vectors does not see it
    assert found["rewards"]["simile"]["changes"]["shuffle"]["not_lower"] == 100
    assert bleu["changes"]["shuffle"]["not_lower"] < 50
    assert probe(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out) == found


def test_without_encoder_and_search(capsys, files):
    assert probe("--ref", files["ref"], "--search-words", 0) == 0
    printed = capsys.readouterr().out
    assert "chrf" in printed and "bleu" in printed and "simile " not in printed
    assert "fixed text" not in printed and "spread" not in printed


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


def test_sentences_without_words_are_not_counted(capsys, tmp_path, files):
    lines = [*SENTENCES[:3], "", " "]
    (tmp_path / "blanks").write_text("".join(f"{line}\n" for line in lines))
    arguments = ["--ref", tmp_path / "blanks", "--search-words", 0]
    assert probe(*arguments) == 0
    assert "harm is done to 3 references" in capsys.readouterr().out
    assert probe(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 3


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
    error = fails("--ref", "-", "--nbest", "-")
    assert "--ref and --nbest: only one of them can be - (standard input)" in error
    assert "got 'chrff'; expected" in fails(*ref, "--reward", "chrff")
    assert "--reward simile: needs --encoder" in fails(*ref, "--reward", "simile")
    assert "got 'bleu' twice" in fails(*ref, "--reward", "bleu", "--reward", "bleu")
    assert "no D- lines" in fails(*ref, "--nbest", files["short"])
    (tmp_path / "bare.jsonl").write_text('{"hyps": ["a", "b"]}\n')
    error = fails(*ref, "--nbest", tmp_path / "bare.jsonl")
    assert error.endswith("(fairseq: no T-0); give lists with references\n")
    assert "a name in .svg or .png" in fails(*ref, "--svg", tmp_path / "x.pdf")
    assert "--svg: no folder" in fails(*ref, "--svg", tmp_path / "none" / "x.svg")
    assert "--search-words" in fails(*ref, "--search-words", -1)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "METEOR 1.5" in fails(*ref, "--reward", "meteor")


def test_tokenize(capsys, tmp_path):
    lines = ["他用硬币付了票钱。", "鹭在池塘边等。"]
    (tmp_path / "ref.zh").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    arguments = ["--ref", tmp_path / "ref.zh", "--reward", "bleu"]
    means = {}
    for name in ("13a", "zh"):
        assert probe(*arguments, "--tokenize", name, "--json") == 0
        means[name] = json.loads(capsys.readouterr().out)["rewards"]["bleu"]["changes"]["drop"]
        assert probe(*arguments, "--tokenize", name) == 0
        printed = capsys.readouterr()
        assert f"tok:{name}|" in printed.out
        assert ("the references have next to no spaces" in printed.err) == (name == "13a")
    assert means["13a"]["mean"] < means["zh"]["mean"] < 0
    assert probe(*arguments[:-1], "chrf") == 0 and not capsys.readouterr().err
    assert probe(*arguments, "--tokenize", "hz") == 2
    assert "--tokenize: got 'hz'" in capsys.readouterr().err

"""`simile fit-reward`, and what uses its folder, by their command lines."""

import json
import random

import pytest

from simile_plugin.cli import main
from tests.conftest import SENTENCES


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return captured.out


def fails(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def judgements(path, seed, count=24):
    rng = random.Random(seed)
    lines = ["hypothesis\treference\thuman_z"]
    for _ in range(count):
        ref = rng.choice(SENTENCES)
        words = ref.split()
        kept = rng.randrange(2, len(words) + 1)
        lines.append(f"{' '.join(words[:kept])}\t{ref}\t{kept + rng.random():.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES))
    return [judgements(tmp_path / f"{seed}.tsv", seed) for seed in (1, 2)]


@pytest.fixture
def fit(tmp_path, files, encoder_folder):
    """Arguments of a fit to some files, the two by default."""

    def arguments(*judged, **flags):
        flags = {"text": tmp_path / "text", "output": tmp_path / "reward", **flags}
        named = [part for name, value in flags.items() for part in (f"--{name}", value)]
        return [
            *("fit-reward", "--encoder", encoder_folder, "--resamples", 40),
            *("--judgements", *(judged or files), *named),
        ]

    return arguments


def test_segments_of_two_annotators_are_told(capsys, files, fit, tmp_path):
    header, *rows = files[0].read_text().splitlines()
    again = tmp_path / "again.tsv"
    again.write_text("\n".join([header, *(f"{row}9" for row in rows)]) + "\n")
    given = [str(argument) for argument in fit(files[0], again, device="cuda:99")]
    assert main(given) == 2  # for the device, which is looked for later
    told = f"24 of 24 segments of {files[0]} stand in other files, too ({again} first)"
    assert f"simile fit-reward: warning: {told}" in capsys.readouterr().err


def test_judgements_that_come_twice_are_told(capsys, files, encoder_folder):
    header, *rows = files[0].read_text().splitlines()
    command = ["eval-encoder", encoder_folder, "--judgements"]
    assert main([*map(str, command), str(files[0])]) == 0
    assert "twice" not in capsys.readouterr().err
    files[0].write_text("\n".join([header, *rows, *rows]) + "\n")
    assert main([*map(str, command), str(files[0])]) == 0
    assert (
        f"simile eval-encoder: warning: --judgements {files[0]} (lines without a header) has its "
        "first 24 lines again from line 25 on: was it written or joined twice?\n"
    ) in capsys.readouterr().err


def test_fit_then_score_and_evaluate(capsys, tmp_path, files, fit, encoder_folder):
    printed = run(capsys, *fit())
    assert "LEARNED" in printed and "chrF++" in printed and "common_missing" in printed
    folder = tmp_path / "reward"
    assert "--output: " in (error := fails(capsys, *fit())) and "add --overwrite" in error
    found = json.loads(run(capsys, *fit(), "--json", "--overwrite"))
    assert found["signature"] in printed and found["weights"]["short"] > 0
    assert found["figures"]["mean"]["spearman"]["LEARNED"]["value"] > 50
    assert str(tmp_path) not in (folder / "reward.json").read_text()  # people share it
    # the same folder, in scores of sentences, of a corpus, and beside others on judgements
    (tmp_path / "hyp").write_text("".join(f"{line}\n" for line in [*SENTENCES[:-1], ""]))
    score = ["score", "-r", tmp_path / "text", "-i", tmp_path / "hyp", "--encoder", encoder_folder]
    score += ["--learned", folder]
    assert f"LEARNED         87.50  {found['signature']}" in run(capsys, *score)
    last = run(capsys, *score, "-sl").splitlines()
    assert last[0].endswith("SIMILE\tLEARNED") and last[-1].endswith("\t0.0000")
    compare = ["eval-encoder", encoder_folder, "--judgements", *files, "--resamples", 40]
    compare += ["--learned", folder]
    table = run(capsys, *compare)
    assert "LEARNED" in table and found["signature"] in table and "LEARNED - BLEU" in table


def test_text_of_another_language_has_no_negations(capsys, tmp_path, fit):
    (tmp_path / "text").write_text("der Reiher wartet am Teich\n" * 9)
    assert main([str(argument) for argument in [*fit(), "--json"]]) == 0
    out, err = capsys.readouterr()
    assert "note: --text is not English" in err
    assert json.loads(out)["weights"]["negation"] == 0
    assert json.loads((tmp_path / "reward" / "reward.json").read_text())["negation_words"] == []


def test_an_encoder_of_another_fit(capsys, tmp_path, files, fit, encoder_folder):
    run(capsys, *fit())
    path = tmp_path / "reward" / "reward.json"
    score = ["score", "-r", tmp_path / "text", "-i", tmp_path / "text", "--learned", path.parent]
    assert "--learned: needs --encoder DIR" in fails(capsys, *score)
    path.write_text(path.read_text().replace('"encoder": "', '"encoder": "f'))
    error = fails(capsys, *score, "--encoder", encoder_folder)
    assert "--learned: " in error and "changed after the fit" in error


def rows(*lines):
    return "\n".join(["hyp\tref\tscore", *lines]) + "\n"


GOOD = [f"a {n}\tb\t{n}" for n in range(20)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (rows(*(f"a {n}\tb\t1.5" for n in range(20))), "human score of every segment is 1.5"),
        (rows(*GOOD[:12]), "12 judged segments, expected 20 or more to fit 12 weights"),
        (rows(*GOOD, "a\tb\tnan"), ":22: got human score 'nan' in column 3"),
    ],
)
def test_bad_judgements(capsys, tmp_path, files, fit, content, message):
    (tmp_path / "bad.tsv").write_text(content)
    error = fails(capsys, *fit(files[0], tmp_path / "bad.tsv"))
    assert "--judgements: " in error and "bad.tsv" in error and message in error
    assert not (tmp_path / "reward").exists()


def test_bad_files(capsys, tmp_path, files, fit):
    (tmp_path / "nothing").write_text("\n")
    error = fails(capsys, *fit(text=tmp_path / "nothing"))
    assert "--text: " in error and "nothing is empty; expected sentences" in error
    assert "--output: " in fails(capsys, *fit(output=files[0]))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("kept")
    assert "no reward.json among them" in fails(capsys, *fit(output=tmp_path / "other"))

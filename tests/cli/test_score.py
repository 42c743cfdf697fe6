"""`simile score` by its command line."""

import json
import subprocess
import sys

import pytest
import sacrebleu

from simile_plugin.cli import main
from simile_plugin.encoder import load_encoder
from simile_plugin.reward import SIMILE, Scorer
from simile_plugin.reward.bleu import corpus_bleu
from simile_plugin.reward.spec import Reward

REFS = ["The grey heron waits.", "Two boys skip stones.", "A red house stands on the hill."]
HYPS = ["A grey heron is waiting.", "Two boys skip stones.", ""]


@pytest.fixture
def files(tmp_path):
    for name, lines in (("ref", REFS), ("hyp", HYPS), ("perfect", REFS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def run(capsys, *arguments):
    status = main(["score", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_json_equals_the_reward_of_training(files, encoder, encoder_folder, capsys):
    status, out, _ = run(
        capsys, "-r", files / "ref", "-i", files / "hyp", "--encoder", encoder_folder, "--json"
    )
    assert status == 0
    found = {entry["name"]: entry for entry in json.loads(out)}
    scores = Scorer(encoder=encoder).lists([[hyp] for hyp in HYPS], REFS)
    assert found["SIM"]["score"] == pytest.approx(100 * scores.sim.mean().item(), abs=1e-4)
    assert found["SIMILE"]["score"] == pytest.approx(100 * scores.simile.mean().item(), abs=1e-4)
    assert found["BLEU"]["score"] == pytest.approx(
        float(corpus_bleu(scores.bleu_stats.sum((0, 1))))
    )
    bleu = sacrebleu.metrics.BLEU()
    assert found["BLEU"]["score"] == pytest.approx(bleu.corpus_score(HYPS, [REFS]).score)
    assert found["BLEU"]["signature"] == str(bleu.get_signature())
    chrf = sacrebleu.metrics.CHRF()
    assert found["chrF"]["score"] == pytest.approx(chrf.corpus_score(HYPS, [REFS]).score)
    assert found["chrF"]["signature"] == str(chrf.get_signature())
    assert encoder.fingerprint in found["SIMILE"]["signature"]
    assert found["length_ratio"]["signature"] == "tokens, tok:13a"


def test_text_of_two_systems(files, encoder_folder, capsys):
    status, out, _ = run(
        capsys, "-r", files / "ref", "-i", files / "hyp", files / "perfect",
        "--encoder", encoder_folder,
    )  # fmt: skip
    assert status == 0
    each = "-r", files / "ref", "-i", files / "hyp", "-i", files / "perfect"
    assert run(capsys, *each, "--encoder", encoder_folder)[1] == out
    assert f"{files / 'perfect'} (3 sentences)" in out
    assert out.count("100.00") == 4  # a perfect system has 100 in BLEU, chrF, SIM and SIMILE


def test_sentence_level(files, encoder_folder, capsys):
    _, out, _ = run(
        capsys, "-r", files / "ref", "-i", files / "hyp", "--encoder", encoder_folder, "-sl"
    )
    header, *rows = [line.split("\t") for line in out.splitlines()]
    assert header == ["file", "line", "BLEU", "chrF", "SIM", "SIMILE"]
    assert [row[1] for row in rows] == ["1", "2", "3"]
    assert rows[1][2:] == ["100.0000"] * 4 and rows[2][2:] == ["0.0000"] * 4
    chrf = sacrebleu.metrics.CHRF().sentence_score(HYPS[0], [REFS[0]]).score
    assert float(rows[0][3]) == pytest.approx(chrf, abs=1e-4)


def test_warns_of_another_script(tmp_path, encoder_folder, capsys):
    (tmp_path / "x").write_text("\u4e2d\u6587 \u5b57\n", encoding="utf-8")
    _, _, err = run(capsys, "-r", tmp_path / "x", "-i", tmp_path / "x", "--encoder", encoder_folder)
    assert "unknown to the encoder" in err


def test_warns_of_text_without_spaces(tmp_path, capsys):
    (tmp_path / "x").write_text("我们明天去看海。\n\n", encoding="utf-8")
    told = []
    for tokenize in ("13a", "zh"):
        flags = ["--tokenize", tokenize]
        told.append(run(capsys, "-r", tmp_path / "x", "-i", tmp_path / "x", *flags)[2])
    assert "x have next to no spaces" in told[0] and "give char, or zh" in told[0]
    assert "spaces" not in told[1]


def test_warns_of_tokenised_text(tmp_path, capsys):
    (tmp_path / "plain").write_text("The heron's pond.\nA well-known boat.\n")
    for text, said in (
        ("The heron &apos;s pond .\nA boat .\n", "has HTML escapes ('&apos;')"),
        ("The heron&#39;s pond.\nA boat.\n", "has HTML escapes ('&#39;')"),
        ("Herons & amp ; boats.\nA boat.\n", "has HTML escapes ('& amp ;')"),
        ("The \u200bheron.\nA boat.\n", "has characters that nobody sees (U+200B)"),
        ("Theheron'spond.\nAwell-knownboat.\n", "has next to no spaces, unlike the references"),
        ("The he\u0301ron.\nA boat.\n", "and the references only one has accents as characters"),
        ("H-0\t-0.5\tThe heron.\nH-1\t-0.1\tA boat.\n", "has several columns"),
        ('"He said ""yes""."\nA boat.\n', "has lines in quotes, as pandas"),
        ("A@@ da\nx\n", "is tokenised or segmented text (it has '@@'"),
        ("\u2581A da\nx\n", "is tokenised or segmented text (it has '\u2581'"),
    ):
        (tmp_path / "marked").write_text(text)
        _, _, err = run(capsys, "-r", tmp_path / "plain", "-i", tmp_path / "marked")
        assert err.count("\n") == 1 and f"marked {said}" in err
    assert run(capsys, "-r", tmp_path / "plain", "-i", tmp_path / "plain")[2] == ""


def test_bad_input_is_one_line(files, tmp_path, encoder_folder, capsys):
    (tmp_path / "short").write_text("one line\n")
    (tmp_path / "latin").write_bytes(b"caf\xe9\nx\ny\n")
    (tmp_path / "empty").write_text("")
    ref, hyp = files / "ref", files / "hyp"
    cases = [
        (["-r", ref, "-i", tmp_path / "short"], "has 3 lines but"),
        (["-r", ref, "-i", tmp_path / "latin"], "latin:1: not UTF-8"),
        (["-r", tmp_path / "empty", "-i", tmp_path / "empty"], "empty"),
        (["-r", ref, "-i", hyp, "--encoder", tmp_path], "config.json"),
        (["-r", ref, "-i", hyp, "--tokenize", "13b"], "--tokenize: got '13b'"),
        (["-r", ref, "-i", hyp, "--what"], "unrecognized arguments: --what; simile score --help"),
        (["-r", ref], "the following arguments are required: -i/--hyp"),
    ]
    own = ["-r", ref, "-i", hyp, "--encoder", encoder_folder]
    cases.append(([*own, "--simile-alpha", "nan"], "--simile-alpha: got nan, expected"))
    cases.append(([*own, "--device", "banana"], "--device: got 'banana', which cannot be"))
    for arguments, message in cases:
        status, out, err = run(capsys, *arguments)
        assert status == 2 and not out
        assert message in err and err.startswith("simile score: error: ")
        assert len(err.splitlines()) == 1, err


def test_a_tokeniser_without_its_package(files, capsys, monkeypatch):
    def missing(name):
        raise RuntimeError(f"\nplease install\n  {name}")

    monkeypatch.setattr(sacrebleu.metrics.bleu, "_get_tokenizer", missing)
    status, _, err = run(capsys, "-r", files / "ref", "-i", files / "hyp", "--tokenize", "ja-mecab")
    assert status == 2 and err.count("\n") == 1
    assert "--tokenize: sacreBLEU cannot use ja-mecab here: please install" in err


def test_closed_standard_input(files):
    command = f"{sys.executable} -m simile_plugin score -r {files / 'ref'} -i - <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "--hyp: <stdin>: standard input is closed" in done.stderr


def test_several_references_count_as_in_sacrebleu(files, tmp_path, encoder_folder, capsys):
    others = ["two boys skip a stone", "", "a quite other sentence of many words"]
    (tmp_path / "other").write_text("\n".join(others) + "\n")
    refs, both = files / "ref", [REFS, others]
    given = "-r", refs, tmp_path / "other", "-i", files / "hyp", "--encoder", encoder_folder
    status, out, _ = run(capsys, *given, "--json")
    assert status == 0
    entries = {entry["name"]: entry for entry in json.loads(out)}
    for name, metric in (("BLEU", sacrebleu.metrics.BLEU()), ("chrF", sacrebleu.metrics.CHRF())):
        assert entries[name]["score"] == pytest.approx(metric.corpus_score(HYPS, both).score)
        assert entries[name]["signature"] == str(metric.get_signature())
    metric = SIMILE(str(encoder_folder))
    assert entries["SIMILE"]["score"] == pytest.approx(metric.corpus_score(HYPS, both).score, 1e-6)
    assert entries["SIMILE"]["signature"] == metric.get_signature()
    assert entries["SIM"]["signature"].startswith("nrefs:2|enc:")
    _, out, _ = run(capsys, *given, "-sl")
    rows = [line.split("\t") for line in out.splitlines()[1:]]
    chrf = sacrebleu.metrics.CHRF()
    for row, hyp, *of_line in zip(rows, HYPS, *both, strict=True):
        bleu = sacrebleu.metrics.BLEU(smooth_method="add-k", smooth_value=1)
        # sacreBLEU gives a sentence without a common word a little
        expected = bleu.sentence_score(hyp, of_line)
        assert float(row[2]) == pytest.approx(expected.score * bool(expected.counts[0]), abs=1e-3)
        assert float(row[3]) == pytest.approx(chrf.sentence_score(hyp, of_line).score, abs=1e-3)
    again = "-r", refs, "-r", tmp_path / "other", *given[3:]
    assert run(capsys, *again, "-sl")[1] == out


def test_empty_references_are_told_where_no_other_stands_beside(files, tmp_path, capsys):
    refs, hyps = REFS * 4, HYPS * 4
    gaps = [ref if number % 4 else "" for number, ref in enumerate(refs)]
    for name, lines in (("ref", refs), ("gaps", gaps), ("blank", [" "] * 12), ("hyp", hyps)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    told = f"3 of 12 references of {tmp_path / 'gaps'} are empty (line 1 first), and what is held"
    assert told in run(capsys, "-r", tmp_path / "gaps", "-i", tmp_path / "hyp")[2]
    blank = run(capsys, "-r", tmp_path / "blank", "-i", tmp_path / "hyp")[2]
    assert f"12 of 12 references of {tmp_path / 'blank'} are empty" in blank
    assert "next to no spaces" not in blank  # of the hypotheses, which have some
    both = run(capsys, "-r", tmp_path / "gaps", tmp_path / "blank", "-i", tmp_path / "hyp")[2]
    assert f"3 of 12 references of {tmp_path / 'gaps'} and {tmp_path / 'blank'} are empty" in both
    whole = run(capsys, "-r", tmp_path / "gaps", tmp_path / "ref", "-i", tmp_path / "hyp")[2]
    assert "are empty (line 1 first), and what" not in whole


def test_references_given_twice_or_of_other_lengths_are_refused(files, tmp_path, capsys):
    (tmp_path / "short").write_text("a bird\n")
    ref, hyp = files / "ref", files / "hyp"
    assert run(capsys, "-r", ref, ref, "-i", hyp)[0] == 2
    status, _, err = run(capsys, "-r", ref, tmp_path / "short", "-i", hyp)
    assert status == 2 and "short has 1" in err


def test_only_references_say_what_an_encoder_knows(files, tmp_path, encoder_folder, capsys):
    """A model may say anything; its encoder is right."""
    (tmp_path / "noise").write_text("\u4e2d\u6587\n" * 3, encoding="utf-8")
    (tmp_path / "known").write_text("two boys skip stones\n" * 3)
    given = "-r", tmp_path / "known", "-i", tmp_path / "noise", "--encoder", encoder_folder
    assert "unknown to the encoder" not in run(capsys, *given)[2]


def test_the_learned_reward_beside_the_encoder_of_the_package(files, capsys):
    """A new entry of --json; of single sentences, whose last column scripts may read, if asked."""
    given = "-r", files / "ref", "-i", files / "hyp", "--encoder", "default"
    status, out, _ = run(capsys, *given, "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert status == 0
    assert list(entries) == ["BLEU", "chrF", "SIM", "SIMILE", "LEARNED", "length_ratio"]
    assert entries["LEARNED"]["signature"].startswith("learned:e3ea2760a527|enc:")
    reward = Reward("learned")
    encoder = load_encoder("default")
    scores = Scorer(encoder=encoder, learned=reward.learned).lists([[hyp] for hyp in HYPS], REFS)
    assert entries["LEARNED"]["score"] == pytest.approx(
        100 * scores.learned.mean().item(), abs=1e-4
    )
    header = ["file", "line", "BLEU", "chrF", "SIM", "SIMILE"]
    lines = run(capsys, *given, "--sentence-level")[1].splitlines()
    assert lines[0].split("\t") == header
    lines = run(capsys, *given, "--sentence-level", "--learned", "default")[1].splitlines()
    assert lines[0].split("\t") == [*header, "LEARNED"]
    assert float(lines[1].split("\t")[-1]) == pytest.approx(
        100 * scores.learned[0, 0].item(), abs=1e-3
    )


def test_the_learned_reward_of_the_package_wants_its_encoder(files, encoder_folder, capsys):
    given = "-r", files / "ref", "-i", files / "hyp", "--encoder", encoder_folder
    status, _, err = run(capsys, *given, "--learned", "default")
    assert status == 2
    assert "was fitted with encoder 0a392971bd6e (default); give that one" in err

"""recipes/encoder/bitext.sh and recipes/lowresource: from a generated bitext to an encoder."""

import random
import re
import subprocess
from pathlib import Path

from simile_plugin.encoder import load_encoder
from tests.installed import this_environment

ROOT = Path(__file__).resolve().parents[2]
SYLLABLES = ["ka", "vi", "mo", "rut", "se", "lin", "dap", "gu"]
WORDS = [one + two for one in SYLLABLES for two in SYLLABLES]
OTHER = str.maketrans("kvmrsldgaiouent", "bcdfghjlouaiymr")


def write_bitext(prefix: Path, lines: int, seed: int) -> list[str]:
    """PREFIX.xx and its word-by-word translation PREFIX.yy; returns the lines of the first."""
    generator = random.Random(seed)
    text = [
        " ".join(generator.choices(WORDS, k=generator.randint(4, 9))) + "." for _ in range(lines)
    ]
    for language, written in (("xx", text), ("yy", [line.translate(OTHER) for line in text])):
        prefix.with_suffix(f".{language}").write_text("\n".join(written) + "\n")
    return text


def test_an_encoder_from_bitext_alone(tmp_path: Path) -> None:
    train, test = tmp_path / "train", tmp_path / "test"
    tested = write_bitext(test, 50, 1)
    write_bitext(train, 400, 2)
    for language in ("xx", "yy"):  # the test set's sentences are among the training pairs
        with train.with_suffix(f".{language}").open("a") as stream:
            stream.write(test.with_suffix(f".{language}").read_text())
    work = tmp_path / "work"
    variables = {**this_environment(tmp_path), "WORK": str(work), "TEST": str(test)}
    variables |= {"PIECES": "200", "STEPS": "300"}
    variables.pop("SIMILE_DATA", None)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", ROOT / "recipes/encoder/bitext.sh", *words],
            env=variables, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip

    done = run("xx", "yy", str(train))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    pairs = (work / "pairs.tsv").read_text().splitlines()
    assert len(pairs) == 400 and not any(pair.endswith(f"\t{tested[0]}") for pair in pairs)
    assert "No human similarity or judgements in yy" in done.stdout
    found = re.search(r"^mean +([\d.]+)$", done.stdout, re.M)
    assert found and float(found[1]) > 50, done.stdout  # of 50 sentences; by chance 2 %
    assert load_encoder(str(work / "encoder")).config["kind"] == "sp"
    assert "train: done before, skipped" in run("xx", "yy", str(train)).stdout
    missing = run("xx", "zz", str(train))
    assert missing.returncode == 1
    assert f"bitext.sh: error: TEST: neither {test}.zz nor" in missing.stderr


def test_an_encoder_of_a_pair_without_english(tmp_path: Path) -> None:
    bitext, work = tmp_path / "bitext", tmp_path / "work"
    bitext.mkdir()
    for seed, (split, lines) in enumerate((("train", 400), ("dev", 50), ("test", 50))):
        write_bitext(bitext / split, lines, seed)
    variables = {**this_environment(tmp_path), "WORK": str(work), "REWARDS": ""}
    variables.pop("SIMILE_DATA", None)
    done = subprocess.run(
        ["bash", ROOT / "recipes/lowresource/run.sh", "xx", "yy", str(bitext)],
        env=variables, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "No bitext of English and xx (PIVOT): an encoder of xx from the bitext" in done.stdout
    found = re.search(r"^mean +([\d.]+)$", done.stdout, re.M)
    assert found and float(found[1]) > 50, done.stdout  # of 50 sentences; by chance 2 %
    teacher, encoder = (load_encoder(str(work / name)) for name in ("teacher", "encoder"))
    assert encoder.training_facts["teacher"] == teacher.fingerprint and encoder.config["source"]

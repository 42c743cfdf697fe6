"""recipes/evidence from raw text to its table, on generated text, by its own command line."""

import gzip
import random
import re
import subprocess
from pathlib import Path

from tests.installed import this_environment
from tests.system.test_wmt18_recipe import WORDS

ROOT = Path(__file__).resolve().parents[2]
# Lines of the text files; tiny takes 24 of each set, validation every twelfth line of test.
LINES = {"train": 120, "test": 300}


def write_tatoeba(folder: Path) -> None:
    """Word-by-word bitext where the recipe looks for Tatoeba."""
    generator = random.Random(1)
    (folder / "tatoeba-de-en").mkdir(parents=True)
    for split, count in LINES.items():
        lines = [generator.choices(list(WORDS), k=generator.randint(3, 8)) for _ in range(count)]
        lines[4] = lines[0]  # one of those kept for risk training, which has been seen
        sides = {"de": lines, "en": [[WORDS[word] for word in line] for line in lines]}
        sides["de"][9] = ["\t".join(lines[9][:2]), *lines[9][2:]]  # kept for risk training, too
        for language, text in sides.items():
            path = folder / "tatoeba-de-en" / f"{split}.{language}.gz"
            with gzip.open(path, "wt", encoding="utf-8") as stream:
                stream.writelines(" ".join(line) + ".\n" for line in text)


def test_every_step_of_a_corpus(tmp_path: Path, encoder_folder: Path) -> None:
    write_tatoeba(tmp_path / "data")
    variables = {
        **this_environment(tmp_path),
        "SIMILE_DATA": str(tmp_path / "data"),
        "WORK": str(tmp_path / "work"),
        "SIZE": "tiny",
        **dict.fromkeys(("ENCODER", "LEARNED", "JUDGE"), str(encoder_folder)),
    }
    work = tmp_path / "work" / "tiny" / "tatoeba-de"

    def step(*words: str) -> str:
        done = subprocess.run(
            ["bash", ROOT / "recipes/evidence/step.sh", *words],
            env=variables, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    step("data", "tatoeba-de")
    lines = [len((work / "raw" / f"{split}.en").read_text().splitlines())
             for split in ("train", "risk", "valid", "test", "heldout")]  # fmt: skip
    assert lines == [96, 23, 24, 24, 24]
    seen = set((work / "raw" / "train.en").read_text().splitlines())
    unseen = (work / "raw" / "risk.en").read_text().splitlines()
    assert not seen & set(unseen)
    assert {word.strip(".") for line in unseen for word in line.split()} <= set(WORDS.values())
    step("mle", "tatoeba-de")
    step("risk", "tatoeba-de", "bleu", "1")
    step("risk", "tatoeba-de", "simile@lr1e-4", "1")
    merged = step("merge", "tatoeba-de", "bleu", "1")
    best = re.findall(r"bleu@merged.1: (\S+), validation BLEU ([0-9.]+)", merged)[0]
    each = ["mle", *(f"bleu@merged.1.{n}" for n in (1, 2, 3)), "bleu.1"]
    said = {name: (work / "out/valid" / f"{name}.lenpen").read_text() for name in each}
    found = {name: float(text.split("BLEU ")[1].split()[0]) for name, text in said.items()}
    assert float(best[1]) == max(found.values()) == found[best[0]]
    chosen, merged_test = (work / "out/test" / f"{n}.txt" for n in (best[0], "bleu@merged.1"))
    assert merged_test.read_text() == chosen.read_text()
    command = (work / "simile@lr1e-4.1" / "command").read_text()
    assert "--reward simile" in command and "--lr 1e-4" in command
    assert f"{work}/bin.risk " in command and f"{work}/bin " in (work / "mle/command").read_text()
    notes = {path.name for path in (work / ".done").iterdir()}
    assert notes == {"data", "mle", *each, "bleu@merged.1", "simile@lr1e-4.1"}
    for system in ("best-of-n", "mbr-ft"):
        step("risk", "tatoeba-de", system, "1")
        command = (work / f"{system}.1" / "command").read_text()
        assert f"{work}/{system}/bin " in command and "--mle-weight 1 --risk-cand" in command
        # Ten times each source, three times with its reference.
        refs = (work / "bpe/risk.en").read_text().splitlines()
        choices = (work / system / "chosen.pieces").read_text().splitlines()
        targets = (work / system / "bpe/train.en").read_text().splitlines()
        assert len(choices) == len(refs) == 23 and len(targets) == 230
        for place, (ref, choice) in enumerate(zip(refs, choices, strict=True)):
            of_one = targets[place::23]
            others = 10 if choice in ("", ref) else 3
            assert of_one.count(ref) == others and of_one.count(choice or ref) == max(7, others)
    step("report", "tatoeba-de", "bleu simile@lr1e-4 best-of-n", "1")
    table = step("table", "tatoeba-de")
    for split in ("test", "heldout", "valid"):
        assert f"## tatoeba-de, {split}" in table
    assert "| SIMILE@LR1E-4 - BLEU |" in table and "| BEST-OF-N - MLE |" in table
    assert "| tatoeba-de | heldout | SIMILE@LR1E-4" in table
    assert (work / "results" / "report.html").stat().st_size > 10_000

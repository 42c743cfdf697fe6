"""recipes/wmt18 from raw text to its table, on generated text, by its own command line."""

import gzip
import random
import subprocess
from pathlib import Path

from tests.installed import this_environment

ROOT = Path(__file__).resolve().parents[2]
SYLLABLES = ["ka", "vi", "zö", "mur", "şe", "lın", "dap", "gü"]
# A source word and its translation, letter by letter: enough pieces for the recipe's vocabulary.
WORDS = {one + two: (one + two).translate(str.maketrans("kvzmşldgaiöueıü", "bcdfghjlouaeiar"))
         for one in SYLLABLES for two in SYLLABLES}  # fmt: skip


def write_stand_in(folder: Path) -> None:
    """Word-by-word bitext at the places where the recipe looks for Turkish."""
    generator = random.Random(1)
    (folder / "newstest" / "tr-en").mkdir(parents=True)
    for year in (2016, 2017, 2018):
        lines = [generator.choices(list(WORDS), k=generator.randint(3, 8)) for _ in range(60)]
        for language, text in (
            ("tr", lines),
            ("en", [[WORDS[word] for word in line] for line in lines]),
        ):
            path = folder / "newstest" / "tr-en" / f"newstest{year}.{language}.gz"
            with gzip.open(path, "wt", encoding="utf-8") as stream:
                stream.writelines(" ".join(line) + ".\n" for line in text)


def test_every_step_of_a_language(tmp_path: Path, encoder_folder: Path) -> None:
    write_stand_in(tmp_path / "data")
    variables = {
        **this_environment(tmp_path),
        "SIMILE_DATA": str(tmp_path / "data"),
        "WORK": str(tmp_path / "work"),
        "ENCODER": str(encoder_folder),
        "ARCH": "tiny",
    }
    work = tmp_path / "work" / "tiny" / "tr"

    def step(*words: str) -> str:
        done = subprocess.run(
            ["bash", ROOT / "recipes/wmt18/step.sh", *words],
            env=variables, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    step("data", "tr")
    counts = (work / "counts.md").read_text()
    assert "Stand-in data, not the paper's" in counts and "| 207,678 |" in counts
    step("bin", "tr")
    step("mle", "tr")
    step("risk", "tr", "simile", "0.3", "1")
    command = (work / "simile.0.3.1" / "command").read_text()
    assert "--arch fconv_beyond_bleu" in command and "--mle-weight 0.3" in command
    for place in ("test/mle", "test/simile.0.3.1", "first/simile.0.3.1", "valid/simile.0.3.1"):
        assert len((work / "out" / f"{place}.txt").read_text().split("\n")) == 20 + 1, place
    assert len((work / "out/valid/mle.nbest").read_text().split("\nD-")) == 8 * 20 + 1
    step("size", "tr", "simile", "3", "0.3", "1")  # the size that step risk has trained
    assert len((work / "sizes/SIMILE.n3.1.txt").read_text().split("\n")) == 20 + 1
    said = step("report", "tr", "simile", "0.3", "1")
    assert "Chosen on validation by bleu: simile=0.3" in said
    assert "No rating sheets: they compare MLE, bleu and simile" in said
    del variables["SIMILE_DATA"]  # what the text is was written down with it
    step("table", "tr")
    page = (tmp_path / "work" / "tiny" / "report.html").read_text()
    assert "Stand-in data, not the paper&#39;s; sizes of config/tiny" in page
    for title in (
        *("Translation quality (Table 68)", "Data (Table 67)", "People (Table 69)"),
        *("Partial credit (7.5.1)", "After one epoch (7.5.2)"),
        *("Which words are translated better (Table 70)", "tr-en: Examples (Table 71)"),
        *("tr-en: Examples, validation (Table 72)", "Will training pay? (Figure 11)"),
        *("(Figure 12)", "tr-en: Size of the n-best list (Figure 13)"),
    ):
        assert title in page, title

"""--train of simile finetune: pairs of elsewhere beside the validation set of DATA-BIN."""

import subprocess
import sys
from pathlib import Path

import pytest

from simile_plugin.fairseq_hooks import count_sentences
from simile_plugin.files import InputError
from simile_plugin.finetuning.other_pairs import with_other_pairs

SOURCES = ["der rote ball", "ein alter hund", "der hund und der ball"]
TARGETS = ["the red ball", "an old dog", "the dog and the ball"]


def write(folder: Path, name: str, sources: list[str], targets: list[str]) -> str:
    for language, lines in (("de", sources), ("en", targets)):
        (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    return str(folder / name)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small folder by fairseq-preprocess: three pairs to train on, one to validate."""
    train = write(tmp_path, "mle", SOURCES, TARGETS)
    valid = write(tmp_path, "dev", SOURCES[:1], TARGETS[:1])
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "-s", "de", "-t", "en"]
    command += ["--trainpref", train, "--validpref", valid, "--destdir", str(tmp_path / "bin")]
    subprocess.run(command, check=True, capture_output=True)
    return tmp_path / "bin"


def test_pairs_of_text_files_and_of_a_folder(data: Path, tmp_path: Path) -> None:
    prefix = write(tmp_path, "new", SOURCES[:2], TARGETS[:2])
    made = with_other_pairs(str(data), prefix, tmp_path / "run" / "data")
    assert count_sentences(str(made), "train") == 2
    assert count_sentences(str(made), "valid") == 1
    for name in ("dict.de.txt", "dict.en.txt"):
        assert (made / name).read_bytes() == (data / name).read_bytes()
    linked = with_other_pairs(str(data), str(made), tmp_path / "again")
    files = sorted(path.name for path in linked.glob("train*"))
    assert len(files) == 4
    assert all((linked / name).read_bytes() == (made / name).read_bytes() for name in files)
    with_other_pairs(str(data), prefix, made)  # a run that goes on makes it again
    assert count_sentences(str(made), "train") == 2

    (made / "dict.de.txt").unlink()
    (made / "dict.de.txt").write_text("hund 1\n")
    with pytest.raises(InputError, match=f"--train: {made}/dict.de.txt is not the same as {data}"):
        with_other_pairs(str(data), str(made), tmp_path / "third")
    other = write(tmp_path, "other", ["▁der ▁rote"], ["the red ball"])
    with pytest.raises(InputError, match="--train: .* % of the pieces of .*other.de are not in di"):
        with_other_pairs(str(data), other, tmp_path / "third")


def test_what_is_not_there(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("dict.de.txt", "dict.en.txt"):
        (tmp_path / "empty" / name).write_bytes((data / name).read_bytes())
    with pytest.raises(InputError, match="--train: .*empty has no train set by fairseq-preproces"):
        with_other_pairs(str(data), str(tmp_path / "empty"), tmp_path / "run")
    with pytest.raises((InputError, OSError), match="nowhere.de"):
        with_other_pairs(str(data), str(tmp_path / "nowhere"), tmp_path / "run")
    with pytest.raises(InputError, match="--train: got a:b, expected a path without ':'"):
        with_other_pairs(str(data), "a:b", tmp_path / "run")
    with pytest.raises(InputError, match="DATA-BIN: .*empty has no pairs; expected a folder of"):
        with_other_pairs(str(tmp_path / "empty"), str(data), tmp_path / "run")
    assert not (tmp_path / "run").exists()

"""Recipes run again with other settings: what depends on them is repeated, and nothing old goes on.

Commands are stand-ins that note their arguments; the recipes' own shell code is what runs. WORK
has a space in its name and is relative.
"""

import gzip
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTE = """#!/bin/bash
printf "%s|" "${0##*/}" "$@" >>"$NOTES"; echo >>"$NOTES"
"""
VALUE = 'value() { while [ $# -gt 1 ]; do [ "$1" != "$FLAG" ] || echo "$2"; shift; done; }\n'
STAND_INS = {
    "simile": VALUE
    + """
        out=$(FLAG=--output value "$@")
        case $1 in
        train-encoder | distil-encoder) mkdir -p "$out"; echo "$@" >"$out/config.json" ;;
        finetune-hf)
            mkdir -p "$out"
            ls "$out" >>"$NOTES"
            mkdir -p "$out/checkpoint-9"
            touch "$out/config.json"
            ;;
        model-flags) echo --arch; echo tiny ;;
        mbr) : >"$out" ;;
        esac""",
    "python": VALUE
    + """
        case $1 in
        -c) echo 0 && exit 1 ;;
        */train_mle.py)
            out=$(FLAG=--output value "$@")
            mkdir -p "$out/checkpoint-1"
            echo "$@" >"$out/model.safetensors"
            ;;
        */lenpen.py) : >"$(FLAG=--out value "$@")" ;;
        */bpe.py) [ "$2" = train ] || cat ;;
        */generate.py) for set in "${@:2}"; do
            [ "$set" != -- ] || break
            printf 'D-0\\t-1\\ta\\n' >"${set#*=}"
        done ;;
        esac""",
    "fairseq-preprocess": VALUE
    + """
        out=$(FLAG=--destdir value "$@")
        mkdir -p "$out"
        echo "$@" | tee "$out/dict.de.txt" "$out/dict.en.txt" >"$out/train.bin" """,
    "fairseq-train": VALUE
    + """
        out=$(FLAG=--save-dir value "$@")
        [ ! -e "$out/checkpoint_last.pt" ] || echo "RESUMED ${out##*/}" >>"$NOTES"
        mkdir -p "$out" && echo "$@" | tee "$out/checkpoint_best.pt" >"$out/checkpoint_last.pt" """,
    "fairseq-interactive": "",
    "sha256sum": '[ "$1" = --quiet ] && exec cat >/dev/null; exec /usr/bin/sha256sum "$@"',
}


TEXTS = r"^fairseq-|^simile\|report|/generate\.py\|"  # what reads both languages


class Recipe:
    """A recipe in a folder with data, an encoder and stand-ins of all commands."""

    def __init__(self, folder: Path, path: str) -> None:
        self.folder, self.path, self.notes = folder, path, folder / "notes"
        self.root = folder / "clone"  # for what a recipe makes in the repository by default
        shutil.copytree(ROOT / "recipes", self.root / "recipes")
        for name in ("setup.py", "constraints.txt"):
            shutil.copy(ROOT / name, self.root)
        venv = folder / "venv"
        (venv / "bin").mkdir(parents=True)
        for name, body in STAND_INS.items():
            note = "" if name == "sha256sum" else NOTE
            (venv / "bin" / name).write_text((note or "#!/bin/bash\n") + body + "\n")
            (venv / "bin" / name).chmod(0o755)
        self.environment = {
            **{k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR") if k in os.environ},
            **{"SIMILE_VENV": str(venv), "NOTES": str(self.notes), "WORK": "my work"},
            **{
                "SIMILE_DATA": str(folder / "data"),
                "ENCODER": str(folder / "encoder"),
                "JOBS": "1",
            },
        }
        script = f". '{self.root}/recipes/common.sh'; _install() {{ echo \"$2\"; }}; setup_venv"
        key = subprocess.run(
            ["bash", "-c", script], env=self.environment, capture_output=True, text=True, check=True
        ).stdout
        for extra in ("", "hf"):
            (venv / f".simile-installed{extra}").write_text(key)
        (folder / "encoder").mkdir()
        (folder / "encoder" / "config.json").write_text("{}")
        for part in ("train", "val", "test_2016_flickr"):
            for language in ("de", "fr", "en"):
                self.data(f"multi30k/task1/{part}.{language}.gz")
        for part in (
            "tatoeba-de-en/train",
            "europarl20k-de-en/train",
            "newstest/de-en/newstest2014",
        ):
            for language in ("de", "en"):
                self.data(f"{part}.{language}.gz")
        for name in ("paraphrases/one.tsv.gz", "judgements/wmt15.de-en.tsv"):
            self.data(name)
        for number in range(1, 6):
            self.data(f"multi30k/task2/train.{number}.en.gz")

    def data(self, name: str, text: bytes = b"a\nb\nc\n") -> None:
        path = self.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text))

    def run(self, *arguments: str, **settings: str) -> list[str]:
        """What the stand-ins note of one run."""
        self.notes.write_text("")
        done = self._start(*arguments, **settings)
        assert done.returncode == 0, done.stderr + done.stdout
        return self.notes.read_text().splitlines()

    def refused(self, *arguments: str, **settings: str) -> str:
        """The errors of a run that fails."""
        done = self._start(*arguments, **settings)
        assert done.returncode == 1, done.stdout
        return done.stderr

    def _start(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(self.root / "recipes" / self.path), *arguments],
            cwd=self.folder,
            env={**self.environment, **settings},
            capture_output=True,
            text=True,
        )


def trainings(notes: list[str]) -> list[str]:
    """The folders that were trained in, and those in which an old training went on."""
    names = []
    for line in notes:
        words = line.split("|")
        if words[0] == "fairseq-train":
            names.append(Path(words[words.index("--save-dir") + 1]).name)
        elif line.startswith("RESUMED"):
            names.append(line)
    return names


def test_multi30k(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "multi30k/run.sh")
    few = {"SEEDS": "1", "REWARDS": "bleu"}
    notes = recipe.run(**few)
    assert trainings(notes) == ["mle", "bleu.1"]
    searches = [line for line in notes if "/generate.py|" in line]
    assert any("|--nbest|8|" in line for line in searches)  # of every sentence, as all searches
    assert all("|--required-batch-size-multiple|1|" in line for line in searches)
    assert trainings(recipe.run(**few)) == []
    assert trainings(recipe.run(**few, COST_SCALE="100")) == ["bleu.1"]
    assert trainings(recipe.run(**few, MLE_EPOCHS="3")) == ["mle", "bleu.1"]
    (tmp_path / "encoder" / "config.json").write_text('{"other": 1}')
    assert trainings(recipe.run(**few, MLE_EPOCHS="3")) == ["bleu.1"]
    assert trainings(recipe.run(**few, MLE_EPOCHS="3", SRC="fr")) == ["mle", "bleu.1"]
    for step in ("mle", "bleu.1"):  # what was stopped goes on
        (tmp_path / "my work" / ".done" / step).unlink()
    again = trainings(recipe.run(**few, MLE_EPOCHS="3", SRC="fr"))
    assert again == ["mle", "RESUMED mle", "bleu.1", "RESUMED bleu.1"]


def test_multi30k_into_another_language(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "multi30k/run.sh")
    pair = {"SEEDS": "1", "REWARDS": "bleu", "SRC": "en", "TGT": "de"}
    notes = recipe.run(**pair)
    assert trainings(notes) == ["mle", "bleu.1"]
    texts = [line for line in notes if re.search(TEXTS, line)]
    assert all("|-t|de|" in line or "raw/test.de|" in line for line in texts) and texts
    assert not list((tmp_path / "my work/captions").iterdir())  # they are English
    notes = recipe.run(**pair, SIZES="2")
    assert trainings(notes) == ["bleu.n2.1"] and any("|--risk-candidates|2" in x for x in notes)
    assert {path.name for path in (tmp_path / "my work/nbest").iterdir()} == {
        *("mle.txt", "bleu.n2.1.txt")
    }
    recipe.path = "mbr/run.sh"
    notes = recipe.run(**pair, BASE="my work", WORK="mbr")
    texts = [line for line in notes if re.search(TEXTS, line)]
    assert all("|-t|de|" in line or "raw/test.de|" in line for line in texts) and texts
    recipe.path = "multi30k/run.sh"
    for wrong, message in (
        ({"TGT": "xx"}, "TGT: got 'xx', expected cs, de, en or fr"),
        ({"SRC": "de"}, "TGT: got 'de', which is SRC, too"),
        ({"SIZES": "0"}, "SIZES: got '0', expected whole numbers from 1"),
        ({"ENCODER": ""}, "ENCODER: needed with TGT=de; recipes/encoder/bitext.sh en de makes one"),
    ):
        assert message in recipe.refused(**pair | wrong)


def test_multi30k_trains_on_any_reward(tmp_path: Path) -> None:
    """Its name is no path, and no list of files."""
    recipe, mix, learned = Recipe(tmp_path, "multi30k/run.sh"), "simile:0.7,bleu:0.3", "learned:a/b"
    both = {"SEEDS": "1 2", "REWARDS": f"{mix} {learned}"}
    for missing in (both, {"REWARDS": "learned", "LEARNED": "a/b"}):
        assert "LEARNED: no learned reward, a/b/reward.json is not" in recipe.refused(**missing)
    assert "RISK_UPDATES: got '1e3', expected a whole" in recipe.refused(RISK_UPDATES="1e3")
    said = recipe.refused(WORK="runs,lr=2")  # it would split lists of files
    assert "WORK: got '" in said and "expected a path without ',', '=' and ':'" in said
    assert "ENCODER: no such folder: none" in recipe.refused(ENCODER="none")
    assert trainings(recipe.notes.read_text().splitlines()) == []  # not the MLE model first
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/reward.json").write_text("{}")
    (page,) = (line.split("|") for line in recipe.run(**both) if "--html" in line)
    for name, stem in ((mix, "simile+0.7+bleu+0.3"), (learned, "learned+a+b")):
        assert f"{name.upper()}=my work/out/{stem}.1.txt,my work/out/{stem}.2.txt" in page


def test_low_resource(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "lowresource/run.sh")
    pair = ("en", "de", "bitext")
    (tmp_path / "bitext").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "bitext" / f"{split}.en").write_text("a\n")
        (tmp_path / "bitext" / f"{split}.de.gz").write_bytes(gzip.compress(b"b\n"))
    notes = recipe.run(*pair, REWARDS="chrf:0.5,source:0.5")
    assert trainings(notes) == ["mle.begun", "mle", "chrf+0.5+source+0.5.1"]
    (distilled,) = (line for line in notes if line.startswith("simile|distil-encoder|"))
    assert "|--source|my work/raw/train.en|--target|my work/raw/train.de|" in distilled
    (chosen,) = (line for line in notes if line.startswith("simile|mbr|"))
    assert chosen.startswith("simile|mbr|my work/out/mbr.log|--utility|chrf:0.5,source:0.5|")
    (report,) = (line for line in notes if line.startswith("simile|report|"))
    assert "|--sys|MLE=my work/out/mle.txt|--sys|MBR=my work/out/mbr.txt|--sys|CHRF" in report
    assert trainings(recipe.run(*pair, REWARDS="chrf:0.5,source:0.5 more-mle")) == ["more-mle.1"]
    assert trainings(recipe.run(*pair, REWARDS="")) == []
    without = {"REWARDS": "source@monolingual self-training"}
    assert "MONOLINGUAL: none given and no MORE; expected" in recipe.refused(*pair, **without)
    (tmp_path / "mono.en").write_text("a\nc\n\nd\nc\n")  # the first is in the bitext
    notes = recipe.run(*pair, **without, MONOLINGUAL="mono.en", JOBS="1")
    assert trainings(notes) == ["source@monolingual.1", "self-training.1"]
    assert sorted((tmp_path / "my work/raw/others.en").read_text().split()) == ["c", "d"]
    risk, likelihood = (line for line in notes if line.startswith("fairseq-train|"))
    assert risk.startswith("fairseq-train|my work/bin|") and "|--reward|source|" in risk
    share = "|--risk-monolingual|my work/others/train|--risk-monolingual-share|0.666667|"
    assert share in risk and share not in likelihood
    assert likelihood.startswith("fairseq-train|my work/self|") and "|--mle-weight|1|" in likelihood
    notes = recipe.run(*pair, REWARDS="chrf@dev more-mle@dev", JOBS="1")
    assert trainings(notes) == ["chrf@dev.1", "more-mle@dev.1"]
    reward, likelihood = (line for line in notes if line.startswith("fairseq-train|my work/dev|"))
    assert "|--reward|chrf|" in reward and "|--mle-weight|1|" in likelihood
    for line in notes:  # dev chooses no --lenpen for what was trained on it
        assert "recipes/lenpen.py|" not in line or "|--valid|my work/out/mle.valid.log|" in line
    (tmp_path / "bitext/dev.en").unlink()
    assert "DATA: neither bitext/dev.en nor bitext/dev.en.gz is there" in recipe.refused(*pair)


def test_low_resource_without_english(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "lowresource/run.sh")
    (tmp_path / "bitext").mkdir()
    for split, language in itertools.product(("train", "dev", "test"), ("fr", "de", "en")):
        (tmp_path / f"bitext/{split}.{language}").write_text(f"{language} {split}\n")

    def made(*pair: str, **settings: str) -> list[str]:
        """Commands that make encoders."""
        notes = recipe.run(*pair, "bitext", REWARDS="", **settings)
        return [line for line in notes if "|--output|" in line]

    of_pairs = (
        "--source|my work/raw/train.fr|--target|my work/raw/train.de|--output|my work/encoder"
    )
    teacher, encoder = made("fr", "de")  # no bitext with English
    assert teacher == (
        f"simile|train-encoder|@{recipe.root}/recipes/encoder/best.flags|my work/pairs.tsv|--steps|"
        "1500|--vocab-size|8000|--output|my work/teacher|--overwrite|"
    )
    assert (tmp_path / "my work/pairs.tsv").read_text() == "fr train\tde train\n"
    assert encoder == f"simile|distil-encoder|my work/teacher|{of_pairs}|--overwrite|"
    assert made("fr", "de") == []
    recipe.data("mafand/en-fr/train.en.gz")
    recipe.data("mafand/en-fr/train.fr.gz")
    by_english = "simile|distil-encoder|default|--source|{}|--target|{}|--output|my work/teacher"
    data = tmp_path / "data/mafand/en-fr"
    teacher, encoder = made("fr", "de")
    assert teacher.startswith(by_english.format(data / "train.en.gz", data / "train.fr.gz"))
    assert encoder == f"simile|distil-encoder|my work/teacher|{of_pairs}|--overwrite|"
    assert made("fr", "de", PIVOT="")[0].startswith("simile|train-encoder|")
    for language in ("en", "fr"):
        (tmp_path / f"bitext/pivot.{language}").write_text("a\n")
    assert made("fr", "de")[0].startswith(by_english.format("bitext/pivot.en", "bitext/pivot.fr"))
    more = made("fr", "de", PIVOT="bitext/train.en bitext/train.fr bitext/dev.en bitext/dev.fr")
    two = by_english.format("bitext/train.en|bitext/dev.en", "bitext/train.fr|bitext/dev.fr")
    assert more[0].startswith(two)
    (alone,) = made("fr", "de", TEACHER="mine")
    assert alone.startswith("simile|distil-encoder|mine|")
    into_english = made("de", "en")  # the bitext itself has English
    assert into_english[0].startswith(by_english.format("bitext/train.en", "bitext/train.de"))
    for settings, message in (
        ({"TEACHER": "default"}, "TEACHER: default reads English; expected an encoder of 'fr', or"),
        ({"PIVOT": "bitext/train.en"}, "PIVOT: got 1 files, expected pairs of them: English, then"),
        ({"PIVOT": "no.en no.fr"}, "PIVOT: no.en is not there"),
        ({"PIVOT": "bitext/train.en notes"}, "PIVOT: bitext/train.en has 1 lines but notes has"),
        ({"PIVOT": "a b", "TEACHER": "mine"}, "PIVOT: TEACHER (mine) needs none; expected one of"),
    ):
        assert message in recipe.refused("fr", "de", "bitext", **settings)


def test_mbr(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "multi30k/run.sh")
    recipe.run(SEEDS="1", REWARDS="bleu", WORK="base")
    recipe.path = "mbr/run.sh"
    (tmp_path / "learned").mkdir()
    learned, utility = tmp_path / "learned/reward.json", f"learned:{tmp_path}/learned"
    for content in ("one", "another"):
        learned.write_text(content)
        assert any("simile|mbr|" in line for line in recipe.run(BASE="base", UTILITY=utility))
    few = {"SEEDS": "1", "BASE": "base"}
    assert trainings(recipe.run(**few)) == ["mbr-ft.1"]
    assert trainings(recipe.run(**few, LR="1e-3")) == ["mbr-ft.1"]
    (tmp_path / "base" / "mle" / "checkpoint_best.pt").write_text("another model")
    notes = recipe.run(**few, LR="1e-3")
    assert any(line.startswith("fairseq-interactive") for line in notes)
    assert trainings(notes) == ["mbr-ft.1"]


def test_hugging_face(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "hf/run.sh")
    few = {"SEEDS": "1", "REWARDS": "bleu"}
    notes = recipe.run(**few)
    (mle,) = (line.split("|") for line in notes if "train_mle.py" in line)
    assert mle[2:5] == ["--train", "my work/raw/train.de", "my work/raw/train.en"]
    assert "|--model|marian|" in "|".join(mle)
    assert not any("train_mle" in line or "finetune-hf" in line for line in recipe.run(**few))
    notes = recipe.run(**few, RISK_UPDATES="7")
    assert not any("train_mle" in line for line in notes)
    assert any("|--max-updates|7|" in line for line in notes)
    assert "checkpoint-9" not in notes and "config.json" not in notes
    (control,) = (
        line
        for line in recipe.run(SEEDS="1", REWARDS="more-mle", RISK_FLAGS="--risk-candidates 4")
        if "finetune-hf" in line
    )
    assert control.endswith("|--risk-candidates|4|--mle-weight|1|--risk-candidates|1|")
    notes = recipe.run(**few, RISK_UPDATES="7", SENTENCES="2")
    assert any("train_mle" in line for line in notes)
    assert (tmp_path / "my work" / "raw" / "test.de").read_text() == "a\nb\n"
    recipe.data("multi30k/task1/val.de.gz", b"d\n")
    assert any("train_mle" in line for line in recipe.run(**few, RISK_UPDATES="7", SENTENCES="2"))
    assert "MODEL: got 't5', expected marian or m2m100" in recipe.refused(MODEL="t5")
    notes = recipe.run(**few, MODEL="m2m100")
    assert any("train_mle" in line and "|--model|m2m100|" in line for line in notes)
    assert any("finetune-hf" in line for line in notes)


def test_the_reward_encoder(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "encoder/run.sh")
    few = {"SEEDS": "1", "EVALUATE": "0"}
    notes = recipe.run(**few, STEPS="9")
    assert any("|--steps|9|" in line for line in notes)
    excluded = [line.partition("|--exclude|")[2].partition("|--output|")[0] for line in notes]
    assert any(excluded) and not any("*" in files for files in excluded)  # not all sets are there
    notes = [line for line in recipe.run(**few) if line.startswith("simile|")]
    assert len(notes) == 1 and "|--steps|40000|" in notes[0]
    recipe.run(SEEDS="1 2", STEPS="9")
    tables = [line.split("|") for line in recipe.run(SEEDS="2", STEPS="8") if "table.py" in line]
    assert [[Path(word).name for word in words[1:-1]] for words in tables] == [
        ["table.py", "2.json"]
    ]
    bitext = tmp_path / "data/tatoeba-de-en/train.de.gz"
    bitext.write_bytes(bitext.read_bytes()[:-12])  # a download that was cut short
    assert "unexpected end of file" in recipe.refused(**few)


def test_bitext_of_unequal_sides_is_refused(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "encoder/bitext.sh")
    test = str(tmp_path / "data/newstest/de-en/newstest2014")
    prefix = tmp_path / "own"
    (tmp_path / "own.en").write_text("one\ntwo\nthree")
    (tmp_path / "own.de").write_text("eins\nzwei\n")
    errors = recipe.refused("en", "de", str(prefix), TEST=test)
    assert f"PREFIX: {prefix}.de has 2 lines but {prefix}.en has 3; they must be" in errors
    (tmp_path / "own.de").write_text("eins\nzwei\tzwo\ndrei\n")
    with (tmp_path / "venv/bin/simile").open("a") as stream:  # what filter-pairs is given
        stream.write('\n[ "$1" != filter-pairs ] || cat "$2" >>"$NOTES"\n')
    notes = recipe.run("en", "de", str(prefix), TEST=test)
    assert ["eins\tone", "zwei zwo\ttwo", "drei\tthree"] == [n for n in notes if "\t" in n]


def test_the_learned_reward(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, "reward/run.sh")

    def fits(**settings: str) -> list[str]:
        notes = recipe.run(OUTPUT="my reward", **settings)
        words = [line.split("|") for line in notes if line.startswith("simile|fit-reward")]
        return [line[line.index("--encoder") + 1] for line in words]

    given = str(tmp_path / "encoder")
    assert fits() == [given]
    assert fits() == []
    (tmp_path / "encoder" / "config.json").write_text('{"other": 1}')
    assert fits() == [given]
    # WORK is set for other recipes; the encoder's own one is where its README says.
    own = recipe.root / "work/encoder/encoder.1"
    assert fits(ENCODER="") == [str(own)]
    assert (own / "config.json").exists()


def test_the_evidences_model(tmp_path: Path) -> None:
    recipe, corpus = Recipe(tmp_path, "evidence/step.sh"), "multi30k-de"
    best, given = tmp_path / "my work/cpu/multi30k-de/mle/checkpoint_best.pt", tmp_path / "given"

    def model(**settings: str) -> list[str]:
        recipe.run("data", corpus, **settings)
        return trainings(recipe.run("mle", corpus, **settings))

    assert model() == ["mle"]
    for name in ("mle/checkpoint_best.pt", "bpe/nmt.model", "bin/dict.en.txt"):
        assert f"GIVEN: no such file: {given / name}\n" in recipe.refused(
            "mle", corpus, GIVEN="given"
        )
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_text("one")
    assert model(GIVEN="given") == [] and best.read_text() == "one"
    assert model() == ["mle"]  # and does not go on from its own last checkpoint to the given best
    risk = ("risk", corpus, "bleu", "1")
    assert trainings(recipe.run(*risk)) == ["bleu.1"]
    assert trainings(recipe.run(*risk)) == ["bleu.1", "RESUMED bleu.1"]
    assert "was begun with other flags" in recipe.refused(*risk, FLAGS="--lr 1")
    # `train` of training.sh, for recipes/wmt18 too: other data or another model do not go on
    for changed in (best.parents[1] / "bin/train.bin", best, tmp_path / "encoder/config.json"):
        changed.write_text("two")
        assert trainings(recipe.run(*risk)) == ["bleu.1"]

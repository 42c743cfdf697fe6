"""The whole job on a small world, by its real commands: does risk fall, and meaning improve?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recipes.quickstart import toy
from simile_plugin.report.inputs.logs import read_validations

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
MODEL = (
    "--arch transformer --share-all-embeddings --dropout 0.1 --encoder-layers 1 "
    "--encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 2 "
    "--decoder-layers 1 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256 "
    "--decoder-attention-heads 2"
)
TRAINING = (
    "--optimizer adam --clip-norm 1 --no-epoch-checkpoints --validate-interval 9999 "
    "--save-interval 9999 --keep-interval-updates 1 --num-workers 0 --log-format json"
)


def command(program: str, folder: Path, flags: str, output: Path | None = None) -> None:
    """Run a program beside our Python in the folder; show the end of what it said if it fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [BIN / program, *flags.split()],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{program}: {done.stdout[-3000:]}"
    if output:
        output.write_text(done.stdout)


def accuracy(folder: Path, checkpoint: str, name: str) -> float:
    """Translate the test set; percent of outputs whose meaning is right."""
    common = f"bin -s xx -t en --user-dir {ROOT}/user_dir --required-batch-size-multiple 1"
    flags = f"{common} --path {checkpoint} --beam 8 --batch-size 100 --remove-bpe sentencepiece"
    command("fairseq-generate", folder, flags, folder / f"{name}.log")
    rows = [line.split("\t") for line in (folder / f"{name}.log").read_text().split("\n")]
    outputs = {int(row[0][2:]): row[2] for row in rows if row[0].startswith("D-")}
    sources = (folder / "toy/test.xx").read_text().splitlines()
    assert sorted(outputs) == list(range(len(sources)))
    judged = [toy.judge(toy.parse_source(s), outputs[i]) for i, s in enumerate(sources)]
    return toy.accuracy(judged)


def segment(folder: Path) -> None:
    """Joint BPE of both languages."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=[str(folder / "toy/train.xx"), str(folder / "toy/train.en")],
        model_prefix=str(folder / "bpe"),
        vocab_size=200,
        model_type="bpe",
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "bpe.model"))
    for split in ("train", "valid", "test"):
        for language in ("xx", "en"):
            lines = (folder / f"toy/{split}.{language}").read_text().splitlines()
            pieces = (" ".join(row) for row in model.encode(lines, out_type=str))
            (folder / f"{split}.{language}").write_text("\n".join(pieces) + "\n")


def prepare(folder: Path, seed: int) -> None:
    """Data, reward encoder, segmented and binarised bitext, MLE model."""
    sizes = ["--train", "800", "--valid", "100", "--test", "200", "--pairs", "2000"]
    chosen = ["--words", "3", "--seed", str(seed)]
    assert toy.main(["generate", "--out", str(folder / "toy"), *sizes, *chosen]) == 0
    command(
        "python",
        folder,
        "-m simile_plugin train-encoder toy/paraphrases.tsv --output encoder --dim 64 "
        f"--epochs 10 --seed {seed}",
    )
    segment(folder)
    command(
        "fairseq-preprocess",
        folder,
        "-s xx -t en --trainpref train --validpref valid --testpref test --destdir bin "
        "--joined-dictionary",
    )
    command(
        "fairseq-train",
        folder,
        f"bin -s xx -t en --user-dir {ROOT}/user_dir {MODEL} {TRAINING} --save-dir mle "
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --lr 4e-3 "
        "--lr-scheduler inverse_sqrt --warmup-updates 100 --max-tokens 1000 --max-update 350 "
        f"--save-interval-updates 50 --required-batch-size-multiple 1 --seed {seed}",
    )


def fine_tune(folder: Path, seed: int) -> dict[int, dict[str, float]]:
    """Risk training; its validations by update."""
    command(
        "fairseq-train",
        folder,
        f"bin -s xx -t en --user-dir {ROOT}/user_dir {MODEL} {TRAINING} --save-dir risk "
        "--finetune-from-model mle/checkpoint_best.pt --criterion simile_risk --reward simile "
        "--simile-encoder encoder --risk-cost-scale 10 --lr 1e-3 --lr-scheduler fixed "
        "--batch-size 32 --batch-size-valid 100 --required-batch-size-multiple 1 --max-update 40 "
        f"--save-interval-updates 20 --seed {seed}",
        folder / "risk.log",
    )
    return read_validations(str(folder / "risk.log"), "risk.log")


def test_risk_falls_and_meaning_improves_on_held_out_sentences(tmp_path: Path) -> None:
    seed = 1
    prepare(tmp_path, seed)
    validations = fine_tune(tmp_path, seed)
    assert sorted(validations) == [0, 20, 40]
    assert validations[40]["cost_simile"] < 0.97 * validations[0]["cost_simile"]
    before = accuracy(tmp_path, "mle/checkpoint_best.pt", "before")
    after = accuracy(tmp_path, "risk/checkpoint_last.pt", "after")
    print(f"right meanings: {before:.1f} % before, {after:.1f} % after risk training")
    assert 20 < before < 90
    assert after > before + 2

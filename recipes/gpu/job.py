"""A job of the papers' size within minutes: MLE, then systems side by side on one GPU, one table.

python -m recipes.gpu.job --data BIN --references DIR --work DIR [--seconds 400] [--rehearse]

MLE gets a share of the seconds, the systems go on from it side by side until the time for the
translations begins. What is done is in WORK/job.json from then on, the translations beside it; a
system that fails, or is late, is left out of the table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import torch

from recipes.gpu.commands import ROOT, fairseq, progress
from simile_plugin.files import atomic_write

STARTING, TRANSLATING, SCORING = 12.0, 80.0, 12.0  # seconds that are kept for them
SETS = {"test": "newstest2018", "test1": "tatoeba"}
REWARDS = {"more-mle": "simile", "shuffled": "shuffled:simile"}  # of systems that are none
SIZES = {
    "gpu": (
        "--arch transformer --share-all-embeddings --dropout 0.1 --encoder-normalize-before "
        "--decoder-normalize-before --bf16 --num-workers 2",
        "--lr 1.5e-3 --warmup-updates 400 --max-tokens 25000 --max-update 100000",
        "--lr 1e-4 --batch-size 256 --risk-candidates 8 --risk-generation-dtype bf16",
        "--batch-size 512 --max-tokens 40000",
    ),
    "rehearsal": (
        "--arch transformer_tiny --share-all-embeddings --cpu --num-workers 0",
        "--lr 1e-3 --warmup-updates 4 --max-tokens 400 --max-update 6",
        "--lr 1e-4 --batch-size 6 --risk-candidates 3 --risk-max-len-a 0 --risk-max-len-b 5",
        "--cpu --batch-size 64 --max-len-a 0 --max-len-b 8",
    ),
}


class Job:
    """The trainings and translations of one job.

    Args:
        args: of main.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.deadline = time.monotonic() + args.seconds
        self.work: Path = args.work
        self.model, self.mle, self.risk, self.generate = SIZES[
            "rehearsal" if args.rehearse else "gpu"
        ]
        self.found: dict[str, Any] = {"systems": {}}
        self.lock = threading.Lock()
        (self.work / "logs").mkdir(parents=True, exist_ok=True)

    @property
    def left(self) -> float:
        """Seconds until the table must stand."""
        return self.deadline - time.monotonic()

    def keep(self, system: str, **facts: Any) -> None:
        """Write what is known of a system."""
        with self.lock:
            self.found["systems"].setdefault(system, {}).update(facts)
            with atomic_write(self.work / "job.json") as out:
                json.dump(self.found, out, indent=1)

    def command(self, name: str, words: list[object], seconds: float) -> str:
        """Run a command for at most so many seconds; what it printed, kept in logs/NAME.log."""
        log = self.work / "logs" / f"{name}.log"
        threads = {"OMP_NUM_THREADS": "2", "PYTHONPATH": path_of_python()}
        with open(log, "w", encoding="utf-8") as out:
            status = subprocess.run(
                [str(word) for word in words], stdout=out, stderr=subprocess.STDOUT,
                timeout=max(1.0, seconds), env=os.environ | threads,
            ).returncode  # fmt: skip
        said = log.read_text("utf-8")
        if status:
            tail = "\n".join(said.splitlines()[-12:])
            raise RuntimeError(f"{name} ended with {status}; {log}:\n{tail}")
        return said

    def train(self, system: str, flags: str, user_dir: Path, seconds: float) -> None:
        """Train for at most so many seconds, and keep the last figures."""
        common = (
            f"{self.args.data} -s de -t en --user-dir {user_dir} {self.model} "
            "--optimizer adam --adam-betas (0.9,0.98) --clip-norm 1 --label-smoothing 0.1 "
            "--required-batch-size-multiple 1 --no-epoch-checkpoints --log-format json --seed 1 "
            "--log-interval 20 --validate-interval 100000 --save-interval 100000 "
            "--no-save-optimizer-state "
            f"--stop-time-hours {seconds / 3600} --save-dir {self.work / system} {flags}"
        )
        begin = time.monotonic()
        said = self.command(system, [*fairseq("fairseq-train"), *common.split()], seconds + 60)
        kept = {}
        for kind in ("train", "train_inner", "valid"):
            for name, value in (progress(said, kind) or [{}])[-1].items():
                kept[name.removeprefix("train_")] = value
        self.keep(system, **{"seconds": round(time.monotonic() - begin, 1), "training": kept})

    def translate(self, system: str) -> None:
        """Translate the test sets into WORK/SYSTEM.SET.txt."""
        sets = [name for name in SETS if (self.args.data / f"{name}.de-en.de.bin").exists()]
        logs = {name: self.work / "logs" / f"{system}.{name}.out" for name in sets}
        words = [
            sys.executable, ROOT / "recipes" / "generate.py",
            *(f"{name}={log}" for name, log in logs.items()), "--", self.args.data,
            "-s", "de", "-t", "en", "--path", self.work / system / "checkpoint_last.pt",
            "--user-dir", ROOT / "user_dir", "--beam", "5", "--required-batch-size-multiple", "1",
            "--remove-bpe", "sentencepiece", "--max-len-a", "1.5", "--max-len-b", "10",
            *self.generate.split(),
        ]  # fmt: skip
        try:
            self.command(f"{system}.translate", words, self.left - SCORING / 2)
        finally:  # where there was no time for the second set, the first is there
            for name, log in logs.items():
                said = log.read_text("utf-8") if log.exists() else ""
                lines = re.findall(r"^D-(\d+)\t\S+\t(.*)$", said, re.M)
                text = "".join(f"{text}\n" for _, text in sorted(lines, key=lambda x: int(x[0])))
                if len(lines) == len(self.references(name)):
                    (self.work / f"{system}.{SETS[name]}.txt").write_text(text, "utf-8")

    def references(self, name: str) -> list[str]:
        """The reference translations of a set."""
        return (self.args.references / f"{name}.en").read_text("utf-8").split("\n")[:-1]

    def system(self, name: str) -> None:
        """Train a system from MLE's model, and translate with it."""
        args, control = self.args, name == "more-mle"
        flags = (
            f"--finetune-from-model {self.work / 'mle' / 'checkpoint_last.pt'} "
            f"--criterion simile_risk --reward {REWARDS.get(name, name)} "
            f"--simile-encoder {args.encoder} --mle-weight {1 if control else 0.3} "
            "--risk-alpha 0.3 --risk-cost-scale 30 --lr-scheduler polynomial_decay "
            f"--total-num-update {args.updates} --max-update {args.updates} "
            f"--disable-validation {self.risk}"
        )
        if control:
            flags = flags + " --risk-candidates 1"
        try:
            seconds = max(5.0, self.left - STARTING - TRANSLATING - SCORING)
            self.train(name, flags, ROOT / "user_dir", seconds)
            self.translate(name)
        except Exception as error:  # the others' figures count without it
            self.keep(name, error=f"{type(error).__name__}: {error}")

    def scores(self) -> None:
        """Score all translations that are there."""
        import sacrebleu

        from simile_plugin.encoder import load_encoder
        from simile_plugin.reward import score_outputs

        encoder = load_encoder(self.args.encoder)
        for name, shown in SETS.items():
            read = {
                system: path.read_text("utf-8").split("\n")[:-1]
                for system in self.found["systems"]
                if (path := self.work / f"{system}.{shown}.txt").exists()
            }
            if not read:
                continue
            refs = self.references(name)
            found = score_outputs(list(read.values()), refs, encoder)
            assert found.sim is not None and found.simile is not None
            sim, simile = (100 * found.sim.mean(0)).tolist(), (100 * found.simile.mean(0)).tolist()
            for number, (system, hyps) in enumerate(read.items()):
                bleu = sacrebleu.corpus_bleu(hyps, [refs])
                values = {
                    "BLEU": bleu.score,
                    "chrF": sacrebleu.corpus_chrf(hyps, [refs]).score,
                    "SIM": sim[number],
                    "SIMILE": simile[number],
                    "length ratio": bleu.sys_len / bleu.ref_len,
                }
                self.keep(system, **{shown: {k: round(v, 3) for k, v in values.items()}})

    def run(self) -> int:
        """Do all of it; 0 if every system has its scores."""
        names, share = self.args.systems, self.args.seconds * self.args.mle_share
        flags = (
            f"--criterion label_smoothed_cross_entropy --lr-scheduler by_time --seconds {share} "
            f"{self.mle}"
        )
        try:
            self.train("mle", flags, Path(__file__).parent / "by_time", share)
        except Exception as error:
            self.keep("mle", error=f"{type(error).__name__}: {error}")
            self.show()
            return 1
        if not self.args.rehearse and torch.cuda.is_available():
            self.found["device"] = torch.cuda.get_device_name()
        work = [threading.Thread(target=self.system, args=(name,)) for name in names]
        work.append(threading.Thread(target=self.first_translation))
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        self.scores()
        self.show()
        with tarfile.open(self.work / "translations.tar.gz", "w:gz") as out:
            for path in sorted([*self.work.glob("*.txt"), *self.work.glob("logs/*.log")]):
                out.add(path, path.name)
        complete = all(SETS["test"] in self.found["systems"].get(name, {}) for name in names)
        return 0 if complete else 1

    def first_translation(self) -> None:
        """Translate with MLE's model while the systems train."""
        try:
            self.translate("mle")
        except Exception as error:
            self.keep("mle", error=f"{type(error).__name__}: {error}")

    def show(self) -> None:
        """Print the table."""
        print("| system | updates | s | set | BLEU | chrF | SIM | SIMILE | length |")
        print("|---|---|---|---|---|---|---|---|---|")
        for system, facts in self.found["systems"].items():
            updates = facts.get("training", {}).get("num_updates", "-")
            for shown in SETS.values():
                if shown in facts:
                    values = " | ".join(f"{value:.2f}" for value in facts[shown].values())
                    print(f"| {system} | {updates} | {facts['seconds']} | {shown} | {values} |")
            if "error" in facts:
                print(f"{system}: {facts['error']}")


def path_of_python() -> str:
    """PYTHONPATH with the repository on it."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))


def main(argv: list[str] | None = None) -> int:
    """Run the job; 0: every system has its scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="fairseq-preprocess's folder")
    add("--encoder", default="default", help="reward encoder (default: the package's)")
    add("--references", type=Path, required=True, help="folder of test.en and test1.en, as text")
    add("--work", type=Path, required=True, help="folder of all that is made")
    add("--seconds", type=float, default=400, help="of all of it (default 400)")
    add("--mle-share", type=float, default=0.5, help="of the seconds, for MLE (default 0.5)")
    add("--updates", type=int, default=300, help="of each system (default 300)")
    add("--systems", nargs="+", default=["simile", "bleu", "half", "more-mle"])
    add("--rehearse", action="store_true", help="in miniature, on the CPU")
    return Job(parser.parse_args(argv)).run()


if __name__ == "__main__":
    sys.exit(main())

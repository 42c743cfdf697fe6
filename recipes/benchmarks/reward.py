"""Hypotheses a second of the reward and its peers; called by reward.sh, which says what it does."""

from __future__ import annotations

import argparse
import importlib
import os
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from recipes.benchmarks.encoder_text import make_encoder, texts
from simile_plugin.encoder import (
    Encoder,
    export_encoder,
    hide_broken_torchaudio,
    load_own_encoder,
)
from simile_plugin.evaluation import Meteor, missing_meteor
from simile_plugin.reward import (
    FEATURES,
    LearnedReward,
    Reward,
    Scorer,
    chrf_statistics,
    corpus_chrf,
    make_lexicon,
)
from simile_plugin.significance import markdown_table

Batch = tuple[list[list[str]], list[str]]
Score = Callable[[Batch], object]


def make_batches(
    sentences: list[str], count: int, size: int, candidates: int, rng: random.Random
) -> list[Batch]:
    """References and, as candidates, the same with two other words of the texts each."""
    words = [word for sentence in sentences for word in sentence.split()]

    def changed(sentence: str) -> str:
        parts = sentence.split()
        for place in rng.sample(range(len(parts)), min(2, len(parts))):
            parts[place] = rng.choice(words)
        return " ".join(parts)

    batches = []
    for start in range(0, count * size, size):
        refs = sentences[start : start + size]
        batches.append(([[changed(ref) for _ in range(candidates)] for ref in refs], refs))
    return batches


def open_ours(encoder: Encoder, sentences: list[str]) -> dict[str, Score]:
    """What the criterion calls, and its parts; the learned reward's weights do not matter here."""
    weights = dict.fromkeys(FEATURES, 1.0)
    learned = LearnedReward(weights, make_lexicon([sentences]), encoder.fingerprint)

    def values(spec: str, batch: Batch) -> torch.Tensor:
        return Scorer(Reward(spec), encoder).values(*batch, [])

    def learn(batch: Batch) -> None:
        learned.scores(*batch, encoder, values("sim", batch))

    def chrf(batch: Batch, word_order: int) -> object:
        outputs = list(zip(*batch[0], strict=True))
        return corpus_chrf(chrf_statistics(outputs, batch[1], word_order))

    return {
        "ours: SIMILE": lambda batch: values("simile", batch),
        "ours: learned": learn,
        "ours: SIMILE and sentence BLEU": lambda batch: Scorer(encoder=encoder).lists(*batch),
        "ours: sentence BLEU": lambda batch: Scorer().lists(*batch),
        "ours: chrF": lambda batch: chrf(batch, 0),
        "ours: chrF++": lambda batch: chrf(batch, 2),
    }


def each_pair(score: Callable[[str, str], object]) -> Score:
    """Score a batch one hypothesis at a time."""

    def run(batch: Batch) -> None:
        for hyps, ref in zip(*batch, strict=True):
            for hyp in hyps:
                score(hyp, ref)

    return run


def open_sacrebleu(name: str) -> Score:
    """sacreBLEU's function for one sentence."""
    function = getattr(importlib.import_module("sacrebleu"), name)
    return each_pair(lambda hyp, ref: function(hyp, [ref]))


def open_meteor(meteor: Meteor) -> Score:
    """METEOR's own program: a line out, a line back."""

    def run(batch: Batch) -> None:
        hyps, refs = batch
        meteor.scores([hyp for row in hyps for hyp in row], [ref for ref in refs for _ in hyps[0]])

    return run


def open_static_embedding(folder: Path) -> Score:
    """sentence-transformers' StaticEmbedding on distinct strings, and cosines."""
    hide_broken_torchaudio()
    library = importlib.import_module("sentence_transformers")
    model = library.SentenceTransformer(str(folder), device="cpu")

    def run(batch: Batch) -> None:
        hyps, refs = batch
        rows = {text: row for row, text in enumerate({*refs, *(h for hs in hyps for h in hs)})}
        vectors = model.encode(
            list(rows), batch_size=1024, show_progress_bar=False, convert_to_tensor=True
        )
        left = vectors[[rows[ref] for ref in refs for _ in hyps[0]]]
        right = vectors[[rows[hyp] for row in hyps for hyp in row]]
        torch.cosine_similarity(left, right)

    return run


def measure(
    systems: dict[str, Score], rounds: list[list[Batch]], seconds: Callable[[], float]
) -> dict[str, float]:
    """Least CPU seconds of a round, in turns; the first round only warms up."""
    found = dict.fromkeys(systems, float("inf"))
    for number, batches in enumerate(rounds):
        for name, score in systems.items():
            start = seconds()
            for batch in batches:
                score(batch)
            if number:
                found[name] = min(found[name], seconds() - start)
    return found


def cpu_seconds(process: int | None) -> float:
    """CPU time of this process and, from /proc, of another."""
    if process is None:
        return time.process_time()
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Time, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--work", type=Path, required=True, help="folder for the exported encoder")
    add("--encoder", default="", help="encoder folder; default: pieces trained on the texts")
    add("--sentences", type=int, default=64, help="B (default 64)")
    add("--candidates", type=int, default=8, help="N (default 8)")
    add("--batches", type=int, default=4, help="batches a round (default 4)")
    add("--rounds", type=int, default=5, help="rounds, each of other sentences (default 5)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wanted = (1 + args.rounds) * args.batches * args.sentences
    found, _, source = texts(max(wanted, 10_000))
    folder = Path(args.encoder) if args.encoder else args.work / "encoder"
    if not (folder / "config.json").is_file():
        make_encoder(folder, found)
    encoder = load_own_encoder(folder)
    export_encoder(encoder, args.work / "sentence-transformers", "sentence-transformers")
    systems = open_ours(encoder, found) | {
        "sacrebleu.sentence_bleu": open_sacrebleu("sentence_bleu"),
        "sacrebleu.sentence_chrf": open_sacrebleu("sentence_chrf"),
        "StaticEmbedding (sentence-transformers)": open_static_embedding(
            args.work / "sentence-transformers"
        ),
    }
    size = args.batches * args.sentences
    rounds = [
        make_batches(found[i * size :], args.batches, args.sentences, args.candidates,
                     random.Random(i))
        for i in range(1 + args.rounds)
    ]  # fmt: skip
    missing = missing_meteor()
    with nullcontext() if missing else Meteor() as meteor:
        if meteor is not None:
            systems["METEOR 1.5, warm"] = open_meteor(meteor)
        process = meteor.process.pid if meteor else None
        times = measure(systems, rounds, partial(cpu_seconds, process))
    hypotheses, first = size * args.candidates, times["ours: SIMILE"]
    both, learned = times["ours: SIMILE and sentence BLEU"], times["ours: learned"]
    names = ["SIMILE is faster by", "with BLEU beside it", "learned is faster by"]
    grid = [["", "hypotheses/s", *names]]
    for name, seconds in times.items():
        ours = [] if name.startswith("ours") else [first, both, learned]
        cells = [f"{seconds / one:.1f}" for one in ours] or ["", "", ""]
        grid.append([name, f"{hypotheses / seconds:,.0f}", *cells])
    words = sum(len(sentence.split()) for sentence in found) / len(found)
    print(f"{args.sentences} x {args.candidates} ({source}, {words:.1f} words a sentence)")
    print(markdown_table(grid))
    if missing:
        print(missing)


if __name__ == "__main__":
    main()

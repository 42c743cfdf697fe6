"""CPU seconds of MBR decoding, ours and the library mbrs', on lists of 8 to 1,024 candidates.

    python mbr.py LISTS ENCODER

The candidates are the first of LISTS, one list after the other. Both sides get the strings and give
the place of the best one; where the utilities are equal, it must be the same place.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simile_plugin.encoder import RewardEncoder, cosine, load_encoder
from simile_plugin.nbest import NbestList, expected_utilities, read_lists
from simile_plugin.reward import Reward, Scorer
from simile_plugin.significance import text_table

# Not installed beside this package, but by mbr.sh.
decoders: Any = importlib.import_module("mbrs.decoders")
metrics: Any = importlib.import_module("mbrs.metrics")
Cacheable: Any = metrics.MetricCacheable

SIZES = (8, 64, 256, 1024)
ONE_BY_ONE = 256  # sacreBLEU's comparisons of larger lists take minutes


class CosineOfPairs(Cacheable):
    """mbrs' way with embeddings (its COMET, BERTScore): encode once, compare each pair."""

    @dataclass
    class Cache(Cacheable.Cache):
        vectors: Tensor

        def __len__(self) -> int:
            return len(self.vectors)

        def __getitem__(self, key: Any) -> CosineOfPairs.Cache:
            found: Tensor = self.vectors[key]
            return CosineOfPairs.Cache(found if found.dim() > 1 else found[None])

        def repeat(self, n: int) -> CosineOfPairs.Cache:
            return CosineOfPairs.Cache(self.vectors.repeat(n, 1))

    def __init__(self, encoder: RewardEncoder) -> None:
        super().__init__(self.Config())
        self.encoder = encoder

    @property
    def embed_dim(self) -> int:
        return self.encoder.dim

    def encode(self, sentences: list[str]) -> Cache:
        return self.Cache(self.encoder.embed_text(sentences))

    def out_proj(
        self, hypotheses_ir: Cache, references_ir: Cache, sources_ir: object = None
    ) -> Tensor:
        return cosine(hypotheses_ir.vectors, references_ir.vectors)


def timed(decode: Callable[[list[str]], int], hyps: list[str]) -> tuple[float, int]:
    """CPU seconds of a call, after one that is not counted, and the place that it gives."""
    decode(hyps[:4])
    start = time.process_time()
    place = decode(hyps)
    return time.process_time() - start, place


def main() -> None:
    """Time every column at every size."""
    lists, encoder = read_lists(sys.argv[1], "LISTS"), load_encoder(sys.argv[2])
    hyps = [hyp for found in lists for hyp in found.hyps][: max(SIZES)]

    def ours(spec: str) -> Callable[[list[str]], int]:
        scorer = Scorer(Reward(spec), encoder)
        return lambda some: int(
            expected_utilities([NbestList(0, None, tuple(some))], scorer)[0].argmax()
        )

    def theirs(metric: object) -> Callable[[list[str]], int]:
        decoder = decoders.DecoderMBR(decoders.DecoderMBR.Config(), metric)
        return lambda some: int(decoder.decode(some, some).idx[0])

    chrf = metrics.MetricChrF(metrics.MetricChrF.Config(num_workers=1))
    rust = metrics.MetricChrF(metrics.MetricChrF.Config(num_workers=1, fastchrf=True))
    smooth = metrics.MetricBLEU.Config(num_workers=1, smooth_method="add-k", smooth_value=1)
    columns = {
        "SIM, ours": ours("sim"),
        "SIM, mbrs": theirs(CosineOfPairs(encoder)),
        "SIMILE, ours": ours("simile"),
        "chrF, ours": ours("chrf"),
        "chrF, mbrs' fastchrf": theirs(rust),
        "chrF, mbrs": theirs(chrf),
        "BLEU, ours": ours("bleu"),
        "BLEU, mbrs": theirs(metrics.MetricBLEU(smooth)),
    }
    rows = [["N", "distinct", *columns]]
    for size in SIZES:
        some = hyps[:size]
        row, places = [str(size), str(len({*some}))], {}
        for name, decode in columns.items():
            if size > ONE_BY_ONE and name in ("chrF, mbrs", "BLEU, mbrs"):
                row.append("-")
                continue
            seconds, places[name] = timed(decode, some)
            row.append(f"{seconds:.4f}")
        rows.append(row)
        for one, other in (("SIM, ours", "SIM, mbrs"), ("chrF, ours", "chrF, mbrs' fastchrf")):
            if some[places[one]] != some[places[other]]:
                print(f"N = {size}: {one} and {other} choose differently", file=sys.stderr)
    print(text_table(rows))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

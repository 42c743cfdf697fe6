"""CPU time of one step of beam search: by fairseq's own decoder, and by TransformerSteps.

    PYTHONPATH=. python recipes/benchmarks/steps.py

Where the model is narrow, nearly all of it is what the host does to ask for the operations: the
time that a GPU with little to do waits for. Both sides search with the same random model, in turns;
a step's time is the slope between a short and a long search.
"""

from __future__ import annotations

import argparse
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch.utils._python_dispatch import TorchDispatchMode

from simile_plugin.fairseq_training import SimileRiskConfig, beam_search

SHORT, LONG = 5, 25
# layers, width, vocabulary, sentences, candidates
SIZES = ((6, 16, 200, 2, 2), (2, 256, 5000, 30, 8), (6, 512, 32000, 6, 8))
SOURCE = 12
# Views and questions about types: no device has anything to do for them.
FREE = {
    *("view", "_unsafe_view", "expand", "permute", "transpose", "t", "slice", "select", "squeeze"),
    *("unsqueeze", "unbind", "split", "chunk", "alias", "detach", "empty", "new_empty"),
    *("as_strided", "promote_types", "lift_fresh", "_local_scalar_dense"),
}


class Operations(TorchDispatchMode):
    """Counts what a device would be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.count += str(func).split(".")[1] not in FREE
        return func(*args, **(kwargs or {}))


def make_model(layers: int, width: int, vocabulary: int) -> tuple[Any, Dictionary]:
    """A random Transformer that does not stop by itself; as many layers on both sides."""
    dictionary = Dictionary()
    for number in range(vocabulary - len(dictionary)):
        dictionary.add_symbol(str(number))
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            *(("layers", layers), ("embed_dim", width), ("ffn_embed_dim", 2 * width)),
            ("attention_heads", max(2, width // 64)),
        )
    }
    args = Namespace(arch="transformer", share_all_embeddings=True, **sides)
    ARCH_CONFIG_REGISTRY["transformer"](args)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(1)
    model = ARCH_MODEL_REGISTRY["transformer"].build_model(args, task).eval()
    with torch.no_grad():
        model.decoder.output_projection.weight[dictionary.eos()] -= 1
    return model, dictionary


@contextmanager
def by_fairseq(model: Any) -> Iterator[None]:
    """Within the block the decoder takes its own steps: a hook must not be gone round."""
    handle = model.decoder.layers[0].register_forward_hook(lambda *_: None)
    try:
        yield
    finally:
        handle.remove()


@dataclass
class Search:
    """Beam search of one batch of random sources."""

    model: Any
    dictionary: Dictionary
    sample: dict[str, Any]
    size: int

    def run(self, length: int) -> None:
        cfg = SimileRiskConfig(risk_candidates=self.size, risk_max_len_a=0, risk_max_len_b=length)
        beam_search(self.model, self.sample, cfg, self.dictionary, self.dictionary.eos())

    def seconds(self, length: int) -> float:
        start = time.process_time()
        self.run(length)
        return time.process_time() - start

    def operations(self, length: int) -> int:
        with Operations() as counted:
            self.run(length)
        return counted.count


def a_step(measure: Callable[[int], float]) -> float:
    """What a step more takes."""
    return (measure(LONG) - measure(SHORT)) / (LONG - SHORT)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print("| layers x width | vocabulary | rows | fairseq: ms, operations | ours | |")
    print("|---|---|---|---|---|---|")
    for layers, width, vocabulary, sentences, size in SIZES:
        model, dictionary = make_model(layers, width, vocabulary)
        source = torch.randint(4, vocabulary, (sentences, SOURCE))
        lengths = torch.full((sentences,), SOURCE)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}, "target": source}
        search = Search(model, dictionary, sample, size)
        ours = a_step(search.operations)
        with by_fairseq(model):
            theirs = a_step(search.operations)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            with by_fairseq(model):
                times[0].append(1000 * a_step(search.seconds))
            times[1].append(1000 * a_step(search.seconds))
        before, now = map(statistics.median, times)
        print(
            f"| {layers} x {width} | {vocabulary:,} | {sentences} x {size} | {before:.2f}, "
            f"{theirs:.0f} | {now:.2f}, {ours:.0f} | {now / before:.2f} |"
        )


if __name__ == "__main__":
    main()

"""Train any kind of encoder by plain autograd.

    python train.py PAIRS.tsv --kind lstm --output ENCODER

Objectives: "margin", the hinge with the hardest negatives of a mega-batch (Wieting et al. 2019,
equation 1); "contrastive" (Sjöblom et al. 2018, section 3.2); "ranking", multiple negatives of the
minibatch (Henderson et al. 2017); "paragram", the margin with penalties on the composer's weights
and on the distance from the initial vectors (Wieting et al. 2016, PARAGRAM-PHRASE), which the paper
minimises by AdaGrad.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import kinds  # noqa: F401 (registers them)
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from simile_plugin.encoder import (
    Composer,
    Encoder,
    Preprocessing,
    Tokenizer,
    find_kind,
    load_own_encoder,
    make_composer,
    save_encoder,
)
from simile_plugin.encoder_training import (
    Pairs,
    hardest_negatives,
    read_pairs,
    segment_pairs,
    sharing_pairs,
    train_tokenizer,
)
from simile_plugin.files import InputError, as_script, check_outputs

Ints = NDArray[np.int64]
OBJECTIVES = ("margin", "contrastive", "ranking", "paragram")
OPTIMIZERS = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}


def margin(
    s: Tensor, t: Tensor, t_negative: Tensor, s_negative: Tensor, exists: Tensor, delta: float
) -> Tensor:
    """Return mean max(0, d - cos(s, t) + cos(s, t')) + max(0, d - cos(s, t) + cos(t, s')).

    Args:
        s, t, t_negative, s_negative: (B, D) vectors of pairs and of their negatives.
        exists: (B, 2) whether there are t' and s'; the hinge of a missing one is 0.
        delta: d.
    """
    loose = delta - F.cosine_similarity(s, t)
    for_s = (loose + F.cosine_similarity(s, t_negative)).clamp(min=0) * exists[:, 0]
    for_t = (loose + F.cosine_similarity(t, s_negative)).clamp(min=0) * exists[:, 1]
    return (for_s + for_t).mean()


def contrastive(
    s: Tensor, t: Tensor, t_negative: Tensor, s_negative: Tensor, exists: Tensor, delta: float
) -> Tensor:
    """Return mean d(s, t) + (max(0, m - d(s, t'))^2 + max(0, m - d(t, s'))^2) / 2.

    d is 1 - cos, delta m; the other arguments are those of margin.
    """
    for_s = (delta - 1 + F.cosine_similarity(s, t_negative)).clamp(min=0) ** 2 * exists[:, 0]
    for_t = (delta - 1 + F.cosine_similarity(t, s_negative)).clamp(min=0) ** 2 * exists[:, 1]
    return (1 - F.cosine_similarity(s, t) + (for_s + for_t) / 2).mean()


def ranking(s: Tensor, t: Tensor, keys: Tensor, scale: float) -> Tensor:
    """Return the cross-entropy of choosing t for s among the minibatch and s for t, averaged.

    Args:
        keys: (B, 2), equal for equal sentences: pairs that share one do not compete.
        scale: of the cosines, which are the logits.
    """
    logits = scale * F.normalize(s, dim=1) @ F.normalize(t, dim=1).T
    row, column = sharing_pairs(keys[:, 0], keys[:, 1]).T
    shared = row != column
    nothing = torch.tensor(-torch.inf, dtype=logits.dtype)
    logits = logits.index_put((row[shared], column[shared]), nothing)
    right = torch.arange(len(s))
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


class Training:
    """A table of embeddings (V, D), its composer, and the steps that train both.

    Args:
        initial: (V, D) vectors that the table begins with.
        args: the flags of this script.
    """

    def __init__(
        self, pairs: Pairs, composer: Composer, initial: Tensor, args: argparse.Namespace
    ) -> None:
        self.pairs, self.composer, self.initial, self.args = pairs, composer.train(), initial, args
        self.table = nn.Parameter(initial.clone())
        self.rng = np.random.default_rng(args.seed)
        self.optimizer = OPTIMIZERS[args.optimizer](
            [self.table, *composer.parameters()], lr=args.lr
        )

    def vectors(self, sentences: Ints, scramble: float = 0.0) -> Tensor:
        """Return vectors (U, D); a share of the sentences is read with its tokens in random order.

        Wieting and Gimpel 2017 scramble so that recurrent kinds do not learn order by heart.
        """
        ids, starts = self.pairs.bags(sentences)
        if scramble:
            for tokens in np.split(ids, starts[1:]):  # views: shuffles within ids
                if self.rng.random() < scramble:
                    self.rng.shuffle(tokens)
        vectors: Tensor = self.composer(self.table, torch.from_numpy(ids), torch.from_numpy(starts))
        return vectors

    def keys(self, rows: Ints) -> Tensor:
        """Return (n, 2) numbers, equal for equal sentences."""
        return torch.from_numpy(self.pairs.hashes[rows[:, :2]].view(np.int64))

    @torch.no_grad()
    def with_negatives(self, rows: Ints) -> Ints:
        """Return s, t, t', s' (n, 4) of pairs (n, 2); -1 where there is no negative."""
        left, right = self.vectors(rows[:, 0]), self.vectors(rows[:, 1])
        keys = self.keys(rows)
        found = hardest_negatives(left, right, keys[:, 0], keys[:, 1], pool=self.args.pool)
        sentences = np.append(rows.T.ravel(), -1)
        return np.column_stack([rows, *(sentences[places.numpy()] for places in found)])

    def minibatches(self) -> Iterator[Ints]:
        """Yield minibatches (B, 4) of a mega-batch, which has one more every `anneal` of them."""
        size, given, order = self.args.batch_size, 0, np.zeros(0, dtype=np.int64)
        while True:
            count = size * min(self.args.megabatch, 1 + given // self.args.anneal)
            if len(order) < count:
                order = self.rng.permutation(len(self.pairs))
                count = min(count, len(order) // size * size)
            rows, order = self.pairs.pair_rows(order[:count]), order[count:]
            if self.args.objective == "ranking":
                mined = rows
            else:
                mined = self.with_negatives(rows)
            for batch in np.split(mined, count // size):
                yield batch
                given += 1

    def loss(self, batch: Ints) -> Tensor:
        """Return the objective of a minibatch."""
        args = self.args
        s, t, *others = (self.vectors(side, args.scramble) for side in batch.T)
        if args.objective == "ranking":
            return ranking(s, t, self.keys(batch), args.scale)
        t_negative, s_negative = others
        exists = torch.from_numpy(batch[:, 2:] >= 0)
        objective = contrastive if args.objective == "contrastive" else margin
        value = objective(s, t, t_negative, s_negative, exists, args.margin)
        if args.objective == "paragram":
            value = value + args.l2_initial * (self.table - self.initial).square().sum()
            weights = [part.square().sum() for part in self.composer.parameters()]
            value = value + args.l2_composer * torch.stack([value.new_zeros(()), *weights]).sum()
        return value

    def run(self) -> None:
        """Train, and print the mean loss of every hundred minibatches."""
        recent: list[float] = []
        for step, batch in zip(range(1, self.args.steps + 1), self.minibatches(), strict=False):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            recent.append(loss.item())
            if step % 100 == 0 or step == self.args.steps:
                print(f"{step}\tloss {np.mean(recent):.4f}", flush=True)
                recent.clear()


def beginning(args: argparse.Namespace, sentences: Sequence[str]) -> tuple[Tokenizer, Tensor]:
    """Return the tokeniser and the initial vectors (V, D): drawn, or those of --initial.

    Raises:
        InputError: if that encoder reads other tokens than the kind.
    """
    tokens = find_kind(args.kind).tokens
    if args.initial is None:
        tokenizer = train_tokenizer(tokens[0], sentences, Preprocessing(), args.vocab_size)
        return tokenizer, torch.randn(len(tokenizer), args.dim) * args.init_std
    given = load_own_encoder(args.initial)
    if given.segmenter.name not in tokens:
        raise InputError(
            f"--initial: {args.initial}: its tokens are {given.segmenter.name}, expected "
            f"{' or '.join(tokens)}, which --kind {args.kind} reads"
        )
    return given.segmenter, given.weight.detach().clone()


def train(args: argparse.Namespace) -> Encoder:
    """Train an encoder as the flags say, save and return it."""
    torch.manual_seed(args.seed)
    text = read_pairs([args.pairs], Preprocessing())
    tokenizer, initial = beginning(args, text.sentences)
    pairs = segment_pairs(text, tokenizer)
    if len(pairs) < args.batch_size:
        raise InputError(
            f"PAIRS: {args.pairs} has {len(pairs)} pairs, expected --batch-size {args.batch_size} "
            "or more"
        )
    composer = make_composer(args.kind, initial.shape[1], {}, tokenizer.sizes)
    training = Training(pairs, composer, initial, args)
    training.run()
    encoder = Encoder(training.table.detach(), tokenizer, vars(args), composer.eval())
    save_encoder(args.output, encoder)
    return encoder


@as_script
def main(argv: Sequence[str] | None = None) -> None:
    """Read the flags and train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("pairs", metavar="PAIRS", help="two sentences that mean the same a line, with a TAB")
    add("--output", required=True, metavar="ENCODER", help="folder")
    add("--kind", default="lstm", help="lstm, blstm, gran, charagram, sp, word, trigram, word+sp")
    add("--initial", metavar="ENCODER", help="begin with its tokeniser and vectors")
    add("--objective", default="margin", choices=OBJECTIVES)
    add("--optimizer", default="adam", choices=[*OPTIMIZERS])
    add("--pool", default="other", choices=("other", "all"), help="all: negatives of either side")
    for name, value in (
        *(("lr", 3e-3), ("init_std", 0.1), ("margin", 0.4), ("scale", 20.0), ("scramble", 0.0)),
        *(("l2_initial", 1e-5), ("l2_composer", 1e-4)),
    ):
        add(f"--{name.replace('_', '-')}", type=float, default=value, help=f"default {value}")
    for name, number in (
        *(("dim", 300), ("batch_size", 128), ("megabatch", 60), ("anneal", 150)),
        *(("steps", 1000), ("vocab_size", 20000), ("seed", 1)),
    ):
        add(f"--{name.replace('_', '-')}", type=int, default=number, help=f"default {number}")
    args = parser.parse_args(argv)
    check_outputs({"--output": args.output}, [args.pairs, args.initial], folders=True)
    train(args)


if __name__ == "__main__":
    sys.exit(main())

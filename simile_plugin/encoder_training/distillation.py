"""An encoder by distillation: of a second language from bitext, or a fast one of the same language.

The teacher reads the sources and stays as it is. The new table is trained so that the vector of a
target is near the teacher's vector of its source, among those of a batch (Reimers and Gurevych 2020
distil by squared distance; a softmax over the batch is that of Radford et al. 2021, equation in
`contrastive_loss`). Without targets the sources are their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from simile_plugin.encoder import (
    Encoder,
    Preprocessing,
    RewardEncoder,
    Tokenizer,
    make_composer,
)
from simile_plugin.encoder_training.config import DistilConfig
from simile_plugin.encoder_training.pairs import train_tokenizer
from simile_plugin.files import InputError, Progress

INIT_STD = 0.01  # small, so that a token that is seen seldom says little
FEWEST_PAIRS = 50
READ_AT_ONCE = 1024  # sentences, between two steps of the progress bar


def contrastive_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """-mean over i of (log softmax_j(c_ij / t)_i + log softmax_j(c_ji / t)_i) / 2, c = cosines.

    Args:
        student, teacher: (B, D) vectors of targets and of their sources.
    """
    logits = normalize(student, eps=1e-9) @ normalize(teacher, eps=1e-9).T / temperature
    own = torch.arange(len(logits), device=logits.device)
    return (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2


def distil_encoder(
    teacher: RewardEncoder,
    sources: Sequence[str],
    targets: Sequence[str] | None,
    config: DistilConfig,
    more: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Encoder:
    """Train the encoder of the targets' language, with the teacher for its sources.

    Args:
        teacher: an encoder of the sources' language, which is not changed.
        sources, targets: sentences, line by line; pairs with an empty side are left out. None for
            targets: the new encoder reads the sources as the teacher does, as a mean of vectors.
        more: sources and targets of other languages, which only help to train the table: names and
            loans are the same in many.

    Raises:
        InputError: for fewer than FEWEST_PAIRS pairs, and for targets of a teacher that is no
            :class:`Encoder`.
    """
    if targets is not None and not isinstance(teacher, Encoder):
        raise InputError(
            f"TEACHER: got a {teacher.kind} model, which an encoder of two languages cannot hold; "
            "distil an encoder of its own language first (no --target), and give that"
        )
    own = list(dict.fromkeys(sources)) if targets is None else sources
    pairs = _filled(own, own if targets is None else targets)
    if len(pairs) < FEWEST_PAIRS:
        what = "different sentences" if targets is None else "pairs with text on both sides"
        raise InputError(
            f"{'--source' if targets is None else '--source, --target'}: {len(pairs)} {what}, "
            f"expected {FEWEST_PAIRS} or more (some thousands to be of use)"
        )
    everything = pairs + _filled(*more)
    read, of_all = [pair[0] for pair in everything], [pair[1] for pair in everything]
    preprocessing = Preprocessing()
    prepared = [*dict.fromkeys(map(preprocessing.apply, of_all))]
    tokenizer = train_tokenizer(config.kind, prepared, preprocessing, config.vocab_size)
    vectors = _read(teacher, read)
    trained = _train(tokenizer, of_all, vectors, config)
    text = "\n".join(f"{source}\t{target}" for source, target in everything)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    facts = {
        "teacher": teacher.fingerprint,
        "data": digest,
        "pairs": len(pairs),
        "more": len(everything) - len(pairs),
        **vars(config),
    }
    encoder = Encoder(trained.weight.detach(), tokenizer, facts, trained.composer)
    if targets is not None and isinstance(teacher, Encoder):
        encoder.learn_source(teacher, *([pair[side] for pair in pairs] for side in (1, 0)))
    return encoder


def _filled(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    pairs = zip(sources, targets, strict=True)
    return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


def _read(teacher: RewardEncoder, sentences: Sequence[str]) -> Tensor:
    """The teacher's vectors (n, D)."""
    vectors = []
    with Progress(len(sentences), " sentences", "reading") as bar:
        for begin in range(0, len(sentences), READ_AT_ONCE):
            some = sentences[begin : begin + READ_AT_ONCE]
            vectors.append(teacher.embed_text(some))
            bar.update(len(some))
    return torch.cat(vectors)


def _train(
    tokenizer: Tokenizer,
    targets: Sequence[str],
    vectors: Tensor,
    config: DistilConfig,
) -> Encoder:
    """Fit vectors of tokens so that the targets are near the teacher's `vectors` (n, D)."""
    generator = torch.Generator().manual_seed(config.seed)
    dim = int(vectors.shape[1])
    settings = {"mix": "add"} if "+" in config.kind else {}
    composer = make_composer(config.kind, dim, settings, tokenizer.sizes)
    weight = INIT_STD * torch.randn(len(tokenizer), dim, generator=generator)
    student = Encoder(weight, tokenizer, composer=composer).to(vectors.device)
    ids, offsets = tokenizer.encode_flat(targets)
    ends = np.append(offsets[1:], len(ids))
    batches = max(1, len(targets) // config.batch_size)
    adam = torch.optim.Adam([student.weight], lr=config.lr)
    falling = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda step: 1 - step / (config.epochs * batches)
    )
    with Progress(config.epochs, " epochs", "distilling") as bar:
        for _ in range(config.epochs):
            order = torch.randperm(len(targets), generator=generator).numpy()
            for rows in np.array_split(order, batches):
                lengths = ends[rows] - offsets[rows]
                starts = lengths.cumsum() - lengths
                places = np.arange(lengths.sum()) + np.repeat(offsets[rows] - starts, lengths)
                kept = torch.rand(len(places), generator=generator).numpy() >= config.token_dropout
                before = np.append(0, kept.cumsum())
                bags = torch.from_numpy(ids[places[kept]]), torch.from_numpy(before[starts])
                loss = contrastive_loss(student(*bags), vectors[rows], config.temperature)
                adam.zero_grad()
                loss.backward()
                adam.step()
                falling.step()
            bar.update()
    return student

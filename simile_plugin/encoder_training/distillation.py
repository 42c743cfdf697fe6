"""An encoder by distillation: of a second language from bitext, or a fast one of the same language.

The teacher reads the sources and stays as it is. The new table is trained so that the vector of a
target is near the teacher's vector of its source, among those of a batch (Reimers and Gurevych 2020
distil by squared distance; the softmax over the batch is that of Radford et al. 2021, equation in
`contrastive_loss`). Without targets, the sources are the targets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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
from simile_plugin.encoder_training.tokenizers import say, train_tokenizer
from simile_plugin.encoder_training.tsv import LOOKED_AT, no_sentence
from simile_plugin.files import InputError, Progress

INIT_STD = 0.01  # small, so that a token that is seen seldom says little
FEWEST_PAIRS = 50
HELD_OUT, HELD_OUT_SHARE = 300, 0.1  # pairs that are not trained on, at most, and of all
SURELY = 20  # so many held-out pairs tell
# Share of held-out pairs whose translation is nearest: in 1,000 pairs of news 0.57, with the sides
# a line apart 0.08 (neighbours share names).
NONE, FEW = 0.1, 0.2
# The text is cut into PARTS. If the better half of them has more than USUAL_SHARE, a part below
# APART of their mean is misaligned (measured: 0.04 to 0.23 beside 0.77; aligned 0.85 to 0.96).
PARTS, USUAL_SHARE, APART = 10, 0.3, 0.4
BETTER_READ, UNKNOWN_MORE = 1.3, 0.1  # letters a token (ratio), unknown tokens (difference)
Lines = Sequence[str]
READ_AT_ONCE = 1024  # sentences, between two steps of the progress bar


def contrastive_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return -mean over i of (log softmax_j(c_ij / t)_i + log softmax_j(c_ji / t)_i) / 2.

    c are the cosines of targets and sources, t is the temperature.

    Args:
        student, teacher: (B, D) vectors of targets and of their sources.
    """
    logits = normalize(student, eps=1e-9) @ normalize(teacher, eps=1e-9).T / temperature
    diagonal = torch.arange(len(logits), device=logits.device)
    return (cross_entropy(logits, diagonal) + cross_entropy(logits.T, diagonal)) / 2


def distil_encoder(
    teacher: RewardEncoder,
    sources: Sequence[str],
    targets: Sequence[str] | None,
    config: DistilConfig,
    more: tuple[Lines, Lines] = ((), ()),
) -> Encoder:
    """Train the encoder of the targets' language, with the teacher for its sources.

    One pair in ten, 300 at most, is held out: the facts count for how many of these targets the
    nearest source is the right one ("found" of "held_out"). With ``more`` a table of the language
    alone is trained beside the shared table, and the table that finds more translations is kept.

    Args:
        teacher: an encoder of the sources' language, which is not changed.
        sources, targets: sentences, line by line; pairs with an empty side are left out. None for
            targets: the new encoder reads the sources as the teacher does, as a mean of vectors.
        more: sources and targets of other languages, which only help to train the table: names and
            loans are the same in many.

    Raises:
        InputError: for fewer than FEWEST_PAIRS pairs, for targets of a teacher that is no
            :class:`Encoder`, and for sides that are no translations of each other.
    """
    if targets is not None and not isinstance(teacher, Encoder):
        raise InputError(
            f"TEACHER: got a {teacher.kind} model, which an encoder of two languages cannot hold; "
            "distil an encoder of its own language first (no --target), and give that"
        )
    if targets is None:
        distinct = list(dict.fromkeys(sources))
        pairs = _filled(distinct, distinct)
    else:
        pairs = _filled(sources, targets)
    if len(pairs) < FEWEST_PAIRS:
        what = "different sentences" if targets is None else "pairs with text on both sides"
        raise InputError(
            f"{'--source' if targets is None else '--source, --target'}: {len(pairs)} {what}, "
            f"expected {FEWEST_PAIRS} or more (some thousands to be of use)"
        )
    if targets is not None:
        _look_at_sides(teacher, pairs)
    kept, held_out = _hold_out(pairs)
    others = _filled(*more)
    tables = {"shared": kept + others, "alone": kept} if others else {"alone": kept}
    wanted = _read(teacher, [source for source, _ in held_out])
    trained, found = {}, {}
    for name, chosen in tables.items():
        if others:
            say(f"training the table {name}: {len(chosen):,} pairs")
        trained[name] = _trained(teacher, chosen, config)
        found[name] = find_translations(trained[name], [pair[1] for pair in held_out], wanted)
    best = max(tables, key=lambda name: int(found[name].sum()))  # the first of equals
    _check_found(found[best], "--source" if targets is None else "--source, --target")
    facts = _facts(teacher, pairs, others if best == "shared" else [], config)
    facts |= {"held_out": len(held_out), "found": int(found[best].sum())}
    if others:
        facts |= {f"found_{name}": int(hits.sum()) for name, hits in found.items()}
    table = trained[best]
    encoder = Encoder(table.weight.detach(), table.segmenter, facts, table.composer)
    if targets is not None and isinstance(teacher, Encoder):
        encoder.learn_source(teacher, *([pair[side] for pair in pairs] for side in (1, 0)))
    return encoder


def _trained(
    teacher: RewardEncoder, pairs: Sequence[tuple[str, str]], config: DistilConfig
) -> Encoder:
    """Train a tokeniser and a table on (source, target) pairs."""
    targets = [target for _, target in pairs]
    preprocessing = Preprocessing()
    prepared = [*dict.fromkeys(map(preprocessing.apply, targets))]
    tokenizer = train_tokenizer(config.kind, prepared, preprocessing, config.vocab_size)
    return _train(tokenizer, targets, _read(teacher, [source for source, _ in pairs]), config)


def _facts(
    teacher: RewardEncoder,
    pairs: list[tuple[str, str]],
    more: list[tuple[str, str]],
    config: DistilConfig,
) -> dict[str, Any]:
    text = "\n".join(f"{source}\t{target}" for source, target in pairs + more)
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return {
        "teacher": teacher.fingerprint,
        "data": digest,
        "pairs": len(pairs),
        "more": len(more),
        **vars(config),
    }


def _hold_out(
    pairs: list[tuple[str, str]],
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs to train on and the held-out pairs, taken evenly from the text.

    A held-out pair has no side in common with any other pair.
    """
    sources, targets = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    alone = [n for n, (s, t) in enumerate(pairs) if sources[s] == targets[t] == 1]
    count = min(HELD_OUT, int(HELD_OUT_SHARE * len(alone)))
    places = {alone[int(n)] for n in np.linspace(0, len(alone) - 1, count).round()}
    kept = [pair for n, pair in enumerate(pairs) if n not in places]
    return kept, [pairs[n] for n in sorted(places)]


def find_translations(encoder: Encoder, targets: Lines, vectors: Tensor) -> NDArray[np.bool_]:
    """Return a mask (n,) of the targets whose nearest source is their translation.

    Args:
        vectors: (n, D) of the sources, line by line.
    """
    if not targets:
        return np.zeros(0, dtype=bool)
    cosines = normalize(encoder.embed_text(targets), eps=1e-9) @ normalize(vectors, eps=1e-9).T
    nearest = cosines.argmax(1).cpu().numpy()
    return np.asarray(nearest == np.arange(len(targets)))


def _check_found(found: NDArray[np.bool_], flags: str) -> None:
    """Raise InputError where hardly a translation is found; warn of parts without any."""
    if len(found) >= SURELY and found.mean() <= NONE:
        raise InputError(
            f"{flags}: of {len(found)} held-out translations the encoder finds {found.sum()}: the "
            "sides do not belong together; expected translations line by line (is a line missing "
            "or added in one of the files? does TEACHER read the language of --source?)"
        )
    if len(found) >= SURELY and found.mean() <= FEW:
        say(
            f"warning: {flags}: of {len(found)} held-out translations the encoder finds only "
            f"{found.sum()}: are the files translations line by line?"
        )
    parts = np.array_split(found, PARTS)
    usual = np.mean(sorted(part.mean() for part in parts)[PARTS // 2 :]) if len(found) else 0
    if len(parts[-1]) < SURELY or usual < USUAL_SHARE:
        return
    for number, part in enumerate(parts):
        if part.mean() <= APART * usual:
            begin, end = 100 * number // PARTS, 100 * (number + 1) // PARTS
            say(
                f"warning: {flags}: between {begin} % and {end} % of the lines {part.sum()} of "
                f"{len(part)} held-out translations are found, elsewhere "
                f"{usual:.0%}: is a line missing or added there in one of the files?"
            )


def _look_at_sides(teacher: RewardEncoder, pairs: list[tuple[str, str]]) -> None:
    """Warn of sides that are exchanged, or that are no sentences."""
    some = pairs[:: max(1, len(pairs) // LOOKED_AT)]
    unknown, letters = [], []
    for side, flag in enumerate(("--source", "--target")):
        lines = [pair[side] for pair in some]
        if example := no_sentence(lines):
            say(f"warning: {flag}: has numbers or names, codes or labels ({example[:40]!r})")
        read = teacher.embed_counted(lines)
        tokens = max(1, int(read.tokens.sum()))
        unknown.append(int(read.unknown.sum()) / tokens)
        letters.append(sum(len("".join(line.split())) for line in lines) / tokens)
    more_unknown = unknown[0] - unknown[1]
    cut_smaller = more_unknown > -UNKNOWN_MORE and letters[1] > BETTER_READ * letters[0]
    if more_unknown > UNKNOWN_MORE or cut_smaller:
        say(
            "warning: --source, --target: TEACHER reads --target better than --source (unknown "
            f"{unknown[1]:.0%} and {unknown[0]:.0%} of the tokens, {letters[1]:.1f} and "
            f"{letters[0]:.1f} letters a token): are the two exchanged?"
        )


def _filled(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    pairs = zip(sources, targets, strict=True)
    return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


def _read(teacher: RewardEncoder, sentences: Sequence[str]) -> Tensor:
    """Return the teacher's vectors (n, D)."""
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

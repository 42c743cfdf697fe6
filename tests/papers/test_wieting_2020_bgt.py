"""The BGT: KL and ELBO by hand and by a slow loop, its encoder folders, a small training."""

import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from simile_plugin.encoder import Preprocessing, Segmenter, load_encoder
from simile_plugin.encoder_training import train_sentencepiece
from tests.conftest import SENTENCES
from tests.evaluation.test_sts import PAIRS, write_set
from tests.papers.scripts import PAPERS, script

PAPER = "wieting-2020-bilingual-generative-transformer"
bgt, train_bgt, table_bgt = (script(PAPER, name) for name in ("bgt", "train_bgt", "table_bgt"))
END = 30
SIZES = bgt.Sizes(END, 16, 6, 2, 2, 32, 0.0)
every_variant = pytest.mark.parametrize("variant", bgt.VARIANTS)


def make(variant: str) -> Any:
    torch.manual_seed(1)
    return bgt.Bgt(SIZES, variant)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return (
        train_bgt.padded([[5, 7], [3], [9, 2, 4]], END),
        train_bgt.padded([[8], [6, 1, 0], [11, 12]], END),
    )


def test_kl_by_hand() -> None:
    # The first dimension has (e^0 + 1 - 1 - 0) / 2 = 1/2, the second (4 + 0 - 1 - ln 4) / 2.
    q = bgt.Posterior(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, math.log(4.0)]]))
    assert q.kl().tolist() == pytest.approx([0.5 + (3 - math.log(4)) / 2])
    assert bgt.Posterior(q.mean).kl().tolist() == [0.0]  # a point, for want of a prior
    assert [bgt.kl_weight(update, 4) for update in (0, 1, 4, 9)] == [0.0, 0.25, 1.0, 1.0]


def test_elbo_by_hand() -> None:
    """Two tokens and the end, of three classes: probabilities 1/2, 1/4, 1/2."""
    rows = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.9, 0.05, 0.05]]
    tokens = torch.tensor([[0, 1, 2, bgt.PADDING]])
    nll = bgt.sentence_nll(torch.tensor([rows]).log(), tokens)
    assert nll.tolist() == pytest.approx([math.log(2 * 4 * 2)])
    # log p(x | z) - KL = -ln 16 - 1/2, with the posterior's mean at 1 in one dimension.
    kl = bgt.Posterior(torch.ones(1, 1), torch.zeros(1, 1)).kl()
    assert float(-nll - kl) == pytest.approx(-math.log(16) - 0.5)
    # Smoothed by 0.3: each token 0.7 of its own and 0.1 of each class's.
    all_classes = 2 * math.log(2 * 4 * 4) + math.log(4 * 4 * 2)
    smoothed = bgt.sentence_nll(torch.tensor([rows]).log(), tokens, 0.3)
    assert smoothed.tolist() == pytest.approx([0.7 * math.log(16) + 0.1 * all_classes])


def test_samples_have_the_mean_and_the_variance() -> None:
    torch.manual_seed(2)
    variance = torch.tensor([0.25, 4.0]).repeat(20000, 1)
    drawn = bgt.Posterior(torch.tensor([[3.0, -1.0]]).repeat(20000, 1), variance.log()).sample()
    torch.testing.assert_close(drawn.mean(0), torch.tensor([3.0, -1.0]), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.var(0), variance[0], atol=0.1, rtol=0)


@pytest.mark.parametrize("variant", ["bgt", "mgt"])
def test_losses_beside_a_slow_loop(variant: str) -> None:
    """Pair by pair and token by token, with the noise that the batch had."""
    model, sides, update = make(variant).eval(), batch(), 1
    torch.manual_seed(5)
    terms = model.losses(sides, update)
    torch.manual_seed(5)
    noise = [torch.randn(3, 6) for _ in range(3)]  # of z_sem, z_1, z_2
    for pair in range(3):
        alone = [side[pair : pair + 1, : int((side[pair] != bgt.PADDING).sum())] for side in sides]
        read = [model.read(model.semantic, side) for side in alone]
        posteriors = [read[(pair + update) % 2]]
        posteriors += [model.read(model.language[i], alone[i]) for i in (0, 1)]
        z, kl = [], 0.0
        for q, e in zip(posteriors, noise, strict=True):
            z.append(q.mean + (q.log_variance / 2).exp() * e[pair])
            for m, v in zip(q.mean[0].tolist(), q.log_variance[0].tolist(), strict=True):
                kl += (math.exp(v) + m * m - 1 - v) / 2
        nll = translation = 0.0
        for side in (0, 1):
            for time, token in enumerate(alone[side][0].tolist()):
                before = alone[side][:, : time + 1]
                written = model.write(side, z[0], z[1 + side], before)[0, -1]
                nll -= written.log_softmax(0)[token].item()
                lprobs = model.write(side, read[1 - side].mean, None, before)[0, -1].log_softmax(0)
                translation -= 0.9 * lprobs[token].item() + 0.1 * lprobs.mean().item()
        found = [float(terms[name][pair]) for name in ("nll", "kl", "translation")]
        assert found == pytest.approx([nll, kl, translation], rel=1e-4)


@every_variant
def test_the_gradient_reaches_every_part(variant: str) -> None:
    model = make(variant)
    torch.cat([*model.losses(batch(), 0).values()]).sum().backward()
    lost = {
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not bool(parameter.grad.abs().sum() > 0)
    }
    assert lost == set()


def test_parts_of_an_ablation() -> None:
    zero = {
        variant: [name for name, term in make(variant).losses(batch(), 0).items() if not term.any()]
        for variant in bgt.VARIANTS
    }
    assert zero == {
        "bgt": [],
        "mgt": [],
        "no-prior": ["kl"],
        "variational-translation": [],
        "multilingual-translation": ["nll", "kl"],
        "english-translation": ["nll", "kl"],
    }
    # English translation: the loss of the second side alone, read on the first.
    model, (english, german) = make("english-translation").eval(), batch()
    logits = model.write(1, model.read(model.semantic, english).mean, None, german)
    expected = bgt.sentence_nll(logits, german, 0.1)
    torch.testing.assert_close(model.losses((english, german), 0)["translation"], expected)


def test_mgt_shares_all_but_top_layers_and_ends() -> None:
    model = make("mgt")
    semantic, first, second = (network.reader for network in (model.semantic, *model.language))
    assert semantic.layers[0] is first.layers[0] and semantic.layers[1] is not first.layers[1]
    assert second.layers is first.layers and second.mean is first.mean
    assert not torch.equal(second.end, first.end)
    (decoder,) = model.decoders
    assert decoder.context is None and decoder.start.shape == (2, 16)


def test_batches_hold_every_pair_once_an_epoch() -> None:
    rng = random.Random(1)
    pairs = [([rng.randrange(30)] * rng.randint(1, 9), [i % 30]) for i in range(50)]
    stream = train_bgt.batches(pairs, 30, END, 1)
    seen: list[tuple[int, ...]] = []
    while len(seen) < 50:
        left, right = next(stream)
        assert len(left) * max(left.shape[1], right.shape[1]) <= 30 and len(left) == len(right)
        for row, other in zip(left.tolist(), right.tolist(), strict=True):
            seen.append(tuple(t for t in row if t >= 0) + tuple(t for t in other if t >= 0))
    assert sorted(seen) == sorted((*left, END, *right, END) for left, right in pairs)


def test_an_encoder_gives_the_models_means(spm_proto: bytes, tmp_path: Path) -> None:
    segmenter = Segmenter(spm_proto, Preprocessing())
    torch.manual_seed(3)
    model = bgt.Bgt(bgt.Sizes(len(segmenter), 16, 6, 2, 2, 32, 0.1), "bgt").eval()
    encoder = model.encoder(segmenter, model.semantic, {"updates": 0})
    rows = train_bgt.known_pieces(segmenter, SENTENCES)
    means = model.read(model.semantic, train_bgt.padded(rows, len(segmenter))).mean.detach()
    torch.testing.assert_close(encoder.embed_text(SENTENCES), means)
    # A sentence alone has the vector that it has among longer ones; one without a token none.
    torch.testing.assert_close(encoder.embed_text(SENTENCES[:1]), means[:1])
    assert not encoder.embed_text([""]).any()


def test_retrieval_by_hand() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    right = torch.tensor([[2.0, 0.1], [0.0, 3.0], [0.1, 1.0]])
    # Rows find columns 0, 1 and 1 or 2: (1, 1) is nearest to (0.1, 1). Columns find rows 0, 1, 1.
    assert table_bgt.retrieval(left, right) == pytest.approx(50 * (1 + 2 / 3))


WORDS = [a + b for a in ("ka", "lo", "mi", "ru", "se") for b in ("bat", "den", "fig", "pos")]
OTHERS = [a + b for a in ("zu", "wy", "xo", "qe", "vi") for b in ("chan", "grel", "jin", "thum")]


def test_a_training_as_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a made-up language: word by word, written the other way round."""
    rng = random.Random(1)
    drawn = [[rng.randrange(20) for _ in range(rng.randint(2, 4))] for _ in range(1700)]
    pairs = [
        (" ".join(WORDS[i] for i in row), " ".join(OTHERS[i] for i in reversed(row)))
        for row in drawn
    ]
    text, model = tmp_path / "pairs.tsv", tmp_path / "spm.model"
    text.write_text("".join(f"{one}\t{other}\n" for one, other in pairs[:1500]))
    sentences = [sentence for pair in pairs for sentence in pair]
    model.write_bytes(train_sentencepiece(sentences, Preprocessing(), 120))
    flags = [str(text), "--sentencepiece", str(model), "--dim", "32"]
    found = {}
    for updates in (0, 150):
        folder = tmp_path / str(updates)
        size = ["--updates", str(updates), "--output", str(folder), "--tokens", "400"]
        assert train_bgt.main([*flags, *size, "--warmup", "30", "--lr", "4e-3"]) == 0
        encoder = load_encoder(folder / "semantic")
        sides = zip(*pairs[1500:], strict=True)
        found[updates] = table_bgt.retrieval(*(encoder.embed_text(side) for side in sides))
    assert found[0] < 10 and found[150] > 5 * found[0], found
    log = [line.split("\t") for line in (tmp_path / "150" / "log.tsv").read_text().splitlines()]
    assert [row[0] for row in log] == ["update", "50", "100", "150"]
    assert float(log[3][1]) < float(log[1][1]) and float(log[3][4]) == pytest.approx(149 / 1600)
    capsys.readouterr()
    assert train_bgt.main([*flags, "--dim", "30", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "train_bgt.py: error: --dim: got 30, expected a multiple of 4, the heads\n"
    )
    # The ordinary command reads the folder of either network.
    write_set(tmp_path, "made", PAIRS, "5\n0.5\n4\n1\n")
    path = os.pathsep.join([str(PAPERS / PAPER), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "simile_plugin", "eval-encoder"]
    flags = ["--sts", str(tmp_path), "--resamples", "40"]
    for network in ("semantic", "language-1"):
        done = subprocess.run(
            [*command, str(tmp_path / "150" / network), *flags],
            env={**os.environ, "PYTHONPATH": path, "SIMILE_KINDS": "bgt"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and "made" in done.stdout, done.stderr

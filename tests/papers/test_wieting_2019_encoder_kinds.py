"""Encoders that are no averages: each beside a slow loop; their training learns paraphrases."""

import math
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from simile_plugin.encoder.averages import make_composer
from simile_plugin.encoder.format import load_encoder
from simile_plugin.files import InputError
from tests.papers.scripts import PAPERS, script

PAPER = "wieting-2019-encoder-kinds"
kinds, train = script(PAPER, "kinds"), script(PAPER, "train")

DIM, HIDDEN = 5, 3
LENGTHS = (3, 0, 1, 7, 3, 2)


def sentences(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Embeddings (tokens, DIM) of some sentences, one of them without a token."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(length, DIM, generator=generator, dtype=dtype) for length in LENGTHS]


def composed(composer: Any, given: list[Tensor]) -> Tensor:
    starts = torch.tensor([0, *map(len, given)]).cumsum(0)[:-1]
    table = torch.cat(given)
    with torch.no_grad():
        return composer(table, torch.arange(len(table)), starts)


def drawn(kind: str, **settings: object) -> Any:
    torch.manual_seed(1)
    composer = make_composer(kind, DIM, {"hidden": HIDDEN, **settings})
    assert isinstance(composer, kinds.SequenceComposer)
    return composer.double()


def slow_lstm(composer: Any, tokens: Tensor, suffix: str = "") -> list[Tensor]:
    """Hidden states, gate by gate (Hochreiter & Schmidhuber 1997, in torch's order of gates)."""
    of_token, of_state, bias, other = (
        getattr(composer.rnn, f"{name}_l0{suffix}")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state = cell = torch.zeros(HIDDEN, dtype=tokens.dtype)
    states = []
    for token in tokens:
        gates = of_token @ token + bias + of_state @ state + other
        enter, forget, new, leave = gates.split(HIDDEN)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        state = leave.sigmoid() * cell.tanh()
        states.append(state)
    return states


def mean(rows: list[Tensor], dim: int) -> Tensor:
    return torch.stack(rows).mean(0) if rows else torch.zeros(dim, dtype=torch.float64)


def test_lstm_is_a_slow_loop() -> None:
    composer = drawn("lstm")
    assert isinstance(composer, kinds.LstmAverage)
    expected = [mean(slow_lstm(composer, tokens), HIDDEN) for tokens in sentences()]
    torch.testing.assert_close(composed(composer, sentences()), torch.stack(expected))


@pytest.mark.parametrize("combine", ["mean", "concat"])
def test_blstm_is_a_slow_loop(combine: str) -> None:
    composer = drawn("blstm", combine=combine)
    assert isinstance(composer, kinds.LstmAverage)
    expected = []
    for tokens in sentences():
        forward = mean(slow_lstm(composer, tokens), HIDDEN)
        backward = mean(slow_lstm(composer, tokens.flip(0), "_reverse"), HIDDEN)
        both = torch.cat([forward, backward]) if combine == "concat" else (forward + backward) / 2
        expected.append(both)
    torch.testing.assert_close(composed(composer, sentences()), torch.stack(expected))
    assert composer.dim == len(expected[0])


def test_gran_is_a_slow_loop() -> None:
    composer = drawn("gran")
    assert isinstance(composer, kinds.Gran)
    of_token, of_state, bias, other = (
        getattr(composer.rnn, f"{name}_l0")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    expected = []
    for tokens in sentences():
        state, gated = torch.zeros(HIDDEN, dtype=torch.float64), []
        for token in tokens:
            left = (of_token @ token + bias).split(HIDDEN)
            right = (of_state @ state + other).split(HIDDEN)
            reset, update = (left[0] + right[0]).sigmoid(), (left[1] + right[1]).sigmoid()
            state = (1 - update) * (left[2] + reset * right[2]).tanh() + update * state
            gate = composer.from_token.weight @ token + composer.from_token.bias
            gate = (gate + composer.from_state.weight @ state).sigmoid()
            gated.append(token * gate)
        expected.append(mean(gated, DIM))
    torch.testing.assert_close(composed(composer, sentences()), torch.stack(expected))


def test_charagram_by_hand() -> None:
    composer = kinds.Charagram(2)
    with torch.no_grad():
        composer.bias.copy_(torch.tensor([0.1, -0.2]))
    # Two n-grams (1, 0) and (3, 1): mean (2, 0.5), sum (4, 1); the second sentence has none.
    vectors = composer.of_means(torch.tensor([[2.0, 0.5], [0.0, 0.0]]), torch.tensor([2, 0]))
    assert vectors[0].tolist() == pytest.approx([math.tanh(4.1), math.tanh(0.8)])
    assert vectors[1].tolist() == [0, 0]


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    composer = drawn("gran")
    whole = composed(composer, sentences())
    monkeypatch.setattr(kinds, "SENTENCES_AT_ONCE", 2)
    torch.testing.assert_close(composed(composer, sentences()), whole)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("sp+lstm", {}, r"kind: got 'sp\+lstm', expected a mixture of different ones of sp, word"),
        ("lstm", {"hidden": -1}, "composer: got .*hidden_size must be greater than zero"),
        ("gran", {"layers": 2}, "composer: got .*unexpected keyword argument 'layers'"),
        (
            "lstm",
            {"combine": "concat"},
            "combine: got 'concat', expected mean, or concat of a blstm",
        ),
    ],
)
def test_wrong_settings(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_composer(kind, DIM, settings)


ANGLES = (0, 60, 90, 90)  # of s, t, t', s' of one pair, degrees: cosines 0.5, 0 and cos 30


def one_pair() -> list[Tensor]:
    return [torch.tensor([[math.cos(math.radians(a)), math.sin(math.radians(a))]]) for a in ANGLES]


def test_margin_by_hand() -> None:
    both, one = torch.tensor([[True, True]]), torch.tensor([[True, False]])
    # max(0, 0.4 - 0.5 + 0) = 0, and 0.4 - 0.5 + cos 30
    assert float(train.margin(*one_pair(), both, 0.4)) == pytest.approx(-0.1 + 0.8660254)
    assert float(train.margin(*one_pair(), one, 0.4)) == pytest.approx(0)


def test_contrastive_by_hand() -> None:
    both = torch.tensor([[True, True]])
    # d(s, t) = 0.5; d(s, t') = 1 is beyond 0.4; d(t, s') = 1 - cos 30 is 0.2660254 within it
    expected = 0.5 + (0.4 - (1 - 0.8660254)) ** 2 / 2
    assert float(train.contrastive(*one_pair(), both, 0.4)) == pytest.approx(expected)


def test_ranking_by_hand() -> None:
    s = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    t = torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    keys = torch.tensor([[1, 2], [3, 4], [1, 5]])  # pairs 0 and 2 share a sentence
    cos = (F.normalize(s, dim=1) @ F.normalize(t, dim=1).T * 5).tolist()
    rivals = {0: (0, 1), 1: (0, 1, 2), 2: (1, 2)}
    losses = []
    for i, others in rivals.items():
        for row in ([cos[i][j] for j in others], [cos[j][i] for j in others]):
            losses.append(math.log(sum(map(math.exp, row))) - cos[i][i])
    assert float(train.ranking(s, t, keys, 5.0)) == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.fixture(scope="module")
def paraphrases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of six of 60 words; a paraphrase has each in another spelling."""
    rng = Random(3)
    stems = [
        "".join(rng.choice("bdgklmnprst") + rng.choice("aeiou") for _ in "123") for _ in "x" * 60
    ]
    lines = []
    for _ in range(700):
        drawn = rng.sample(stems, 6)
        lines.append("\t".join(" ".join(stem + end for stem in drawn) for end in ("q", "x")))
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


SMALL = ("--dim", "24", "--batch-size", "32", "--megabatch", "3", "--anneal", "5", "--lr", "0.02")


def trained(pairs: Path, output: Path, *flags: str) -> float:
    """Train, and return the share of sentences whose paraphrase is nearest, in percent."""
    flags = (*SMALL, "--steps", "40", "--vocab-size", "200", *flags)
    assert train.main([str(pairs), "--output", str(output), *flags]) == 0
    left, right = zip(*(line.split("\t") for line in pairs.read_text().splitlines()), strict=True)
    encoder = load_encoder(output)
    x, y = (F.normalize(encoder.embed_text(side), dim=1) for side in (left, right))
    return 100 * float(((x @ y.T).argmax(1) == torch.arange(len(x))).float().mean())


def test_every_kind_learns(paraphrases: Path, tmp_path: Path) -> None:
    nothing = trained(paraphrases, tmp_path / "none", "--kind", "word", "--lr", "0")
    assert nothing < 5  # no word of a sentence is in its paraphrase
    for kind in ("word", "charagram", "lstm", "blstm", "gran", "word+trigram"):
        flags = ("--scramble", "0.3") if kind == "lstm" else ()
        assert trained(paraphrases, tmp_path / kind, "--kind", kind, *flags) > 20, kind


def test_every_objective_learns(paraphrases: Path, tmp_path: Path) -> None:
    for objective in train.OBJECTIVES:
        flags = ("--optimizer", "adagrad", "--lr", "0.1") if objective == "paragram" else ()
        output = tmp_path / objective
        found = trained(paraphrases, output, "--kind", "word", "--objective", objective, *flags)
        assert found > 60, objective


def test_distance_from_the_initial_vectors(paraphrases: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    trained(paraphrases, start, "--kind", "word", "--steps", "1")
    moved = []
    for penalty in ("0", "1"):
        output = tmp_path / penalty
        flags = ("--initial", str(start), "--l2-initial", penalty, "--objective", "paragram")
        trained(paraphrases, output, "--kind", "word", "--optimizer", "adagrad", *flags)
        difference = (
            load_encoder(output).state_dict()["weight"] - load_encoder(start).state_dict()["weight"]
        )
        moved.append(float(difference.norm()))
    assert moved[1] < moved[0] / 2


def test_tokens_of_the_initial_encoder(
    paraphrases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(paraphrases, tmp_path / "start", "--kind", "word", "--steps", "1")
    flags = ["--kind", "charagram", "--initial", str(tmp_path / "start")]
    assert train.main([str(paraphrases), "--output", str(tmp_path / "e"), *flags]) == 2
    error = capsys.readouterr().err
    assert "its tokens are word, expected ngram, which --kind charagram reads" in error
    few = tmp_path / "few.tsv"
    few.write_text("a b\tc d\n")
    assert train.main([str(few), "--output", str(tmp_path / "e"), "--kind", "word"]) == 2
    assert "has 1 pairs, expected --batch-size 128 or more" in capsys.readouterr().err


def test_commands_read_such_folders(paraphrases: Path, tmp_path: Path) -> None:
    trained(paraphrases, tmp_path / "gran", "--kind", "gran", "--steps", "2")
    (tmp_path / "text").write_text("bada\n")
    text = str(tmp_path / "text")
    command = [sys.executable, "-m", "simile_plugin", "score", "-r", text, "-i", text]
    command += ["--encoder", str(tmp_path / "gran")]
    path = f"{PAPERS / PAPER}:{PAPERS.parents[1]}"
    named = os.environ | {"PYTHONPATH": path, "SIMILE_KINDS": "kinds"}
    done = subprocess.run(command, env=named, capture_output=True, text=True)
    assert done.returncode == 0 and "SIM" in done.stdout, done.stderr
    unnamed = {name: value for name, value in named.items() if name != "SIMILE_KINDS"}
    done = subprocess.run(command, env=unnamed, capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        "got 'gran', expected one of sp, word, trigram; a kind of recipes/papers needs"
        in done.stderr
    )

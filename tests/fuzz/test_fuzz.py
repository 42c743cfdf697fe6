"""Readers on odd bytes: each takes them or raises ValueError with a line, and counts right.

Inputs that crashed a reader once are in `crashes`, called TARGET.WHAT. New ones are looked for by
`pytest tests/fuzz --hypothesis-profile=explore`.
"""

import io
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import sentencepiece
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simile_plugin.encoder.format import load_encoder, save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.published import read_published
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.encoder_training.pairs import BadLines, read_pairs
from simile_plugin.encoder_training.tsv import TsvInput
from simile_plugin.fairseq_hooks.safe_eval import evaluate
from simile_plugin.files import read_lines
from simile_plugin.nbest.readers import read_nbest_lists
from simile_plugin.report.human.ratings import read_answers
from simile_plugin.report.human.study import DrawSettings, Study, draw_study
from simile_plugin.report.inputs.logs import read_validations
from simile_plugin.report.inputs.texts import System

CRASHES = sorted((Path(__file__).parent / "crashes").glob("[a-z]*"))

SENTENCES = ["two boys skip flat stones over the pond", "an old ferry crosses the strait"] * 4


@cache
def _folder() -> Path:
    """One for the whole process: targets write their input here."""
    return Path(tempfile.mkdtemp(prefix="fuzz"))


def _file(data: bytes, name: str) -> str:
    path = _folder() / name
    path.write_bytes(data)
    return str(path)


@cache
def _encoder() -> Encoder:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    segmenter = Segmenter(model.getvalue(), Preprocessing())
    torch.manual_seed(1)
    return Encoder(torch.randn(len(segmenter), 4), segmenter)


@cache
def _study() -> Study:
    refs = [f"the number {i} bus stops near the mill" for i in range(6)]
    systems = [System(n, (n,), (tuple(f"{r} {n}" for r in refs),)) for n in ("A", "B")]
    return draw_study(systems, refs, None, DrawSettings(sentences=3, annotators=1), ("A", "B"))


def lines(data: bytes) -> None:
    """read_lines: as many lines as there are line feeds, and the text itself."""
    found = read_lines(_file(data, "in.txt"), "--ref")
    text = data.decode("utf-8-sig")
    assert len(found) == text.count("\n") + (not text.endswith("\n") and text != "")
    assert all("\n" not in line for line in found)


def tsv(data: bytes) -> None:
    """Paraphrase pairs: every line is a pair or is counted as bad."""
    bad = BadLines()
    path = _file(data, "in.tsv")
    count = sum(1 for block in TsvInput([path]).blocks() for _ in block.lines(lambda *_: None))
    pairs = read_pairs([path], Preprocessing(), bad)
    unread = bad.counts.get("not UTF-8", 0) + sum(
        n for reason, n in bad.counts.items() if reason.startswith("zero byte")
    )
    assert len(pairs) + bad.total == count + unread


def log(data: bytes) -> None:
    """fairseq's logs: numbers, by rising update."""
    found = read_validations(_file(data, "run.log"), "--log")
    assert list(found) == sorted(found)
    assert all(isinstance(v, float) for numbers in found.values() for v in numbers.values())


def nbest(data: bytes) -> None:
    """Lists of candidates in any format: a score for each of them, or none at all."""
    for found in read_nbest_lists(_file(data, "nbest"), "--nbest-lists"):
        assert len(found.scores) in (0, len(found.hyps))
        assert found.ref is not None and found.ref.encode() is not None
        assert all(hyp.encode() is not None for hyp in found.hyps)


def answers(data: bytes) -> None:
    """A rating sheet: every item once, 0 to 5."""
    found = read_answers(_file(data, "sheet.tsv"), _study())
    assert sorted(found.ratings) == list(range(1, len(_study().items) + 1))
    assert set(found.ratings.values()) <= set(range(6))


def config(data: bytes) -> None:
    """An encoder folder with these bytes somewhere in one of its files."""
    folder = _folder() / "enc"
    save_encoder(folder, _encoder())
    path = sorted(folder.iterdir())[(data[0] if data else 0) % 3]
    good = path.read_bytes()
    place = int.from_bytes(data[1:3], "little") % len(good)
    path.write_bytes(good[:place] + data[3:] + good[place + len(data[3:]) :])
    load_encoder(folder)


def published(data: bytes) -> None:
    """A published encoder."""
    read_published(_file(data, "sim.pt"))


def literal(data: bytes) -> None:
    """Settings of checkpoints."""
    evaluate(data.decode("utf-8", "replace"))


TARGETS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (lines, tsv, log, nbest, answers, config, published, literal)
}
SEEDS: dict[str, list[bytes]] = {
    "lines": [b"a\nb\r\n\xef\xbb\xbfc", b"\xff\xfea\0"],
    "tsv": [b"a b\tc d\nalone\n \tx\n", b"two boys\tan old ferry\textra\r\n"],
    "log": [
        b'2026 | INFO | valid | {"epoch": 1, "valid_cost": "0.5", "valid_num_updates": "7"}\n',
        b"| valid on 'valid' subset | cost 0.5 | num_updates 7\n",
    ],
    "nbest": [
        b"T-0\ta b\nD-0\t-0.5\ta\nD-0\t-0.7\tb\n",
        b'{"id": 0, "ref": "a", "hyps": ["a"]}\n',
        b"0 ||| a ||| F0= -1 ||| -1\n0\ta\t-1\n",
    ],
    "answers": [b"item\trating\nabc-1-1\t3\n", b"Item;Rating\n"],
    "config": [b"\0\x05\0{", b"\1\0\0\xff\xff", b"\2\0\0\n"],
    "literal": [b"[(512, 3)] * 4 + [(1, 2)]", b"{'a': -1}", b"True"],
}


def one_input(name: str, data: bytes) -> bool:
    """Give a target an input; whether it was accepted. All but a refusal raises."""
    try:
        TARGETS[name](data)
    except (ValueError, OSError) as error:
        assert str(error), f"{type(error).__name__} without a word"
        return False
    return True


@pytest.mark.parametrize("path", CRASHES, ids=[path.name for path in CRASHES])
def test_crashes_of_the_past(path: Path) -> None:
    one_input(path.name.partition(".")[0], path.read_bytes())


def mutated(name: str, seed: int) -> bytes:
    """A seed of a target with some bytes changed, doubled, or cut out."""
    rng = random.Random(seed)
    data = bytearray(rng.choice(SEEDS.get(name, [b"\0"])))
    for _ in range(rng.randint(0, 4)):
        place = rng.randint(0, len(data))
        what = rng.choice(
            [b"", b"\0", b"\n", b"\t", b'"', b"9" * 30, b"\xff", b"nan", data[place:]]
        )
        data[place : place + rng.randint(0, 3)] = what
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), noise=st.binary(max_size=40))
@example(seed=0, noise=b"")
def test_smoke(name: str, seed: int, noise: bytes) -> None:
    one_input(name, noise)
    one_input(name, mutated(name, seed))


@pytest.mark.parametrize("name", SEEDS)
def test_some_seed_is_accepted(name: str) -> None:
    # Else the targets would test refusals only.
    needs_more = {"answers", "config"}
    assert name in needs_more or any(one_input(name, seed) for seed in SEEDS[name])

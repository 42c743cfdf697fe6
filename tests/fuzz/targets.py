"""What is fuzzed: each target takes any bytes and must end, or raise ValueError with one line.

Targets also assert what must hold of whatever was read, so that a wrong count is a crash too.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import sacrebleu
import sentencepiece
import torch

from simile_plugin.encoder.format import load_encoder, save_encoder
from simile_plugin.encoder.models import Encoder
from simile_plugin.encoder.piece_model import read_piece_model
from simile_plugin.encoder.published import read_published
from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.encoder_training.pairs import BadLines, read_pairs
from simile_plugin.encoder_training.tsv import Columns, TsvInput
from simile_plugin.fairseq_hooks.safe_eval import evaluate
from simile_plugin.files.lines import read_lines
from simile_plugin.nbest.readers import read_nbest_lists
from simile_plugin.report.human.ratings import read_answers
from simile_plugin.report.human.sheets import render_tsv
from simile_plugin.report.human.study import DrawSettings, Study, draw_study, key_text, read_key
from simile_plugin.report.inputs.logs import read_validations
from simile_plugin.report.inputs.systems import System
from simile_plugin.reward.bleu import bleu_statistics, corpus_bleu, sentence_bleu
from simile_plugin.reward.lists import score_lists
from simile_plugin.reward.spec import parse_reward

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
    return draw_study(systems, refs, None, DrawSettings(3, annotators=1), ("A", "B"))


def lines(data: bytes) -> None:
    """read_lines: as many lines as there are line feeds, and the text itself."""
    found = read_lines(_file(data, "in.txt"), "--ref")
    text = data.decode("utf-8-sig")
    assert len(found) == text.count("\n") + (not text.endswith("\n") and text != "")
    assert all("\n" not in line for line in found)


def gzip(data: bytes) -> None:
    """read_lines of a damaged .gz."""
    read_lines(_file(data, "in.gz"), "--ref")


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


def columns(data: bytes) -> None:
    """--columns."""
    Columns.parse(data.decode("utf-8", "replace"))


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


def dump(data: bytes) -> None:
    """The same, after a line of --risk-dump."""
    good = {"id": 1, "ref": "a", "hyps": ["a", "b"], "scores": [-1, -2]}
    nbest(json.dumps(good).encode() + b"\n" + data)


def answers(data: bytes) -> None:
    """A rating sheet: every item once, 0 to 5."""
    found = read_answers(_file(data, "sheet.tsv"), _study())
    assert sorted(found.ratings) == list(range(1, len(_study().items) + 1))
    assert set(found.ratings.values()) <= set(range(6))


def sheet(data: bytes) -> None:
    """The same, with the bytes in the place of the ratings of a good sheet."""
    rows = render_tsv(_study(), 1).splitlines()
    parts = data.split(b"\n")
    filled = [rows[0].encode()]
    for number, row in enumerate(rows[1:]):
        cells = row.encode().split(b"\t")
        filled.append(b"\t".join([cells[0], parts[number % len(parts)], *cells[2:]]))
    answers(b"\n".join(filled))


def key(data: bytes) -> None:
    """A key of a study, with the bytes somewhere in it."""
    good = key_text(_study()).encode()
    place = data[0] * 4 % len(good) if data else 0
    read_key(_file(good[:place] + data[1:] + good[place + len(data) - 1 :], "key.json"))


def config(data: bytes) -> None:
    """An encoder folder with these bytes somewhere in one of its files."""
    folder = _folder() / "enc"
    save_encoder(folder, _encoder())
    path = sorted(folder.iterdir())[(data[0] if data else 0) % 3]
    good = path.read_bytes()
    place = int.from_bytes(data[1:3], "little") % len(good)
    path.write_bytes(good[:place] + data[3:] + good[place + len(data[3:]) :])
    load_encoder(folder)


def pieces(data: bytes) -> None:
    """A sentencepiece model as we read it."""
    read_piece_model(data)


def published(data: bytes) -> None:
    """A published encoder."""
    read_published(_file(data, "sim.pt"))


def reward(data: bytes) -> None:
    """--reward; a module:function is code and is left out."""
    text = data.decode("utf-8", "replace")
    if ":" not in text or "," in text:
        found = parse_reward(text)
        assert isinstance(found, dict) and abs(sum(found.values()) - 1) < 1e-5


def literal(data: bytes) -> None:
    """Settings of checkpoints."""
    evaluate(data.decode("utf-8", "replace"))


def text(data: bytes) -> None:
    """Hypothesis and reference: BLEU is sacreBLEU's, SIM and SIMILE are in range, twice alike."""
    hyp, _, ref = data.decode("utf-8", "replace").partition("\n")
    scores = score_lists([[hyp, ref]], [ref], _encoder())
    again = score_lists([[ref, hyp]], [ref], _encoder())
    assert scores.sim is not None and scores.simile is not None and again.simile is not None
    assert torch.isfinite(scores.simile).all() and scores.simile.abs().max() <= 1.00001
    assert torch.allclose(scores.simile.flip(1), again.simile, atol=1e-6)
    stats = torch.tensor(bleu_statistics(hyp, ref))
    whole = sacrebleu.metrics.BLEU().corpus_score([hyp], [[ref]]).score
    assert abs(float(corpus_bleu(stats)) - whole) < 1e-6
    one = sacrebleu.metrics.BLEU(smooth_method="add-k", smooth_value=1).sentence_score(hyp, [ref])
    assert abs(100 * float(sentence_bleu(stats)) - one.score) < 1e-3


TARGETS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (
        *(lines, gzip, tsv, columns, log, nbest, dump, answers, sheet, key),
        *(config, pieces, published, reward, literal, text),
    )
}
SEEDS: dict[str, list[bytes]] = {
    "lines": [b"a\nb\r\n\xef\xbb\xbfc", b"\xff\xfea\0"],
    "tsv": [b"a b\tc d\nalone\n \tx\n", b"two boys\tan old ferry\textra\r\n"],
    "columns": [b"1,2", b"2-7", b"1-"],
    "log": [
        b'2026 | INFO | valid | {"epoch": 1, "valid_cost": "0.5", "valid_num_updates": "7"}\n',
        b"| valid on 'valid' subset | cost 0.5 | num_updates 7\n",
    ],
    "nbest": [
        b"T-0\ta b\nD-0\t-0.5\ta\nD-0\t-0.7\tb\n",
        b'{"id": 0, "ref": "a", "hyps": ["a"]}\n',
        b"0 ||| a ||| F0= -1 ||| -1\n0\ta\t-1\n",
    ],
    "dump": [b'{"id": 0, "ref": "a", "hyps": ["a", "b"], "scores": [1, 2], "cost_bleu": [0, 1]}'],
    "answers": [b"item\trating\nabc-1-1\t3\n", b"Item;Rating\n"],
    "sheet": [b"3", b"0\n5\n4", b'"1"', b"2,0"],
    "config": [b"\0\x05\0{", b"\1\0\0\xff\xff", b"\2\0\0\n"],
    "key": [b"\5{", b"\x40[1]"],
    "reward": [b"simile", b"simile:0.7,bleu:0.3", b"half"],
    "literal": [b"[(512, 3)] * 4 + [(1, 2)]", b"{'a': -1}", b"True"],
    "text": [b"two boys\ntwo boys skip stones .", "▁a <unk> @@\n\u2028 \U0001f600".encode()],
}
EXPECTED = (ValueError, OSError)  # what commands print as one line


def one_input(name: str, data: bytes) -> bool:
    """Give a target an input; whether it was accepted. All but a refusal raises."""
    try:
        TARGETS[name](data)
    except EXPECTED as error:
        assert str(error), f"{type(error).__name__} without a word"
        return False
    return True

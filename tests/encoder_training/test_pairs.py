"""Reading pairs: what becomes a pair, what is skipped, and how it is said."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simile_plugin.encoder.segmenter import Preprocessing, Segmenter
from simile_plugin.encoder_training.pairs import BadLines, read_pairs, segment_pairs, sentence_hash
from simile_plugin.encoder_training.tokenizers import read_sentencepiece, train_sentencepiece

PLAIN = Preprocessing()


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_a_model_of_pieces_with_capitals_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["The Heron waits", "A Boat by the Pond", "Two Boys in the Boat"] * 20
    path = write(tmp_path / "m", train_sentencepiece(text, Preprocessing(lowercase=False), 40))
    for lowercase in (True, False):
        read_sentencepiece(path, Preprocessing(lowercase=lowercase))
        told = capsys.readouterr().err
        assert ("have a capital and are never used" in told) == lowercase


def test_equal_sentences_have_one_hash(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"A fox.\tone fox\nOne  fox\ta dog\tmore\nA fox.\ta fox .\n")
    text = read_pairs([path], PLAIN)
    # "one fox" and "One  fox", "A fox." and "a fox ." are equal after preprocessing.
    assert text.sentences == ["a fox .", "one fox", "a dog"]
    (block,) = text.blocks
    sides = ["a fox .", "one fox", "one fox", "a dog", "a fox .", "a fox ."]
    assert block.sentences == sides and block.numbers == [1, 2, 3] and len(text) == 3
    assert block.hashes.tolist() == [sentence_hash(s) for s in sides]
    assert block.accepted == b"A fox.\tone fox\nOne  fox\ta dog\nA fox.\ta fox .\n"
    assert len(text.digest) == 16


def test_the_hash_is_the_same_everywhere() -> None:
    assert sentence_hash("a fox .") == 0xD3EB4592526C560E  # as blake2b gives it, little-endian


BAD = b"good\tline\nno second column\n\xff\xfe\tbad\n \tempty left\nempty right\t \nfine\ttoo\n"


def test_bad_lines_are_counted_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.tsv", BAD)
    bad = BadLines()
    assert len(read_pairs([path], PLAIN, bad)) == 2
    assert bad.counts == {"no second column": 1, "not UTF-8": 1, "empty side": 2}
    assert bad.summary() == (
        "4 lines skipped (1 no second column, 1 not UTF-8, 2 empty side): "
        f"{path}:2: no second column, {path}:3: not UTF-8, {path}:4: empty side, "
        f"{path}:5: empty side"
    )


def test_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pair found, expected lines of sentence TAB"):
        read_pairs([write(tmp_path / "empty", b"")], PLAIN)
    with pytest.raises(ValueError, match=r"no pair found.*2 lines skipped \(2 no second column\)"):
        read_pairs([write(tmp_path / "mono", b"one\ntwo\n")], PLAIN)
    truncated = write(tmp_path / "cut.gz", gzip.compress(b"a\tb\n" * 1000)[:-9])
    with pytest.raises(ValueError, match="cut.gz: damaged gzip file"):
        read_pairs([truncated], PLAIN)
    with pytest.raises(ValueError, match="text.gz: damaged gzip file"):
        read_pairs([write(tmp_path / "text.gz", b"a\tb\n")], PLAIN)
    with pytest.raises(OSError, match="No such file"):
        read_pairs([str(tmp_path / "nowhere")], PLAIN)


def test_pieces_are_those_of_the_segmenter(spm_proto: bytes, make_tsv: Callable[..., Path]) -> None:
    text = read_pairs([str(make_tsv(50))], PLAIN)
    segmenter = Segmenter(spm_proto, PLAIN)
    pairs = segment_pairs(text, segmenter)
    assert len(pairs) == 50
    assert pairs.ids.dtype == np.uint16
    expected = [
        [piece for piece in row if piece != segmenter.unk_id]
        for row in segmenter.encode([line for block in text.blocks for line in block.sentences])
    ]
    for index, row in enumerate(expected):
        assert pairs.ids[pairs.offsets[index] : pairs.offsets[index + 1]].tolist() == row
    chosen = np.array([3, 0, 3, len(expected) - 1])
    ids, starts = pairs.bags(chosen)
    assert ids.tolist() == [piece for index in chosen for piece in expected[index]]
    assert starts.tolist() == [sum(len(expected[i]) for i in chosen[:k]) for k in range(4)]


def test_pairs_without_a_known_piece_are_dropped(tmp_path: Path) -> None:
    segmenter = Segmenter(train_sentencepiece(["ab", "ba", "abab ab"], PLAIN, 20), PLAIN)
    assert set(segmenter.encode(["ж"])[0]) == {segmenter.unk_id}
    path = write(tmp_path / "a.tsv", "ab\tba\nж\tab\nж ab\tba\n".encode())
    pairs = segment_pairs(read_pairs([path], PLAIN), segmenter)
    assert len(pairs) == 2
    assert segmenter.unk_id not in pairs.ids
    only = write(tmp_path / "b.tsv", "ж\tж\n".encode())
    with pytest.raises(ValueError, match="none of the 1 pairs has a known piece on both sides"):
        segment_pairs(read_pairs([only], PLAIN), segmenter)


def test_sentencepiece_is_capped_by_what_the_text_supports(make_tsv: Callable[..., Path]) -> None:
    text = read_pairs([str(make_tsv(60))], PLAIN)
    model = train_sentencepiece(text.sentences, PLAIN, 8000)
    assert 30 < len(Segmenter(model, PLAIN)) < 8000
    assert train_sentencepiece(text.sentences, PLAIN, 8000) == model
    smaller = train_sentencepiece(text.sentences, PLAIN, 60)
    assert len(Segmenter(smaller, PLAIN)) == 60


def test_sentencepiece_is_trained_on_long_sentences_too() -> None:
    model = train_sentencepiece(["ab ba", "zqzq " * 1000], PLAIN, 20)  # 4,999 bytes
    segmenter = Segmenter(model, PLAIN)
    assert segmenter.unk_id not in segmenter.encode(["zq"])[0]


def test_sentencepiece_that_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="--vocab-size 3: sentencepiece could not be trained"):
        train_sentencepiece(["several different letters"], PLAIN, 3)

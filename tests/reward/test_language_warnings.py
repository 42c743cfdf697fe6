"""Text in another language than the encoder's, tokenised targets, a reward that is nothing."""

import io
import math
import random

import pytest
import sentencepiece
import torch

from simile_plugin.cli import main
from simile_plugin.encoder import Preprocessing, Segmenter, load_encoder
from simile_plugin.encoder.tokens import WordTokenizer
from simile_plugin.reward import Scorer
from simile_plugin.reward.language_warnings import (
    LEAST_SOURCE,
    encoder_warning,
    language_warning,
    source_warning,
    unknown_warning,
)
from simile_plugin.reward.text_warnings import FirstLook

ENGLISH = (
    "The woman in the blue coat waits for the last bus.",
    "Two children are building a tower of wooden blocks.",
    "Nobody knows why the bridge was closed yesterday.",
    "The committee will vote on the proposal next week.",
    "He has lived in a small town near the coast for years.",
)
GERMAN = (
    "Die Frau im blauen Mantel wartet auf den letzten Bus.",
    "Zwei Kinder bauen einen Turm aus hölzernen Klötzen.",
    "Niemand weiß, warum die Brücke gestern gesperrt wurde.",
    "Der Ausschuss wird nächste Woche über den Vorschlag abstimmen.",
    "Er lebt seit Jahren in einer kleinen Stadt an der Küste.",
)


@pytest.fixture(scope="module")
def default():
    return load_encoder("default")


def test_surprise_is_that_of_the_unigram_model(spm_proto):
    segmenter = Segmenter(spm_proto, Preprocessing())
    lines = ["two boys skip stones", "the water Ж is cold"]
    pieces = [
        (piece, score)
        for piece, score, kind in zip(
            segmenter.model.pieces, segmenter.model.scores, segmenter.model.types, strict=True
        )
        if kind == 1
    ]
    own = -sum(math.exp(s) * s for _, s in pieces) / sum(math.exp(s) * len(p) for p, s in pieces)
    score_of, least = dict(pieces), min(score for _, score in pieces)
    nats = characters = 0.0
    for line, ids in zip(lines, segmenter.encode(lines), strict=True):
        nats -= sum(score_of.get(segmenter.model.pieces[i], least) for i in ids)
        characters += len(line) + 1
    assert segmenter.surprise(lines) == pytest.approx(nats / characters / own, rel=1e-5)


def test_another_language_is_told_and_the_encoders_is_not(default):
    assert default.surprise(ENGLISH) < 1.7 and default.surprise(GERMAN) > 2.3
    assert language_warning("text", default, ENGLISH * 10) == ""
    said = language_warning("text", default, GERMAN * 10)
    assert said.startswith("text reads like another language than the reward encoder's ('Die Frau")
    assert language_warning("text", None, GERMAN * 10) == ""


def test_little_text_is_told_where_it_is_far_from_the_encoders(default):
    assert "another language" in language_warning("text", default, GERMAN)  # 270 characters
    assert language_warning("text", default, ENGLISH[:1]) == ""
    names = ["Zbigniew Brzeziński met Mikhail Khodorkovsky in Kraków."]  # 55 characters
    assert default.surprise(names) > 1.9 and language_warning("text", default, names) == ""
    russian = ["Женщина в синем пальто ждёт последний автобус."] * 2
    assert "8." in language_warning("text", default, russian)
    assert language_warning("text", default, ["Где он?"]) == ""  # too short to say


def test_each_character_without_a_piece_counts(default):
    """A run of them is a single unknown piece, which made Russian as near as English."""
    one, four = (default.surprise([text]) * (len(text) + 1) for text in ("ж", "жжжж"))
    assert four == pytest.approx(4 * one)


def test_a_tokenizer_whose_scores_are_no_probabilities_says_nothing():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH * 3),
        model_writer=model,
        model_type="bpe",
        vocab_size=60,
        minloglevel=2,
    )
    assert Segmenter(model.getvalue(), Preprocessing()).surprise(GERMAN) is None
    assert WordTokenizer(["der"], Preprocessing()).surprise(GERMAN) is None


def told(lines, encoder, size=30):
    """What a first look says of references in batches of a size."""
    said = []
    look = FirstLook("13a", said.append, encoder)
    for start in range(0, len(lines), size):
        lists = [[line, line] for line in lines[start : start + size]]
        look(lists, Scorer(encoder=encoder).lists(lists, [row[0] for row in lists]))
    return said


def test_the_first_batches_of_a_training_are_looked_at(default):
    tokenised = [line.replace(".", " .") for line in ENGLISH] * 30
    assert told([*ENGLISH] * 30, default) == []
    (said,) = told(tokenised, default)
    assert said.startswith("the text of the first references is tokenised or segmented text")
    latin = [line.translate(str.maketrans("äöüß", "aous")) for line in GERMAN] * 30
    (said,) = told(latin, default)  # letters of English alone
    assert said.startswith("the text of the first references reads like another language")
    (said,) = told([*GERMAN] * 30, default)
    assert "is it an encoder of this language" in said
    hyphens = [line.replace("blue", "pale @-@ blue") for line in ENGLISH] * 30
    assert sum("is tokenised" in said for said in told(hyphens, default)) == 1  # not twice


def test_a_reward_of_sources_that_is_nothing(distilled, bitext):
    sources, targets = bitext
    draw = random.Random(2)
    right = Scorer(encoder=distilled).lists(
        [[t] for t in targets[:40]], targets[:40], srcs=sources[:40]
    )
    shuffled = draw.sample(sources, 40)
    wrong = Scorer(encoder=distilled).lists([[s] for s in shuffled], shuffled, srcs=targets[:40])
    assert source_warning(right.source) == "" and source_warning(None) == ""
    assert float(wrong.source.mean()) < LEAST_SOURCE < float(right.source.mean())
    assert "in this direction?" in source_warning(wrong.source)
    assert "are worth 0.0000 on average" in source_warning(torch.zeros(2, 3))


@pytest.mark.parametrize("command", ["mbr", "probe", "headroom"])
def test_commands_tell_of_another_language(command, tmp_path, capsys):
    def told(lines):
        ref, lists = tmp_path / "ref", tmp_path / "lists"
        ref.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        rows = [f"{i}\t{line}\n{i}\t{line[:20]}\n" for i, line in enumerate(lines)]
        lists.write_text("".join(rows), encoding="utf-8")
        arguments = {
            "mbr": ["mbr", lists, "--utility", "simile"],
            "probe": ["probe", "--ref", ref, "--search-words", 0, "--resamples", 40],
            "headroom": ["report", "--only", "headroom", "--nbest-lists", lists, "--ref", ref],
        }[command]
        assert main([*map(str, arguments), "--encoder", "default"]) == 0
        return "".join(capsys.readouterr())

    assert told(GERMAN * 4).count("reads like another language") == 1
    english = told(ENGLISH * 4)
    assert "another language" not in english and "unknown to" not in english


def test_unknown_tokens_are_told_but_not_those_of_marks(default):
    short = ["明天下雨。"]  # too short to say of which language it is
    assert "of the tokens of 1 sentences are unknown to" in encoder_warning("text", default, short)
    marked = ["▁▒ <pad>"]
    assert unknown_warning("text", default, marked) and not encoder_warning("text", default, marked)

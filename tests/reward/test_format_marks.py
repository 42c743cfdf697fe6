"""Marks of tokenizers and formats are seen in text; ordinary text has none."""

import pytest

from simile_plugin.reward import tokenised_warning
from simile_plugin.reward.format_marks import format_mark

SENTENCES = [
    "The ferry leaves at noon.",
    "A heron waits by the pond.",
    "She wrote: “come back soon”.",
    "It costs 40 %, [that is] a lot.",
    "- Who is there?",
    "@anna look at this #sunset",
]


@pytest.mark.parametrize(
    ("template", "mark"),
    [
        ("eng_Latn {}", "eng_"),
        ("</s>eng_Latn {}</s>", "</s>"),
        ("{} </s>", "</s>"),
        ("{}<pad>", "<pad>"),
        ('<seg id="12">{}</seg>', "</seg>"),
        ('{{"text": "{}"}}', "{"),
        ("['{}']", "['"),
        ("0 ||| {} ||| WordScores= -1.5 ||| -1.5", "|||"),
        ("{} <0xE2>", "<0xE2>"),
        ("{}@@", "@@"),
        ("<2en> {}", "<2en>"),
        ("__en__ {}", "__en__"),
        (">>eng<< {}", ">>eng<<"),
        ("[en] {}", "[en]"),
        ("{} [SEP]", "[SEP]"),
        ("{}<|im_end|>", "<|im_end|>"),
    ],
)
def test_a_mark_of_every_line_is_told(template, mark):
    lines = [template.format(sentence) for sentence in SENTENCES]
    assert format_mark(lines)
    assert mark.strip("_")[:3].strip("0") in tokenised_warning("out.txt", lines)


def test_a_hundredth_of_the_lines_is_enough_and_less_is_not():
    lines = SENTENCES * 50  # 300 lines
    assert format_mark(lines) == ""
    assert format_mark([*lines[:-2], *["__en__ a bird"] * 2]) == ""
    assert format_mark([*lines[:-3], *["__en__ a bird"] * 3]) == "__en__"


def test_marks_are_equal_but_for_their_digits():
    lines = [f'<seg id="{number}">{text}' for number, text in enumerate(SENTENCES)]
    assert format_mark(lines)


def test_a_line_that_is_nothing_but_a_mark_is_text():
    assert format_mark(["[music]", "[music]", "{sighs}", "{sighs}"]) == ""


def test_quotes_of_another_kind_than_the_references_are_a_hint():
    refs = ["He doesn’t know.", "“No”, she said."]
    hyps = ["He doesn't know.", '"No", she said.']
    assert "straight" in tokenised_warning("hyp", hyps, refs)
    assert "curly quotes" in tokenised_warning("hyp", refs, hyps)
    assert tokenised_warning("hyp", hyps, hyps) == ""
    assert tokenised_warning("hyp", [*hyps, *refs], refs) == ""  # both kinds: a file's own habit

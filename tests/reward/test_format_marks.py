"""Marks of tokenizers and formats are seen in text; ordinary text has none."""

import random
import re

import pytest

from simile_plugin.files.format_marks import format_mark
from simile_plugin.files.mark_warnings import _mixed_word
from simile_plugin.reward import tokenised_warning

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
        ("sail ##ing {}", "##"),
        ("The\u0120cat. {}", "\u0120"),
        ("The \u0120old \u0120cat \u0120sleeps . {}", "\u0120"),
        ("b'{}'", "b'"),
        ("en: {}", "en:"),
        ("assistant: {}", "assistant:"),
        ("translate English to German: {}", "translate"),
        ("12. {}", "12."),
        ("[12.3] {}", "[12"),
        ("{} -0.25", "-0."),
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


def test_a_label_is_in_half_of_the_lines_and_maltese_is_text():
    lines = SENTENCES * 5  # 30 lines
    assert format_mark([*lines, *["no: I said " + line for line in lines[:29]]]) == ""
    assert format_mark([*lines, *["no: I said " + line for line in lines]]) == "no:"
    scored = [f"{line} 0.{number}" for number, line in enumerate(SENTENCES)]
    assert format_mark(scored) == "0.0"
    assert format_mark(["Il-\u0120rajja ta' \u0120ermanja", "\u0120or\u0121 wasal."] * 50) == ""


def test_marks_are_equal_but_for_their_digits():
    lines = [f'<seg id="{number}">{text}' for number, text in enumerate(SENTENCES)]
    assert format_mark(lines)


def test_a_bar_for_a_danda_is_text():
    places = ["नदी", "झील", "घर", "पुल", "बाग", "गली"]
    lines = [f"नाव {place} के पास है" for place in places]
    for end in ("|", " |", "||", " ||"):
        assert format_mark([line + end for line in lines]) == ""
    assert format_mark([f"{line}| {line}|" for line in lines]) == ""
    # Of columns, and of Latin letters, a bar is a mark.
    assert format_mark([f"{line} ||| -1.5 ||| -1.5" for line in lines]) == "|||"
    assert format_mark([f"{line} |||" for line in lines])
    assert format_mark([f"{sentence} |" for sentence in SENTENCES])


def test_a_line_that_is_nothing_but_a_mark_is_text():
    assert format_mark(["[music]", "[music]", "{sighs}", "{sighs}"]) == ""


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("text", ["Café", "naïve", "“No”", "Łódź", "мама", "œuf"])
def test_text_read_in_another_encoding(text, encoding):
    misread = text.encode().decode(encoding, "ignore" if encoding == "cp1252" else "strict")
    assert "in another encoding" in tokenised_warning("out.txt", [*SENTENCES, misread])
    assert "encoding" not in tokenised_warning("out.txt", [*SENTENCES, text])


def test_letters_that_a_program_lost():
    assert "U+FFFD" in tokenised_warning("out.txt", [*SENTENCES, "Caf\ufffd"])
    assert "in the place of letters" in tokenised_warning("out.txt", [*SENTENCES, "ein sch?nes"])


@pytest.mark.parametrize(
    "line",
    [
        "你明天来吗?我们去公园。",
        "行きますか?はい。",
        "ไปไหม?ไป",
        "សុខទេ?បាទ",
        "OK吗?Yes",
        "在吗??在",
    ],
)
def test_a_question_within_text_without_spaces_is_no_lost_letter(line):
    assert tokenised_warning("out.txt", [line] * 3) == ""


def test_words_of_two_scripts_are_those_of_the_plain_pattern():
    # with \w* at both ends, which takes time with the square of a word's length
    latin, other = "[A-Za-z]", "[\u0370-\u03ff\u0400-\u04ff]"
    slow = re.compile(
        rf"\w*(?:{latin}{{2}}{other}|{other}{{2}}{latin})\w*|\w*{latin}{other}{latin}\w*"
    )
    draw = random.Random(4)
    lines = ["".join(draw.choices("abжπé1_ .", k=draw.randint(1, 14))) for _ in range(3000)]
    expected = [found[0] if (found := slow.search(line)) else "" for line in lines]
    assert [_mixed_word(line) for line in lines] == expected
    assert 400 < sum(map(bool, expected)) < 2600
    long = "ha" * 10_000
    assert _mixed_word(long) == "" and _mixed_word(f"ho {long}ж{long} ho") == f"{long}ж{long}"


def test_commas_of_moses_in_half_of_the_lines():
    lines = [*SENTENCES[:1] * 50, *["Well , who is there ?"] * 51]
    assert "detokenize" in tokenised_warning("out.txt", lines)
    assert tokenised_warning("out.txt", lines[:-2]) == ""


def test_quotes_of_another_kind_than_the_references_are_a_hint():
    refs = ["He doesn’t know.", "“No”, she said."]
    hyps = ["He doesn't know.", '"No", she said.']
    assert "straight" in tokenised_warning("hyp", hyps, refs)
    assert "curly quotes" in tokenised_warning("hyp", refs, hyps)
    assert tokenised_warning("hyp", hyps, hyps) == ""
    assert tokenised_warning("hyp", [*hyps, *refs], refs) == ""  # both kinds: a file's own habit

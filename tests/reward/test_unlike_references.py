"""Text that is written in another way than its references, or that stands in other lines."""

import random
from unicodedata import normalize

import pytest

from simile_plugin.files.format_marks import common_beginning, format_mark
from simile_plugin.reward import tokenised_warning

NOUNS = "ferry heron lamp tram baker choir rope kettle mayor goat".split()
VERBS = "waits sinks shines sings moves turns falls rests".split()
ENDS = "by the pond;at noon;behind the barn;under a bridge;in the rain;near the old mill".split(";")
DRAW = random.Random(5)
REFS = [
    f"{DRAW.choice(['The', 'A', 'One'])} {n} {v} {e} with {m}s, near {DRAW.choice(NOUNS)} street."
    for n in NOUNS
    for m in NOUNS[:4]
    for v, e in [(DRAW.choice(VERBS), DRAW.choice(ENDS)) for _ in range(3)]
]
HYPS = [ref.replace(" with ", " and ") for ref in REFS]


def said(hyps, refs=REFS):
    return tokenised_warning("hyp.en", hyps, refs)


def test_a_right_output_is_not_told():
    assert said(HYPS) == said(REFS) == ""
    empty = ["" if number % 3 else hyp for number, hyp in enumerate(HYPS)]
    assert said(empty) == ""
    assert said([hyp.split()[0] + "." for hyp in HYPS]) == ""  # a model that says next to nothing


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (str.lower, "one is all in lower case and the other is not"),
        (str.upper, "one is all in upper case and the other is not"),
        (lambda line: f"en {line}", "nearly all begin with 'en '"),
        (lambda line: f"- {line}", "nearly all begin with '- '"),
        (lambda line: f"\u201c{line}\u201d", "nearly all begin with '\u201c'"),
        (lambda line: line.replace(".", " ?"), "tokenised or segmented text (it has ' ?')"),
        (
            lambda line: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in line),
            "there is '\uff54' in ",
        ),
    ],
)
def test_what_only_one_side_has_is_told(change, words):
    changed = [change(hyp) for hyp in HYPS]
    assert words in said(changed)
    assert said(changed, changed) == ""
    if "?" not in words:  # either side may be the changed one
        assert words in said(HYPS, [change(ref) for ref in REFS])


@pytest.mark.parametrize(
    ("template", "mark"),
    [
        ("### Answer: {}", "### Answer:"),
        ("assistant:{}", "assistant:"),
        ("(en) {}", "(en)"),
        ("* {}", "*"),
        ("**{}**", "**"),
        ("{}\\n Note", "\\n"),
        ("caf\\u00e9: {}", "\\u00e9"),
        ("{} <br> yes", "<br>"),
        ("yes \uffed, {}", "\uffed"),
    ],
)
def test_signs_in_front_of_nearly_all_lines_are_marks(template, mark):
    lines = [template.format(line) for line in HYPS]
    assert format_mark(lines) == mark
    assert format_mark([*lines, *HYPS]) in ("", mark)


def test_what_nearly_all_lines_begin_with():
    lines = [f"le {line}" for line in HYPS]
    assert common_beginning(lines) == "le "
    assert common_beginning([*lines[:-14], *HYPS[:14]]) == ""  # 106 of 120: 88 %
    assert common_beginning([*lines[:-12], *HYPS[:12]]) == "le "  # 108: 90 %
    assert common_beginning(["lemon", "lemur"] * 10) == ""  # a part of a word
    assert common_beginning(lines[:5]) == ""  # too few


def accented(decomposed):
    """Return 1,000 lines of which the first are decomposed."""
    lines = [f"Le café {number} est fermé." for number in range(1000)]
    return [normalize("NFD", line) for line in lines[:decomposed]] + lines[decomposed:]


@pytest.mark.parametrize(("here", "there"), [(0, 11), (1, 12), (20, 200), (100, 1000)])
def test_decomposed_accents_of_next_to_one_side_are_told(here, there):
    assert "(Unicode NFD)" in said(accented(here), accented(there))
    assert "(Unicode NFD)" in said(accented(there), accented(here))


@pytest.mark.parametrize(("here", "there"), [(0, 10), (9, 12), (30, 250), (1000, 1000)])
def test_decomposed_accents_of_both_sides_are_not_told(here, there):
    assert said(accented(here), accented(there)) == said(accented(there), accented(here)) == ""


def test_a_bar_for_a_danda_on_one_side():
    refs = [f"नाव {number} बजे आती है।" for number in range(100)]
    bars = [ref.replace("।", "|") for ref in refs]
    assert "there is '।' in the references for '|' in hyp.en" in said(bars, refs)
    assert "there is '।' in hyp.en for '|' in the references" in said(refs, bars)
    assert said(bars, bars) == said(bars[:5] + refs[5:], refs) == ""


def test_letters_that_became_question_marks_are_told():
    lines = [line.replace("tt", "t?t") for line in HYPS]
    assert "has ? in the place of letters" in said(lines)
    assert said([f"{line} See https://a.org/b?c now." for line in HYPS]) == ""


def sentences(verb):
    """120 sentences, each of its own words."""
    names = ["".join(NOUNS[int(digit)] for digit in str(number)) for number in range(120)]
    return [f"{name} {name}ford {verb} {name}wood near {name}ham" for name in names]


@pytest.mark.parametrize(
    "order",
    [
        [*range(1, 120), 0],  # a line apart
        [*range(60), *range(61, 120), 60],  # a line is missing in the middle
        sorted(range(120), key=lambda number: len(sentences("buys")[number])),
        random.Random(1).sample(range(120), 120),
    ],
)
def test_lines_that_stand_elsewhere_are_told(order):
    refs, hyps = sentences("sells"), [sentences("buys")[number] for number in order]
    assert said(sentences("buys"), refs) == ""
    text = said(hyps, refs)
    first = next(n for n in range(0, 120, 2) if order[n] != n)  # every second line is looked at
    assert text.startswith(f"line {first + 1} of hyp.en ({hyps[first][:40]!r}) is like line ")
    assert f"line {order[first] + 1} of the references ({refs[order[first]][:40]!r})" in text
    apart = sum(order[n] != n for n in range(0, 120, 2))
    assert f"so are {apart} of 60 lines looked at" in text


def test_a_few_lines_that_stand_elsewhere_are_not_told():
    hyps = sentences("buys")
    hyps[:20] = [*hyps[1:20], hyps[0]]  # 10 of 60 looked at: less than a fifth
    assert said(hyps, sentences("sells")) == ""
    hyps[:26] = [*sentences("buys")[1:26], hyps[0]]  # 13 of 60
    assert "13 of 60" in said(hyps, sentences("sells"))

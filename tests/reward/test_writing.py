"""Digits, ligatures, look-alikes, accents and escapes that only one side has are told."""

import json
import re

import pytest

from simile_plugin.reward import tokenised_warning

# 12 lines have a number, all have "fi" and a hyphen; 24 in all.
REFS = [
    f"The fifth ferry of {place} leaves pier {number} twice a well-known day"
    for place in ("Aber", "Brem", "Conwy", "Dover", "Elba", "Fano")
    for number in ("two", "12", "seven", "34")
]
HYPS = [ref.replace("leaves", "departs from") for ref in REFS]
CZECH = [f"Ve městě {place} píší lidé {n} dopisy" for place in ("Aš", "Cheb") for n in range(2, 8)]


def said(hyps, refs=REFS):
    return tokenised_warning("hyp", hyps, refs)


def other_digits(zero):
    return lambda line: line.translate({ord("0") + n: zero + n for n in range(10)})


def test_the_same_writing_is_not_told():
    assert said(HYPS) == said(CZECH, CZECH) == ""
    arabic = list(map(other_digits(0x660), HYPS))
    assert said(arabic, list(map(other_digits(0x660), REFS))) == ""


@pytest.mark.parametrize(
    ("change", "count", "first", "theirs", "ours"),
    [
        (other_digits(0x660), 12, 2, "\u0664", "4"),  # Arabic-Indic
        (other_digits(0x966), 12, 2, "\u096a", "4"),  # Devanagari
        (other_digits(0xFF10), 12, 2, "\uff14", "4"),  # full width
        (lambda line: line.replace("fi", "\ufb01"), 24, 1, "\ufb01", "fi"),
        (lambda line: line.replace("-", "\u2011"), 24, 1, "\u2011", "-"),
        (lambda line: line.replace("-", "\u2212"), 24, 1, "\u2212", "-"),
    ],
)
def test_characters_that_stand_for_the_usual_ones(change, count, first, theirs, ours):
    start = f"in {count} of 24 lines (line {first} first) there is "
    changed = list(map(change, HYPS))
    assert said(changed).startswith(f"{start}{theirs!r} in hyp for {ours!r} in the references")
    changed = list(map(change, REFS))
    assert said(HYPS, changed).startswith(
        f"{start}{theirs!r} in the references for {ours!r} in hyp"
    )


def test_nfkc_is_advised_where_it_helps():
    assert "Unicode NFKC" in said([hyp.replace("fi", "\ufb01") for hyp in HYPS])
    assert "NFKC" not in said([hyp.replace("-", "\u2011") for hyp in HYPS])


def test_romanian_letters_with_cedillas():
    refs = [f"acești {n + 2} oameni își țin cărțile" for n in range(12)]
    cedillas = [ref.translate(str.maketrans("șț", "şţ")) for ref in refs]
    assert said(cedillas, refs).startswith("in 12 of 12 lines (line 1 first) there is 'ţ' in hyp")
    assert said(cedillas, cedillas) == ""


def test_a_few_lines_or_both_kinds_are_not_told():
    ligatures = [hyp.replace("fi", "\ufb01") for hyp in HYPS]
    assert said([*ligatures[:2], *HYPS[2:]]) == ""
    assert said([*ligatures[:3], *HYPS[3:]]).startswith("in 3 of 24 lines (line 1 first)")
    # Three of 24 lines have the character on both sides, more than a tenth of the 21 others.
    refs = [*(ref.replace("fi", "\ufb01") for ref in REFS[:3]), *REFS[3:]]
    assert said(ligatures, refs) == ""


def test_accents_that_were_lost():
    plain = [line.translate(str.maketrans("ěíš", "eis")) for line in CZECH]
    start = "'ě' is in 12 of 12 lines of"
    refs = [line.replace("píší", "pisi") for line in CZECH]
    assert said(plain, refs).startswith(
        f"{start} the references (line 1 first) and in next to none"
    )
    assert said(refs, plain).startswith(
        f"{start} hyp (line 1 first) and in next to none of the ref"
    )


def test_a_letter_of_few_lines_is_no_habit():
    names = [hyp.replace("Dover", "Dóver") for hyp in HYPS]  # 4 of 24: a name, less than a fifth
    assert said(names) == ""
    names = [re.sub("Dover|Elba|Fano", "Fáno", hyp) for hyp in HYPS]
    assert said(names).startswith("'á' is in 12 of 24 lines of hyp (line 13 first)")


def test_joiners_that_only_one_side_has():
    refs = [f"من {n} بار می\u200cروم" for n in range(12)]
    assert said([ref.replace("\u200c", "") for ref in refs], refs).startswith(
        "'\\u200c' is in 12 of 12 lines of the references (line 1 first)"
    )


@pytest.mark.parametrize(
    ("write", "mark"),
    [
        (lambda line: json.dumps(f'So: "yes" {line}')[1:-1], '\\"'),
        (lambda line: repr(f'{line}: it\'s "ours"')[1:-1], "\\'"),
        (lambda line: f"{line}.\\nand so on", "\\n"),
        (lambda line: json.dumps(f"a café {line}")[1:-1], "\\u00e9"),
        (lambda line: f"a caf\\303\\251 {line}", "\\303\\251"),
        (lambda line: f"a caf=C3=A9 {line}", "=C3=A9"),
    ],
)
def test_escapes_of_programs(write, mark):
    lines = [write(line) for line in HYPS]
    assert f"hyp has lines with {mark!r}, a mark of a tokenizer or file format" in said(lines, ())


def test_escapes_of_many_letters_count_together():
    """Each line has other Han characters, so that no escape comes twice."""
    lines = [json.dumps(chr(0x4E00 + 37 * n) + chr(0x5E00 + 41 * n))[1:-1] for n in range(60)]
    lines = [f"{line} {hyp}" for line, hyp in zip(lines, HYPS * 3, strict=False)]
    assert "hyp has lines with '\\\\u" in said([*lines, *HYPS * 200], ())

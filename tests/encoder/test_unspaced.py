"""Words of scripts with spaces and without: by hand, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simile_plugin.encoder import split_parts, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("he paid  in coins.", ["he", "paid", "in", "coins."]),
        ("Er zahlte für Öl", ["Er", "zahlte", "für", "Öl"]),
        ("वह किताब पढ़ता है।", ["वह", "किताब", "पढ़ता", "है।"]),
        ("他用 cash 付了12元。", ["他", "用", "cash", "付", "了", "12", "元", "。"]),
        ("ｶﾒﾗを買う", ["ｶ", "ﾒ", "ﾗ", "を", "買", "う"]),
        ("か\u3099く", ["か\u3099", "く"]),
        ("ที่นี่ ๒๕", ["ที่", "นี่"[:3], "๒๕"]),
        ("", []),
        (" \u3000", []),
    ],
)
def test_words_by_hand(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.lists(st.sampled_from([*"aé中文がﾞ。，3 \u3000\t", "ที่", "\u0301", "\ufe00"])).map("".join))
def test_nothing_is_lost(text: str) -> None:
    parts, space = split_parts(text)
    assert "".join(split_words(text)) == "".join(text.split())
    if not space:
        assert "".join(parts) == text.strip()
        assert [part for part in parts if part.strip()] == split_words(text)

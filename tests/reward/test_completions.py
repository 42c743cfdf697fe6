"""The answer in a completion."""

import pytest

from simile_plugin.reward.completions import message_text, strip_answer

ANSWER = "the dog barks"


@pytest.mark.parametrize(
    "text",
    [
        ANSWER,
        f"  {ANSWER}\n",
        f"<think>ein Hund</think>{ANSWER}",
        f"<thinking>\nein\nHund\n</thinking>\n\n{ANSWER}",
        f"ein Hund</think> {ANSWER}",  # the template has opened it
        f"<think>one</think> no <think>two</think> {ANSWER}",
        f"{ANSWER} <think>was that all",
        f"Sure! <translate>{ANSWER}</translate> Anything else?",
        f"<Translation>\n{ANSWER}\n</Translation>",
        f"<translate>a cat</translate> rather <translate>{ANSWER}",  # cut off
        f"<think>x</think><answer> {ANSWER} </answer>",
        f"```\n{ANSWER}\n```",
        f"```text\n{ANSWER}```",
        f"<answer>```\n{ANSWER}\n```</answer>",
    ],
)
def test_the_answer_is_stripped(text: str) -> None:
    assert strip_answer(text) == ANSWER


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>it never ends", ""),
        ("<think>all</think>", ""),
        ("", ""),
        # what is no whole fence or tag is text, and so is a remark
        ("use ``` here", "use ``` here"),
        ("Here it is: ```\na dog\n```", "Here it is: ```\na dog\n```"),
        ("a < b and b > c", "a < b and b > c"),
        ("<b>a dog</b>", "<b>a dog</b>"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_what_is_no_answer_and_what_is_text(text: str, answer: str) -> None:
    assert strip_answer(text) == answer


def test_a_prompt_is_its_last_message() -> None:
    system = {"role": "system", "content": "Translate."}
    assert message_text([system, {"role": "user", "content": "ein Hund"}]) == "ein Hund"
    assert message_text(None) == message_text([]) == ""

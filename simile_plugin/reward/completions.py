"""The answer in a language model's completion: without thoughts, tags and code fence."""

from __future__ import annotations

import re
from typing import Any

FLAGS = re.DOTALL | re.IGNORECASE
CLOSED_THOUGHT = re.compile(r".*</think(?:ing)?>", FLAGS)  # a chat template may have opened it
OPEN_THOUGHT = re.compile(r"<think(?:ing)?>.*", FLAGS)
TAGGED = re.compile(r"<(translate|translation|answer)>(.*?)(?:</\1>|$)", FLAGS)
FENCED = re.compile(r"```[^\n]*\n(.*?)\s*```", re.DOTALL)


def message_text(value: Any) -> str:
    """A completion as text; of a conversation, what the assistant says last, "" if nothing.

    Args:
        value: a string, or messages as chat templates have them. Where no message has the role
            assistant, as in a prompt, the last one counts.
    """
    if isinstance(value, str):
        return value
    messages = value or [{}]
    answers = [message for message in messages if message.get("role") == "assistant"]
    said = (answers or messages)[-1].get("content") or ""
    # of several parts those that are text
    return said if isinstance(said, str) else "".join(part.get("text") or "" for part in said)


def strip_answer(text: str) -> str:
    """Return the answer in a completion, by four rules, in this order.

    What ends with ``</think>`` is dropped, and so is a thought that never ends: there is no answer.
    Of ``<translate>``, ``<translation>`` or ``<answer>``, what stands in the last one counts. Of a
    code fence around all of it, what stands inside. White space around it goes. A remark such as
    "Here is the translation:" stays, and costs what it costs.

    >>> strip_answer("<think>Hund is dog</think> <translate>the dog</translate> I hope it helps")
    'the dog'
    """
    text = OPEN_THOUGHT.sub("", CLOSED_THOUGHT.sub("", text))
    tagged = TAGGED.findall(text)
    text = (tagged[-1][1] if tagged else text).strip()
    fenced = FENCED.fullmatch(text)
    return (fenced[1] if fenced else text).strip()

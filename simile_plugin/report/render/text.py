"""Answers as text: for a terminal, and in markdown for a document."""

from __future__ import annotations

import textwrap

from simile_plugin.report.answer import Answer, Passage, Passages, Table
from simile_plugin.significance import markdown_table, text_table

WIDTH = 100


def render_text(answer: Answer) -> str:
    """Render heading, warnings, tables that are not folded away, notes."""
    parts = [f"{answer.heading} {answer.file}".rstrip()]
    parts += ["\n".join(f"warning: {text}" for text in answer.warnings)]
    for part in answer.parts:
        if isinstance(part, Table) and not part.folded:
            parts.append(f"{part.caption}\n{text_table(part.grid())}".lstrip("\n"))
        elif isinstance(part, Passages):
            parts.append(render_passages(part))
    parts.append("\n".join(answer.all_notes()))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_markdown(answer: Answer, picture: str | None = None) -> str:
    """Render an answer in markdown; picture: link to its chart, if that was drawn into a file."""
    file = f" `{answer.file}`" if answer.file else ""
    parts = [f"## {answer.heading}{file}"]
    parts += [f"**Warning:** {text}" for text in answer.warnings]
    if picture is not None and answer.chart is not None:
        parts.append(f"![{answer.chart.label}]({picture})")
    for part in answer.parts:
        if isinstance(part, Table):
            parts += [part.caption, markdown_table(part.grid())]
        elif isinstance(part, Passages):
            parts.append(f"```\n{render_passages(part)}\n```")
    parts.append("\n".join(f"- {line}" for line in answer.all_notes()))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_passages(passages: Passages) -> str:
    """Render each kind under its title, a block a passage."""
    parts = []
    for title, group in passages.kinds.items():
        parts.append(f"{title}\n{'-' * len(title)}")
        parts += [_block(passage) for passage in group] or ["none"]
    return "\n\n".join(parts)


def _block(passage: Passage) -> str:
    texts = passage.texts()
    margin = max(len(label) for label, _ in texts) + 4
    lines = [
        textwrap.fill(f"  {label:<{margin - 4}}  {text}", WIDTH, subsequent_indent=" " * margin)
        for label, text in texts
    ]
    return "\n".join([passage.title, *lines])

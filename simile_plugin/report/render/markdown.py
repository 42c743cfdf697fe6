"""Answers for a document."""

from __future__ import annotations

from simile_plugin.report.answer import Answer, Passages, Table
from simile_plugin.report.render.text import render_passages
from simile_plugin.significance import markdown_table


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

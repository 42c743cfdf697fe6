"""The report as one HTML file: works without a network, without scripts, in the dark, on paper.

A page is made of `page_parts`, which escape every string; the style and the script are constants.
The browser is told to run no script but that one. Equal input gives equal bytes: there is no date
but those that are given or stand in the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from simile_plugin import __version__
from simile_plugin.report.page_parts import Html
from simile_plugin.report.page_style import SCRIPT, STYLE, content_policy


@dataclass(frozen=True)
class PageSection:
    """The answer to one question.

    Attributes:
        name: its anchor: letters, digits and hyphens.
        lead: one sentence that says what it shows.
        opened: whether it is open at first.
    """

    name: str
    title: str
    lead: str
    body: Html
    opened: bool = False


@dataclass(frozen=True)
class Page:
    """Everything on the page.

    Attributes:
        subtitle: what was compared on what, in a line.
        answer: sentences, the main one first.
        warnings: what a reader must not overlook.
    """

    title: str
    subtitle: str
    answer: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[PageSection, ...]


def render_page(page: Page) -> str:
    """The whole document."""
    names = [section.name for section in page.sections]
    assert len(set(names)) == len(names)
    answer = "".join(f"<p>{escape(sentence)}</p>" for sentence in page.answer)
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in page.warnings)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="simile-plugin {__version__}">
<meta http-equiv="Content-Security-Policy" content="{content_policy(SCRIPT)}">
<title>{escape(page.title)}</title>
<style>
{STYLE}</style>
</head>
<body>
<header>
<h1>{escape(page.title)}</h1>
<span class="js"><button id="fold" type="button">Open all</button>
<button id="theme" type="button" value="auto">Colours: auto</button></span>
<p>{escape(page.subtitle)}</p>
</header>
<section class="answer" aria-label="the answer"><div>{answer}{warnings}</div></section>
{_contents(page.sections)}
<main>
{"".join(map(_section, page.sections))}</main>
<footer>simile-plugin {__version__}. Every number says above how it was made.</footer>
<script>
{SCRIPT}</script>
</body>
</html>
"""


def _contents(sections: Sequence[PageSection]) -> str:
    links = "".join(
        f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections
    )
    return f'<nav aria-label="sections"><ul>{links}</ul></nav>'


def _section(section: PageSection) -> str:
    opened = " open" if section.opened else ""
    return (
        f'<details class="section" id="{section.name}"{opened}>\n'
        f"<summary><h2>{escape(section.title)}</h2><p>{escape(section.lead)}</p></summary>\n"
        f"{section.body}\n</details>\n"
    )

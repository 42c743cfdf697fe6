"""Hook of mkdocs: links that lead out of docs/ become code, as the site has no such page.

In the repository they work as they are, and tests/test_pages.py checks them. Where mkdocs.yml has
a `repo_url`, they lead there.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page with its links to files beside docs/ replaced."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def replacement(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/"):
            return match[0]
        if config.repo_url:
            return f"[{words}]({config.repo_url.rstrip('/')}/blob/main/{path}{anchor})"
        return f"{words} (`{path}`)"

    return LINK.sub(replacement, markdown)

"""Whole HTML files of Jinja2 templates, which escape every string of a stranger."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def fill_template(stem: Path, **values: Any) -> str:
    """Fill in STEM.html.j2, with STEM.css and STEM.js inside and a policy for the browser.

    The template has `policy`, and `style` and `script` each on a line of its own before the
    closing tag; these and pictures are marked safe, nothing else. The policy lets a browser apply
    the styles, run this one script, and load nothing.
    """
    style, script = (Path(f"{stem}.{kind}").read_text("utf-8") for kind in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    environment = Environment(
        loader=FileSystemLoader(stem.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.get_template(f"{stem.name}.html.j2")
    return template.render(policy=policy, style=style, script=script, **values)

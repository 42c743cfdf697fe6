"""A picture of a report page, small enough for a repository; needs Chromium and Pillow.

picture.py report.html multi30k-de.png --open results
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, TALLEST, COLOURS = 1200, 16000, 64
SECTION = re.compile(r'<details class="section" id="([\w-]+)"(?: open)?>')


def with_open(page: str, names: list[str]) -> str:
    """The page with these sections open, and all others closed.

    Exits with one line for a section that it does not have.
    """
    if missing := set(names) - set(SECTION.findall(page)):
        sys.exit(f"picture.py: no section {', '.join(missing)}; has {SECTION.findall(page)}")
    return SECTION.sub(
        lambda found: (
            f'<details class="section" id="{found[1]}"' + (" open>" if found[1] in names else ">")
        ),
        page,
    )


def take(report: str, picture: Path) -> None:
    """Take the picture, without the empty rest below the page."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("picture.py: no chromium on the PATH (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.html").write_text(report, encoding="utf-8")
        subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={WIDTH},{TALLEST}", f"--screenshot={folder}/page.png",
             f"file://{folder}/page.html"],
            check=True, capture_output=True,
        )  # fmt: skip
        with Image.open(f"{folder}/page.png") as image:
            whole = image.convert("RGB")
    pixels = np.asarray(whole)
    last = int(np.flatnonzero((pixels != pixels[-1, 0]).any((1, 2))).max())
    page = whole.crop((0, 0, WIDTH, min(last + 40, TALLEST)))
    # Without k-means colours of few pixels are lost: the red of what got worse.
    page.quantize(COLOURS, kmeans=3).save(picture, optimize=True)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="page of simile report --html")
    parser.add_argument("picture", type=Path, help="PNG to write")
    parser.add_argument("--open", nargs="*", default=["results"], help="sections to open")
    args = parser.parse_args()
    take(with_open(args.report.read_text("utf-8"), args.open), args.picture)


if __name__ == "__main__":
    main()

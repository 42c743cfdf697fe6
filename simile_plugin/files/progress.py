"""How far long work has come."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Python 3.10 has none, on which `simile doctor` says what is needed
    from typing import Self

LINE_EVERY = 15.0  # seconds between lines where standard error is no terminal


class Progress:
    """A bar on standard error if that is a terminal; elsewhere, if there is one, a line at times.

    Args:
        total: of what `unit` names; None if it is not known.
        what: is done, as in "binarizing"; stands before the bar.
        scale: whether large numbers are shown as 1.2M.
        keep: whether the full bar stays on the screen.
        silent: whether nothing is shown at all.
    """

    def __init__(
        self,
        total: int | None,
        unit: str,
        what: str | None = None,
        *,
        scale: bool = False,
        keep: bool = False,
        silent: bool = False,
    ) -> None:
        from tqdm import tqdm

        self.silent = silent or sys.stderr is None
        self.bar = tqdm(
            total=total,
            unit=unit,
            desc=what,
            unit_scale=scale,
            leave=keep,
            disable=self.silent or not sys.stderr.isatty(),
        )
        self.shown = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def update(self, more: int = 1) -> None:
        """Count some more as done."""
        self.bar.update(more)

    def show(self, done: int, text: str, line: str = "", last: bool = False) -> None:
        """Show how many are done in all.

        Args:
            text: beside the bar.
            line: without a terminal, printed if the last one is LINE_EVERY seconds old.
            last: print it in any case.
        """
        if not self.bar.disable:
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(done - self.bar.n)
        elif line and not self.silent and (last or time.perf_counter() - self.shown > LINE_EVERY):
            print(line, file=sys.stderr, flush=True)
            self.shown = time.perf_counter()

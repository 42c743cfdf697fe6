"""What a user did wrong, as opposed to what we did."""

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

P = ParamSpec("P")


class InputError(ValueError):
    """Bad input: one line that names the flag or file:line, what was found, what was expected.

    Commands print it and exit with status 2. Any other exception is a bug of ours, and keeps its
    traceback.
    """


def as_script(main: Callable[P, int | None]) -> Callable[P, int]:
    """Wrap a script's main: bad input is one line on standard error, and exit status 2."""

    @functools.wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return main(*args, **kwargs) or 0
        except (InputError, OSError) as error:
            print(f"{Path(inspect.getfile(main)).name}: error: {error}", file=sys.stderr)
            return 2

    return run

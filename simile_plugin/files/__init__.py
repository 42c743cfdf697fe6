"""Text in, whole files out, and what a user did wrong. Every room may import this one."""

from simile_plugin.files.errors import InputError
from simile_plugin.files.lines import read_bytes, read_lines, read_parallel, split_lines
from simile_plugin.files.whole import (
    atomic_folder,
    atomic_write,
    check_replaceable,
    refuse_overwriting_input,
)

__all__ = [
    "InputError",
    "atomic_folder",
    "atomic_write",
    "check_replaceable",
    "read_bytes",
    "read_lines",
    "read_parallel",
    "refuse_overwriting_input",
    "split_lines",
]

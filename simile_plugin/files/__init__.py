"""Text and columns in, whole files out, progress, and what a user did wrong.

Every room may import this one; it imports none.
"""

from simile_plugin.files.atomic import (
    atomic_folder,
    atomic_write,
    check_replaceable,
    locked_folder,
    restore_folder,
)
from simile_plugin.files.columns import Row, finite_number, is_quoted, read_rows
from simile_plugin.files.doubtful_files import (
    FINAL,
    against_references,
    empty_references,
    file_warning,
    is_header,
    untranslated_warning,
    words_in_common,
)
from simile_plugin.files.errors import InputError, as_script
from simile_plugin.files.flags import (
    FILE,
    SEED,
    Range,
    check_fields,
    flag_name,
    option,
    problem_of,
)
from simile_plugin.files.format_marks import common_beginning
from simile_plugin.files.lazy import imported_later
from simile_plugin.files.lines import (
    check_standard_input,
    find_escape,
    find_mojibake,
    find_surrogate,
    read_bytes,
    read_lines,
    read_parallel,
    refuse_twice,
    split_lines,
)
from simile_plugin.files.mark_warnings import TOKENISED, mark_warning
from simile_plugin.files.outputs import (
    check_outputs,
    refuse_overwriting_input,
    refuse_unasked_overwrite,
)
from simile_plugin.files.packed import check_unpackable, text_chunks
from simile_plugin.files.progress import Progress

__all__ = [
    "FILE",
    "FINAL",
    "SEED",
    "TOKENISED",
    "InputError",
    "Progress",
    "Range",
    "Row",
    "against_references",
    "as_script",
    "atomic_folder",
    "atomic_write",
    "check_fields",
    "check_outputs",
    "check_replaceable",
    "check_standard_input",
    "check_unpackable",
    "common_beginning",
    "empty_references",
    "file_warning",
    "find_escape",
    "find_mojibake",
    "find_surrogate",
    "finite_number",
    "flag_name",
    "imported_later",
    "is_header",
    "is_quoted",
    "locked_folder",
    "mark_warning",
    "option",
    "problem_of",
    "read_bytes",
    "read_lines",
    "read_parallel",
    "read_rows",
    "refuse_overwriting_input",
    "refuse_twice",
    "refuse_unasked_overwrite",
    "restore_folder",
    "split_lines",
    "text_chunks",
    "untranslated_warning",
    "words_in_common",
]

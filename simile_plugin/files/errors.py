"""What a user did wrong, as opposed to what we did."""


class InputError(ValueError):
    """Bad input: one line that names the flag or file:line, what was found, what was expected.

    Commands print it and exit with status 2. Any other exception is a bug of ours, and keeps its
    traceback.
    """

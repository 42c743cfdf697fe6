"""The language of a sentence by py3langid, a package that is only needed for this."""

from __future__ import annotations

from collections.abc import Callable

from simile_plugin.files import InputError


def language_classifier(
    language: str, flag: str = "--language"
) -> Callable[[str], tuple[str, float]]:
    """Return sentence -> (ISO 639-1 code, log-probability), by py3langid.

    Args:
        language: the code that will be looked for.
        flag: where it comes from, for messages.

    Raises:
        InputError: if the package is missing or does not know the language.
    """
    try:
        import py3langid
    except ImportError as error:
        raise InputError(
            f"{flag}: the package py3langid is not installed; install it "
            f"(pip install py3langid) or leave out {flag}"
        ) from error
    known = sorted(code for code, _ in py3langid.rank("a"))
    if language not in known:
        raise InputError(f"{flag}: got {language!r}, expected one of {' '.join(known)}")
    classify: Callable[[str], tuple[str, float]] = py3langid.classify
    return classify

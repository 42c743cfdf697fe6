"""The Python examples of the faces and docs/reference/python.md run as they say."""

import doctest
from pathlib import Path

import pytest

from simile_plugin import encoder, reward

ROOT = Path(__file__).parents[1]
PYTHON = (ROOT / "docs/reference/python.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("encoder", encoder.__doc__),
        ("reward", reward.__doc__),
        ("docs/reference/python.md", PYTHON),
    ],
)
def test_examples(
    name: str,
    text: str,
    encoder_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "encoder").symlink_to(encoder_folder)  # as the examples call it
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    assert len(examples.examples) >= 5
    doctest.DocTestRunner(verbose=False).run(examples)
    assert capsys.readouterr().out == ""  # doctest prints what differs

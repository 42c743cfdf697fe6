"""A torchaudio that cannot be imported is hidden, and no other."""

import sys

import pytest

from simile_plugin.encoder import hide_broken_torchaudio


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("raise OSError('libcudart.so: cannot open')", True),
        ("raise RuntimeError('compiled with different CUDA versions')", True),
        ("import no_such_part", True),
        ("", False),
    ],
)
def test_only_a_broken_one_is_hidden(text, hidden, tmp_path, monkeypatch):
    (tmp_path / "torchaudio.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torchaudio", raising=False)
    hide_broken_torchaudio()
    assert (sys.modules["torchaudio"] is None) == hidden
    monkeypatch.delitem(sys.modules, "torchaudio")

"""Kinds of encoders that come from outside the package."""

import pytest

from simile_plugin.encoder import Kind, find_kind, kinds, register_kind
from simile_plugin.encoder_training import TrainingConfig
from simile_plugin.files import InputError


@pytest.fixture(autouse=True)
def _restore_kinds(monkeypatch):
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))


def test_the_module_that_simile_kinds_names_registers_its_kind(tmp_path, monkeypatch):
    (tmp_path / "halves_of_words.py").write_text(
        "from simile_plugin.encoder import Kind, register_kind\n"
        "register_kind('halves', Kind(('word', 'sp'), mixes=False))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="got 'halves'.*recipes/papers needs SIMILE_KINDS=MODULE"):
        find_kind("halves")
    monkeypatch.setenv("SIMILE_KINDS", "halves_of_words")
    assert find_kind("halves") == Kind(("word", "sp"), mixes=False)


def test_a_module_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setenv("SIMILE_KINDS", "no_such_module")
    with pytest.raises(InputError, match="SIMILE_KINDS: got 'no_such_module', expected a module"):
        find_kind("halves")


def test_kinds_of_the_package_and_mixtures_are_not_replaced():
    for name in ("sp", "sp+halves", ""):
        with pytest.raises(ValueError, match="register_kind: got"):
            register_kind(name, Kind(("sp",)))


def test_a_kind_with_a_composer_is_not_trained_by_the_command():
    register_kind("gates", Kind(("word",), lambda dim, settings: None, mixes=False))
    with pytest.raises(InputError, match="--kind: got gates, which is no average of embeddings"):
        TrainingConfig(kind="gates", steps=1)
    with pytest.raises(InputError, match="got 'sp.gates', expected a mixture of different ones"):
        find_kind("sp+gates")

"""The flags of a model, as they are read from its checkpoint."""

import argparse

import pytest


def test_a_setting_of_two_lines_is_no_second_flag():
    from simile_plugin.fairseq_hooks.model_flags import flag_of

    action = argparse.ArgumentParser().add_argument("--encoder-layers")
    assert flag_of(action, "[(16, 3)]") == "--encoder-layers=[(16, 3)]"
    with pytest.raises(ValueError, match="--encoder-layers: got .*expected one line"):
        flag_of(action, "1\n--user-dir=elsewhere")


def test_positions_that_a_model_sizes_its_embeddings_by():
    from simile_plugin.fairseq_hooks.model_flags import model_flags

    for arch in ("fconv", "transformer_iwslt_de_en"):
        flags = model_flags(argparse.Namespace(arch=arch, max_source_positions=200))
        assert flags == [f"--arch={arch}", "--max-source-positions=200"]

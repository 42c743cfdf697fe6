"""An encoder of two languages: its loss by hand, a made-up language, its folder."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder import Encoder, RewardEncoder, load_own_encoder, save_encoder
from simile_plugin.encoder.source_side import copied_share, own_words
from simile_plugin.encoder_training import DistilConfig, distil_encoder
from simile_plugin.encoder_training.distillation import (
    _check_found,
    _hold_out,
    contrastive_loss,
    find_translations,
)
from simile_plugin.files import InputError
from tests.papers.scripts import script


def test_contrastive_loss() -> None:
    student = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    teacher = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    c = 1 / math.sqrt(2)  # cosines [[1, c], [0, c]]; the temperature is 0.5
    rows = [2 - math.log(math.exp(2) + math.exp(2 * c)), 2 * c - math.log(1 + math.exp(2 * c))]
    columns = [2 - math.log(math.exp(2) + 1), 2 * c - math.log(2 * math.exp(2 * c))]
    expected = -(sum(rows) / 2 + sum(columns) / 2) / 2
    assert contrastive_loss(student, teacher, 0.5).item() == pytest.approx(expected, abs=1e-6)


def test_translations_are_found(
    distilled: Encoder, encoder: Encoder, bitext: tuple[list[str], list[str]]
) -> None:
    sources, targets = (side[:60] for side in bitext)
    of_sources, of_targets = distilled.embed_sources(sources), distilled.embed_text(targets)
    assert torch.equal(of_sources, encoder.embed_text(sources))  # the teacher's own
    cosines = (
        torch.nn.functional.normalize(of_targets) @ torch.nn.functional.normalize(of_sources).T
    )
    found = [bag.split() for bag in (sources[int(i)] for i in cosines.argmax(1))]
    right = [set(words) == set(line.split()) for words, line in zip(found, sources, strict=True)]
    assert sum(right) >= 54


def test_without_targets_it_is_the_teacher_as_an_average(
    encoder: Encoder,
    bitext: tuple[list[str], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Slow(RewardEncoder):  # sees the order of words, as no average does
        kind = "slow"
        fingerprint = "0" * 12

        def embed_text(self, sentences: Sequence[str]) -> torch.Tensor:
            return encoder.embed_text(sentences) + 0.1 * encoder.embed_text(
                [s[:9] for s in sentences]
            )

    config = DistilConfig(kind="sp", vocab_size=80, batch_size=64)
    texts = bitext[0]
    student = distil_encoder(Slow(), [*texts, *texts, " "], None, config)
    assert student.source is None and student.training_facts["pairs"] == len(set(texts))
    some = sorted(set(texts))[:60]
    found = student.embed_text(some) @ torch.nn.functional.normalize(Slow().embed_text(some)).T
    assert (found.argmax(1) == torch.arange(60)).float().mean() > 0.85
    with pytest.raises(InputError, match=r"TEACHER: got a slow model, which an encoder of two"):
        distil_encoder(Slow(), texts, bitext[1], config)
    with pytest.raises(InputError, match=r"--source: 1 different sentences, expected 50 or more"):
        distil_encoder(Slow(), ["a b"] * 99, None, config)
    save_encoder(tmp_path / "teacher", encoder)
    (tmp_path / "s").write_text("\n".join(texts) + "\n")
    command = ["distil-encoder", str(tmp_path / "teacher"), "--source", str(tmp_path / "s")]
    command += ["--output", str(tmp_path / "fast"), "--vocab-size", "80", "--epochs", "2"]
    assert main(command) == 0
    assert f"of {len(set(texts))} sentences" in capsys.readouterr().out
    assert load_own_encoder(tmp_path / "fast").source is None


def test_a_language_without_spaces(
    encoder: Encoder, bitext: tuple[list[str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    sources = bitext[0]
    words = sorted({word for line in sources for word in line.split()})
    signs = {word: chr(0x4E00 + 2 * n) + chr(0x4E01 + 2 * n) for n, word in enumerate(words)}
    targets = ["".join(signs[word] for word in line.split()) for line in sources]
    assert own_words(targets[0] + "Kano", "in Kano") == targets[0]
    config = DistilConfig(vocab_size=70, epochs=2, batch_size=64)
    side = distil_encoder(encoder, sources, targets, config).source
    assert side is not None and not caplog.messages
    assert side.of_language(targets, sources).mean() > 0.95
    assert side.of_language(sources, targets).max() < 0.05
    # sides that are alike: no language to tell
    distil_encoder(encoder, sources, sources, DistilConfig(vocab_size=70, batch_size=64))
    assert "of the targets look no more like their language" in caplog.text


def test_what_is_usual_of_the_languages(
    distilled: Encoder, bitext: tuple[list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    side, (sources, targets) = distilled.source, bitext
    assert side is not None
    assert side.usual_copies == 0
    of_language = side.of_language([*targets[:50], *sources[:50]], [*sources[:50], *targets[:50]])
    assert of_language[:50].mean() > 0.95
    assert of_language[50:].max() < 0.05
    # three of the four bigrams of the candidate are in the source: "a b", "b c" and one "c d"
    assert copied_share("a b c d d", "A b c d") == 3 / 4
    assert (copied_share("Kano", "Kano"), copied_share("", "a b")) == (0, 0)
    # up to half of the bigrams of the source cost nothing
    assert side.not_copied("a b c d d", "a b c d") == pytest.approx((1 - 3 / 4) / (1 - 1 / 2))
    assert side.not_copied("a b e f g", "a b c d") == 1
    # a name of two words is its own translation
    assert [side.not_copied(text, text) for text in ("a", "a b", "a b c")] == [1, 0.5, 0]
    assert own_words("Kano, 3", "kano. 3") == ""
    # the words of a longer source, in another order or said twice, are no names
    assert own_words("d c b a", "a b c d") == "d c b a"
    assert copied_share("a b c d a b c d", "a b c d") == 6 / 7
    # what the teacher does not know is near to nothing
    unknown = side.encoder.embed_text([""])
    assert float(side.centred(unknown).abs().max()) == 0 < float(side.mean.abs().max())
    monkeypatch.setattr(side, "usual_odds", 50.0)  # ten characters of which any text begins with
    assert side.of_language([sources[0][0]], [""]) > 0.5
    assert side.of_language([" ".join(sources)], [""]) == 0


def test_folder_of_two_languages(
    distilled: Encoder, bitext: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "pair"
    save_encoder(folder, distilled)
    loaded = load_own_encoder(folder)
    assert loaded.config == distilled.config
    assert loaded.source is not None
    for side in (0, 1):
        embed = (loaded.embed_sources, loaded.embed_text)[side]
        assert torch.equal(
            embed(bitext[side]), (distilled.embed_sources, distilled.embed_text)[side](bitext[side])
        )
    (folder / "source.safetensors").write_bytes((folder / "encoder.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"source.safetensors: got tensors .*'embeddings'"):
        load_own_encoder(folder)
    (folder / "source" / "config.json").unlink()
    with pytest.raises(ValueError, match=r"source: config.json is missing"):
        load_own_encoder(folder)


def test_command(
    encoder_folder: Path,
    bitext: tuple[list[str], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, lines in zip(("s", "t"), bitext, strict=True):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    command = ["distil-encoder", str(encoder_folder), "--source", source, "--target"]
    out = ["--output", str(tmp_path / "pair"), "--vocab-size", "80", "--epochs", "2"]
    assert main([*command, target, target, *out]) == 2
    assert "--target: got 2 files for 1 of --source" in capsys.readouterr().err
    more = ["--more-source", target, "--more-target", source]  # a third language would do as well
    assert main([*command, target, *out, *more[:2]]) == 2
    assert "--more-target: got 0 files for 1 of --more-source" in capsys.readouterr().err
    assert main([*command, target, *out, *more]) == 0
    assert "300 pairs; usual length" in capsys.readouterr().out
    mine_bitext = script("artetxe-2019-margin-based-mining", "mine_bitext")
    aligned = [str(tmp_path / "pair"), "--aligned"]
    assert mine_bitext.main([*aligned, "--source", source, "--target", target]) == 0


def test_pairs_held_out_have_no_side_in_common() -> None:
    pairs = [(f"s{n}", f"t{n}") for n in range(40)] + [("s0", "x"), ("y", "t1")]
    kept, held_out = _hold_out(pairs)
    # 40 pairs but those of s0 and t1 have sides of their own: a tenth of 38, the ends among them
    assert [pair[0] for pair in held_out] == ["s2", "s20", "s39"]
    assert sorted(kept + held_out) == sorted(pairs)


def test_translations_are_counted(
    distilled: Encoder, encoder: Encoder, bitext: tuple[list[str], list[str]]
) -> None:
    sources, targets = (list(dict.fromkeys(side))[:30] for side in bitext)
    vectors = encoder.embed_text(sources)
    found = find_translations(distilled, targets, vectors)
    for row, target in enumerate(targets):  # one by one
        cosines = torch.cosine_similarity(distilled.embed_text([target]), vectors)
        assert found[row] == (int(cosines.argmax()) == row)
    facts = distilled.training_facts
    assert facts["found"] > facts["held_out"] / 2 > 10


def test_sides_that_do_not_belong_together(
    encoder: Encoder,
    bitext: tuple[list[str], list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sources, targets = bitext
    config = DistilConfig(vocab_size=80, epochs=10, batch_size=64)
    with pytest.raises(InputError, match=r"--source, --target: of \d+ .* the sides do not"):
        distil_encoder(encoder, sources, [*targets[1:], targets[0]], config)
    capsys.readouterr()
    found = np.tile([True, True, True, False], 50)
    _check_found(found, "--source, --target")
    assert capsys.readouterr().err == ""
    found[-40:-20] = False
    _check_found(found, "--source, --target")
    told = capsys.readouterr().err
    assert "between 80 % and 90 % of the lines 0 of 20 held-out" in told and "elsewhere 75%" in told


def test_sides_exchanged(
    encoder: Encoder, bitext: tuple[list[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sources, targets = bitext
    config = DistilConfig(vocab_size=80, epochs=20, batch_size=64)
    distil_encoder(encoder, sources, targets, config)
    assert "exchanged" not in capsys.readouterr().err
    greek = [line.translate({n: n + 0x350 for n in range(97, 123)}) for line in sources]
    with pytest.raises(InputError, match="does TEACHER read the language of --source"):
        distil_encoder(encoder, greek, sources, config)
    assert "TEACHER reads --target better than --source (unknown" in capsys.readouterr().err


def test_the_better_of_two_tables_is_kept(
    encoder: Encoder, bitext: tuple[list[str], list[str]]
) -> None:
    config = DistilConfig(vocab_size=80, epochs=20, batch_size=64)
    wrong = bitext[0], [*bitext[1][1:], bitext[1][0]]  # the same words, of other sentences
    facts = distil_encoder(encoder, *bitext, config, wrong).training_facts
    assert facts["found"] == facts["found_alone"] > facts["found_shared"]
    assert facts["more"] == 0

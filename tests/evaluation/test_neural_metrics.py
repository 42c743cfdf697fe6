"""COMET, CometKiwi and PEAR of the true architecture, tiny and with random weights."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.evaluation import load_neural_metric, sentence_scores
from simile_plugin.evaluation.neural_metrics import TRUST
from simile_plugin.files import InputError
from tests.conftest import SENTENCES

WIDTH = 16
HYPS, REFS = SENTENCES[:3], SENTENCES[3:6]
SRCS = ["der graue reiher", "zwei jungen", "eine alte fähre"]
RECIPE = Path(__file__).resolve().parents[2] / "recipes/reward/comet_reward.py"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """XLM-R's architecture, tiny, with a tokenizer of words."""
    import simile_plugin.hugging_face  # noqa: F401, I001 (hides a broken torchaudio)
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    words = sorted({word for text in SENTENCES + SRCS for word in text.split()})
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocab = {word: place for place, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    names |= {"pad_token": "<pad>", "unk_token": "<unk>"}
    folder = tmp_path_factory.mktemp("base") / "xlmr"
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=60, **names)
    fast.save_pretrained(folder)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = XLMRobertaConfig(
        vocab_size=len(vocab), intermediate_size=32, max_position_embeddings=64, **sizes
    )
    torch.manual_seed(5)
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def comet(base: Path, folder: Path, architecture: str, **settings: str) -> Any:
    """Write a folder of COMET as the hub has it; return its model."""
    module = pytest.importorskip("lightyear.metrics.comet")
    torch.manual_seed(7)
    kind = {"layer_transformation": "sparsemax" if architecture == "regression" else "softmax"}
    model = module.COMETRegressionModel(str(base), (8, 4), architecture=architecture, **kind).eval()
    with torch.no_grad():
        for place, weight in enumerate(model.layerwise_attention.scalar_parameters):
            weight.fill_(0.4 * place)
    known = {"class_identifier": "regression_metric", "pretrained_model": base, **kind, **settings}
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text("".join(f"{k}: {v}\n" for k, v in known.items()))
    content = {"state_dict": model.state_dict(), "hyper_parameters": {"dropout": 0.1}}
    torch.save(content, folder / "checkpoints/model.ckpt")
    return model


@torch.no_grad()
def pooled(model: Any, base: Path, text: str) -> torch.Tensor:
    """The mean over the tokens of the mix of all layers, one sentence alone."""
    from transformers import AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(base)(text, return_tensors="pt")
    layers = model.encoder.model(**inputs, output_hidden_states=True).hidden_states
    # sparsemax of 0, 0.4, 0.8: two stay, each less (0.4 + 0.8 - 1) / 2
    shares = [0.0, 0.3, 0.7]
    mixed: torch.Tensor = sum(s * layer for s, layer in zip(shares, layers, strict=True))
    return mixed[0].mean(0)


def test_comet_by_hand(base: Path, tmp_path: Path) -> None:
    model = comet(base, tmp_path / "comet", "regression")
    metric = load_neural_metric(f"comet:{tmp_path / 'comet'}", "--judge")
    assert metric is not None and metric.signature.startswith("lightyear 0.")
    (found,) = sentence_scores(metric, [HYPS], REFS, SRCS)
    for score, hyp, ref, src in zip(found, HYPS, REFS, SRCS, strict=True):
        h, r, s = (pooled(model, base, text) for text in (hyp, ref, src))
        # Rei et al. 2020, section 2.3
        features = [h, r, h * r, (h - r).abs(), h * s, (h - s).abs()]
        assert score == pytest.approx(model.estimator(torch.cat(features)).item(), abs=1e-5)
    assert len({*found}) == 3
    assert load_neural_metric("minilm", "--judge") is None


def test_a_kiwi_reads_no_reference(base: Path, tmp_path: Path) -> None:
    comet(base, tmp_path / "kiwi", "unified", class_identifier="unified_metric")
    metric = load_neural_metric(f"comet:{tmp_path / 'kiwi'}", "--judge")
    assert metric is not None
    (found,) = sentence_scores(metric, [HYPS], REFS, SRCS)
    assert sentence_scores(metric, [HYPS], HYPS, SRCS) == [pytest.approx(found, abs=1e-6)]
    assert sentence_scores(metric, [HYPS], REFS, SRCS[::-1])[0] != pytest.approx(found, abs=1e-6)


def test_a_pickle_is_refused_unless_trusted(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comet(base, tmp_path / "comet", "regression")
    path = tmp_path / "comet/checkpoints/model.ckpt"
    torch.save({**torch.load(path), "callbacks": {"path": Path("x")}}, path)
    with pytest.raises(InputError, match=f"is not only tensors.*set {TRUST}=1"):
        load_neural_metric(f"comet:{tmp_path / 'comet'}", "--judge")
    monkeypatch.setenv(TRUST, "1")
    assert load_neural_metric(f"comet:{tmp_path / 'comet'}", "--judge") is not None


def test_what_would_be_scored_wrongly_is_refused(base: Path, tmp_path: Path) -> None:
    comet(base, tmp_path / "x", "unified", class_identifier="xcomet_metric")
    with pytest.raises(InputError, match="class_identifier is xcomet_metric, but lightyear"):
        load_neural_metric(f"comet:{tmp_path / 'x'}", "--judge")
    model = comet(base, tmp_path / "half", "regression")
    half = {k: v for k, v in model.state_dict().items() if "layer.1" not in k}
    torch.save({"state_dict": half}, tmp_path / "half/checkpoints/model.ckpt")
    with pytest.raises(InputError, match=r"lacks 16 of \d+ weights \(encoder.model.encoder.layer"):
        load_neural_metric(f"comet:{tmp_path / 'half'}", "--judge")
    with pytest.raises(InputError, match="--judge: .*no checkpoints/model.ckpt; expected a folder"):
        load_neural_metric(f"comet:{tmp_path / 'none'}", "--judge")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightyear", None)
    monkeypatch.setitem(sys.modules, "lightyear.metrics.comet", None)
    monkeypatch.setitem(sys.modules, "pear", None)
    for kind, package in (("comet", "lightyear"), ("pear", "pear-mt")):
        with pytest.raises(InputError, match=f"--judge: needs a package: pip install {package}"):
            load_neural_metric(f"{kind}:folder", "--judge")


def test_comet_is_a_column_of_a_report_and_a_reward(
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    comet(base, tmp_path / "wmt22", "regression")
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref", REFS), ("src", SRCS), ("a", HYPS), ("b", HYPS[::-1])):
        Path(name).write_text("".join(f"{line}\n" for line in lines))
    command = ["report", "--ref", "ref", "--sys", "A=a", "--sys", "B=b", "--resamples", "50"]
    command += ["--judge", "comet:wmt22"]
    assert main(command) == 2
    assert "--judge comet:wmt22: reads the sources, too; give them" in capsys.readouterr().err
    assert main([*command, "--src", "src"]) == 0
    told = capsys.readouterr().out
    header = next(line for line in told.splitlines() if line.startswith("System"))
    assert header.split()[-2:] == ["wmt22", "Length"]
    monkeypatch.setenv("COMET_MODEL", str(tmp_path / "wmt22"))
    spec = importlib.util.spec_from_file_location("comet_reward", RECIPE)
    assert spec and spec.loader
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    metric = load_neural_metric("comet:wmt22", "--judge")
    assert metric is not None
    (expected,) = sentence_scores(metric, [HYPS], REFS, SRCS)
    found = recipe.score([[hyp, ""] for hyp in HYPS], REFS, SRCS)
    assert [row[0] for row in found] == pytest.approx(expected, abs=1e-5)
    assert [row[1] for row in found] == [0.0] * 3


def test_pear_scores_a_translation_against_its_reference(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("pear")
    from pear.models.pairwise import PairwiseMetric

    torch.manual_seed(9)
    model = PairwiseMetric(
        encoder_model="XLM-RoBERTa",
        pretrained_model=str(base),
        hidden_sizes=[8],
        load_pretrained_weights=False,
    )
    (tmp_path / "pear/checkpoints").mkdir(parents=True)
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams)}
    content["pytorch-lightning_version"] = "2.6.1"
    torch.save(content, tmp_path / "pear/checkpoints/model.ckpt")
    metric = load_neural_metric(f"pear:{tmp_path / 'pear'}", "--judge")
    assert metric is not None and metric.signature.startswith("pear-mt 1.")
    (found,) = sentence_scores(metric, [HYPS], REFS, SRCS)
    model.eval()
    for score, src, hyp, ref in zip(found, SRCS, HYPS, REFS, strict=True):
        sample = model.prepare_sample([{"src": src, "mt_0": hyp, "mt_1": ref}])
        assert score == pytest.approx(model(**sample).score.item(), abs=1e-5)
    assert len({*found}) == 3

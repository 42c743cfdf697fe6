"""The model beside slow loops, its ablations, what it reads when, and its loss by hand."""

from typing import Any

import pytest
import torch

from simile_plugin.contrib.bgt.criterion import BgtCriterion, BgtCriterionConfig
from simile_plugin.contrib.bgt.elbo import EVALUATION_SEED, sentence_nll
from simile_plugin.contrib.bgt.model import VARIANTS, BgtConfig, BgtModel
from tests.fairseq_models import make_sample
from tests.fairseq_models import make_task as make_any_task

SMALL: dict[str, Any] = {
    **{"bgt_dim": 16, "bgt_latent": 6, "bgt_encoder_layers": 2, "bgt_ffn": 32, "bgt_heads": 2},
    "dropout": 0.0,
}
every_variant = pytest.mark.parametrize("ablation", VARIANTS)


def make_task() -> Any:
    task = make_any_task()
    task.cfg._name = "bgt"
    return task


def make_bgt(seed: int = 1, **flags: Any) -> BgtModel:
    torch.manual_seed(seed)
    return BgtModel.build_model(BgtConfig(**SMALL | flags), make_task())


def batch(lengths: tuple[tuple[int, int], ...] = ((5, 4), (3, 6), (7, 2))) -> dict[str, Any]:
    """Pairs, both sides padded behind."""
    sample = make_sample(make_task(), lengths=lengths)
    rows = [torch.cat([row[row != 1], row[row == 1]]) for row in sample["net_input"]["src_tokens"]]
    sample["net_input"]["src_tokens"] = torch.stack(rows)
    return sample


def make_bgt_criterion(**flags: Any) -> BgtCriterion:
    return BgtCriterion(BgtCriterionConfig(**{"kl_anneal_updates": 4, **flags}), make_task())


def sides_of(sample: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return sample["net_input"]["src_tokens"], sample["target"]


@pytest.mark.parametrize("one", [False, True])
@every_variant
def test_the_gradient_reaches_every_part(ablation: str, one: bool) -> None:
    places = "attention+logit"
    model = make_bgt(bgt_ablation=ablation, bgt_one_decoder=one, bgt_places=places)
    model.set_num_updates(3)
    loss, pairs, log = make_bgt_criterion()(model, batch())
    loss.backward()
    assert pairs == 3 and torch.isfinite(loss)
    # the bias of an attention's keys changes no softmax; padding has no embedding to learn
    lost = {
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not bool(parameter.grad.abs().sum() > 0)
    }
    assert lost == set()
    assert ("elbo" in log) == (ablation in ("none", "no-prior", "variational"))


@pytest.mark.parametrize("places", ["attention", "logit", "attention+logit"])
def test_a_decoder_beside_a_slow_loop(places: str) -> None:
    """[x; z] written down, token by token; and no token sees what comes after it."""
    model = make_bgt(bgt_places=places).eval()
    decoder, embed = model.decoders[1], model.embed
    latent, written = torch.randn(1, 12), torch.tensor([[5, 7, 4]])

    def beside(layer: Any, row: torch.Tensor) -> torch.Tensor:
        weight = torch.cat([layer.of_token.weight, layer.of_latent.weight], 1)
        return weight @ torch.cat([row, latent[0]]) + layer.of_token.bias

    inputs = torch.cat([decoder.start[:1], embed(written[0])]) * 16**0.5
    rows = [*inputs]
    half = torch.arange(8)
    for time in range(len(rows)):
        angles = time / 10000.0 ** (half / 7)
        rows[time] = rows[time] + torch.cat([angles.sin(), angles.cos()])
    layer, outputs = decoder.layers[0], []
    for time in range(len(rows)):
        query = rows[time].view(1, 1, -1)
        seen = torch.stack(rows[: time + 1])[None]
        state = layer.norms[0](rows[time] + layer.attention(query, seen, seen)[0][0, 0])
        if layer.context is not None:
            state = layer.norms[1](state + beside(layer.context, state).relu())
        state = layer.norms[-1](state + layer.narrow(layer.wide(state).relu()))
        outputs.append(
            beside(decoder.logits, state) if "logit" in places else decoder.logits(state)
        )
    torch.testing.assert_close(model.write(1, latent, written)[0], torch.stack(outputs))


def test_the_loss_of_the_whole_model_beside_a_slow_loop() -> None:
    """Pair by pair and token by token, with the noise that the batch had."""
    model, sample = make_bgt().eval(), batch()
    sides = sides_of(sample)
    loss, _, log = make_bgt_criterion(translation_weight=0.5, label_smoothing=0.1)(model, sample)
    noise = torch.Generator().manual_seed(EVALUATION_SEED)
    drawn = [torch.randn(3, 6, generator=noise) for _ in range(3)]  # sem, src, tgt
    totals = {"nll": 0.0, "kl": 0.0, "translation": 0.0}
    for pair in range(3):
        tokens = [side[pair][side[pair] != 1][None] for side in sides]
        read = [model.read(model.semantic, row) for row in tokens]
        posteriors = [read[pair % 2], *(model.read(model.language[i], tokens[i]) for i in (0, 1))]
        z = []
        for posterior, of_batch in zip(posteriors, drawn, strict=True):
            mean, log_variance = posterior.mean[0], posterior.log_variance[0]
            z.append(mean + (log_variance / 2).exp() * of_batch[pair])
            for m, v in zip(mean.tolist(), log_variance.tolist(), strict=True):
                totals["kl"] += (torch.tensor(v).exp().item() + m * m - 1 - v) / 2
        for side in (0, 1):
            for name, latent in (
                ("nll", torch.cat([z[0], z[1 + side]])),
                ("translation", torch.cat([read[1 - side].mean[0], torch.zeros(6)])),
            ):
                smoothing = 0.1 if name == "translation" else 0.0
                for time, token in enumerate(tokens[side][0].tolist()):
                    logits = model.write(side, latent[None], tokens[side][:, :time])[0, -1]
                    lprobs = logits.log_softmax(0)
                    value = (1 - smoothing) * lprobs[token] + smoothing * lprobs.mean()
                    totals[name] -= value.item()
    expected = totals["nll"] + totals["kl"] + 0.5 * totals["translation"]
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert float(log["elbo"]) == pytest.approx(-totals["nll"] - totals["kl"], rel=1e-4)
    assert float(log["translation"]) == pytest.approx(totals["translation"], rel=1e-4)
    kl = sum(float(log[name]) for name in ("kl_sem", "kl_src", "kl_tgt"))
    assert kl == pytest.approx(totals["kl"], rel=1e-4)


def test_the_kl_term_is_annealed_in_training_only() -> None:
    model, sample = make_bgt(bgt_ablation="none"), batch()
    criterion = make_bgt_criterion(kl_anneal_updates=4)
    for update, weight in ((0, 0.0), (2, 0.5), (8, 1.0)):
        model.set_num_updates(update)
        torch.manual_seed(5)
        loss, _, log = criterion(model, sample)
        kl = sum(log[name] for name in ("kl_sem", "kl_src", "kl_tgt"))
        without = float(loss) - float(log["nll_src"] + log["nll_tgt"] + log["translation"])
        assert without == pytest.approx(weight * float(kl), abs=1e-3)
        assert log["kl_weight"] == pytest.approx(3 * weight)
    model.eval().set_num_updates(0)
    assert criterion(model, sample)[2]["kl_weight"] == 3.0
    assert float(criterion(model, sample)[0]) == float(criterion(model, sample)[0])


def test_what_an_ablation_leaves_out() -> None:
    source, target = sides_of(batch())
    written = {name: make_bgt(bgt_ablation=name)(source, target) for name in VARIANTS}
    made = {
        name: (len(found.generation), [q for q, _ in found.posteriors], len(found.translation))
        for name, found in written.items()
    }
    assert made == {
        "none": (2, ["sem", "src", "tgt"], 2),
        "no-prior": (2, ["sem", "src", "tgt"], 2),
        "variational": (2, ["sem", "sem"], 2),
        "multilingual-translation": (0, [], 2),
        "english-translation": (0, [], 1),
    }
    assert all(posterior.log_variance is None for _, posterior in written["no-prior"].posteriors)
    assert [side for side, _ in written["english-translation"].translation] == [1]
    # its translation is that of the model whose posteriors are points
    model = make_bgt(bgt_ablation="variational")
    side, logits = model(source, target).translation[0]
    expected = model.write(0, model.read(model.semantic, target).mean, source[:, :-1])
    torch.testing.assert_close(logits, expected)
    assert side == 0 and float(sentence_nll(logits, source, 1).sum()) > 0


def test_one_decoder_shares_all_but_what_tells_networks_apart() -> None:
    both, one = make_bgt(), make_bgt(bgt_one_decoder=True)
    assert (len(both.decoders), len(one.decoders)) == (2, 1)
    shared, *others = (net.composer.layers for net in (one.semantic, *one.language))
    assert all(layers[0] is shared[0] and layers[1] is not shared[1] for layers in others)
    latent, written = torch.randn(1, 12), torch.tensor([[5, 6]])
    first, second = (one.write(side, latent, written) for side in (0, 1))
    assert not torch.allclose(first, second)

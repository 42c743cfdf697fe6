"""The fit of the learned reward: planted weights, made harm, and what stays hidden from it."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from simile_plugin.evaluation import reward_weights as module
from simile_plugin.evaluation.fit_facts import check_fit, shared_segments
from simile_plugin.evaluation.harm import HARMS
from simile_plugin.evaluation.judgements import Judgements
from simile_plugin.evaluation.reward_fit import LEARNED, FitSettings, fit_reward, steps
from simile_plugin.evaluation.reward_weights import FOLDS, Part, Rise, fit_weights, leave_out
from simile_plugin.files import InputError
from simile_plugin.report import format_fit
from simile_plugin.reward import FEATURES
from tests.conftest import SENTENCES

TEXT = [*SENTENCES, "In 1912 the ferry from Malta was not late", "it is in the Harbour of Ada"]


def no_harm():
    return Rise(np.zeros((0, 12)), np.zeros(0, int), np.zeros(0, int), np.zeros(0))


def harm(features, kinds, shares, rows):
    return Rise(np.array(features), np.array(kinds), np.array(rows), np.array(shares))


def part(features, human, hyp_harm=None, path="a"):
    judged = Judgements(path, [""] * len(human), [""] * len(human), np.asarray(human))
    empty = np.zeros(len(human), dtype=bool)
    return Part(judged, features, empty, hyp_harm or no_harm(), no_harm())


def test_planted_weights_are_found_again(monkeypatch):
    monkeypatch.setattr(module, "RIDGE", 1e-9)
    rng = np.random.default_rng(1)
    planted = np.array([0.5, 1.0, 0, 2.0, 0, 0.1, 0.7, 0, 0.3, 0.2, 1.5, 0.9])
    parts = []
    for number in range(2):
        features = rng.exponential(size=(200, 12))
        human = -features @ planted
        # each file on a scale of its own, which standardising removes
        human = (human - human.mean()) / human.std()
        parts.append(part(features, human * (1 + number) - 5, path=str(number)))
    alone = fit_weights(parts, [np.ones(200, bool), np.zeros(200, bool)])
    assert alone == pytest.approx(planted / (parts[0].features @ planted).std(), abs=1e-6)
    both = fit_weights(parts)
    assert both / both.sum() == pytest.approx(planted / planted.sum(), abs=0.02)


def test_harm_raises_what_it_needs_and_no_more():
    rng = np.random.default_rng(3)
    features = rng.exponential(size=(300, 12))
    features[:, 5] *= 0.01  # hardly ever seen by people
    human = -features[:, 0] + 0.1 * rng.normal(size=300)
    rise = np.zeros((100, 12))
    rise[:, 5] = 0.2
    seen = harm(rise, [0] * 100, [0.5] * 100, range(100))
    without, within = (fit_weights([part(features, human, found)]) for found in (None, seen))
    wanted = module.HARM_FLOOR + module.HARM_SLOPE * 0.5
    assert 0.2 * without[5] < 0.2 < 0.2 * within[5] < wanted
    assert within[0] == pytest.approx(without[0], rel=0.02)
    # what costs enough already is no part of it
    easy = harm(np.full((1, 12), 1e3), [0], [0.5], [0])
    assert fit_weights([part(features, human, easy)]) == pytest.approx(without)


def test_left_out_segments_have_no_say():
    rng = np.random.default_rng(4)
    parts = []
    for number in range(3):
        features = rng.exponential(size=(40, 12))
        rise = harm(rng.exponential(size=(40, 12)), [number] * 40, [0.5] * 40, range(40))
        parts.append(part(features, -features[:, number] + rng.normal(size=40), rise, str(number)))
    rewards, seen = leave_out(parts, 1)
    weights = fit_weights(parts[:2])
    assert rewards[2] == pytest.approx(np.exp(-parts[2].features @ weights / 4))
    # other judgements and harm of the third file change nothing for it
    parts[2] = part(parts[2].features, rng.normal(size=40), path="2")
    assert leave_out(parts, 1)[0][2] == pytest.approx(rewards[2])
    assert seen[HARMS[2][0]].count == 40 and set(seen) == {name for name, _ in HARMS[:3]}
    drops = parts[0].hyp_harm.features @ fit_weights(parts[1:])
    again = leave_out([*parts[:2], parts[2]], 1)[1][HARMS[0][0]]
    assert again.lower == 100 and again.drop == pytest.approx(drops.mean())
    # a single file: every segment by a fit without its fold
    alone, _ = leave_out(parts[:1], 1)
    folds = np.random.default_rng(1).permutation(40) % FOLDS
    weights = fit_weights(parts[:1], [folds != 3])
    assert alone[0][folds == 3] == pytest.approx(
        np.exp(-parts[0].features[folds == 3] @ weights / 4)
    )


def test_segments_that_stand_in_two_files_are_left_out_of_both() -> None:
    rng = np.random.default_rng(6)
    texts = [f"text {n}" for n in range(60)]
    features, human = rng.exponential(size=(60, 12)), rng.normal(size=60)

    def file(path, rows):
        own = [texts[row] for row in rows]
        made = part(features[rows], human[rows], path=path)
        return replace(made, judged=Judgements(path, own, own, human[rows]))

    parts = [file("a", [*range(40)]), file("b", [*range(59, 29, -1)])]
    rewards, _ = leave_out(parts, 1)
    weights = fit_weights(parts, [np.arange(40) < 30, np.zeros(30, bool)])  # without what b has
    assert rewards[1] == pytest.approx(np.exp(-parts[1].features @ weights / 4))
    weights = fit_weights(parts, [np.zeros(40, bool), np.arange(30) < 20])
    assert rewards[0] == pytest.approx(np.exp(-parts[0].features @ weights / 4))
    with pytest.raises(InputError, match="--judgements: a has every segment of the other files"):
        leave_out([parts[0], file("c", [*range(39, -1, -1)])], 1)


@pytest.fixture
def judged():
    def make(path, seed, count=40):
        rng = random.Random(seed)
        hyps, refs, human = [], [], []
        for _ in range(count):
            ref = rng.choice(SENTENCES).split()
            wrong = rng.randrange(len(ref))
            places = rng.sample(range(len(ref)), wrong)
            hyps.append(" ".join("xyz" if i in places else word for i, word in enumerate(ref)))
            refs.append(" ".join(ref))
            human.append(-wrong + rng.random())
        return Judgements(path, hyps, refs, np.array(human))

    return make


def test_fit_on_text(encoder, judged):
    files = [judged("x.tsv", 1), judged("y.tsv", 2)]
    done = []
    fit = fit_reward(files, [("t", TEXT)], encoder, FitSettings(40, 1), progress=done.append)
    assert sum(done) == steps(files) == 4
    means = {name: found.value for name, found in fit.quality.mean["spearman"].items()}
    assert list(means) == [LEARNED, "SIM", "SIMILE", "BLEU", "chrF", "chrF++"]
    assert means[LEARNED] > 90 and fit.folds == "leave one file out"
    assert fit.reward.weights["unknown"] > 0 and all(w >= 0 for w in fit.reward.weights.values())
    assert all(seen.drop > 0 for seen in fit.harm.values())
    # harm to the references themselves lowers the reward from 1
    hyps = [[ref, f"{ref} {ref}", ref.rsplit(" ", 3)[0], ""] for ref in SENTENCES]
    rewards = fit.reward.scores(hyps, SENTENCES, encoder, torch.ones(len(SENTENCES), 4))
    assert (rewards[:, 0] == 1).all() and (rewards[:, 3] == 0).all()
    assert (rewards[:, 1:3] < 0.95).all() and (rewards[:, 1:3] > 0).all()
    facts = json.loads(json.dumps(fit.reward.facts, allow_nan=False))
    assert [(found["file"], found["lines"]) for found in facts["judgements"]] == [
        ("x.tsv", 40),
        ("y.tsv", 40),
    ]
    assert fit.overlap == facts["judged_references_in_text"] > 0
    again = fit_reward(files, [("t", TEXT)], encoder, FitSettings(40, 1))
    assert again.reward.fingerprint == fit.reward.fingerprint
    table = format_fit(fit)
    assert "leave one file out: Spearman / Pearson" in table and "repeat" in table
    assert all(text in table for text in FEATURES.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: [a, Judgements("c", b.hyps[:19], b.refs[:19], b.human[:19])], "c: 19 judged"),
        (lambda a, b: [a, a], "x.tsv has the same content as x.tsv"),
    ],
)
def test_judgements_that_cannot_be_fitted(judged, change, message):
    with pytest.raises(InputError, match=f"--judgements: {message}"):
        check_fit(change(judged("x.tsv", 1), judged("y.tsv", 2)), [("t", TEXT)])


def segments(path, first):
    numbers = range(first, first + 60)
    human = np.arange(60.0)
    return Judgements(path, [f"a boat {n}" for n in numbers], [f"ship {n}" for n in numbers], human)


def test_segments_that_stand_in_several_files_are_told():
    a, b = segments("x.tsv", 0), segments("y.tsv", 60)
    assert shared_segments([a]) == shared_segments([a, b]) == ""
    again = Judgements("z.tsv", a.hyps[:30], a.refs[:30], -a.human[:30])  # another annotator
    told = "30 of 60 segments of x.tsv stand in other files, too (z.tsv first): the reward"
    assert shared_segments([b, a, again]).startswith(told)
    assert shared_segments([a, segments("z.tsv", 59)]) == ""  # 1 of 60
    assert shared_segments([a, segments("z.tsv", 58)]).startswith("2 of 60 segments of x.tsv")
    other = replace(a, path="z.tsv", hyps=[f"{hyp}!" for hyp in a.hyps])
    assert shared_segments([a, other]) == ""  # another system's output

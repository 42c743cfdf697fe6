"""The learned reward: its bounds, its folder on disk, and its place in --reward."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simile_plugin.encoder import Encoder, load_encoder
from simile_plugin.files import InputError
from simile_plugin.reward import Scorer
from simile_plugin.reward.features import FEATURES, Lexicon
from simile_plugin.reward.learned import (
    OURS,
    REWARD,
    VOCABULARY,
    LearnedReward,
    learned_beside,
    load_learned,
    save_learned,
)
from simile_plugin.reward.spec import Reward

LEXICON = Lexicon(frozenset("the heron waits cold water".split()), frozenset(["the"]))
HYPS = [["the heron waits", ""], ["the heron waits waits waits", "cold water the"]]
REFS = ["the heron waits", "the cold water waits"]


@pytest.fixture
def learned(encoder):
    weights = {name: 0.1 * place for place, name in enumerate(FEATURES, 1)}
    return LearnedReward(weights, LEXICON, encoder.fingerprint, facts={"text": []})


@pytest.fixture
def folder(learned, tmp_path):
    save_learned(tmp_path / "reward", learned)
    return tmp_path / "reward"


def test_the_map_by_hand():
    features = np.zeros((1, 3, 12))
    features[0, 1, [0, 3]] = 0.5, 2.0
    weights = np.arange(12.0)
    # exp(0); exp(-(0 * 0.5 + 3 * 2) / 4); an empty side
    empty = np.array([[False, False, True]])
    found = LearnedReward.of_features(features, empty, weights)
    assert found.tolist() == [[1.0, pytest.approx(math.exp(-1.5)), 0.0]]


def test_lists_are_scored_with_the_encoder(encoder, learned):
    scores = Scorer(encoder=encoder, learned=learned).lists(HYPS, REFS)
    assert scores.learned.dtype == torch.float32
    assert scores.learned[0].tolist() == [1.0, 0.0]
    assert (0 < scores.learned[1]).all() and (scores.learned[1] < 1).all()
    assert Scorer(encoder=encoder).lists(HYPS, REFS).learned is None
    outputs = [list(row) for row in zip(*HYPS, strict=True)]
    whole = Scorer(encoder=encoder, learned=learned).outputs(outputs, REFS)
    assert torch.allclose(whole.learned, scores.learned, atol=1e-6)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=50)
@given(TEXT, TEXT)
def test_bounds(encoder, hyp, ref):
    learned = LearnedReward(dict.fromkeys(FEATURES, 1.0), LEXICON, encoder.fingerprint)
    same, other = (
        Scorer(encoder=encoder, learned=learned).lists([[ref, hyp]], [ref]).learned[0].tolist()
    )
    assert same == (1.0 if ref.split() else 0.0)
    assert 0 <= other <= 1 and (hyp.split() or other == 0)


def test_an_encoder_that_is_not_of_the_fit(encoder, learned):
    other = Encoder(torch.zeros(len(encoder.segmenter), 4), encoder.segmenter)
    with pytest.raises(InputError, match=f"^--encoder.*fitted with encoder {encoder.fingerprint}"):
        Scorer(encoder=other, learned=learned).lists(HYPS, REFS)


def test_the_folder_round_trip(encoder, learned, folder):
    found = load_learned(folder)
    assert found == learned and found.fingerprint == learned.fingerprint
    assert f"learned:{learned.fingerprint}|enc:{encoder.fingerprint}|" in found.signature
    assert sorted(path.name for path in folder.iterdir()) == [REWARD, VOCABULARY]
    assert (folder / VOCABULARY).read_text().split() == sorted(LEXICON.known)
    save_learned(folder, learned)  # its own folder is replaced


def test_the_fingerprint_is_of_all_that_decides(encoder, learned):
    others = [
        LearnedReward({**learned.weights, "sim": 9.0}, LEXICON, encoder.fingerprint),
        LearnedReward(learned.weights, LEXICON, "other"),
        LearnedReward(learned.weights, LEXICON, encoder.fingerprint, scale=8.0),
        LearnedReward(learned.weights, Lexicon(LEXICON.known, frozenset()), encoder.fingerprint),
        LearnedReward(learned.weights, Lexicon(frozenset(), LEXICON.common), encoder.fingerprint),
    ]
    assert len({found.fingerprint for found in (learned, *others)}) == 6


def change(**changes):
    def apply(folder):
        path = folder / REWARD
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / REWARD).unlink(), f"no {REWARD}; expected the folder"),
        (lambda folder: (folder / REWARD).write_text("{"), f"{REWARD}: is no learned reward"),
        (lambda folder: (folder / VOCABULARY).unlink(), f"{VOCABULARY}: cannot be read"),
        (change(format_version=2), "format_version 2 is newer than 1"),
        (change(encoder="0" * 12), "changed after the fit: the fingerprint is not"),
        (change(weights={"sim": 1}), "is no learned reward .no key 'sim_root'"),
    ],
)  # fmt: skip
def test_damaged_folders(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=f"--reward: .*{message}") as error:
        load_learned(folder)
    assert "\n" not in str(error.value)


def test_names_of_rewards(encoder, learned, folder, monkeypatch):
    alone, mixed = Reward(f"learned:{folder}"), Reward(f"learned:{folder}:0.25,bleu:0.75")
    assert alone.weights == {"learned": 1.0}
    assert mixed.weights == {"learned": 0.25, "bleu": 0.75}
    assert alone.needs_encoder and mixed.needs_encoder and Reward("bleu").learned is None
    scores = Scorer(encoder=encoder, learned=mixed.learned).lists(HYPS, REFS)
    assert torch.equal(alone.from_scores(scores), scores.learned)
    expected = 0.25 * scores.learned + 0.75 * scores.bleu
    assert torch.allclose(mixed.from_scores(scores), expected)
    with pytest.raises(InputError, match="needs --simile-encoder DIR"):
        alone.from_scores(Scorer(learned=alone.learned).lists(HYPS, REFS))
    # what is trained on does not hang on where it lies
    assert alone.identity == f"learned:{learned.fingerprint}"
    monkeypatch.chdir(folder.parent)
    folder.rename("learned")
    assert Reward("learned:learned").identity == alone.identity
    assert Reward("half").identity == "half"


def test_the_reward_of_the_package():
    reward, mixed = Reward("learned"), Reward("learned:0.25,bleu:0.75")
    assert reward.weights == Reward("learned:1").weights == {"learned": 1.0}
    assert mixed.weights == {"learned": 0.25, "bleu": 0.75}
    assert reward.needs_encoder and not reward.needs_sources
    assert reward.identity == "learned:e3ea2760a527" == Reward("learned:default").identity
    assert mixed.identity == "learned:e3ea2760a527:0.25,bleu:0.75"
    vocabulary = (OURS / "vocabulary.txt").read_bytes()
    assert hashlib.sha256(vocabulary).hexdigest().startswith("4d344c6e2f52fda5")
    assert load_learned("default") == load_learned(OURS)


def test_the_reward_of_the_package_is_of_its_encoder(encoder):
    default = load_encoder("default")
    learned = Reward("learned").learned
    assert learned == learned_beside(default) and learned_beside(None) is None
    assert learned_beside(encoder) is None
    refs = ["The heron waits in the cold water."]
    lists = [[refs[0], "The heron is waiting in cold water.", "The the heron in in water.", ""]]
    same, near, far, empty = (
        Scorer(encoder=default, learned=learned).lists(lists, refs).learned[0].tolist()
    )
    assert same == 1.0 > near > far > empty == 0.0
    expected = f"got encoder {encoder.fingerprint}, but the learned reward e3ea2760a527 was fitted "
    with pytest.raises(InputError, match=expected + r"with encoder \w+ \(default\); give that one"):
        Scorer(encoder=encoder, learned=learned).lists(lists, refs)


@pytest.mark.parametrize("folder_name", ["0.5", "inf"])
def test_a_folder_whose_name_is_a_number(folder, monkeypatch, folder_name):
    monkeypatch.chdir(folder.parent)
    folder.rename(folder_name)
    fingerprint = load_learned(folder_name).fingerprint
    for spec in (f"learned:./{folder_name}", f"learned:./{folder_name}:1"):
        assert Reward(spec).learned.fingerprint == fingerprint


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("learned:0.5", "got weights 0.5 in 'learned:0.5'; expected positive weights that sum to"),
        ("learned:0.5,learned:a:0.5", "got a component, or a learned reward, twice"),
        ("learned:no/folder", "no/folder: no reward.json; expected the folder of a learned"),
        ("learned:a:0.5,learned:b:0.5", "got a component, or a learned reward, twice"),
        ("learned:a,b/c", "got 'learned:a,b/c'.*a folder's name cannot have a comma"),
    ],
)
def test_bad_names(spec, message):
    with pytest.raises(InputError, match=f"--reward: {message}"):
        Reward(spec)

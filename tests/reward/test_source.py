"""Nearness to the source: by hand, in mixes, and where commands read sources."""

import json
import math
from pathlib import Path

import pytest
import torch

from simile_plugin.cli import main
from simile_plugin.encoder import Encoder, load_encoder, save_encoder
from simile_plugin.encoder.source_side import copied_share
from simile_plugin.files import InputError
from simile_plugin.nbest import NbestList, expected_utilities
from simile_plugin.reward import CompletionReward, Reward, Scorer

Bitext = tuple[list[str], list[str]]


@pytest.fixture
def lists(bitext: Bitext) -> tuple[list[list[str]], list[str], list[str]]:
    """Honest, another, copied, foreign, short and empty candidates; references and sources."""
    sources, targets = bitext[0][:4], bitext[1][:4]
    hyps = [
        [ref, other, src, "zq xw kv ooj", " ".join(ref.split()[:1]), ""]
        for ref, other, src in zip(targets, [*targets[1:], targets[0]], sources, strict=True)
    ]
    return hyps, targets, sources


def by_hand(encoder: Encoder, src: str, hyp: str, alpha: float) -> float:
    """The definition in the head of reward/source.py, one number after the other."""
    side = encoder.source
    assert side is not None and isinstance(side.encoder, Encoder)
    if not hyp:
        return 0.0
    s, h = encoder.embed_sources([src])[0], encoder.embed_text([hyp])[0]
    s = s / s.norm() - side.mean
    near = max(0.0, float(s @ h / (s.norm() * h.norm()))) if h.norm() > 0 else 0.0
    pieces = [len(side.encoder.segmenter.encode([src])[0]), len(side.pieces.encode([hyp])[0])]
    wanted = side.length_ratio * pieces[0]
    lengths = math.exp(1 - max(wanted, pieces[1]) / min(wanted, pieces[1]))
    free = side.usual_copies + 0.5 * (1 - side.usual_copies)
    copies = min(1, (1 - copied_share(hyp, src)) / (1 - free))
    ids = side.pieces.encode([" ".join(w for w in hyp.split() if w not in src.split())])[0]
    sums = [sum(float(row[i]) for i in ids) for row in side.log_probs]
    letters = sum(len(side.pieces.texts[i] or "?") for i in ids)
    odds = (sums[0] - max(sums[1:])) / letters if ids else math.inf
    language = min(1.0, max(0.0, odds / (0.5 * side.usual_odds)))
    return lengths**alpha * near * copies * language


def test_by_hand_and_in_mixes(
    distilled: Encoder, lists: tuple[list[list[str]], list[str], list[str]]
) -> None:
    hyps, refs, srcs = lists
    scores = Scorer(encoder=distilled, alpha=0.25).lists(hyps, refs, chrf_words=0, srcs=srcs)
    assert scores.source is not None and scores.chrf is not None
    expected = [
        [by_hand(distilled, s, h, 0.25) for h in row] for s, row in zip(srcs, hyps, strict=True)
    ]
    assert scores.source.tolist() == [pytest.approx(row, abs=1e-5) for row in expected]
    # the honest one is best of each list, the traps are worth nothing
    assert scores.source.argmax(1).tolist() == [0] * 4
    assert float(scores.source[:, [2, 3, 5]].max()) < 0.02
    mix, mask = Scorer(Reward("chrf:0.5,source:0.5"), distilled), torch.ones(4, 6, dtype=torch.bool)
    for values in (
        mix.values(hyps, refs, srcs),
        mix.values_and_scores(hyps, mask, lambda: srcs, torch.device("cpu"))[0],
    ):
        torch.testing.assert_close(values[:, 1:], (scores.chrf + scores.source)[:, 1:] / 2)
    # alone it reads no reference
    alone = Scorer(Reward("source"), distilled).values(hyps, [""] * 4, srcs)
    torch.testing.assert_close(alone, scores.source)
    function = CompletionReward(Scorer(Reward("source"), distilled))
    assert function(srcs, [row[0] for row in hyps]) == pytest.approx(scores.source[:, 0].tolist())


def test_what_it_needs(distilled: Encoder, encoder_folder: Path, bitext: Bitext) -> None:
    reward = Reward("source")
    assert reward.needs_encoder and reward.needs_sources and not reward.needs_references
    with pytest.raises(InputError, match=r"has no source side; expected one of two languages"):
        Scorer(reward, load_encoder(str(encoder_folder)))
    with pytest.raises(InputError, match=r"--reward source: got no sources; give them \(--src"):
        Scorer(reward, distilled).values([["a"]], ["a"], [])
    # a batch may have empty lines alone
    assert Scorer(reward, distilled, alpha=0).values([["a"]], ["a"], [""]).tolist() == [[0.0]]
    with pytest.raises(InputError, match=r"has candidates of sentence 0 but no source"):
        expected_utilities([NbestList(0, None, ("a", "b"))], Scorer(reward, distilled))


def test_commands(
    distilled: Encoder, bitext: Bitext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, targets = bitext[0][:30], bitext[1][:30]
    folder = str(tmp_path / "pair")
    save_encoder(folder, distilled)
    worse = [" ".join(line.split()[:2]) for line in targets]
    for name, lines in (("s", sources), ("t", targets), ("w", worse)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    s, t, w = (str(tmp_path / name) for name in "stw")
    rows = zip(sources, worse, targets, strict=True)
    records = [{"id": i, "hyps": [bad, good, src]} for i, (src, bad, good) in enumerate(rows)]
    lists = tmp_path / "lists.jsonl"
    lists.write_text("".join(json.dumps(record) + "\n" for record in records))
    command = ["mbr", str(lists), "--utility", "source", "--encoder", folder, "--src", s]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == targets
    assert main(["score", "-r", t, "-i", w, t, "--src", s, "--encoder", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    means = [one["score"] for one in found if one["name"] == "SOURCE"]
    assert len(means) == 2 and means[0] < means[1]
    judged = tmp_path / "judged.tsv"
    cells = [*zip(sources, worse, targets, "0" * 30), *zip(sources, targets, targets, "1" * 30)]  # noqa: B905
    lines = ["source\thypothesis\treference\thuman_z", *map("\t".join, cells)]
    judged.write_text("\n".join(lines) + "\n")
    rewards = ["--reward", "source", "--reward", "chrf:0.5,bleu:0.5"]  # the second has no encoder
    command = ["eval-encoder", folder, "--judgements", str(judged), *rewards, "--json"]
    assert main([*command, "--resamples", "40"]) == 0
    mean = json.loads(capsys.readouterr().out)["judgements"]["mean"]["spearman"]
    without = [line.split("\t", 1)[1] for line in lines]
    (tmp_path / "without.tsv").write_text("\n".join(without) + "\n")
    command[3] = str(tmp_path / "without.tsv")
    assert main(command) == 2
    assert "no column of sources in its header, which --reward source" in capsys.readouterr().err
    assert mean["source"]["value"] > 50 and mean["chrf:0.5,bleu:0.5"]["value"] > 50
    command = ["probe", "--ref", t, "--src", s, "--other-language", s, "--encoder", folder]
    assert main([*command, "--reward", "source", "--search-words", "10", "--json"]) == 0
    (probed,) = json.loads(capsys.readouterr().out)["rewards"].values()
    assert main(["probe", "--ref", t, "--encoder", folder, "--reward", "source"]) == 2
    assert "--reward source: reads sources; give them (--src FILE)" in capsys.readouterr().err
    for kind in ("source", "other-language", "one-text"):
        assert probed["changes"][kind]["not_lower"] <= 5, kind


def test_a_learned_reward_of_sources(
    distilled: Encoder, bitext: Bitext, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """People who look at the source alone: the fit finds it, and the reward reads it everywhere."""
    sources, targets = bitext
    folder, judged = str(tmp_path / "pair"), []
    save_encoder(folder, distilled)
    for part in range(2):
        rows = range(60 * part, 60 * part + 60)
        hyps = [targets[(row + row % 2) % 300] for row in rows]  # every other is of the next source
        lines = [
            "\t".join((sources[row], hyp, targets[row], str(1 - row % 2)))
            for row, hyp in zip(rows, hyps, strict=True)
        ]
        judged.append(str(tmp_path / f"{part}.tsv"))
        head = "source\thypothesis\treference\thuman_z"
        Path(judged[-1]).write_text("\n".join([head, *lines]) + "\n")
    for name, side in (("s", sources), ("t", targets)):
        (tmp_path / name).write_text("\n".join(side) + "\n")
    s, t, out = str(tmp_path / "s"), str(tmp_path / "t"), str(tmp_path / "learned")
    fit = ["fit-reward", "--judgements", *judged, "--encoder", folder, "--text", t]
    assert main([*fit, "--output", out, "--resamples", "40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["weights"]["source"] > 0 and len(found["weights"]) == 13
    score = ["score", "-r", t, "-i", t, "--encoder", folder, "--learned", out]
    assert main([*score, "--src", s]) == 0
    assert "LEARNED        100.00" in capsys.readouterr().out  # the reference itself
    assert main(score) == 2
    assert (
        "reads sources, too; give them (--src FILE, or a column of judgements named"
        in capsys.readouterr().err
    )
    assert Reward(f"learned:{out}").needs_sources
    lists, hyps = tmp_path / "lists.jsonl", [targets[1], targets[0]]
    record = {"id": 0, "hyps": hyps, "src": sources[0], "ref": targets[0]}
    lists.write_text(json.dumps(record) + "\n" + json.dumps(record | {"id": 1}) + "\n")
    report = ["report", "--nbest-lists", str(lists), "--encoder", folder, "--learned", out]
    assert main([*report, "--only", "headroom", "--resamples", "40", "--json"]) == 0
    choices = json.loads(capsys.readouterr().out)["headroom"]["choices"]
    assert choices["best_learned"]["learned"]["value"] == pytest.approx(100)
    del record["src"]
    lists.write_text(json.dumps(record) + "\n")
    assert main([*report, "--only", "headroom"]) == 2
    assert "no source" in capsys.readouterr().err

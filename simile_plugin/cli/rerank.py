"""`simile rerank`: the best of each list by a reward, an encoder, or a weighted sum."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import EncoderFlags, add_flags, read_flags
from simile_plugin.cli._lists import (
    LISTS,
    ListFlags,
    read_candidates,
    warn_of_missing_sources,
    warn_of_whole_sentences,
    write_choices,
)
from simile_plugin.files import (
    FILE,
    InputError,
    check_outputs,
    check_standard_input,
    flag_name,
    option,
)

if TYPE_CHECKING:
    from simile_plugin.encoder import RewardEncoder
    from simile_plugin.nbest import NbestList, Utility
    from simile_plugin.significance import Floats

HELP = "the best of each list by a reward (oracle), by source and encoder, or a tuned sum"

DESCRIPTION = f"""\
Choose a candidate of each list by --by:
  reward   --reward against references: the oracle, what the best choice would be worth
  cosine   the cosine of source and candidate under --source-encoder, an encoder of both languages
           (simile train-encoder on translations makes one); needs no reference
  score    the model's score
or by a weighted sum of score and cosine: --weights, or --tune on lists with references. Where
references are known, the figures of the model's choice and of the new one go to standard error.

{LISTS}"""

EPILOG = """\
examples:
  simile rerank nbest.txt --by reward --reward simile --encoder ENCODER --output oracle.en
  simile rerank nbest.txt --by cosine --source-encoder BILINGUAL --output out.en
  simile rerank test.nbest --by score cosine --source-encoder BILINGUAL --tune valid.nbest \\
      --reward chrf --output out.en
a tie: the highest model score, then the first in the list (of --risk-dump: the first);
module:function as --reward is your own code, and is run
"""


@dataclass
class Options(EncoderFlags, ListFlags):
    """Flags of `simile rerank`."""

    by: list[str] = option(
        "what to choose by; score and cosine together make a weighted sum",
        nargs="+",
        choices=("reward", "cosine", "score"),
        metavar="NAME",
    )
    ref: str | None = option("references, where LISTS has none", None, metavar="FILE", range=FILE)
    reward: str = option(
        "of --by reward and of --tune: bleu (default), simile, chrf, ..., as in training",
        "bleu",
        metavar="SPEC",
    )
    source_encoder: str | None = option(
        "encoder of both languages, for --by cosine", None, metavar="DIR", range=FILE
    )
    weights: list[float] = option("of the features of --by, in their order", [], nargs="+")
    tune: str | None = option(
        "tune the weights on these lists: of all mixtures in steps of 5 % (of the features in "
        "units of their spread within lists) the one whose choices have the highest mean --reward",
        None,
        metavar="LISTS",
        range=FILE,
    )
    tune_src: str | None = option(
        "sources of --tune, where its lists have none", None, metavar="FILE", range=FILE
    )
    tune_ref: str | None = option(
        "references of --tune, where its lists have none", None, metavar="FILE", range=FILE
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Choose and write; InputError for input that cannot be used."""
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.nbest import Utility, choose_all, tune_weights, weighted
    from simile_plugin.reward import Reward

    options = read_flags(args, Options)
    _check(options)
    lists, number = _read(options.lists, "LISTS", options.src, options.ref, options.candidates)
    reward = Reward(options.reward)
    utility = Utility(reward, options.load(), options.simile_alpha, options.tokenize)
    source_encoder = None
    if options.source_encoder:
        source_encoder = load_encoder(options.source_encoder, usable_device(options.device))
    weights: Sequence[float] = options.weights or [1.0] * len(options.by)
    if options.tune:
        own = options.tune_src, options.tune_ref, options.candidates
        dev, _ = _read(options.tune, "--tune", *own, prefix="--tune-")
        where = f"--tune: {options.tune}", "--tune-"
        features = _features(options, dev, *where, utility, source_encoder)
        weights = tune_weights(dev, features, _rewards(dev, *where, utility))
        shown = ", ".join(f"{n} {w:.6g}" for n, w in zip(options.by, weights, strict=True))
        print(f"weights tuned on {options.tune}: {shown}", file=sys.stderr)
        _tell(options.tune, dev, choose_all(dev, weighted(features, weights)), utility)
    features = _features(options, lists, f"LISTS: {options.lists}", "--", utility, source_encoder)
    values = weighted(features, weights)
    choices = choose_all(lists, values)
    if all(one.ref is not None for one in lists):
        _tell(options.lists, lists, choices, utility)
    numbers = [
        {"value": float(row[place])} if place is not None else {}
        for row, place in zip(values, choices, strict=True)
    ]
    if empty := write_choices(options, lists, number, choices, numbers):
        print(f"simile rerank: {empty}", file=sys.stderr)
    return 0


def _check(options: Options) -> None:
    """Raise InputError for flags that cannot be meant together."""
    by, got = options.by, " ".join(options.by)
    files: dict[str, str | None] = {"LISTS": options.lists}
    for name in ("src", "ref", "tune", "tune_src", "tune_ref"):
        files[flag_name(name)] = getattr(options, name)
    check_standard_input((path, flag) for flag, path in files.items())
    check_outputs({"--output": options.output}, files.values())
    if len(set(by)) < len(by) or ("reward" in by and len(by) > 1):
        raise InputError(f"--by: got {got}; expected reward alone, or score, cosine or both")
    if ("cosine" in by) != (options.source_encoder is not None):
        raise InputError("--by: cosine and --source-encoder DIR need each other")
    if options.tune and (options.weights or len(by) < 2):
        raise InputError("--tune: finds the weights of --by score cosine; give no --weights")
    if len(by) > 1 and not options.tune and len(options.weights) != len(by):
        raise InputError(f"--by: {got}: give as many --weights, or --tune LISTS")


def _read(
    path: str, flag: str, src: str | None, ref: str | None, cut: int | None, prefix: str = "--"
) -> tuple[list[NbestList], int]:
    """Read lists by :func:`read_candidates`, with references."""
    from simile_plugin.files import read_lines
    from simile_plugin.nbest import with_references

    lists, sentences = read_candidates(path, flag, src, cut, f"{prefix}src")
    if ref:
        lists = with_references(lists, read_lines(ref, f"{prefix}ref"), f"{flag}: {path}")
    return lists, sentences


def _features(
    options: Options,
    lists: Sequence[NbestList],
    where: str,
    prefix: str,
    utility: Utility,
    source_encoder: RewardEncoder | None,
) -> list[list[Floats]]:
    """The features of --by of each candidate, in the order of --by.

    prefix: of the flags that give sources and references of the lists.
    """
    from simile_plugin.files import Progress
    from simile_plugin.nbest import cosine_feature, score_feature, sources

    found = []
    for name in options.by:
        if name == "score":
            found.append(score_feature(lists, where))
        elif name == "reward":
            found.append(_rewards(lists, where, prefix, utility))
        else:
            assert source_encoder is not None
            srcs = sources(lists, where, f"{prefix}src")
            with Progress(len(lists), "list", "cosine") as bar:
                found.append(cosine_feature(lists, srcs, source_encoder, bar.update))
    return found


def _rewards(lists: Sequence[NbestList], where: str, prefix: str, utility: Utility) -> list[Floats]:
    from simile_plugin.files import Progress
    from simile_plugin.nbest import references, reward_feature

    refs = references(lists, where, f"{prefix}ref")
    warn_of_missing_sources("rerank", f"{prefix}src", utility.reward, lists)
    with Progress(len(lists), "list", "reward") as bar:
        return reward_feature(lists, refs, utility, bar.update)


def _tell(
    path: str, lists: Sequence[NbestList], choices: Sequence[int | None], utility: Utility
) -> None:
    """BLEU, chrF and with an encoder SIMILE of the model's choices and of the new ones."""
    from simile_plugin.nbest import references
    from simile_plugin.reward import corpus_bleu, corpus_chrf, score_outputs
    from simile_plugin.significance import text_table

    before = [one.hyps[one.first] if one.hyps else "" for one in lists]
    after = [
        "" if place is None else one.hyps[place] for one, place in zip(lists, choices, strict=True)
    ]
    refs = references(lists, path)
    warn_of_whole_sentences("rerank", f"the references of {path}", refs, utility.tokenize)
    settings = utility.encoder, utility.alpha, utility.tokenize
    scores = score_outputs([before, after], refs, *settings, chrf_words=0)
    assert scores.chrf_stats is not None
    columns = {
        "BLEU": corpus_bleu(scores.bleu_stats.sum(0)).tolist(),
        "chrF": corpus_chrf(scores.chrf_stats.sum(0).numpy()).tolist(),
    }
    if scores.simile is not None:
        columns["SIMILE"] = (100 * scores.simile.double().mean(0)).tolist()
    rows = [
        [name, *(f"{column[row]:.2f}" for column in columns.values())]
        for row, name in enumerate(("model's choice", "reranked"))
    ]
    title = f"{path} ({len(lists):,} lists)"
    print(text_table([[title, *columns], *rows]), file=sys.stderr)

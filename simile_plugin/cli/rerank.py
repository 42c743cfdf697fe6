"""`simile rerank`: the best of each list by a reward, an encoder, or a weighted sum."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import SimileFlags, add_flags, file_option, folder_option, read_flags
from simile_plugin.cli._lists import (
    LISTS,
    ListFlags,
    read_candidates,
    warn_of_missing_sources,
    warn_of_text,
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
a tie: the highest model score, then the first in the list (of a --risk-dump: the first);
module:function as --reward is your own code, and is run
"""


@dataclass
class Options(SimileFlags, ListFlags):
    """Flags of `simile rerank`."""

    by: list[str] = option(
        "what to choose by; score and cosine together make a weighted sum",
        nargs="+",
        choices=("reward", "cosine", "score"),
        metavar="NAME",
    )
    ref: str | None = file_option("references, where LISTS has none", None)
    reward: str = option(
        "of --by reward and of --tune: simile, chrf, ..., as in training", "bleu", metavar="SPEC"
    )
    source_encoder: str | None = folder_option("encoder of both languages, of the cosine", None)
    weights: list[float] = option("of the features of --by, in their order", [], nargs="+")
    tune: str | None = option(
        "tune the weights on these lists: of all mixtures in steps of 5 % (of the features in "
        "units of their spread within lists) the one whose choices have the highest mean --reward",
        None,
        metavar="LISTS",
        range=FILE,
    )
    tune_src: str | None = file_option("sources of --tune, where its lists have none", None)
    tune_ref: str | None = file_option("references of --tune, where its lists have none", None)


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
    read = functools.partial(read_candidates, cut=options.candidates)
    lists, number = read(options.lists, "LISTS", options.src, options.ref)
    utility = Utility(
        Reward(options.reward), options.load(), options.simile_alpha, options.tokenize
    )
    source_encoder = None
    if options.source_encoder:
        source_encoder = load_encoder(options.source_encoder, usable_device(options.device))
    weights: Sequence[float] = options.weights or [1.0] * len(options.by)
    if options.tune:
        dev, _ = read(options.tune, "--tune", options.tune_src, options.tune_ref, "--tune-")
        tuned = _Lists(dev, f"--tune: {options.tune}", "--tune-", utility, source_encoder)
        features = [*map(tuned.feature, options.by)]
        warn_of_missing_sources("rerank", "--tune-src", utility.reward, dev)
        weights = tune_weights(dev, features, tuned.feature("reward"))
        shown = ", ".join(f"{n} {w:.6g}" for n, w in zip(options.by, weights, strict=True))
        print(f"weights tuned on {options.tune}: {shown}", file=sys.stderr)
        _tell(options.tune, dev, choose_all(dev, weighted(features, weights)), utility)
    elif "reward" in options.by:
        warn_of_missing_sources("rerank", "--src", utility.reward, lists)
    given = _Lists(lists, f"LISTS: {options.lists}", "--", utility, source_encoder)
    values = weighted([*map(given.feature, options.by)], weights)
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


@dataclass(frozen=True)
class _Lists:
    """Lists to choose from, and what chooses.

    Attributes:
        where, prefix: the flag and file of the lists; what begins the flags of their texts.
    """

    lists: Sequence[NbestList]
    where: str
    prefix: str
    utility: Utility
    source_encoder: RewardEncoder | None

    def feature(self, name: str) -> list[Floats]:
        """Return a feature of --by of each candidate."""
        from simile_plugin.files import Progress
        from simile_plugin.nbest import (
            cosine_feature,
            references,
            reward_feature,
            score_feature,
            sources,
        )

        if name == "score":
            return score_feature(self.lists, self.where)
        with Progress(len(self.lists), "list", name) as bar:
            if name == "cosine":
                assert self.source_encoder is not None
                srcs = sources(self.lists, self.where, f"{self.prefix}src")
                return cosine_feature(self.lists, srcs, self.source_encoder, bar.update)
            refs = [""] * len(self.lists)
            if self.utility.reward.needs_references:
                refs = references(self.lists, self.where, f"{self.prefix}ref")
            if self.utility.reward.needs_sources:
                sources(self.lists, self.where, f"{self.prefix}src")
            return reward_feature(self.lists, refs, self.utility, bar.update)


def _tell(
    path: str, lists: Sequence[NbestList], choices: Sequence[int | None], utility: Utility
) -> None:
    """Print BLEU, chrF and with an encoder SIMILE of the model's choices and of the new ones."""
    from simile_plugin.nbest import references
    from simile_plugin.reward import corpus_bleu, corpus_chrf, score_outputs
    from simile_plugin.significance import text_table

    before = [one.hyps[one.first] if one.hyps else "" for one in lists]
    after = [
        "" if place is None else one.hyps[place] for one, place in zip(lists, choices, strict=True)
    ]
    refs = references(lists, path)
    warn_of_whole_sentences("rerank", f"the references of {path}", refs, utility.tokenize)
    warn_of_text("rerank", [(f"the references of {path}", refs), (path, before)], refs)
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
    print(text_table([[f"{path} ({len(lists):,} lists)", *columns], *rows]), file=sys.stderr)

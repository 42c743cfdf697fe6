"""`simile rerank`: the best of each list by a reward."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import SimileFlags, add_flags, file_option, read_flags
from simile_plugin.cli._lists import (
    LISTS,
    ListFlags,
    read_candidates,
    warn_of_missing_sources,
    warn_of_text,
    warn_of_whole_sentences,
    write_choices,
)
from simile_plugin.files import check_outputs, check_standard_input, option

if TYPE_CHECKING:
    from simile_plugin.nbest import NbestList
    from simile_plugin.reward import Scorer

HELP = "the best of each list by a reward: with references the oracle, or by source and encoder"

DESCRIPTION = f"""\
Choose the candidate of each list with the highest --reward: against references it is the oracle,
what the best choice would be worth; --reward source needs none, but an encoder of both languages
(simile distil-encoder makes one). Where references are known, the figures of the model's choice and
of the new one go to standard error.

{LISTS}"""

EPILOG = """\
examples:
  simile rerank nbest.txt --reward simile --encoder ENCODER --output oracle.en
  simile rerank nbest.txt --reward source --encoder BILINGUAL --src test.de --output out.en
a tie: the highest model score, then the first in the list; module:function as --reward
is your own code, and is run
"""


@dataclass
class Options(SimileFlags, ListFlags):
    """Flags of `simile rerank`."""

    ref: str | None = file_option("references, where LISTS has none", None)
    reward: str = option(
        "what to choose by: simile, chrf, source, ..., as in training", "bleu", metavar="SPEC"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Choose and write; InputError for input that cannot be used."""
    from simile_plugin.files import Progress
    from simile_plugin.nbest import choose_all, list_rewards, references, sources
    from simile_plugin.reward import Reward

    options = read_flags(args, Options)
    files = {"LISTS": options.lists, "--src": options.src, "--ref": options.ref}
    check_standard_input((path, flag) for flag, path in files.items())
    check_outputs({"--output": options.output}, files.values())
    where, reward = f"LISTS: {options.lists}", Reward(options.reward)
    lists, number = read_candidates(options, options.ref)
    scorer = options.scorer(reward=reward)
    warn_of_missing_sources("rerank", reward, lists)
    refs = references(lists, where) if reward.needs_references else [""] * len(lists)
    if reward.needs_sources:
        sources(lists, where)
    with Progress(len(lists), "list") as bar:
        values = list_rewards(lists, refs, scorer, bar.update)
    choices = choose_all(lists, values)
    if all(one.ref is not None for one in lists):
        _tell(options.lists, lists, choices, scorer)
    numbers = [
        {"value": float(row[place])} if place is not None else {}
        for row, place in zip(values, choices, strict=True)
    ]
    if empty := write_choices(options, lists, number, choices, numbers):
        print(f"simile rerank: {empty}", file=sys.stderr)
    return 0


def _tell(
    path: str, lists: Sequence[NbestList], choices: Sequence[int | None], scorer: Scorer
) -> None:
    """Print BLEU, chrF and with an encoder SIMILE of the model's choices and of the new ones."""
    from simile_plugin.nbest import references
    from simile_plugin.reward import corpus_bleu, corpus_chrf
    from simile_plugin.significance import text_table

    before = [one.hyps[one.first] if one.hyps else "" for one in lists]
    after = [
        "" if place is None else one.hyps[place] for one, place in zip(lists, choices, strict=True)
    ]
    refs = references(lists, path)
    warn_of_whole_sentences("rerank", f"the references of {path}", refs, scorer.tokenize)
    warn_of_text("rerank", [(f"the references of {path}", refs), (path, before)], refs)
    scores = scorer.outputs([before, after], refs, chrf_words=0)
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

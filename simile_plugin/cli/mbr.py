"""`simile mbr`: minimum Bayes risk decoding over lists of candidates."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from simile_plugin.cli._lists import (
    LISTS,
    add_list_flags,
    add_reward_flags,
    count_lines,
    make_utility,
    one_line,
    read_candidates,
    warn_of_missing_sources,
    warn_of_whole_sentences,
    write_choices,
)
from simile_plugin.cli._types import file_name, refuse_without_encoder

if TYPE_CHECKING:
    from simile_plugin.nbest import NbestList
    from simile_plugin.significance import Floats

HELP = "the best of each list of candidates by MBR decoding: no reference, no training needed"

DESCRIPTION = f"""\
Minimum Bayes risk decoding: of each list, the candidate that is best on average against the others
(or against a second list), taken as pseudo-references:
  expected utility of h = sum over r of w(r) utility(h, r)
Give the first 8 to 32 of a wide beam (fairseq-generate --beam 64 --nbest 32), or 256 samples
(--sampling --sampling-topk 10 --beam 256 --nbest 256); --pseudo-refs takes the one beside the
other. recipes/mbr/README.md has what each gained. SIM and SIMILE are exact in time that grows with
N, not N x N.

{LISTS}"""

EPILOG = """\
defined cases:
  equal strings have equal utilities; with uniform weights each copy counts as a pseudo-reference
  a tie (utilities within 1e-6): the highest model score, then the first in the list (of
  --risk-dump: the first); so one candidate is chosen as it is, and of two under SIM the model's
  choice stands
  no candidate: an empty line; no pseudo-reference: all tie, and standard error counts these lists

examples:
  simile mbr samples.txt --encoder ENCODER --output mbr.en
  simile mbr nbest.txt.gz --utility chrf --weights model --output mbr.en
  simile mbr nbest.jsonl --pseudo-refs samples.jsonl --utility simile:0.5,bleu:0.5 \\
      --encoder ENCODER > mbr.en
  simile mbr train.samples --src train.de --encoder ENCODER --write-pairs preferences \\
      --output train.mbr.en      # data for preference training and for MBR fine-tuning
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `simile mbr`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    text = "the sources, for --write-pairs and for a function of your own, where LISTS has none"
    add_list_flags(parser, text)
    text = (
        "half (default: simile:0.5,bleu:0.5), simile, sim, bleu, chrf, chrf++, learned:DIR, "
        "another mix such as simile:0.7,bleu:0.3, or your own module:function, as --reward"
    )
    parser.add_argument("--utility", default="half", metavar="SPEC", help=text)
    add_reward_flags(parser)
    text = "a second file of lists, of the same sentences: the pseudo-references (default: LISTS)"
    parser.add_argument("--pseudo-refs", type=file_name, metavar="FILE", help=text)
    text = (
        "of pseudo-references: uniform (default; right for samples), or model: exp of the "
        "log-probability that fairseq prints (P- lines), else of the score; right for n-best lists"
    )
    parser.add_argument("--weights", choices=("uniform", "model"), default="uniform", help=text)
    text = (
        "also write STEM.jsonl, a line a source with prompt, chosen, rejected, score_chosen and "
        "score_rejected (best and worst by utility; lists without a difference are left out), and "
        "STEM.tsv, source TAB best"
    )
    parser.add_argument("--write-pairs", type=file_name, metavar="STEM", help=text)


def run(args: argparse.Namespace) -> int:
    """Choose and write; InputError for input that cannot be used."""
    from simile_plugin.files import Progress, check_outputs, check_standard_input
    from simile_plugin.nbest import choose, expected_utilities, read_lists, sources
    from simile_plugin.reward import Reward

    refuse_without_encoder(args, "simile_alpha", "device")
    targets = {"--output": args.output}
    if args.write_pairs:
        targets |= {f"--write-pairs ({e})": args.write_pairs + e for e in (".jsonl", ".tsv")}
    check_outputs(targets, [args.lists, args.src, args.pseudo_refs])
    check_standard_input([(args.lists, "LISTS"), (args.pseudo_refs, "--pseudo-refs")])
    lists, sentences = read_candidates(args.lists, "LISTS", args.src, args.candidates)
    number = count_lines(lists, sentences, args.lists)
    if args.write_pairs:
        sources(lists, f"--write-pairs: {args.lists}")
    pseudo = read_lists(args.pseudo_refs, "--pseudo-refs") if args.pseudo_refs else None
    utility = make_utility(args, Reward(args.utility, "--utility"))
    if "bleu" in utility.reward.weights:
        firsts = [found.hyps[found.first] for found in lists if found.hyps]
        warn_of_whole_sentences("mbr", "the candidates", firsts, utility.tokenize)
    warn_of_missing_sources("mbr", "--src", utility.reward, lists)
    with Progress(len(lists), "list") as bar:
        found = expected_utilities(lists, utility, pseudo, args.weights, bar.update)
    choices = [choose(*pair) for pair in zip(lists, found, strict=True)]
    numbers = [
        {"utility": float(values[place]), "utility_of_first": float(values[one.first])}
        if place is not None
        else {}
        for one, values, place in zip(lists, found, choices, strict=True)
    ]
    empty = write_choices(args, lists, number, choices, numbers)
    _tell(lists, choices, empty)
    if pseudo is not None:
        _tell_unknown(lists, pseudo)
    if args.write_pairs:
        _write_pairs(args.write_pairs, lists, found, choices)
    return 0


def _tell(lists: Sequence[NbestList], choices: Sequence[int | None], empty: str) -> None:
    candidates = sum(len(found.hyps) for found in lists)
    changed = sum(
        place is not None and found.hyps[place] != found.hyps[found.first]
        for found, place in zip(lists, choices, strict=True)
    )
    text = f"{len(lists):,} lists, {candidates:,} candidates; {changed:,} choices are not the"
    print(f"simile mbr: {text} model's{empty and f'; {empty}'}", file=sys.stderr)


def _tell_unknown(lists: Sequence[NbestList], pseudo: Sequence[NbestList]) -> None:
    """Count the lists whose id has no pseudo-references: nothing is chosen there."""
    known = {found.sentence for found in pseudo if found.hyps}
    unknown = sum(found.sentence not in known for found in lists if found.hyps)
    if unknown:
        text = f"{unknown:,} lists have no pseudo-references (none of their id in --pseudo-refs)"
        print(f"simile mbr: {text}: the model's choice stands", file=sys.stderr)


def _write_pairs(
    stem: str,
    lists: Sequence[NbestList],
    utilities: Sequence[Floats],
    choices: Sequence[int | None],
) -> None:
    """Best and worst of each list, for preference trainers, and source TAB best."""
    import numpy as np

    from simile_plugin.files import atomic_write
    from simile_plugin.nbest import TIE

    written = 0
    with atomic_write(f"{stem}.jsonl") as pairs, atomic_write(f"{stem}.tsv") as table:
        for found, values, best in zip(lists, utilities, choices, strict=True):
            if best is None or found.src is None:
                continue
            table.write(f"{one_line(found.src)}\t{one_line(found.hyps[best])}\n")
            # A function of one's own has no number for some: they are no worst, and no JSON.
            worst = int(np.where(np.isfinite(values), values, np.inf).argmin())
            if not np.isfinite(values[best]) or values[best] - values[worst] <= TIE:
                continue
            record = {
                "prompt": found.src,
                "chosen": found.hyps[best],
                "rejected": found.hyps[worst],
                "score_chosen": float(values[best]),
                "score_rejected": float(values[worst]),
            }
            pairs.write(json.dumps(record, ensure_ascii=False) + "\n")
            written += 1
    print(
        f"simile mbr: {written:,} pairs in {stem}.jsonl ({len(lists) - written:,} lists have no "
        f"difference); {stem}.tsv has source TAB best",
        file=sys.stderr,
    )

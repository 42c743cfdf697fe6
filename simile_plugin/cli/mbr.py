"""`simile mbr`: minimum Bayes risk decoding over lists of candidates."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._flags import SimileFlags, add_flags, file_option, read_flags
from simile_plugin.cli._warnings import (
    warn,
    warn_of_encoder,
    warn_of_text,
    warn_of_whole_sentences,
)
from simile_plugin.files import (
    FILE,
    InputError,
    Range,
    atomic_write,
    empty_references,
    option,
)

if TYPE_CHECKING:
    from simile_plugin.nbest import NbestList
    from simile_plugin.reward import Scorer
    from simile_plugin.significance import Floats

HELP = "choose the best of each list of candidates by MBR decoding, without reference or training"

DESCRIPTION = """\
Minimum Bayes risk decoding: of each list, the candidate that is best on average against the others
(or against a second list), taken as pseudo-references:
  expected utility of h = sum over r of w(r) utility(h, r)
Give the first 8 to 32 of a wide beam (fairseq-generate --beam 64 --nbest 32), or 256 samples
(--sampling --sampling-topk 10 --beam 256 --nbest 256), both with --required-batch-size-multiple 1,
without which fairseq leaves sentences out; --pseudo-refs takes the one beside the
other. With --against references the choice is the oracle: what the best choice of each list would
be worth; its figures and the model's go to standard error. docs/results/mbr.md has what each
gained. SIM and SIMILE are exact in time that grows with N, not N x N.

LISTS is a file of anyone's candidates, also .gz, or - for standard input; by its first line one of:
  what fairseq-generate --nbest N --required-batch-size-multiple 1 or fairseq-interactive printed
  Moses' lists, as Marian's --n-best writes them:   0 ||| text ||| features ||| score
  JSON lines:                 {"id": 0, "hyps": ["text", ...], "scores": [-0.5, ...]}
                              and perhaps "ref" and "src"; scores may be left out
  tab-separated lines:        id TAB text TAB score, or id TAB text
An id is the line of the source, from 0. Candidates of one id are one list; a JSON line is a whole
list, so that an id comes once, with all its candidates in "hyps". The output has a line for each
source, up to the last id or the end of --src; a sentence without candidates has an empty line (with
--json none), and standard error counts these.

Lists from Hugging Face transformers, N = 16 samples of each source; without num_beams=1 and
max_new_tokens those of the model's own settings hold, which may be a beam, or 20 tokens:
  out = model.generate(**batch, do_sample=True, num_beams=1, num_return_sequences=16,
                       max_new_tokens=256)
  hyps = tokenizer.batch_decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False)
  for i in range(0, len(hyps), 16):
      print(json.dumps({"id": first + i // 16, "hyps": hyps[i : i + 16]}))
Lists from CTranslate2, whose scores are log-probabilities with length_penalty=0:
  for i, result in enumerate(translator.translate_batch(tokens, beam_size=16, num_hypotheses=16,
                                                        length_penalty=0, return_scores=True)):
      hyps = [detokenize(tokens) for tokens in result.hypotheses]
      print(json.dumps({"id": i, "hyps": hyps, "scores": result.scores}))
"""

EPILOG = """\
defined cases:
  equal strings have equal utilities; with uniform weights each copy counts as a pseudo-reference
  a tie (utilities within 1e-6): the highest model score, then the first in the list; so one
  candidate is chosen as it is, and of two under SIM the one with the higher score
  no candidate: an empty line; no pseudo-reference: all tie, and standard error counts these lists

examples:
  simile mbr samples.txt --encoder ENCODER --output mbr.en
  simile mbr nbest.txt.gz --utility chrf --weights model --output mbr.en
  simile mbr nbest.jsonl --pseudo-refs samples.jsonl --utility simile:0.5,bleu:0.5 \\
      --encoder ENCODER > mbr.en
  simile mbr nbest.txt --utility source --encoder BILINGUAL --src test.de --output out.en
  simile mbr nbest.txt --against references --ref test.en --utility bleu --output oracle.en
  simile mbr train.samples --src train.de --encoder ENCODER --write-pairs preferences \\
      --output train.mbr.en      # data for preference training and for MBR fine-tuning
"""


@dataclass(kw_only=True)  # a list without a default comes after flags that have one
class Options(SimileFlags):
    """Flags of `simile mbr`."""

    utility: str = option(
        "half (default: simile:0.5,bleu:0.5), simile, sim, bleu, chrf, chrf++, learned, "
        "learned:DIR, another mix such as simile:0.7,bleu:0.3, or your own module:function, as "
        "--reward",
        "half",
        metavar="SPEC",
    )
    pseudo_refs: str | None = file_option(
        "second file of lists of the same sentences: the pseudo-references (default: LISTS)", None
    )
    against: str = option(
        "what a candidate is compared with: candidates (default), those of its list or of "
        "--pseudo-refs; or references",
        "candidates",
        choices=("candidates", "references"),
    )
    ref: str | None = file_option("references, for --against references, if LISTS has none", None)
    weights: str = option(
        "of pseudo-references: uniform (default; right for samples), or model: exp of the "
        "log-probability that fairseq (P- lines) or Marian (F0=) prints, else of the score; right "
        "for n-best lists, but scores divided by length make nearly uniform weights",
        "uniform",
        choices=("uniform", "model"),
    )
    write_pairs: str | None = option(
        "also write STEM.jsonl, a line a source with prompt, chosen, rejected, score_chosen and "
        "score_rejected (best and worst by utility; lists without a difference are left out), and "
        "STEM.tsv, source TAB best",
        None,
        metavar="STEM",
        range=FILE,
    )
    lists: str = option("lists of candidates", metavar="LISTS", names=["lists"], range=FILE)
    candidates: int | None = option(
        "only the first N candidates of each list (default: all)", None, range=Range.at_least(1)
    )
    src: str | None = file_option(
        "sources, where LISTS has none: for cosines, pairs and functions of your own", None
    )
    output: str | None = file_option(
        "write the chosen candidates there, one a line (default: standard output)", None
    )
    json: bool = option(
        "JSON lines instead of text: what was chosen, its place in the list, its value", False
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Choose and write; InputError for input that cannot be used."""
    from simile_plugin.files import Progress, check_outputs, check_standard_input
    from simile_plugin.nbest import choose, expected_utilities, sources
    from simile_plugin.reward import Reward

    options = read_flags(args, Options)
    _check(options)
    targets = {"--output": options.output}
    if options.write_pairs:
        targets |= {f"--write-pairs ({e})": options.write_pairs + e for e in (".jsonl", ".tsv")}
    files = {"LISTS": options.lists, "--src": options.src, "--pseudo-refs": options.pseudo_refs}
    files["--ref"] = options.ref
    check_outputs(targets, files.values())
    check_standard_input((path, flag) for flag, path in files.items())
    lists, number = _read_candidates(options)
    if options.write_pairs:
        sources(lists, f"--write-pairs: {options.lists}")
    pseudo = _pseudo_references(options, lists)
    reward = Reward(options.utility, "--utility")
    scorer = options.scorer(reward=reward)
    _warn(options, scorer, lists, pseudo)
    with Progress(len(lists), "list") as bar:
        utilities = expected_utilities(lists, scorer, pseudo, options.weights, bar.update)
    choices = [choose(*pair) for pair in zip(lists, utilities, strict=True)]
    numbers = [
        {"utility": float(values[place]), "utility_of_first": float(values[one.first])}
        if place is not None
        else {}
        for one, values, place in zip(lists, utilities, choices, strict=True)
    ]
    empty = _write_choices(options, lists, number, choices, numbers)
    _tell(lists, choices, empty)
    if options.against == "references":
        _tell_figures(options.lists, lists, choices, scorer)
    elif pseudo is not None:
        _tell_unknown(lists, pseudo)
    if options.write_pairs:
        _write_pairs(options.write_pairs, lists, utilities, choices)
    return 0


def _check(options: Options) -> None:
    """Raise InputError for flags that would be ignored."""
    if options.against != "references":
        if options.ref:
            raise InputError("--ref: is for --against references; give that, too")
        return
    ignored = {"--pseudo-refs": options.pseudo_refs, "--weights": options.weights == "model"}
    for flag in (flag for flag, given in ignored.items() if given):
        raise InputError(f"{flag}: is for --against candidates; leave it out")


def _read_candidates(options: Options) -> tuple[list[NbestList], int]:
    """Read LISTS with their sources and references, each cut to --candidates.

    Returns:
        The lists, and how many lines their text has: as `src`, or as the last id says.

    Raises:
        InputError: also for ids that are no lines of a text.
    """
    from simile_plugin.files import read_lines
    from simile_plugin.nbest import cost_warning, read_lists, with_references, with_sources

    where, lists = f"LISTS: {options.lists}", read_lists(options.lists, "LISTS")
    if doubt := cost_warning(lists):
        print(f"simile: warning: {where}: {doubt}", file=sys.stderr)
    lines = lists[-1].sentence + 1
    if options.src:
        sources = read_lines(options.src, "--src")
        lists, lines = with_sources(lists, sources, where), len(sources)
    elif lines > 10 * len(lists) + 1000:
        raise InputError(
            f"{where}: got id {lines - 1} among {len(lists)} lists; expected lines of the "
            "source from 0: number the lists anew, or give --src FILE"
        )
    if options.ref:
        lists = with_references(lists, read_lines(options.ref, "--ref"), where)
    cut = options.candidates
    return [one.cut(cut) for one in lists] if cut else lists, lines


def _pseudo_references(options: Options, lists: Sequence[NbestList]) -> list[NbestList] | None:
    """Return the lists of what candidates are compared with; None: the candidates themselves."""
    from simile_plugin.nbest import NbestList, read_lists, references

    if options.against == "references":
        refs = references(lists, f"LISTS: {options.lists}")
        return [NbestList(one.sentence, None, (ref,)) for one, ref in zip(lists, refs, strict=True)]
    return list(read_lists(options.pseudo_refs, "--pseudo-refs")) if options.pseudo_refs else None


def _warn(
    options: Options,
    scorer: Scorer,
    lists: Sequence[NbestList],
    pseudo: Sequence[NbestList] | None,
) -> None:
    """Say so where text, sources or pseudo-references are not what the utility is made for."""
    reward = scorer.reward
    theirs = {one.sentence: one.hyps[0] for one in pseudo or () if one.hyps}
    compared = [one for one in lists if one.hyps and (not theirs or one.sentence in theirs)]
    firsts = [one.hyps[one.first] for one in compared]
    srcs = [one.src or "" for one in compared if one.src is not None]
    refs, name = [theirs[one.sentence] for one in compared if theirs], ""
    if options.against == "references":
        name = f"the references of {options.lists}"
        warn_of_whole_sentences("mbr", name, refs, options.tokenize)
        warn("mbr", empty_references(options.lists, refs))
    elif theirs:
        name = f"--pseudo-refs {options.pseudo_refs}"
    texts = [(name, refs)] if name else []
    warn_of_text("mbr", [*texts, (options.lists, firsts)], refs, srcs)
    warn_of_encoder("mbr", options.lists, scorer.encoder, firsts)
    if options.against != "references" and "bleu" in reward.weights:
        warn_of_whole_sentences("mbr", "the candidates", firsts, options.tokenize)
    lacking = sum(one.src is None for one in lists)
    if reward.function is not None and lacking:
        warn(
            "mbr",
            f"{reward.spec} gets an empty source for {lacking} of {len(lists)} lists, which have "
            "none; give --src FILE if it reads sources",
        )


def _write_choices(
    options: Options,
    lists: Sequence[NbestList],
    number: int,
    choices: Sequence[int | None],
    values: Sequence[dict[str, Any]],
) -> str:
    """Write what was chosen; return what to say of sentences without candidates, or "".

    number: of lines; values: beside id, hyp and place in a JSON line.
    """
    lines = [""] * number
    records = []
    for one, place, more in zip(lists, choices, values, strict=True):
        if place is not None:
            lines[one.sentence] = _one_line(one.hyps[place])
            records.append({"id": one.sentence, "hyp": one.hyps[place], "place": place, **more})
    empty = len(lines) - len(records)
    if options.json:
        from simile_plugin.significance import without_nan

        lines = [json.dumps(without_nan(record), ensure_ascii=False) for record in records]
    with atomic_write(options.output) if options.output else nullcontext(sys.stdout) as stream:
        stream.writelines(f"{line}\n" for line in lines)
    line = "no line" if options.json else "an empty line"
    why = "fairseq-generate leaves some out without --required-batch-size-multiple 1"
    return f"{empty:,} sentences without candidates have {line} ({why})" if empty else ""


def _tell(lists: Sequence[NbestList], choices: Sequence[int | None], empty: str) -> None:
    from simile_plugin.nbest import name_of_first

    candidates = sum(len(one.hyps) for one in lists)
    changed = sum(
        place is not None and one.hyps[place] != one.hyps[one.first]
        for one, place in zip(lists, choices, strict=True)
    )
    text = f"{len(lists):,} lists, {candidates:,} candidates; {changed:,} choices differ from"
    text += f" the {name_of_first(lists)}{empty and f'; {empty}'}"
    print(f"simile mbr: {text}", file=sys.stderr)


def _tell_figures(
    path: str, lists: Sequence[NbestList], choices: Sequence[int | None], scorer: Scorer
) -> None:
    """Print BLEU, chrF and with an encoder SIMILE of the first choices and of the oracle's."""
    from simile_plugin.nbest import name_of_first, references
    from simile_plugin.reward import corpus_bleu, corpus_chrf
    from simile_plugin.significance import text_table

    before = [one.hyps[one.first] if one.hyps else "" for one in lists]
    after = [
        "" if place is None else one.hyps[place] for one, place in zip(lists, choices, strict=True)
    ]
    scores = scorer.outputs([before, after], references(lists, path), chrf_words=0)
    assert scores.chrf_stats is not None
    columns = {
        "BLEU": corpus_bleu(scores.bleu_stats.sum(0)).tolist(),
        "chrF": corpus_chrf(scores.chrf_stats.sum(0).numpy()).tolist(),
    }
    if scores.simile is not None:
        columns["SIMILE"] = (100 * scores.simile.double().mean(0)).tolist()
    rows = [
        [name, *(f"{column[row]:.2f}" for column in columns.values())]
        for row, name in enumerate((name_of_first(lists), "oracle"))
    ]
    print(text_table([[f"{path} ({len(lists):,} lists)", *columns], *rows]), file=sys.stderr)


def _tell_unknown(lists: Sequence[NbestList], pseudo: Sequence[NbestList]) -> None:
    """Count the lists whose id has no pseudo-references: nothing is chosen there."""
    from simile_plugin.nbest import name_of_first

    known = {one.sentence for one in pseudo if one.hyps}
    unknown = sum(one.sentence not in known for one in lists if one.hyps)
    if unknown:
        text = f"{unknown:,} lists have no pseudo-references (none of their id in --pseudo-refs)"
        print(f"simile mbr: {text}: the {name_of_first(lists)} stands", file=sys.stderr)


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
        for one, values, best in zip(lists, utilities, choices, strict=True):
            if best is None or one.src is None:
                continue
            table.write(f"{_one_line(one.src)}\t{_one_line(one.hyps[best])}\n")
            # A function of one's own has no number for some: they are no worst, and no JSON.
            worst = int(np.where(np.isfinite(values), values, np.inf).argmin())
            if not np.isfinite(values[best]) or values[best] - values[worst] <= TIE:
                continue
            record = {
                "prompt": one.src,
                "chosen": one.hyps[best],
                "rejected": one.hyps[worst],
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


def _one_line(text: str) -> str:
    """The text without the marks that end lines and columns."""
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")

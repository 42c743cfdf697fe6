"""What commands over lists of candidates share: flags, the utility, a line for each sentence."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._types import ALPHA, add_device, file_name, whole_number
from simile_plugin.files import InputError, atomic_write

if TYPE_CHECKING:
    from simile_plugin.nbest import NbestList, Utility
    from simile_plugin.reward import Reward

LISTS = """\
LISTS is a file of anyone's candidates, also .gz, or - for standard input; by its first line one of:
  what fairseq-generate --nbest N or fairseq-interactive printed
  Moses' lists, as Marian's --n-best writes them:   0 ||| text ||| features ||| score
  JSON lines:                 {"id": 0, "hyps": ["text", ...], "scores": [-0.5, ...]}
                              and perhaps "ref" and "src"; scores may be left out
  tab-separated lines:        id TAB text TAB score, or id TAB text
An id is the line of the source, from 0. Candidates of one id are one list; a JSON line is a whole
list, so that an id comes once, with all its candidates in "hyps". The output has a line for each
source, up to the last id or the end of --src; a sentence without candidates has an empty line (with
--json none), and standard error counts these.

Lists from Hugging Face transformers, N = 16 samples of each source:
  out = model.generate(**batch, do_sample=True, num_return_sequences=16)
  hyps = tokenizer.batch_decode(out, skip_special_tokens=True)
  for i in range(0, len(hyps), 16):
      print(json.dumps({"id": first + i // 16, "hyps": hyps[i : i + 16]}))
Lists from CTranslate2:
  for i, result in enumerate(translator.translate_batch(tokens, beam_size=16, num_hypotheses=16,
                                                        return_scores=True)):
      hyps = [detokenize(tokens) for tokens in result.hypotheses]
      print(json.dumps({"id": i, "hyps": hyps, "scores": result.scores}))
"""


def add_list_flags(parser: argparse.ArgumentParser, src: str) -> None:
    """Declare LISTS, --candidates, --src, --output and --json."""
    parser.add_argument("lists", type=file_name, metavar="LISTS", help="lists of candidates")
    text = "only the first N candidates of each list (default: all)"
    parser.add_argument("--candidates", type=whole_number(1), metavar="N", help=text)
    parser.add_argument("--src", type=file_name, metavar="FILE", help=src)
    text = "write the chosen candidates there, one a line (default: standard output)"
    parser.add_argument("--output", type=file_name, metavar="FILE", help=text)
    text = "JSON lines instead of text: what was chosen, its place in the list, its value"
    parser.add_argument("--json", action="store_true", help=text)


def add_reward_flags(parser: argparse.ArgumentParser) -> None:
    """Declare what a reward needs: --encoder, --simile-alpha, --tokenize, --device."""
    text = "reward encoder (made by simile train-encoder)"
    parser.add_argument("--encoder", type=file_name, metavar="DIR", help=text)
    text = "exponent of SIMILE's length penalty (default and paper: 0.25)"
    parser.add_argument("--simile-alpha", type=ALPHA, metavar="A", help=text)
    text = "sacreBLEU tokeniser of BLEU (default: 13a)"
    parser.add_argument("--tokenize", default="13a", metavar="TOK", help=text)
    add_device(parser, default=None)


def make_utility(args: argparse.Namespace, reward: Reward) -> Utility:
    """A reward with the encoder that it needs.

    Raises:
        InputError: for a tokeniser, device or encoder that cannot be used.
    """
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.nbest import Utility
    from simile_plugin.reward import SIMILE_ALPHA, check_tokenizer

    check_tokenizer(args.tokenize, "--tokenize")
    encoder = load_encoder(args.encoder, usable_device(args.device)) if args.encoder else None
    alpha = SIMILE_ALPHA if args.simile_alpha is None else args.simile_alpha
    return Utility(reward, encoder, alpha, args.tokenize)


def read_candidates(
    path: str, flag: str, src: str | None, cut: int | None, src_flag: str = "--src"
) -> tuple[list[NbestList], int | None]:
    """The lists with their sources, each cut to `cut` candidates; how many lines `src` has."""
    from simile_plugin.files import read_lines
    from simile_plugin.nbest import read_lists, with_sources

    lists = read_lists(path, flag)
    if src == "-":
        raise InputError(f"{src_flag}: got - (standard input), which is for LISTS; name a file")
    sources: int | None = None
    if src:
        lines = read_lines(src, src_flag)  # once: it may be a pipe
        lists, sources = with_sources(lists, lines, f"{flag}: {path}"), len(lines)
    return [found.cut(cut) for found in lists] if cut else lists, sources


def count_lines(lists: Sequence[NbestList], sources: int | None, path: str) -> int:
    """Lines of the output: as many as sources, or as the last id says; before the work.

    Raises:
        InputError: for ids that are no lines of a text.
    """
    if sources is not None:
        return sources
    last = lists[-1].sentence
    if last > 10 * len(lists) + 1000:
        raise InputError(
            f"LISTS: {path}: got id {last} among {len(lists)} lists; expected lines of the "
            "source from 0: number the lists anew, or give --src FILE"
        )
    return last + 1


def warn_of_whole_sentences(command: str, what: str, texts: Sequence[str], tokenize: str) -> None:
    """Say so where BLEU would take a text without spaces for one word."""
    from simile_plugin.reward import GIVE_A_TOKENISER, is_unspaced

    if is_unspaced(texts, tokenize):
        print(
            f"simile {command}: warning: --tokenize {tokenize}: {what} have next to no spaces, so "
            f"that BLEU takes whole sentences for words; give {GIVE_A_TOKENISER}",
            file=sys.stderr,
        )


def warn_of_missing_sources(
    command: str, flag: str, reward: Reward, lists: Sequence[NbestList]
) -> None:
    """Say so where a function of the user's own would get empty sources."""
    lacking = sum(found.src is None for found in lists)
    if reward.function is not None and lacking:
        print(
            f"simile {command}: warning: {reward.spec} gets an empty source for {lacking} of "
            f"{len(lists)} lists, which have none; give {flag} FILE if it reads sources",
            file=sys.stderr,
        )


def write_choices(
    args: argparse.Namespace,
    lists: Sequence[NbestList],
    number: int,
    choices: Sequence[int | None],
    values: Sequence[dict[str, Any]],
) -> str:
    """Write what was chosen; returns what to say of sentences without candidates, or "".

    number: of lines, see `count_lines`; values: beside id, hyp and place in a JSON line.
    """
    lines = [""] * number
    records = []
    for found, place, more in zip(lists, choices, values, strict=True):
        if place is not None:
            lines[found.sentence] = one_line(found.hyps[place])
            records.append({"id": found.sentence, "hyp": found.hyps[place], "place": place, **more})
    with nullcontext(sys.stdout) if args.output is None else atomic_write(args.output) as stream:
        for line in map(_dumps, records) if args.json else lines:
            stream.write(line + "\n")
    empty = len(lines) - len(records)
    line = "no line" if args.json else "an empty line"
    return f"{empty:,} sentences without candidates have {line}" if empty else ""


def one_line(text: str) -> str:
    """The text without the marks that end lines and columns."""
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")


def _dumps(record: dict[str, Any]) -> str:
    from simile_plugin.significance import without_nan

    return json.dumps(without_nan(record), ensure_ascii=False)

"""What commands over lists of candidates share: flags, reading, a line for each sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simile_plugin.cli._flags import file_option
from simile_plugin.files import FILE, InputError, Range, atomic_write, option

if TYPE_CHECKING:
    from simile_plugin.evaluation import Judgements
    from simile_plugin.nbest import NbestList
    from simile_plugin.reward import Reward

LISTS = """\
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
Lists from CTranslate2:
  for i, result in enumerate(translator.translate_batch(tokens, beam_size=16, num_hypotheses=16,
                                                        return_scores=True)):
      hyps = [detokenize(tokens) for tokens in result.hypotheses]
      print(json.dumps({"id": i, "hyps": hyps, "scores": result.scores}))
"""


@dataclass
class ListFlags:
    """Flags of commands over lists of candidates."""

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


def read_candidates(options: ListFlags, ref: str | None = None) -> tuple[list[NbestList], int]:
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
    if ref:
        lists = with_references(lists, read_lines(ref, "--ref"), where)
    cut = options.candidates
    return [one.cut(cut) for one in lists] if cut else lists, lines


def warn_of_whole_sentences(command: str, what: str, texts: Sequence[str], tokenize: str) -> None:
    """Say so where BLEU would take a text without spaces for one word."""
    from simile_plugin.reward import GIVE_A_TOKENISER, is_unspaced

    if is_unspaced(texts, tokenize):
        print(
            f"simile {command}: warning: --tokenize {tokenize}: {what} have next to no spaces, so "
            f"that BLEU takes whole sentences for words; give {GIVE_A_TOKENISER}",
            file=sys.stderr,
        )


def warn_of_text(
    command: str, texts: Iterable[tuple[str, Sequence[str]]], refs: Sequence[str] = ()
) -> bool:
    """Say so where a text is not the plain one that scores are made for; texts have names.

    Returns:
        Whether anything was said.
    """
    from simile_plugin.reward import tokenised_warning

    doubts = [text for name, lines in texts if (text := tokenised_warning(name, lines, refs))]
    for text in doubts:
        print(f"simile {command}: warning: {text}", file=sys.stderr)
    return bool(doubts)


def warn_of_judged_text(command: str, files: Sequence[Judgements]) -> None:
    """Say so where hypotheses, references or sources of judgements are not plain text."""
    for file in files:
        texts = {"hypotheses": file.hyps, "references": file.refs, "sources": file.srcs}
        for name, lines in texts.items():
            warn_of_text(command, [(f"--judgements {file.path}: the column of {name}", lines)])


def warn_of_missing_sources(command: str, reward: Reward, lists: Sequence[NbestList]) -> None:
    """Say so where a function of the user's own would get empty sources."""
    lacking = sum(one.src is None for one in lists)
    if reward.function is not None and lacking:
        print(
            f"simile {command}: warning: {reward.spec} gets an empty source for {lacking} of "
            f"{len(lists)} lists, which have none; give --src FILE if it reads sources",
            file=sys.stderr,
        )


def write_choices(
    options: ListFlags,
    lists: Sequence[NbestList],
    number: int,
    choices: Sequence[int | None],
    values: Sequence[dict[str, Any]],
) -> str:
    """Write what was chosen; return what to say of sentences without candidates, or "".

    number: of lines; values: beside id, hyp and place in a JSON line.
    """
    from simile_plugin.significance import without_nan

    lines = [""] * number
    records = []
    for one, place, more in zip(lists, choices, values, strict=True):
        if place is not None:
            lines[one.sentence] = one_line(one.hyps[place])
            records.append({"id": one.sentence, "hyp": one.hyps[place], "place": place, **more})
    written = [json.dumps(without_nan(record), ensure_ascii=False) for record in records]
    with atomic_write(options.output) if options.output else nullcontext(sys.stdout) as stream:
        for line in written if options.json else lines:
            stream.write(line + "\n")
    empty = len(lines) - len(records)
    line = "no line" if options.json else "an empty line"
    why = "fairseq-generate leaves some out without --required-batch-size-multiple 1"
    return f"{empty:,} sentences without candidates have {line} ({why})" if empty else ""


def one_line(text: str) -> str:
    """The text without the marks that end lines and columns."""
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")

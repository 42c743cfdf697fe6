"""`simile probe`: how can a reward be gamed? Harm, length, and one text for everything."""

from __future__ import annotations

import argparse
from typing import Any

from simile_plugin.cli._lists import warn_of_whole_sentences
from simile_plugin.cli._types import (
    SEED,
    add_device,
    add_resamples,
    file_name,
    refuse_without_encoder,
    whole_number,
)
from simile_plugin.files import InputError, check_outputs

HELP = "how a reward can be gamed: by harm, by length, by one text for every sentence"

DESCRIPTION = """\
Ask rewards what training would ask them: which bad translations are worth as much as good ones?

Harm. Each kind is done to every sentence of --hyp (without it: of --ref) that gives occasion for
it, and the reward is compared before and after. A sound reward falls for every kind of harm, hardly
for a harmless change, and "not lower" is near 0 % for harm. A positive change says that training
can win by it. A reference is mostly what a reward likes best: --hyp is the harder test.
  repeat        a phrase of 2 to 6 words again, once to three times
  drop          10 to 50 % of the words gone       half    the second half gone
  append        1 to 6 content words more          shuffle words or a phrase at other places
  negation      one dropped, or one added          number  other digits
  name          another name of the references     untranslated  words spelt backwards
  source        the source, copied (--src)         empty   an empty line
  other-reference  harmless: another human reference (--other-ref)
  synonym          harmless: one word replaced (--synonyms)

In scripts without spaces (Chinese, Japanese, Thai and others) a word is a letter; negations are
English ones, and none where the references are not English (next to no "the", "of" and "and");
names are none in German, where each noun has a capital.

Length. Within the lists of --nbest: the Pearson correlation of the reward with the number of words
(mean over lists), and the reward's standard deviation, by which changes are also given: what
training sees are differences within a list, so that a change of 0.1 spreads is next to nothing.

One text. Greedy search for a fixed text with a high mean reward against all references: it begins
with one of them and adds, removes and replaces words, at most 20 times. It should stay far below
what the hypotheses get, and near what an unrelated sentence gets.
"""

EPILOG = """\
examples:
  simile probe --ref val.en --src val.de --encoder ENCODER
  simile probe --reward simile --reward learned:REWARD --reward my_module:my_function \\
      --ref val.en --hyp mle.en --encoder ENCODER --nbest mle.nbest --svg probe.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    text = (
        "what --reward of the training takes (simile, bleu, chrf, learned:DIR, a mix, "
        "module:function), or meteor; give it again for others (default: simile with --encoder, "
        "chrf, bleu)"
    )
    parser.add_argument("--reward", action="append", metavar="SPEC", help=text)
    files = (
        ("--ref", "FILE", "references, one sentence a line"),
        ("--hyp", "FILE", "translations to harm in place of the references"),
        ("--src", "FILE", "sources, to be copied, and for a function of your own"),
        ("--other-ref", "FILE", "another human reference a line: a harmless change"),
        ("--synonyms", "FILE", "word TAB word a line, either for the other: a harmless change"),
        ("--nbest", "FILE", "what fairseq-generate --nbest N printed, or a file of --risk-dump"),
        ("--encoder", "DIR", "reward encoder (made by simile train-encoder), for SIM and SIMILE"),
        ("--svg", "FILE", "draw the changes with their intervals into FILE (.svg or .png)"),
    )
    for flag, metavar, text in files:
        required = flag == "--ref"
        parser.add_argument(flag, required=required, type=file_name, metavar=metavar, help=text)
    parser.add_argument(
        "--search-words",
        type=whole_number(0),
        default=200,
        metavar="N",
        help="words tried in the fixed text, time grows with it; 0: none is looked for "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=SEED,
        default=12345,
        metavar="N",
        help="of the harm and the bootstrap (default %(default)s)",
    )
    text = "sacreBLEU tokeniser of BLEU (default: 13a)"
    parser.add_argument("--tokenize", default="13a", metavar="TOK", help=text)
    add_resamples(parser)
    add_device(parser, default=None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Probe and print; InputError for input that cannot be probed."""
    import json

    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import atomic_write
    from simile_plugin.report import analyse_probe, answer_probe, render_text
    from simile_plugin.reward import Reward, check_tokenizer

    check_tokenizer(args.tokenize, "--tokenize")
    refuse_without_encoder(args, "device")
    _check_picture(args)
    texts = _read_texts(args)
    encoder = load_encoder(args.encoder, usable_device(args.device)) if args.encoder else None
    specs = [spec for spec in args.reward or ["bleu"] if spec != "meteor"]
    if any("bleu" in Reward(spec).weights for spec in specs):
        warn_of_whole_sentences("probe", "the references", texts.refs, args.tokenize)
    found = analyse_probe(
        *(args.reward or [], texts, encoder, args.search_words),
        *(args.resamples, args.seed, args.tokenize),
    )
    harmed = next(iter(found.values())).changes["empty"].count  # of each that has words
    base = f"harm is done to {harmed} {'hypotheses' if texts.hyps else 'references'}"
    answer = answer_probe(found, base, encoder, args.seed, args.resamples, args.tokenize)
    if args.svg:
        assert answer.chart is not None
        with atomic_write(args.svg, "wb") as stream:
            answer.chart.write(stream, args.svg.rpartition(".")[2].lower())
    if args.json:
        content = {"sentences": harmed, **answer.data}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(render_text(answer), end="")
    return 0


def _check_picture(args: argparse.Namespace) -> None:
    """Find out before the work whether the picture can be written."""
    if args.svg and not args.svg.lower().endswith((".svg", ".png")):
        raise InputError(f"--svg: got {args.svg}; expected a name that ends in .svg or .png")
    names = (args.ref, args.hyp, args.src, args.other_ref, args.synonyms, args.nbest, args.encoder)
    check_outputs({"--svg": args.svg}, names)


def _read_texts(args: argparse.Namespace) -> Any:
    from simile_plugin.evaluation import Texts
    from simile_plugin.files import check_standard_input, read_parallel
    from simile_plugin.nbest import read_nbest_lists, references

    flags = {name: getattr(args, name) for name in ("ref", "hyp", "src", "other_ref")}
    files = flags | {"synonyms": args.synonyms, "nbest": args.nbest}
    check_standard_input((path, f"--{name.replace('_', '-')}") for name, path in files.items())
    given = {name: path for name, path in flags.items() if path}
    lines = read_parallel([(path, f"--{name.replace('_', '-')}") for name, path in given.items()])
    named = dict(zip(given, lines, strict=True))
    lists = read_nbest_lists(args.nbest, "--nbest", ref_flag="") if args.nbest else []
    of = references(lists, "--nbest")
    return Texts(
        named["ref"],
        named.get("hyp", ()),
        named.get("src", ()),
        named.get("other_ref", ()),
        _read_synonyms(args.synonyms) if args.synonyms else {},
        [(found.hyps, ref, found.src or "") for found, ref in zip(lists, of, strict=True)],
    )


def _read_synonyms(path: str) -> dict[str, list[str]]:
    """Each word of a file of pairs with its synonyms, in both directions, lowercased."""
    from simile_plugin.files import read_lines

    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path, "--synonyms"), start=1):
        pair = [word.strip().lower() for word in line.split("\t")]
        if len(pair) != 2 or any(len(word.split()) != 1 for word in pair) or pair[0] == pair[1]:
            raise InputError(
                f"--synonyms: {path}:{number}: got {line[:60]!r}; expected two different words "
                "with a tab between them"
            )
        for word, synonym in (pair, pair[::-1]):
            found.setdefault(word, []).append(synonym)
    if not found:
        raise InputError(f"--synonyms: {path} is empty; expected word TAB word a line")
    return found

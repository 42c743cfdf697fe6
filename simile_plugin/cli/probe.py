"""`simile probe`: how can a reward be gamed? Harm, length, and one text for everything."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import (
    BootstrapFlags,
    ScoringFlags,
    add_flags,
    file_option,
    read_flags,
)
from simile_plugin.cli._warnings import warn_of_encoder, warn_of_text, warn_of_whole_sentences
from simile_plugin.files import Range, option

if TYPE_CHECKING:
    from simile_plugin.evaluation import Texts

HELP = "show how a reward can be gamed: by harm, by length, by one text for every sentence"

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
  other-language  of neither side (--other-language)
  other-reference  harmless: another human reference (--other-ref)

In scripts without spaces (Chinese, Japanese, Thai and others) a word is a letter; negations are
English ones, and none where the references are not English (next to no "the", "of" and "and");
names are none in German, where each noun has a capital.

Length. Within the lists of --nbest: the Pearson correlation of the reward with the number of words
(mean over lists), and the reward's standard deviation, by which changes are also given: what
training sees are differences within a list, so that a change of 0.1 spreads is next to nothing.

One text. Greedy search for a fixed text with a high mean reward against all references: it begins
with one of them and adds, removes and replaces words, at most 20 times. It should stay far below
what the hypotheses get, and near what an unrelated sentence gets; in the tables it is `one-text`.
`four-words` adds to each sentence, one by one, the four words that the reward likes best of those
that its reference does not have: a reward that rises by them can be climbed.
"""

EPILOG = """\
examples:
  simile probe --ref val.en --src val.de --encoder ENCODER
  simile probe --reward simile --reward learned:REWARD --reward my_module:my_function \\
      --ref val.en --hyp mle.en --encoder ENCODER --nbest mle.nbest --svg probe.svg
"""


@dataclass
class Options(BootstrapFlags, ScoringFlags):
    """Flags of `simile probe`."""

    reward: list[str] = option(
        "what --reward of the training takes (simile, bleu, chrf, learned, learned:DIR, a mix, "
        "module:function), or meteor; give it again for others (default: simile with --encoder, "
        "chrf, bleu)",
        [],
        metavar="SPEC",
    )
    ref: str = file_option("references, one sentence a line")
    hyp: str | None = file_option("translations to harm in place of the references", None)
    src: str | None = file_option("sources, to be copied, and for a function of your own", None)
    other_ref: str | None = file_option("other human references: a harmless change", None)
    other_language: str | None = file_option(
        "the same lines in a language that is neither the source's nor the target's", None
    )
    nbest: str | None = file_option("what fairseq-generate --nbest N printed", None)
    svg: str | None = option(
        "draw the changes with their intervals into FILE (.svg or .png)",
        None,
        metavar="FILE",
        range=Range(lambda name: name.lower().endswith((".svg", ".png")), "a name in .svg or .png"),
    )
    search_words: int = option(
        "words tried in the fixed text, time grows with it; 0: none is looked for",
        200,
        range=Range.at_least(0),
    )
    json: bool = option("print one JSON object", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Probe and print; InputError for input that cannot be probed."""
    import json

    from simile_plugin.files import atomic_write, check_outputs
    from simile_plugin.report import analyse_probe, answer_probe, render_text
    from simile_plugin.reward import Reward

    options = read_flags(args, Options)
    tokenize = options.tokenize
    files = [options.ref, options.hyp, options.src, options.other_ref, options.nbest]
    files.append(options.other_language)
    check_outputs({"--svg": options.svg}, [*files, options.encoder])
    texts, scorer = _read_texts(options), options.scorer()
    warn_of_encoder("probe", f"--ref {options.ref}", scorer.encoder, texts.refs)
    specs = [spec for spec in options.reward or ["bleu"] if spec != "meteor"]
    if any("bleu" in Reward(spec).weights for spec in specs):
        warn_of_whole_sentences("probe", "the references", texts.refs, tokenize)
    resamples, seed = options.resamples, options.seed
    probed = analyse_probe(options.reward, texts, scorer, options.search_words, resamples, seed)
    harmed = next(iter(probed.values())).changes["empty"].count  # of each that has words
    base = f"harm is done to {harmed} {'hypotheses' if texts.hyps else 'references'}"
    answer = answer_probe(probed, base, scorer, seed, resamples)
    if options.svg:
        assert answer.chart is not None
        with atomic_write(options.svg, "wb") as stream:
            answer.chart.write(stream, options.svg.rpartition(".")[2].lower())
    if options.json:
        content = {"sentences": harmed, **answer.data}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    else:
        print(render_text(answer), end="")
    return 0


def _read_texts(options: Options) -> Texts:
    from simile_plugin.evaluation import Texts
    from simile_plugin.files import check_standard_input, flag_name, read_parallel
    from simile_plugin.nbest import read_nbest_lists, references

    texts = ("ref", "hyp", "src", "other_ref", "other_language")
    names = [name for name in texts if getattr(options, name)]
    files = [(getattr(options, name), flag_name(name)) for name in names]
    check_standard_input([*files, (options.nbest, "--nbest")])
    lines = dict(zip(names, read_parallel(files), strict=True))
    for (path, flag), text in zip(files, lines.values(), strict=True):
        warn_of_text("probe", [(f"{flag} {path}", text)])
    lists = read_nbest_lists(options.nbest, "--nbest", ref_flag="") if options.nbest else []
    refs = references(lists, "--nbest")
    candidates = [hyp for one in lists for hyp in one.hyps]
    warn_of_text("probe", [(f"--nbest {options.nbest}", candidates)] if candidates else [])
    return Texts(
        lines["ref"],
        lines.get("hyp", ()),
        lines.get("src", ()),
        lines.get("other_ref", ()),
        lists=[(one.hyps, ref, one.src or "") for one, ref in zip(lists, refs, strict=True)],
        foreign=lines.get("other_language", ()),
    )

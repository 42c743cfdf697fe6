"""`simile fit-reward`: a reward fitted to human judgements and to harm."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from simile_plugin.cli._flags import (
    BootstrapFlags,
    add_flags,
    file_option,
    folder_option,
    read_flags,
)
from simile_plugin.cli._warnings import (
    warn,
    warn_of_judged_text,
    warn_of_text,
    warn_of_whole_sentences,
)
from simile_plugin.files import option

HELP = "fit a reward to human judgements, and to harm that people were not asked about"

DESCRIPTION = """\
Fit a learned reward: exp(-sum of weight * feature / 4), in [0, 1]. Its twelve features (SIM's
distance, words and pairs of words without a like in the reference, their order, repeated bigrams,
unknown words, missing common words, negations, numbers, length) are 0 for the reference
itself, so that it scores 1; an empty hypothesis scores 0. The weights are never negative. They are
fitted to the human scores, standardised in each file, and to harm made of plain text (a phrase
repeated, a half dropped, words appended, shuffled, a negation, number or name changed, words left
untranslated), which must cost the more the more of it there is. Negations are known of English
alone: of other text they are not counted, nor harmed, and in German a noun's capital makes no name.
With an encoder of two languages (simile distil-encoder) and a column `source` in each file, a
thirteenth feature says by how much the reference is nearer to the source. A table of several target
languages lets weights of judged languages serve one without judgements.

Printed: the correlation with people on judgements that the reward was not fitted on, each file left
out once (a single file is cut in five, between references), with bootstrap intervals, beside SIM,
SIMILE, sentence BLEU, chrF, chrF++ and METEOR 1.5 (that for English; where Java and pycocoevalcap
are); how much of the harm to such hypotheses lowers the reward, and by how many standard deviations
of a human score; and the weights.

--judgements FILE: a TSV of hypothesis, reference and human score, as simile eval-encoder reads it.
--text FILE: sentences of the references' language. Their words are the known ones (others count as
untranslated), their commonest the function words, and harm is made of them. No sentence of a test
set, nor what the reward will be judged by, belongs into either.
"""

EPILOG = """\
examples:
  simile fit-reward --judgements wmt15.*.tsv --encoder ENCODER --text news.en.gz europarl.en.gz \\
      --output REWARD
  fairseq-train ... --reward learned:REWARD --simile-encoder ENCODER
  simile score -r ref.en -i hyp.en --encoder ENCODER --learned REWARD
"""


@dataclass
class Options(BootstrapFlags):
    """Flags of `simile fit-reward`."""

    judgements: list[str] = file_option("judged segments, one TSV a language pair", nargs="+")
    judgement_columns: tuple[str, str, str] | None = option(
        "names in the header, or numbers from 1", None, metavar=("HYP", "REF", "SCORE")
    )
    encoder: str = folder_option("reward encoder; the reward works with no other")
    text: list[str] = file_option("plain text, one sentence a line", nargs="+")
    output: str = folder_option("folder of the reward")
    overwrite: bool = option("replace the reward that is in --output", False)
    tokenize: str = option("sacreBLEU tokeniser of the BLEU beside it", "13a", metavar="TOK")
    json: bool = option("print one JSON object", False)
    device: str = option("where the encoder runs: cpu, cuda, cuda:1", "cpu", metavar="DEV")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Fit, print and save; InputError for input that no reward can be fitted to."""
    import json
    import sys
    from contextlib import nullcontext

    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.evaluation import (
        FitSettings,
        Meteor,
        check_fit,
        fit_reward,
        missing_meteor,
        read_judgements,
        shared_segments,
        steps,
    )
    from simile_plugin.files import (
        Progress,
        check_outputs,
        check_standard_input,
        read_lines,
        refuse_unasked_overwrite,
    )
    from simile_plugin.report import format_fit
    from simile_plugin.reward import REWARD, check_tokenizer, save_learned

    options = read_flags(args, Options)
    check_tokenizer(options.tokenize, "--tokenize")
    named = [(path, "--judgements") for path in options.judgements]
    check_standard_input([*named, *((path, "--text") for path in options.text)])
    inputs = [options.encoder, *options.judgements, *options.text]
    check_outputs({"--output": options.output}, inputs, folders=True)
    refuse_unasked_overwrite(options.output, REWARD, "a reward", options.overwrite)
    files = [read_judgements(path, options.judgement_columns) for path in options.judgements]
    texts = [(path, read_lines(path, "--text")) for path in options.text]
    check_fit(files, texts)
    warn_of_judged_text("fit-reward", files)
    warn("fit-reward", shared_segments(files))
    warn_of_text("fit-reward", ((f"--text {path}", lines) for path, lines in texts))
    refs = [ref for judged in files for ref in judged.refs]
    warn_of_whole_sentences("fit-reward", "the references", refs, options.tokenize)
    encoder = load_encoder(options.encoder, usable_device(options.device))
    missing = missing_meteor()
    with (
        nullcontext() if missing else Meteor() as meteor,
        Progress(steps(files), " steps", "fitting") as bar,
    ):
        settings = FitSettings(options.resamples, options.seed, options.tokenize)
        fit = fit_reward(files, texts, encoder, settings, meteor, bar.update)
    save_learned(options.output, fit.reward)
    notes = [missing] if missing else []
    if not fit.reward.lexicon.negations:
        notes.append(
            "--text is not English (next to no 'the', 'of' and 'and'), so that negations, of which "
            "English ones are known, do not count in this reward, and no harm was made of them"
        )
    if fit.overlap:
        notes.append(f"{fit.overlap} judged references are a line of --text: their words are known")
    for note in notes:
        print(f"simile fit-reward: note: {note}", file=sys.stderr)
    if options.json:
        content = {"signature": fit.reward.signature, "weights": fit.reward.weights}
        print(json.dumps({**content, **fit.reward.facts, "notes": notes}, indent=2))
    else:
        print(f"{format_fit(fit)}\n{options.output}: {fit.reward.signature}")
    return 0

"""`simile score`: BLEU, chrF, SIM, SIMILE and a learned reward of hypotheses against references."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simile_plugin.cli._flags import SimileFlags, add_flags, file_option, folder_option, read_flags
from simile_plugin.cli._warnings import warn, warn_of_text, warn_of_whole_sentences
from simile_plugin.files import InputError, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simile_plugin.reward import ListScores, Scorer

HELP = "score hypotheses against references: BLEU, chrF, SIM, SIMILE, by corpus or by sentence"

EPILOG = """\
scores are percent; files are plain text, one sentence a line, detokenised (.gz or - work too)
  BLEU    corpus BLEU, sacreBLEU's; of a sentence: +1 on orders 2 to 4 (Lin & Och 2004)
  chrF    sacreBLEU's, of the corpus and of a sentence: character n-grams of orders 1 to 6
  SIM     cosine of the mean subword embeddings of both sides, averaged over sentences
  SIMILE  LP^alpha * SIM, LP = exp(1 - max(|r|, |h|) / min(|r|, |h|)), lengths in encoder pieces
  SOURCE  nearness to the source by an encoder of two languages (made by simile distil-encoder)
  LEARNED a learned reward (made by simile fit-reward), averaged over sentences; that of the
          package, for English, where --encoder is default (with --sentence-level: if --learned
          default asks for it)

of several references (-r A B) BLEU and chrF are sacreBLEU's; SIM, SIMILE and LEARNED of a sentence
are the highest over its references
an empty side scores 0; a difference of systems needs a test: simile report

examples:
  simile score -r ref.en -i hyp.en --encoder ENCODER
  simile score -r ref.en -i mle.en simile.en --encoder ENCODER --json
  simile score -r refA.en refB.en -i hyp.en --encoder ENCODER
  simile score -r ref.en -i hyp.en --encoder ENCODER --sentence-level > scores.tsv
  simile score -r ref.en -i hyp.en --encoder ENCODER --learned REWARD
"""


@dataclass
class Options(SimileFlags):
    """Flags of `simile score`."""

    ref: list[str] = file_option(
        "references; of several files the sentences have several references each",
        nargs="+",
        names=["-r", "--ref"],
    )
    hyp: list[str] = file_option("hypotheses, one file a system", nargs="+", names=["-i", "--hyp"])
    src: str | None = file_option(
        "sources, for the nearness to them; --encoder is of both languages", None
    )
    learned: str | None = folder_option(
        "learned reward (made by simile fit-reward); --encoder is the one of its fit (default: the "
        "package's)",
        None,
    )
    sentence_level: bool = option(
        "one line a sentence (TSV, or JSON)", False, names=["-sl", "--sentence-level"]
    )
    json: bool = option("print JSON", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = EPILOG
    add_flags(parser, Options)


def run(args: argparse.Namespace) -> int:
    """Score and print; InputError for input that cannot be scored."""
    from simile_plugin.files import Progress, read_parallel, refuse_twice
    from simile_plugin.reward import learned_beside, load_learned, several_references

    options = read_flags(args, Options)
    if options.learned and not options.encoder:
        raise InputError("--learned: needs --encoder DIR, the encoder of its fit")
    paths = [(path, "--ref") for path in options.ref] + [(path, "--hyp") for path in options.hyp]
    if options.src and not options.encoder:
        raise InputError("--src: needs --encoder DIR, an encoder of two languages")
    of_source = [(options.src, "--src")] if options.src else []
    refuse_twice(options.ref, "--ref")
    texts = read_parallel([*paths, *of_source])
    srcs = texts.pop() if of_source else None
    references, outputs = texts[: len(options.ref)], texts[len(options.ref) :]
    refs, (first, *_) = references[0], options.ref
    if not refs:
        raise InputError(f"--ref: {first} is empty; expected one sentence a line")
    learned = load_learned(options.learned, "--learned") if options.learned else None
    scorer = options.scorer(learned=learned)
    if learned is None and not options.sentence_level:  # whose last column scripts may read
        scorer = replace(scorer, learned=learned_beside(scorer.encoder))
    with Progress(len(refs) * len(references), "sent") as bar:
        of_each = [scorer.outputs(outputs, one, srcs, 0, bar.update) for one in references]
    scores = several_references(of_each, outputs, references, options.tokenize)
    _warn(options, scorer, references, outputs, srcs, scores)
    signatures = scorer.signatures("BLEU", "chrF", "SIM", "SIMILE", "SOURCE", "LEARNED")
    if len(references) > 1:
        several = f"nrefs:{len(references)}|"
        signatures = {
            name: text if name == "SOURCE" else several + text.removeprefix("nrefs:1|")
            for name, text in signatures.items()
        }
    signatures["length_ratio"] = f"tokens, tok:{options.tokenize}"
    if options.sentence_level:
        print_sentences(options, scores)
    else:
        print_corpus(options, scores, signatures)
    return 0


def _warn(
    options: Options,
    scorer: Scorer,
    references: Sequence[Sequence[str]],
    outputs: Sequence[Sequence[str]],
    srcs: Sequence[str] | None,
    scores: ListScores,
) -> None:
    """Say so where text or encoder is not what the scores are made for."""
    from simile_plugin.files import empty_references
    from simile_plugin.reward import UNKNOWN_LIMIT, language_warning

    refs, (first, *_) = references[0], options.ref
    warn_of_whole_sentences("score", f"the lines of {first}", refs, options.tokenize)
    marked = warn_of_text("score", zip(options.ref, references, strict=True))
    marked |= warn_of_text("score", zip(options.hyp, outputs, strict=True), refs, srcs or ())
    unknown = ""
    if scores.unknown_share > UNKNOWN_LIMIT and not marked:  # marks are unknown to any encoder
        unknown = (
            f"{scores.unknown_share:.0%} of the tokens of the references "
            f"({scores.unknown_pieces} of {scores.tokens}) are unknown to the encoder and "
            "count as nothing in SIM; is it an encoder of this language and script?"
        )
    of_each_line = ["".join(lines) for lines in zip(*references, strict=True)]
    empty = empty_references(" and ".join(options.ref), of_each_line)
    warn("score", empty, unknown, language_warning(first, scorer.encoder, refs))


def columns(scores: ListScores, system: int) -> dict[str, list[float]]:
    """Return the sentence scores of one output, in percent."""
    named = {"BLEU": scores.bleu, "chrF": scores.chrf, "SIM": scores.sim, "SIMILE": scores.simile}
    named |= {"SOURCE": scores.source, "LEARNED": scores.learned}
    return {
        name: (100 * values[:, system].double()).tolist()
        for name, values in named.items()
        if values is not None
    }


def corpus(scores: ListScores, system: int) -> dict[str, float]:
    """Return BLEU, chrF, means of the other scores and the length ratio of one output."""
    from simile_plugin.reward import corpus_bleu, corpus_chrf

    stats = scores.bleu_stats[:, system].sum(0)
    assert scores.chrf_stats is not None
    chrf = corpus_chrf(scores.chrf_stats[:, system].sum(0).numpy())
    found = {"BLEU": float(corpus_bleu(stats)), "chrF": float(chrf)}
    for name, values in columns(scores, system).items():
        if name not in found:
            found[name] = sum(values) / len(values)
    found["length_ratio"] = float(stats[0]) / max(1, int(stats[1]))
    return found


def print_sentences(options: Options, scores: ListScores) -> None:
    """Print one row a sentence and system."""
    tables = [columns(scores, system) for system in range(len(options.hyp))]
    if options.json:
        print(json.dumps(dict(zip(options.hyp, tables, strict=True)), indent=1))
        return
    print("\t".join(["file", "line", *tables[0]]))
    for path, table in zip(options.hyp, tables, strict=True):
        for line, values in enumerate(zip(*table.values(), strict=True), start=1):
            print("\t".join([path, str(line), *(f"{value:.4f}" for value in values)]))


def print_corpus(options: Options, scores: ListScores, signatures: dict[str, str]) -> None:
    """Print corpus scores with their signatures."""
    found = {path: corpus(scores, system) for system, path in enumerate(options.hyp)}
    if options.json:
        entries = [
            {"file": path, "name": name, "score": score, "signature": signatures[name]}
            for path, values in found.items()
            for name, score in values.items()
        ]
        print(json.dumps(entries, indent=1))
        return
    for path, values in found.items():
        print(f"{path} ({len(scores.bleu)} sentences)")
        for name, score in values.items():
            shown = f"{score:.4f}" if name == "length_ratio" else f"{score:.2f}"
            print(f"  {name:<12} {shown:>8}  {signatures[name]}")

"""`simile score`: BLEU, chrF, SIM, SIMILE and a learned reward of hypotheses against references."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from simile_plugin.cli._types import ALPHA, add_device, file_name, refuse_without_encoder
from simile_plugin.files import InputError

if TYPE_CHECKING:
    from simile_plugin.reward import ListScores

HELP = "scores hypotheses against references: BLEU, chrF, SIM, SIMILE, by corpus or by sentence"

EPILOG = """\
scores are percent; files are plain text, one sentence a line, detokenised (.gz or - work too)
  BLEU    corpus BLEU, sacreBLEU's; of a sentence: +1 on orders 2 to 4 (Lin & Och 2004)
  chrF    sacreBLEU's, of the corpus and of a sentence: character n-grams of orders 1 to 6
  SIM     cosine of the mean subword embeddings of both sides, averaged over sentences
  SIMILE  LP^alpha * SIM, LP = exp(1 - max(|r|, |h|) / min(|r|, |h|)), lengths in encoder pieces
  LEARNED a learned reward (made by simile fit-reward), averaged over sentences

an empty side scores 0; a difference of systems needs a test: simile report

examples:
  simile score -r ref.en -i hyp.en --encoder ENCODER
  simile score -r ref.en -i mle.en simile.en --encoder ENCODER --json
  simile score -r ref.en -i hyp.en --encoder ENCODER --sentence-level > scores.tsv
  simile score -r ref.en -i hyp.en --encoder ENCODER --learned REWARD
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = EPILOG
    parser.add_argument("-r", "--ref", required=True, metavar="FILE", help="references")
    parser.add_argument(
        "-i",
        "--hyp",
        required=True,
        action="extend",
        nargs="+",
        metavar="FILE",
        help="hypotheses, one file a system",
    )
    parser.add_argument(
        "--encoder",
        type=file_name,
        metavar="DIR",
        help="reward encoder (made by simile train-encoder), for SIM and SIMILE",
    )
    parser.add_argument(
        "--learned",
        type=file_name,
        metavar="DIR",
        help="learned reward (made by simile fit-reward); --encoder is the one of its fit",
    )
    parser.add_argument(
        "--simile-alpha",
        type=ALPHA,
        metavar="A",
        help="exponent of the length penalty (default and paper: 0.25)",
    )
    parser.add_argument(
        "--tokenize", default="13a", metavar="TOK", help="sacreBLEU tokeniser (default: 13a)"
    )
    parser.add_argument(
        "-sl", "--sentence-level", action="store_true", help="one line a sentence (TSV, or JSON)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_device(parser, default=None)


def run(args: argparse.Namespace) -> int:
    """Score and print; InputError for input that cannot be scored."""
    from simile_plugin.encoder import load_encoder, usable_device
    from simile_plugin.files import Progress, read_parallel
    from simile_plugin.reward import (
        GIVE_A_TOKENISER,
        SIMILE_ALPHA,
        TOKENISED,
        bleu_signature,
        check_tokenizer,
        chrf_signature,
        is_unspaced,
        load_learned,
        score_outputs,
        signature,
        tokenised_as,
    )

    refuse_without_encoder(args, "simile_alpha", "device", "learned")
    check_tokenizer(args.tokenize, "--tokenize")
    alpha = SIMILE_ALPHA if args.simile_alpha is None else args.simile_alpha
    refs, *outputs = read_parallel([(args.ref, "--ref"), *((path, "--hyp") for path in args.hyp)])
    if not refs:
        raise InputError(f"--ref: {args.ref} is empty; expected one sentence a line")
    encoder = load_encoder(args.encoder, usable_device(args.device)) if args.encoder else None
    learned = load_learned(args.learned, "--learned") if args.learned is not None else None
    with Progress(len(refs), "sent") as bar:
        scores = score_outputs(
            outputs, refs, encoder, alpha, args.tokenize, bar.update, chrf_words=0, learned=learned
        )
    warn_of_unknown(scores)
    if is_unspaced(refs, args.tokenize):
        print(
            f"simile score: warning: {args.ref} has next to no spaces, so that BLEU takes whole "
            f"sentences for words; give --tokenize {GIVE_A_TOKENISER}",
            file=sys.stderr,
        )
    for path, lines in zip([args.ref, *args.hyp], [refs, *outputs], strict=True):
        if mark := tokenised_as(lines):
            print(f"simile score: warning: {TOKENISED.format(path, mark)}", file=sys.stderr)
    signatures = {"BLEU": bleu_signature(args.tokenize), "chrF": chrf_signature()}
    signatures["length_ratio"] = f"tokens, tok:{args.tokenize}"
    if encoder is not None:
        signatures["SIM"] = signatures["SIMILE"] = signature(encoder, alpha)
    if learned is not None:
        signatures["LEARNED"] = learned.signature
    if args.sentence_level:
        print_sentences(args, scores)
    else:
        print_corpus(args, scores, signatures)
    return 0


def warn_of_unknown(scores: ListScores) -> None:
    """Say so when much of the text is outside the encoder's vocabulary."""
    if scores.unknown_share > 0.05:
        print(
            f"simile score: warning: {scores.unknown_share:.0%} of the tokens "
            f"({scores.unknown_pieces} of {scores.tokens}) are unknown to the encoder and "
            "count as nothing in SIM; is it an encoder of this language and script?",
            file=sys.stderr,
        )


def columns(scores: ListScores, system: int) -> dict[str, list[float]]:
    """Sentence scores of one output, in percent."""
    named = {"BLEU": scores.bleu, "chrF": scores.chrf, "SIM": scores.sim, "SIMILE": scores.simile}
    named["LEARNED"] = scores.learned
    return {
        name: (100 * values[:, system].double()).tolist()
        for name, values in named.items()
        if values is not None
    }


def corpus(scores: ListScores, system: int) -> dict[str, float]:
    """Corpus scores of one output: BLEU, chrF, means of the others, length ratio in tokens."""
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


def print_sentences(args: argparse.Namespace, scores: ListScores) -> None:
    """A table of one row a sentence and system."""
    tables = [columns(scores, system) for system in range(len(args.hyp))]
    if args.json:
        print(json.dumps(dict(zip(args.hyp, tables, strict=True)), indent=1))
        return
    print("\t".join(["file", "line", *tables[0]]))
    for path, table in zip(args.hyp, tables, strict=True):
        for line, values in enumerate(zip(*table.values(), strict=True), start=1):
            print("\t".join([path, str(line), *(f"{value:.4f}" for value in values)]))


def print_corpus(args: argparse.Namespace, scores: ListScores, signatures: dict[str, str]) -> None:
    """Corpus scores with their signatures."""
    found = {path: corpus(scores, system) for system, path in enumerate(args.hyp)}
    if args.json:
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

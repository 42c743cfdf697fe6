#!/usr/bin/env python3
"""Choose beam search's length penalty on validation, and translate the test set with it.

Systems whose lengths differ are compared fairly when each is decoded with the penalty that suits
it. fairseq divides a finished hypothesis's log-probability by its number of tokens to the power of
--lenpen, and nothing else of its search depends on the penalty: so from lists of fairseq-generate
--beam N --nbest N come the translations of every penalty, without searching again.
"""

from __future__ import annotations

import argparse
import re
import sys

import sacrebleu

from simile_plugin.files import (
    InputError,
    as_script,
    atomic_write,
    check_outputs,
    finite_number,
    read_lines,
)
from simile_plugin.reward import check_tokenizer

LINE = re.compile(r"([TDP])-(\d+)\t(.*)")
GRID = [tenth / 10 for tenth in range(31)]  # 0: the likeliest, 1: fairseq's default

Lists = dict[int, list[tuple[float, int, str]]]  # id -> log-probability, tokens, text


def read_lists(path: str) -> tuple[Lists, dict[int, str]]:
    """The lists and references that fairseq-generate --nbest printed.

    Raises:
        InputError: for a file without them, one that lacks some, or one that cannot be read.
    """
    texts: dict[int, list[str]] = {}
    scores: dict[int, list[list[float]]] = {}
    refs: dict[int, str] = {}
    for number, line in enumerate(read_lines(path, "fairseq-generate's log"), 1):
        if match := LINE.match(line):
            kind, sentence, rest = match[1], int(match[2]), match[3]
            if kind == "T":
                refs[sentence] = rest
            elif kind == "D":
                texts.setdefault(sentence, []).append(rest.partition("\t")[2])
            else:
                scores.setdefault(sentence, []).append(read_scores(rest, f"{path}:{number}"))
    counts = [{sentence: len(own) for sentence, own in of.items()} for of in (texts, scores)]
    if not texts or counts[0] != counts[1] or texts.keys() != refs.keys():
        raise InputError(
            f"{path}: got D- lines of {len(texts)}, P- lines of {len(scores)} and "
            f"T- lines of {len(refs)} sentences; expected all that fairseq-generate --nbest prints"
        )
    missing = next((i for i in range(max(texts)) if i not in texts), None)
    if missing is not None:
        raise InputError(
            f"{path} has D-{max(texts)} but no D-{missing}; the log is cut, or "
            "fairseq-generate skipped long sentences: generate again"
        )
    lists = {
        sentence: [
            (sum(own), len(own), text)
            for own, text in zip(scores[sentence], texts[sentence], strict=True)
        ]
        for sentence in sorted(texts)
    }
    return lists, refs


def read_scores(text: str, where: str) -> list[float]:
    """The log-probabilities of a P- line; InputError for one without, or a wrong one."""
    found, words = [], text.split() or [""]
    for word in words:
        if (score := finite_number(word)) is None:
            raise InputError(
                f"{where}: got '{word}' in a P- line, expected the log-probability of "
                "each token; if the log is cut, generate again"
            )
        found.append(score)
    return found


def choose(lists: Lists, lenpen: float) -> list[str]:
    """The best of each list under a penalty, in the order of the test set; ties to the first."""
    return [max(own, key=lambda hyp: hyp[0] / hyp[1] ** lenpen)[2] for own in lists.values()]


def tune(
    lists: Lists, refs: dict[int, str], tokenize: str = "13a"
) -> tuple[float, dict[float, float]]:
    """The penalty with the best corpus BLEU, of equals the nearest to 1, and BLEU by penalty."""
    wanted = [refs[sentence] for sentence in lists]
    bleu = {
        lenpen: sacrebleu.corpus_bleu(
            choose(lists, lenpen), [wanted], force=True, tokenize=tokenize
        ).score
        for lenpen in GRID
    }
    return max(GRID, key=lambda lenpen: (bleu[lenpen], -abs(lenpen - 1))), bleu


@as_script
def main() -> None:
    """Read, choose, write, and say which."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    text = "what fairseq-generate --beam 5 --nbest 5 printed for "
    parser.add_argument("--valid", required=True, metavar="FILE", help=f"{text}the validation set")
    parser.add_argument(
        "--test", required=True, nargs="+", metavar="FILE", help=f"{text}the test sets"
    )
    parser.add_argument(
        "--out", required=True, nargs="+", metavar="FILE", help="translations of each test set"
    )
    parser.add_argument("--valid-out", metavar="FILE", help="and of the validation set")
    parser.add_argument(
        "--tokenize",
        default="13a",
        help="sacreBLEU tokeniser (default: 13a); char, zh or ja-mecab where there are no spaces",
    )
    args = parser.parse_args()
    check_tokenizer(args.tokenize, "--tokenize")
    if len(args.test) != len(args.out):
        raise InputError(f"got {len(args.test)} --test and {len(args.out)} --out; expected pairs")
    check_outputs({"--out": args.out, "--valid-out": args.valid_out}, [args.valid, *args.test])
    lists, refs = read_lists(args.valid)
    tests = [read_lists(path)[0] for path in args.test]
    lenpen, bleu = tune(lists, refs, args.tokenize)
    outputs = {out: choose(test, lenpen) for out, test in zip(args.out, tests, strict=True)}
    if args.valid_out:
        outputs[args.valid_out] = choose(lists, lenpen)
    for path, lines in outputs.items():
        with atomic_write(path) as stream:
            stream.writelines(f"{line}\n" for line in lines)
    print(f"lenpen {lenpen:g}: validation BLEU {bleu[lenpen]:.2f} ({bleu[1.0]:.2f} at 1)")


if __name__ == "__main__":
    sys.exit(main())

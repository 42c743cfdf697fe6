"""What a report is made of: each file read once, each output scored once, when first asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from simile_plugin.files import InputError, Progress, empty_references
from simile_plugin.report.inputs.buckets import Buckets, sentence_buckets
from simile_plugin.report.inputs.judges import judge_systems
from simile_plugin.report.inputs.logs import Runs, read_runs
from simile_plugin.report.inputs.options import (
    PairedTest,
    ReportOptions,
    choose_baselines,
    choose_pair,
)
from simile_plugin.report.inputs.texts import (
    System,
    Texts,
    parse_named_files,
    read_beside,
    read_sentence_scores,
    read_sentences,
    read_systems,
    tokenised,
)

if TYPE_CHECKING:
    from simile_plugin.nbest import NbestList
    from simile_plugin.report.comparison import Comparison
    from simile_plugin.report.human.ratings import Answers
    from simile_plugin.report.human.study import Study
    from simile_plugin.reward import ListScores, Scorer

__all__ = ["Inputs", "ReportOptions"]

MOST_OF_BUCKETS = 1000
ONE_FILE = ("ref", "src", "groups", "corpus", "nbest_lists")


class Inputs:
    """The files and settings that the flags of `simile report` name.

    command_line: the command that asked, for the reader.

    Raises:
        InputError: for flags that cannot be meant.
    """

    def __init__(self, options: ReportOptions, command_line: str = "") -> None:
        self.options, self.command_line = options, command_line
        self.texts = Texts()
        self.named_systems = parse_named_files("--sys", options.sys)
        self.named_logs = parse_named_files("--log", options.log)
        people = [] if options.human is None else [options.human]
        self.named_answers = parse_named_files("--human", people)
        self.test = PairedTest(options.resamples, options.seed)
        # Of the intervals of single buckets, which are many.
        self.rough_test = PairedTest(min(options.resamples, MOST_OF_BUCKETS), options.seed)
        for flag, value in (("--simile-alpha", options.simile_alpha), ("--device", options.device)):
            if value is not None and not options.encoder:
                raise InputError(f"{flag}: is for the reward encoder; give --encoder DIR with it")
        if options.learned and not options.nbest_lists:
            raise InputError("--learned: is for the headroom of --nbest-lists; give them with it")
        if self.paths().count("-") > 1:
            raise InputError("-: standard input is named twice; name a file instead")

    def gives(self, name: str) -> bool:
        """Return whether an option is given."""
        return bool(getattr(self.options, name))

    def paths(self) -> list[str]:
        """Return every file that a flag names."""
        options = self.options
        paths = [getattr(options, flag) for flag in ONE_FILE if getattr(options, flag)]
        for named in (self.named_systems, self.named_logs, self.named_answers):
            paths += [path for files in named.values() for path in files]
        for spec in options.sentence_scores:
            paths += spec.partition("=")[2].split(",")
        return [*paths, *self.named_answers]

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer of outputs, with the encoder loaded; without one for BLEU and chrF alone.

        Raises:
            InputError: for an unknown tokeniser, or a device that is not there.
        """
        from simile_plugin.encoder import load_encoder, usable_device
        from simile_plugin.reward import SIMILE_ALPHA, Scorer, check_tokenizer, learned_beside

        options = self.options
        check_tokenizer(options.tokenize, "--tokenize")
        encoder = None
        if options.encoder:
            encoder = load_encoder(options.encoder, usable_device(options.device))
        alpha = SIMILE_ALPHA if options.simile_alpha is None else options.simile_alpha
        learned = learned_beside(encoder)
        return Scorer(encoder=encoder, alpha=alpha, tokenize=options.tokenize, learned=learned)

    @cached_property
    def refs(self) -> list[str]:
        """The references."""
        options = self.options
        assert options.ref is not None
        return read_sentences(options.ref, "--ref", self.texts.lines)

    @cached_property
    def sources(self) -> list[str] | None:
        """The sources, if given."""
        if not self.options.src:
            return None
        return read_beside(self.options.src, "--src", self.refs, self.texts.lines)

    @cached_property
    def systems(self) -> list[System]:
        """All systems with their outputs."""
        ref_name, named = f"--ref {self.options.ref}", self.named_systems
        return read_systems("--sys", named, self.refs, ref_name, self.texts.lines)

    @cached_property
    def scores(self) -> ListScores:
        """Sentence scores of all systems, a column an output."""
        from simile_plugin.report.inputs.scores import score_all

        with Progress(len(self.refs), "sent") as bar:
            return score_all(self.systems, self.refs, self.scorer, bar.update)

    @cached_property
    def frequencies(self) -> Counter[str]:
        """Count the words of --corpus, or else of the references."""
        options, texts = self.options, tuple(self.refs)
        if options.corpus:
            texts = tuple(self.texts.lines(options.corpus, "--corpus"))
        return Counter(word for line in tokenised(options.tokenize, texts) for word in line)

    @property
    def frequency_note(self) -> str:
        """Say where words are counted."""
        where = f"--corpus, {Path(self.options.corpus).name}" if self.options.corpus else ""
        return f"frequency: in {where or 'the references'}"

    @cached_property
    def sentence_buckets(self) -> list[Buckets]:
        """The buckets of the sentences: by length, rarest word and --groups."""
        options, groups = self.options, None
        if options.groups:
            groups = read_beside(options.groups, "--groups", self.refs, self.texts.lines)
        refs = tokenised(options.tokenize, tuple(self.refs))
        return sentence_buckets(refs, self.frequencies, groups)

    @cached_property
    def comparison(self) -> Comparison:
        """Scores of all systems and tests of their differences, see `compare_systems`."""
        from simile_plugin.report.comparison import References, compare_systems

        options = self.options
        more = read_sentence_scores(options.sentence_scores, self.systems)
        signatures = dict.fromkeys(more, "mean of the sentences' given scores")
        for spec in options.judge:
            title, signature, scores = judge_systems(spec, self.systems, self.refs, self.sources)
            if title in more:
                raise InputError(
                    f"--judge: {spec} is called {title}, as another judge or --sentence-scores is; "
                    "give it by a folder or link of another name"
                )
            signatures[title], more[title] = signature, scores
        comparison = compare_systems(
            self.systems,
            References(options.ref or "", self.refs),
            self.scorer,
            self.test,
            self.baselines,
            more,
            self.scores,
        )
        return replace(comparison, signatures=comparison.signatures | signatures)

    @cached_property
    def nbest_lists(self) -> list[NbestList]:
        """The n-best lists, with the references of --ref, if it is given, or else their own."""
        from simile_plugin.nbest import read_nbest_lists

        path = self.options.nbest_lists
        assert path is not None
        refs = self.refs if self.options.ref else None
        return list(read_nbest_lists(path, "--nbest-lists", self.texts.bytes, refs))

    @cached_property
    def unspaced(self) -> bool:
        """Return whether --tokenize takes whole sentences of the references for words."""
        from simile_plugin.reward import is_unspaced

        options, refs = self.options, list[str]()
        if options.ref:
            refs = self.refs
        elif options.nbest_lists:
            refs = [candidates.ref or "" for candidates in self.nbest_lists]
        return is_unspaced(refs, options.tokenize)

    @cached_property
    def doubtful_lists(self) -> str:
        """Return a warning of n-best lists that are no plain text, or ""."""
        from simile_plugin.nbest import cost_warning
        from simile_plugin.reward import warnings_of_text

        if doubt := cost_warning(self.nbest_lists):
            return f"{self.options.nbest_lists}: {doubt}"
        path, lists = f"{self.options.nbest_lists}", self.nbest_lists
        refs = [candidates.ref or "" for candidates in lists]
        firsts = [candidates.hyps[candidates.first] for candidates in lists]
        doubts = [empty_references(path, refs), *warnings_of_text(path, firsts, refs)]
        doubts += warnings_of_text(f"the references of {path}", refs)
        return next(filter(None, doubts), "")

    @cached_property
    def runs(self) -> Runs:
        """Validations of every training."""
        return read_runs(self.named_logs, self.options.valid_subset, self.texts.log_lines)

    @cached_property
    def human(self) -> tuple[Study, list[Answers]]:
        """The key and the answers of people."""
        from simile_plugin.report.human.ratings import read_answers
        from simile_plugin.report.human.study import read_key

        ((key, paths),) = self.named_answers.items()
        study = read_key(key, "--human")
        return study, [read_answers(path, study, "--human") for path in paths]

    @property
    def baselines(self) -> tuple[str, ...]:
        """The one or two systems to test against."""
        names = map(str.strip, ",".join(self.options.baseline).split(","))
        return choose_baselines(list(self.named_systems), [name for name in names if name])

    @property
    def pair(self) -> tuple[int, int]:
        """Places of the two systems of --compare, or of the last baseline and the last other."""
        names = list(self.named_systems)
        last = self.baselines[-1]
        default = [last, *[name for name in names if name != last][-1:]]
        first, second = choose_pair("--compare", names, self.options.compare, default)
        return names.index(first), names.index(second)

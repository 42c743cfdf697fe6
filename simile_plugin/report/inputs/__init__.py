"""What a report is made of: each file read once, each output scored once, when first asked for."""

from __future__ import annotations

from argparse import Namespace
from functools import cached_property
from typing import TYPE_CHECKING

from simile_plugin.files import InputError, Progress
from simile_plugin.report.inputs import folder, systems
from simile_plugin.report.inputs.logs import Runs, read_runs
from simile_plugin.report.inputs.settings import PairedTest, choose_baselines, choose_pair
from simile_plugin.report.inputs.texts import Texts

if TYPE_CHECKING:
    from simile_plugin.report.human.ratings import Answers
    from simile_plugin.report.human.study import Study
    from simile_plugin.report.inputs.scores import ScoreSettings
    from simile_plugin.reward import ListScores

TAKEN = ("ref", "src", "encoder", "nbest_lists", "nbest_folder")
ONE_FILE = ("ref", "src", "nbest_lists")


class Inputs:
    """The flags of `simile report` and what they name.

    Attributes:
        left_out: what was found in FOLDER and is not used, with the reason.

    Raises:
        InputError: for flags that cannot be meant.
    """

    def __init__(self, args: Namespace) -> None:
        for name, value in vars(args).items():
            if value == "":
                flag = "FOLDER" if name == "folder" else f"--{name.replace('_', '-')}"
                raise InputError(f"{flag}: got an empty text; give a value, or leave it out")
        self.args = args
        self.texts = Texts()
        found = folder.find_files(args.folder, self.texts) if args.folder else folder.FolderFiles()
        self.left_out = found.left_out
        self.test = PairedTest(args.test, args.resamples, args.trials, args.seed)
        self.named_systems = systems.parse_named_files("--sys", args.sys) or found.systems
        self.named_logs = systems.parse_named_files("--log", args.log) or found.logs
        people = [args.human] if args.human else []
        self.named_answers = systems.parse_named_files("--human", people) or found.human
        # What is not given comes from the folder.
        args.sys, args.log = list(self.named_systems), list(self.named_logs)
        args.human = next(iter(self.named_answers), None)
        for flag in TAKEN:
            setattr(args, flag, getattr(args, flag) or getattr(found, flag))
        if args.simile_alpha is not None and not 0 <= args.simile_alpha < float("inf"):
            raise InputError(
                f"--simile-alpha: got {args.simile_alpha}; expected 0 or more, and finite "
                "(the paper: 0.25)"
            )
        for flag, value in (("--simile-alpha", args.simile_alpha), ("--device", args.device)):
            if value is not None and not args.encoder:
                raise InputError(f"{flag}: is for the reward encoder; give --encoder DIR with it")
        if args.learned and not args.nbest_lists:
            raise InputError("--learned: is for the headroom of --nbest-lists; give them with it")
        if args.judgement_columns and not args.judgements:
            raise InputError("--judgement-columns: there is no --judgements FILE it could be for")
        if self.paths().count("-") > 1:
            raise InputError("-: standard input is named twice; name a file instead")

    def paths(self) -> list[str]:
        """Every file that a flag names."""
        args = self.args
        found = [getattr(args, flag) for flag in ONE_FILE if getattr(args, flag)]
        for named in (self.named_systems, self.named_logs, self.named_answers):
            found += [path for paths in named.values() for path in paths]
        for spec in (*args.column, *args.sentence_scores, *args.lexical):
            found += spec.partition("=")[2].split(",")
        return [*found, *self.named_answers, *args.judgements]

    @cached_property
    def settings(self) -> ScoreSettings:
        """How outputs are scored, with the encoder loaded.

        Raises:
            InputError: for an unknown tokeniser, or a device that is not there.
        """
        from simile_plugin.encoder import load_encoder, usable_device
        from simile_plugin.report.inputs.scores import ScoreSettings
        from simile_plugin.reward import SIMILE_ALPHA, check_tokenizer

        args = self.args
        check_tokenizer(args.tokenize, "--tokenize")
        encoder = None
        if args.encoder:
            encoder = load_encoder(args.encoder, usable_device(args.device))
        alpha = SIMILE_ALPHA if args.simile_alpha is None else args.simile_alpha
        return ScoreSettings(encoder, alpha, args.tokenize)

    @cached_property
    def refs(self) -> list[str]:
        """The references."""
        return systems.read_sentences(self.args.ref, "--ref", self.args.ref_lines, self.texts.lines)

    @cached_property
    def unspaced(self) -> bool:
        """Whether --tokenize takes whole sentences of the references for words."""
        from simile_plugin.nbest import read_nbest_lists
        from simile_plugin.reward import is_unspaced

        args, refs = self.args, list[str]()
        if args.ref:
            refs = self.refs
        elif args.nbest_lists:
            lists = read_nbest_lists(args.nbest_lists, "--nbest-lists", self.texts.bytes)
            refs = [found.ref or "" for found in lists]
        elif args.lexical:
            refs = self.texts.lines(args.lexical[0].partition("=")[2].split(",")[0], "--lexical")
        return is_unspaced(refs, args.tokenize)

    @cached_property
    def sources(self) -> list[str] | None:
        """The sources, if given."""
        if not self.args.src:
            return None
        return systems.read_sources(self.args.src, self.refs, self.args.ref, self.texts.lines)

    @cached_property
    def systems(self) -> list[systems.System]:
        """All systems with their outputs."""
        kind, ref_name = self.args.sys_lines, f"--ref {self.args.ref}"
        named = self.named_systems
        return systems.read_systems("--sys", named, kind, self.refs, ref_name, self.texts.lines)

    @cached_property
    def scores(self) -> ListScores:
        """Sentence scores of all systems, a column an output."""
        from simile_plugin.report.inputs.scores import score_all

        with Progress(len(self.refs), "sent") as bar:
            return score_all(self.systems, self.refs, self.settings, bar.update)

    @cached_property
    def runs(self) -> Runs:
        """Validations of every training."""
        return read_runs(self.named_logs, self.args.valid_subset, read=self.texts.log_lines)

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
        names = map(str.strip, (self.args.baseline or "").split(","))
        return choose_baselines(list(self.named_systems), [name for name in names if name])

    @property
    def pair(self) -> tuple[int, int]:
        """Places of the two systems of --compare, or of the last baseline and the last other."""
        names = list(self.named_systems)
        last = self.baselines[-1]
        default = [last, *[name for name in names if name != last][-1:]]
        first, second = choose_pair("--compare", names, self.args.compare, default)
        return names.index(first), names.index(second)

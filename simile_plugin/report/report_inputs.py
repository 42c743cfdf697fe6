"""What several questions of a report share: read and computed once, when first asked for."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from simile_plugin.files import InputError
from simile_plugin.report import systems

if TYPE_CHECKING:
    from simile_plugin.report.scores import ScoreSettings
    from simile_plugin.reward import ListScores


class Inputs:
    """The flags of `simile report` and what they name."""

    def __init__(self, args: Namespace) -> None:
        self.args = args

    @cached_property
    def settings(self) -> ScoreSettings:
        """How outputs are scored, with the encoder loaded.

        Raises:
            ValueError: for a negative --simile-alpha or an unknown tokeniser.
        """
        from simile_plugin.encoder import load_encoder
        from simile_plugin.report.scores import ScoreSettings
        from simile_plugin.reward import check_tokenizer

        args = self.args
        if not args.simile_alpha >= 0:
            raise InputError(
                f"--simile-alpha: got {args.simile_alpha}; expected 0 or more (the paper: 0.25)"
            )
        check_tokenizer(args.tokenize, "--tokenize")
        encoder = load_encoder(args.encoder, device=args.device) if args.encoder else None
        return ScoreSettings(encoder, args.simile_alpha, args.tokenize)

    @cached_property
    def outputs(self) -> tuple[list[str], list[systems.System]]:
        """The references and all systems."""
        args = self.args
        named = systems.parse_named_files("--sys", args.sys)
        refs = systems.read_sentences(args.ref, "--ref", args.ref_lines)
        return refs, systems.read_systems("--sys", named, args.sys_lines, refs, f"--ref {args.ref}")

    @cached_property
    def scores(self) -> ListScores:
        """Sentence scores of all systems, a column an output."""
        from simile_plugin.report.scores import score_all

        refs, compared = self.outputs
        with progress_bar(len(refs)) as bar:
            return score_all(compared, refs, self.settings, bar.update)

    def known_scores(self, names: Sequence[str]) -> ListScores | None:
        """BLEU and SIM of the first seeds of these systems, if `scores` was asked for before."""
        from simile_plugin.reward import ListScores

        if "scores" not in vars(self):
            return None
        columns, first = {}, 0
        for system in self.outputs[1]:
            columns[system.name] = first
            first += len(system.outputs)
        chosen = [columns[name] for name in names]
        known = self.scores
        sim = None if known.sim is None else known.sim[:, chosen]
        return ListScores(known.bleu_stats[:, chosen], known.bleu[:, chosen], sim)

    @cached_property
    def sources(self) -> list[str] | None:
        """The sources, if given.

        Raises:
            ValueError: if they are not as many as the references.
        """
        if not self.args.src:
            return None
        refs, _ = self.outputs
        lines = systems.read_sentences(self.args.src, "--src")
        if len(lines) != len(refs):
            raise InputError(
                f"--src: {self.args.src} has {len(lines)} sentences but --ref {self.args.ref} has "
                f"{len(refs)}; they must be parallel, one sentence a line"
            )
        return lines


def progress_bar(total: int | None) -> Any:
    """A bar on a terminal, nothing elsewhere."""
    from tqdm import tqdm

    return tqdm(total=total, unit="sent", disable=not sys.stderr.isatty(), leave=False)

"""The fairseq task ``bgt``: bitext of one joined dictionary, both sides padded behind."""

from __future__ import annotations

from typing import Any

from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from simile_plugin.files import InputError


@register_task("bgt", dataclass=TranslationConfig)
class BgtTask(TranslationTask):
    """Translation pairs of which both sides are read, and both written.

    Raises:
        InputError: for two dictionaries, or flags that cannot work.
    """

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> Any:
        """Load the dictionaries."""
        cfg.left_pad_source = False
        if cfg.eval_bleu:
            raise InputError("--eval-bleu: a BGT does not translate while it trains; leave it out")
        if cfg.left_pad_target:
            raise InputError("--left-pad-target: got True, expected False (fairseq's default)")
        task = super().setup_task(cfg, **kwargs)
        if task.src_dict != task.tgt_dict:
            raise InputError(
                f"DATA {cfg.data}: dict.{cfg.source_lang}.txt ({len(task.src_dict)} entries) and "
                f"dict.{cfg.target_lang}.txt ({len(task.tgt_dict)}) differ, and --task bgt reads "
                "both languages by one; run fairseq-preprocess with --joined-dictionary"
            )
        return task

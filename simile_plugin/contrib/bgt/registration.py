"""Importing this registers fairseq's `--task bgt --arch bgt --criterion bgt`."""

from simile_plugin.contrib.bgt import criterion, model, task

__all__ = ["criterion", "model", "task"]

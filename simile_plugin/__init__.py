"""Minimum risk training for fairseq with the semantic reward SIMILE."""

__version__ = "0.2.0"

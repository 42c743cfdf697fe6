"""Minimum risk training for fairseq with the semantic reward SIMILE."""

__version__ = "0.1.0"

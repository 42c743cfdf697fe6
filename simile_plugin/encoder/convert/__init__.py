"""Encoders published with the papers are read; ours are written for other libraries."""

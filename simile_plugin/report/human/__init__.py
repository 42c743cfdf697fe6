"""Blinded rating sheets for people, and what their answers say."""

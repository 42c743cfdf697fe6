"""Answers shown: as text, as markdown and numbers, and as one HTML page."""

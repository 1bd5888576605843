"""Texts that somebody else wrote, for a person's eyes. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """On one line, and without what a terminal would take for an order."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

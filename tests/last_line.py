"""The last line of a suite: how much was tried, and that nothing was wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

ZEROS = "0 lost, 0 duplicated, 0 out of order"
SAID = {"loss": "lost", "duplicate": "duplicated", "out-of-order": "out of order"}


def last_line(suite: str, cases: int, more: str, *, wrong: int = 0) -> str:
    """The zeros are said of a suite that found nothing wrong, and of no other; `more`, its seed for
    one, stands in brackets."""
    return f"{suite}: {cases} cases, {verdict({'WRONG': wrong}, cases)} ({more})"


def verdict(found: Mapping[str, int], tried: int) -> str:
    """The same of a suite that names what it found: how often, by kind."""
    if not tried:
        return "NOTHING WAS TRIED"
    said = (f"{times} {SAID.get(kind, kind)}" for kind, times in found.items() if times)
    return ", ".join(said) or ZEROS

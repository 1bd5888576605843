"""The last line of a suite: how much was tried, and that nothing was wrong with it. Pure."""

from __future__ import annotations


def last_line(suite: str, cases: int, more: str, *, wrong: int = 0) -> str:
    """The zeros are said of a suite that found nothing wrong, and of no other; `more`, its seed for
    one, stands in brackets."""
    verdict = f"{wrong} WRONG" if wrong else "0 lost, 0 duplicated, 0 out of order"
    return f"{suite}: {cases} cases, {verdict if cases else 'NOTHING WAS TRIED'} ({more})"

"""What logs lack, told with the first few places. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from tidelog.relay import RelayGap
from tidelog.skipped import Skipped, joined
from tidelog_backfill.files.chunk import Facts, Lack
from tidelog_backfill.files.records import FEW


def undecided(facts: Sequence[Facts]) -> str:
    """Of Prewrites; there are some."""
    count = sum(one.open for one in facts)
    places = [_place(one, offset) for one in facts for offset in one.open_at]
    return f"{count} Prewrites have neither Commit nor Rollback in these logs{_few(places)}"


def missing(gaps: Sequence[RelayGap]) -> Iterator[str]:
    """A sentence, if there are gaps."""
    if gaps:
        places = [f"after {gap.position} up to {gap.after}" for gap in gaps]
        yield f"changes are in no file of the relay log: they are left out{_few(places)}"


def few_lacks(lacks: Iterable[Lack]) -> list[Lack]:
    """The first few, and one for all others."""
    found = sorted(lacks, key=lambda one: (one.last_ts, one.first_ts))
    rest = found[FEW:]
    return [*found[:FEW], reduce(_both, rest)] if rest else found


def _both(one: Lack, other: Lack) -> Lack:
    skipped = joined(one.skipped, other.skipped)
    assert skipped is not None
    return Lack(min(one.first_ts, other.first_ts), max(one.last_ts, other.last_ts), skipped)


def unwritten(facts: Iterable[Facts], after: int, until: int) -> list[Skipped]:
    """What logs themselves say they lack of (after, until]. A record counts, too, that tells behind
    `until` of what was committed before."""
    told = {lack for one in facts for lack in one.lacks}  # two Pumps may hold one record
    lacks = few_lacks(one for one in told if one.first_ts <= until and after < one.last_ts)
    return [one.skipped for one in lacks]


def damaged(facts: Sequence[Facts]) -> Iterator[str]:
    """A sentence, if there is damage."""
    skipped = sum(one.skipped for one in facts)
    if skipped:
        damage = [(one, *each) for one in facts for each in one.skipped_at]
        places = [f"{_place(one, offset)}, {size} bytes" for one, offset, size in damage]
        yield f"{skipped} damaged bytes were skipped, and the changes in them{_few(places)}"


def _place(facts: Facts, offset: int) -> str:
    return f"{facts.chunk.path} at offset {offset}"


def _few(places: Sequence[str]) -> str:
    told = [*places[:FEW], "…"] if len(places) > FEW else places
    return f" ({'; '.join(told)})" if told else ""

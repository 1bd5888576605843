"""What logs lack, told with the first few places. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.records import FEW


def lost(facts: Iterable[Facts]) -> Iterator[str]:
    """A sentence for each kind of loss there is."""
    facts = list(facts)
    open_ = sum(one.open for one in facts)
    skipped = sum(one.skipped for one in facts)
    if open_:
        places = [_place(one, offset) for one in facts for offset in one.open_at]
        yield (
            f"{open_} Prewrites have neither Commit nor Rollback in these logs: they are left out"
            f"{_few(places)}"
        )
    if skipped:
        damage = [(one, *each) for one in facts for each in one.skipped_at]
        places = [f"{_place(one, offset)}, {size} bytes" for one, offset, size in damage]
        yield f"{skipped} damaged bytes were skipped, and the changes in them{_few(places)}"


def _place(facts: Facts, offset: int) -> str:
    return f"{facts.chunk.path} at offset {offset}"


def _few(places: Sequence[str]) -> str:
    told = [*places[:FEW], "…"] if len(places) > FEW else places
    return f" ({'; '.join(told)})" if told else ""

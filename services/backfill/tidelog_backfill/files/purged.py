"""What Pumps have purged of their logs, and whether a replay would need it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tidelog.errors import Corrupt, Purged
from tidelog.sealed import unseal
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.parts import SEGMENT, numbered

RECORD = "purged.json"
"""In a Pump's data directory, beside `value`."""
HINT = (
    "copy the tables anew by a backfill, or restore the segments; --on-corrupt skip goes on without"
)


class Gone(msgspec.Struct, frozen=True):
    """The oldest files of the directory `value` are purged; `upto`: with all that was committed
    up to there, 0 where nothing says it (an original Pump's). `alone`: `value` is a file that was
    named, and not those before it."""

    value: str
    upto: int
    alone: bool = False

    @property
    def told(self) -> str:
        if self.alone:
            return f"{self.value} is read without the files before it"
        return f"the oldest files of {self.value} are gone"


class _Record(msgspec.Struct):
    """Of the Pump's own what is asked for here."""

    ts: int = 0


def gone(value: Path) -> list[Gone]:
    """None or one. Raises Corrupt."""
    path = value.parent / RECORD
    if path.exists():
        try:
            upto = unseal(path.read_bytes(), _Record).ts
        except NOT_READABLE as error:
            raise Corrupt(f"{path} can't be read: {error}") from error
        return [Gone(str(value), upto)] if upto else []
    return [Gone(str(value), 0)] if numbered(value, SEGMENT)[0][0] else []


def check(found: Iterable[Gone], after_ts: int | None) -> None:
    """May one who has everything up to `after_ts` go on by these logs? None: of whom nothing says
    what they have. Raises Purged."""
    for one in found:
        if after_ts is None:
            raise Purged(_begins_late(one), hint=f"say by --start what it holds; or {HINT}")
        if after_ts < one.upto:
            raise Purged(_lost(one, after_ts), hint=HINT)


def warnings(found: Iterable[Gone], facts: Sequence[Facts], after_ts: int | None) -> Iterator[str]:
    """What may be lost, or is."""
    for one in found:
        if after_ts is None:
            yield _begins_late(one)
            continue
        begins = [
            facts_of.first_ts
            for facts_of in facts
            if facts_of.first_ts and one.value in _places(facts_of)
        ]
        if after_ts < one.upto:
            yield _lost(one, after_ts)
        elif not one.upto and begins and after_ts < min(begins) - 1:
            yield (
                f"{one.told}, and what is left begins at {min(begins)}: what they had of changes"
                f" after {after_ts} before that is missing"
            )


def _places(facts: Facts) -> tuple[str, str]:
    return facts.chunk.path, str(Path(facts.chunk.path).parent)


def _begins_late(one: Gone) -> str:
    return f"{one.told}, and nothing says what the downstream holds: it has no checkpoint"


def _lost(one: Gone, after_ts: int) -> str:
    return (
        f"{one.value} is purged up to {one.upto}: its changes after {after_ts} up to there are lost"
    )

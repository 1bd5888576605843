"""What becomes of each payload handed in: stored, answered without storing, or refused. Pure.

A Prewrite of a transaction that is over is stored and acked, not opened; a second Commit of one
start_ts is a counted duplicate when equal and a typed error when not (design section 7).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tidelog import record
from tidelog.errors import (
    DiskFull,
    InvariantBroken,
    NotOnline,
    Overloaded,
    TidelogError,
    UnparsablePayload,
)
from tidelog.messages import OFFLINE, ONLINE
from tidelog.payload import Facts, Kind, classify
from tidelog.ports import Buffer
from tidelog_pump.log.place import Place
from tidelog_pump.unforeseen import typed
from tidelog_pump.write.closed import ClosedStarts


class Note(Enum):
    """Taken, but not as usual; the values are metric labels."""

    DUPLICATE = "duplicate"
    CLOSED_PREWRITE = "closed_prewrite"
    CONFLICT = "conflict"
    STRAY_ROLLBACK = "stray_rollback"


UNBOUNDED = 1 << 62


class Stored(NamedTuple):
    """A record to index: `place.fid` and `place.offset` are set once it is written."""

    kind: Kind
    start_ts: int
    commit_ts: int
    place: Place


class Intake:
    """One batch: `take` each payload, write `chunks`, then `placed`."""

    def __init__(
        self,
        closed: ClosedStarts,
        state: str,
        *,
        room: int,
        left: int = UNBOUNDED,
        opens: int = UNBOUNDED,
        sealed: bool = False,
    ) -> None:
        """Bytes of Prewrites that may come, and of anything; how many may be opened. `sealed`: no
        end of a transaction is stored either."""
        self.chunks: list[Buffer] = []
        self.size = 0
        self.max_ts = 0
        self.entered: list[int] = []
        self.notes: list[Note] = []
        self._closed = closed
        self._state = state
        self._room = room
        self._left = left
        self._opens = opens
        self._sealed = sealed
        self._records: list[tuple[Facts, int]] = []

    def __len__(self) -> int:
        """Records to write."""
        return len(self._records)

    def take(self, payload: Buffer, *, own: bool = False) -> TidelogError | None:
        """Why the payload is refused, or None. `own`: the Pump's, where a fake is allowed."""
        if not payload:
            return self._refuses_prewrites(0)
        try:
            facts = classify(payload)
        except Exception as error:  # noqa: BLE001 (one payload must not end the writer for all)
            return typed(error, "write")
        kind = facts.kind
        if kind is Kind.PREWRITE:
            return self._prewrite(facts)
        if kind is Kind.COMMIT:
            return self._commit(facts)
        if kind is Kind.ROLLBACK:
            return self._rollback(facts)
        if not own:
            return UnparsablePayload("fake binlogs are the Pump's own")
        return self._stored(facts)

    def _refuses_prewrites(self, size: int) -> TidelogError | None:
        if self._state != ONLINE:
            return NotOnline(f"this Pump is {self._state}")
        if self.size + size > self._room:
            return DiskFull("too little space for Prewrites")
        if len(self.entered) >= self._opens:
            return Overloaded(
                "too many Prewrites are open here",
                hint="`tidelog status` shows the oldest one, and how to say what became of it",
            )
        return None

    def _prewrite(self, facts: Facts) -> TidelogError | None:
        refusal = self._refuses_prewrites(len(facts.payload))
        if refusal is not None:
            return refusal
        if self._closed.get(facts.start_ts) is None:
            self.entered.append(facts.start_ts)
        else:
            self.notes.append(Note.CLOSED_PREWRITE)
        self._store(facts)
        return None

    def _commit(self, facts: Facts) -> TidelogError | None:
        before = self._closed.get(facts.start_ts)
        if before is None:
            return self._stored(facts, facts.commit_ts)
        if before == facts.commit_ts:
            self.notes.append(Note.DUPLICATE)
            return None
        self.notes.append(Note.CONFLICT)
        what = f"committed at {before}" if before else "rolled back"
        return InvariantBroken(
            f"transaction {facts.start_ts} is {what}, and now a Commit at {facts.commit_ts} came"
        )

    def _rollback(self, facts: Facts) -> TidelogError | None:
        before = self._closed.get(facts.start_ts)
        if before is None:
            return self._stored(facts, 0)
        self.notes.append(Note.DUPLICATE if before == 0 else Note.STRAY_ROLLBACK)
        return None

    def _stored(self, facts: Facts, closed_at: int | None = None) -> TidelogError | None:
        """Refused for sure by a Pump that has left, with nothing open: no reader would see it. And
        if the disk has no room at all: half a write would end the process."""
        if self._state == OFFLINE or (self._sealed and closed_at is not None):
            return NotOnline(f"this Pump is {self._state} and has nothing open")
        if self.size + record.HEADER_BYTES + len(facts.payload) > self._left:
            return DiskFull("no space is left for anything")
        if closed_at is not None:
            self._closed.add(facts.start_ts, closed_at)
        self._store(facts)
        return None

    def _store(self, facts: Facts) -> None:
        _, start_ts, commit_ts, payload, _ = facts
        self._records.append((facts, self.size))
        self.chunks += record.header(payload), payload
        self.size += record.HEADER_BYTES + len(payload)
        # A Commit's is the larger one, and nobody else has one.
        last = commit_ts or start_ts
        if last > self.max_ts:
            self.max_ts = last

    def placed(self, fid: int, offset: int) -> list[Stored]:
        """The records in log order, now that the first byte of the batch is at `offset`."""
        # Not by the constructors: they take three times as long, once for every binlog written.
        make = tuple.__new__
        return [
            make(
                Stored,
                (
                    kind,
                    start_ts,
                    commit_ts,
                    make(Place, (fid, offset + at, len(payload), body)),
                ),
            )
            for (kind, start_ts, commit_ts, payload, body), at in self._records
        ]

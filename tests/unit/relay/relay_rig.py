"""Batches for the relay's tests, and what is read of it."""

from __future__ import annotations

import random

import msgspec

from tests.unit.downstreams.shapes import column, table
from tests.unit.pump.driven import Machine, drive
from tidelog.changes import Event, MarkedTxn, Marker, RowMessage
from tidelog.relay import Batch, Handed, LargeBatch, Piece, RelayLog, Structures, Whole

FEED, CLUSTER_ID = "shop", 7
SMALL_FILE = 2000
TABLES = [table(f"t{n}", column("id", "int(11)"), key=("id",), number=n) for n in range(1, 4)]
STRUCTURES: Structures = {("d", one.name, one.version): one for one in TABLES}
_json = msgspec.json.encode


def rows(commit_ts: int, size: int = 20, which: int = 0) -> bytes:
    """The body of a row message of about so many bytes, the same for the same arguments."""
    text = random.Random(f"{commit_ts}/{size}").randbytes(size // 2 + 1).hex()
    event = Event("c", commit_ts, {"id": commit_ts}, None, {"id": commit_ts, "v": text})
    return _json(RowMessage("d", TABLES[which].name, 1, [event]))


def whole(commit_ts: int, after: int, *bodies: bytes, pieces: int = 0, attempt: str = "a") -> Whole:
    txns = [MarkedTxn(commit_ts, commit_ts - 1, max(1, len(bodies)))]
    marker = _json(Marker(attempt, len(bodies), after, txns))
    return Whole(attempt, commit_ts, after, marker, txns, list(bodies), [], named(bodies), pieces)


def piece(number: int, *bodies: bytes, attempt: str = "a") -> Piece:
    return Piece(attempt, number, list(bodies), named(bodies))


def named(bodies: tuple[bytes, ...]) -> frozenset[tuple[str, str, int]]:
    found = [msgspec.json.decode(body, type=RowMessage) for body in bodies]
    return frozenset((one.db, one.table, one.schema_version) for one in found)


def relay(machine: Machine, max_file_bytes: int = SMALL_FILE, feed: str = FEED) -> RelayLog:
    """Of a fresh process; the one before is dead."""
    return RelayLog(
        machine.mount(),
        "relay",
        feed=feed,
        cluster_id=CLUSTER_ID,
        max_file_bytes=max_file_bytes,
    )


def opened(machine: Machine, after: int = 0, max_file_bytes: int = SMALL_FILE) -> RelayLog:
    log = relay(machine, max_file_bytes)
    drive(log.open(after))
    return log


async def bodies_of(batch: Handed) -> list[bytes]:
    if isinstance(batch, Batch):
        return batch.rows
    return [body for step in [one async for one in batch.pieces()] for body in step]


async def read(log: RelayLog, after: int = 0) -> list[tuple[int, list[bytes]]]:
    """By commit_ts what the log holds; each body's table has its structure."""
    found = []
    async for batch in log.batches(after):
        bodies = await bodies_of(batch)
        for key in named(tuple(bodies)):
            assert batch.structures[key] == STRUCTURES[key]
        assert batch.txns[-1].commit_ts == batch.commit_ts
        found.append((batch.commit_ts, bodies))
    return found


def is_large(batch: Handed) -> bool:
    return isinstance(batch, LargeBatch)

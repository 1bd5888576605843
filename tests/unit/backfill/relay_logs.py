"""Relay files by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import STRUCTURES, opened, whole
from tidelog.changes import DdlMessage, Event, MarkedTxn, Marker, RowMessage
from tidelog.relay import Whole
from tidelog.relay.records import batch

_json = msgspec.json.encode


def dump(machine: Machine, into: Path) -> None:
    disk = machine.mount()
    for name in disk.listdir("relay"):
        (into / name).write_bytes(disk.read_file(f"relay/{name}"))


def write(directory: Path, *batches: tuple[int, Whole]) -> None:
    """A file of a relay: each batch, and what its writer had before it."""
    machine = Machine()
    drive(opened(machine, 100).append([whole(101, 100)], STRUCTURES))
    dump(machine, directory)
    file = directory / "relay-000000"
    frames = [b"".join(batch(one, after, 0, one.tables, STRUCTURES)) for after, one in batches]
    file.write_bytes(file.read_bytes() + b"".join(frames))
    (directory / "synced").unlink()


def body(*times: int) -> bytes:
    events = [
        Event("c", ts, {"id": ts}, None, {"id": ts, "v": f'"commit_ts":{ts}'}) for ts in times
    ]
    return _json(RowMessage("d", "t1", 1, events))


def of_several(
    after: int, *times: int, ddls: tuple[DdlMessage, ...] = (), tables: tuple[str, ...] = ()
) -> Whole:
    """`tables`: of which the marker says that each transaction has a row."""
    txns = [MarkedTxn(ts, ts - 1, 1, dict.fromkeys(tables, 1)) for ts in times]
    marker = _json(Marker("a", 1, after, txns))
    named = frozenset((("d", "t1", 1),))
    texts = [_json(one) for one in ddls]
    return Whole("a", times[-1], after, marker, txns, [body(*times)], texts, named)

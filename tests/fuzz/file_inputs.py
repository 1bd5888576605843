"""Files that a Pump, an Applier or a file downstream wrote, made wrong: what is opened and read is
part of what was written, or a typed error says where it is not.

Most damage ends at a checksum. So of half of the relay's inputs the payloads are made wrong and
framed anew: as if somebody who knows the framing had written them.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.fuzz.mutation import mutated
from tests.fuzz.surface import Surface
from tests.quiet import quiet
from tests.unit.pump.driven import Machine, append, drive, scanned
from tests.unit.pump.rig import commit, prewrite
from tests.unit.relay.relay_rig import STRUCTURES, bodies_of, opened, piece, rows, whole
from tidelog import payload as payloads
from tidelog import record
from tidelog.pb_files import framing, reader
from tidelog.relay import Incoming, survey
from tidelog_proto.pb_binlog_pb2 import Binlog as PbBinlog
from tidelog_proto.pb_binlog_pb2 import BinlogType as PbBinlogType

Files = dict[str, bytes | None]
LOG_FILES = ("value/000000.vlog", "value/000001.vlog", "value/closed", "value/synced")
RELAY_FILES = ("relay/relay-000000", "relay/relay-000001", "relay/synced")


@cache
def log_files() -> tuple[Files, frozenset[bytes]]:
    """Two segments, and what they hold."""
    machine = Machine(segment_bytes=900)
    log = machine.opened()
    written: list[bytes] = []
    for number in range(1, 9):
        some = [prewrite(number * 10, b"v" * 40 * number), commit(number * 10, number * 10 + 5)]
        append(log, some, number * 10 + 5)
        written += some
    return machine.files(), frozenset(written)


def segments(data: bytes) -> object:
    """The first byte says which file of the log the rest stands in."""
    files, written = log_files()
    machine = Machine(segment_bytes=900)
    present = [path for path in LOG_FILES if path in files]
    place = present[data[0] % len(present)] if data else present[0]
    machine.disk.restore({**files, place: data[1:]})
    log = machine.opened()
    found, error = scanned(log)
    assert {payload for _, payload in found} <= written | {b""}
    for _, payload in found:
        payloads.classify(payload)
    if error is not None:
        raise error
    return len(found)


@cache
def relay_files() -> Files:
    machine = Machine()
    log = opened(machine, max_file_bytes=1000)
    drive(log.append([whole(5, 0, rows(5, 30))], STRUCTURES))
    large: list[Incoming] = [piece(0, rows(6, 40, 1)), piece(1, rows(6, 50)), whole(6, 5, pieces=2)]
    drive(log.append(large, STRUCTURES))
    drive(log.append([whole(7, 6, rows(7, 30), rows(7, 40, 2))], STRUCTURES))
    drive(log.append([whole(8, 7, rows(8, 30))], STRUCTURES))
    disk = machine.mount()
    return {"relay": None} | {path: disk.read_file(path) for path in RELAY_FILES}


def relay(data: bytes) -> object:
    """As an Applier at its start, and as `tidelog replay`, which only looks."""
    place = RELAY_FILES[data[0] % len(RELAY_FILES)] if data else RELAY_FILES[0]
    machine = Machine()
    machine.disk.restore({**relay_files(), place: data[1:]})

    async def look() -> list[tuple[int, int]]:
        found = await survey(machine.mount(), "relay")
        return [(b.commit_ts, len(await bodies_of(b))) async for b in found.batches(found.begins)]

    async def read() -> list[tuple[int, int]]:
        log = opened(machine)
        return [(b.commit_ts, len(await bodies_of(b))) async for b in log.batches(0)]

    if data[:1] and data[0] & 0x80:
        return drive(look())
    return drive(read())


def _of(files: Files, paths: tuple[str, ...], reframed: float) -> Callable[[random.Random], bytes]:
    present = [path for path in paths if path in files]
    held = [files[path] or b"" for path in present]

    def make(rng: random.Random) -> bytes:
        at = rng.randrange(len(present))
        first = bytes([at + len(present) * rng.randrange(256 // len(present))])
        if present[at][-2:].isdigit() and rng.random() < reframed:
            return first + _reframed(rng, held[at])
        return first + mutated(rng, held[at], "bytes", held)

    return make


def _reframed(rng: random.Random, data: bytes) -> bytes:
    """Records with a right checksum, one or two of them with another payload."""
    found = [bytes(body) for _, body in record.split(data).records]
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(found))
        found[at] = mutated(rng, found[at], "proto", found)
    if rng.random() < 0.2:
        rng.shuffle(found)
    return b"".join(record.header(body) + body for body in found)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def pb_file(data: bytes) -> object:
    """One file of the original's: `tidelog replay` and Spark read them."""
    path = Path(_folder().name) / "binlog-0000000000000000-20260101000000"
    path.write_bytes(data)
    return [binlog.commit_ts for binlog in reader.binlogs(path)]


def _pb_seed() -> bytes:
    found = [
        PbBinlog(tp=PbBinlogType.DDL, commit_ts=number, ddl_query=b"create table t (a int)")
        for number in range(1, 6)
    ]
    return b"".join(b"".join(map(bytes, framing.frame(one.SerializeToString()))) for one in found)


def surfaces() -> list[Surface]:
    quiet()
    logs, relays = log_files()[0], relay_files()
    return [
        Surface(
            "segment",
            "bytes",
            [
                bytes([at]) + (logs[p] or b"")
                for at, p in enumerate(p for p in LOG_FILES if p in logs)
            ],
            segments,
            6,
            make=_of(logs, LOG_FILES, 0.0),
        ),
        Surface(
            "relay",
            "bytes",
            [bytes([at]) + (relays[path] or b"") for at, path in enumerate(RELAY_FILES)],
            relay,
            6,
            make=_of(relays, RELAY_FILES, 0.5),
        ),
        Surface("pb file", "bytes", [_pb_seed()], pb_file, 2),
    ]

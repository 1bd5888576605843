"""The file of decisions in a client's state directory.

`decisions.log` is made of `tidelog.record` frames: first a head (generation, floor, how many bytes
were there when the file was made anew, and the client's own name, the same in all its lives), then
decisions. Beside it `decisions.synced` holds the generation and the length that was surely synced,
with a checksum: it is overwritten in place, and half of a new one before half of an old one says
too much. A torn tail is cut only beyond that; anything bad before it stops the client (the rule of
segments, design section 6). Acks are not recorded: a file made anew keeps what isn't forgotten yet.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import structlog

from tidelog import record, synced
from tidelog.errors import Corrupt
from tidelog.ports import Disk, File
from tidelog.pump_client.decisions.decisions import Decision

log = structlog.get_logger()

PATH: Final = "decisions.log"
SYNCED_PATH: Final = "decisions.synced"

_HEAD = struct.Struct("<QQQ")
_DECISION = struct.Struct("<QQ")
DECISION_BYTES: Final = record.HEADER_BYTES + _DECISION.size


class Journal:
    """Durable decisions of one client; its directory is locked by whoever uses it."""

    def __init__(self, disk: Disk, fresh_owner: str) -> None:
        """`fresh_owner`: its name if this is the first life."""
        self._disk = disk
        self.owner = fresh_owner
        self._file: File
        self._synced: File
        self._files: tuple[File, ...] = ()
        self._generation = 0
        self.floor = 0

    @property
    def records(self) -> int:
        """How many decisions the file has room for."""
        return self._file.size // DECISION_BYTES

    async def open(self) -> list[Decision]:
        """What earlier lives decided. The file is made anew: so all of it is on the disk before
        anybody hears of it. Raises Corrupt, IoFailed, DiskFull."""
        self._synced = await self._disk.open(SYNCED_PATH, create=True)
        self._files = (self._synced,)
        await self._disk.sync_dir(".")
        decisions: list[Decision] = []
        if self._disk.exists(PATH):
            decisions = self._parse(self._disk.read_file(PATH))
        await self._make(decisions, self.floor)
        return decisions

    async def append(self, decisions: Sequence[Decision]) -> None:
        """One write and one fdatasync for all. After a failure the file takes no more."""
        frames = [record.frame(_DECISION.pack(d.start_ts, d.commit_ts)) for d in decisions]
        await self._file.append(frames, sync=True)
        known = synced.Synced(self._generation, self._file.size, 0)
        self._synced.overwrite(synced.pack(known))

    async def make_anew(self, decisions: Sequence[Decision], floor: int) -> None:
        """Keep only these."""
        self._file.close()
        await self._make(decisions, floor)

    def close(self) -> None:
        """However far it was opened."""
        for file in self._files:
            file.close()

    async def _make(self, decisions: Sequence[Decision], floor: int) -> None:
        self._generation += 1
        self.floor = floor
        owner = self.owner.encode()
        size = record.HEADER_BYTES + _HEAD.size + len(owner) + len(decisions) * DECISION_BYTES
        frames = [record.frame(_HEAD.pack(self._generation, floor, size) + owner)]
        frames += [record.frame(_DECISION.pack(d.start_ts, d.commit_ts)) for d in decisions]
        await self._disk.write_file(PATH, b"".join(frames))
        self._file = await self._disk.open(PATH)
        self._files = (self._synced, self._file)

    def _parse(self, data: bytes) -> list[Decision]:
        found = record.split(data)
        records = [bytes(payload) for _, payload in found.records]
        if not records or len(records[0]) <= _HEAD.size:
            raise Corrupt(f"{PATH} at offset 0: it has no head")
        self._generation, self.floor, whole = _HEAD.unpack_from(records[0])
        self.owner = records[0][_HEAD.size :].decode()
        marked = synced.unpack(self._synced.read(0, self._synced.size))
        if marked is not None and marked.fid == self._generation:
            whole = max(whole, marked.offset)
        if found.consumed < whole:
            raise Corrupt(
                f"{PATH} at offset {found.consumed}: a bad record, {whole} bytes were synced"
            )
        if found.consumed < len(data):
            log.warning("cut a torn tail", file=PATH, bytes=len(data) - found.consumed)
        return [Decision(*_DECISION.unpack(payload)) for payload in records[1:]]


class Memory:
    """Instead of a file: outlives the coordinator's restarts, not the process."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._decisions: list[Decision] = []
        self.floor = 0

    async def open(self) -> list[Decision]:
        return list(self._decisions)

    async def append(self, decisions: Sequence[Decision]) -> None:
        self._decisions += decisions

    async def make_anew(self, decisions: Sequence[Decision], floor: int) -> None:
        self._decisions, self.floor = list(decisions), floor

    def close(self) -> None:
        pass

    @property
    def records(self) -> int:
        return len(self._decisions)

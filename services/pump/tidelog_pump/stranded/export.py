"""`stranded/<tombstone>-<epoch>/`: stranded records as segments, and `export.json` about them.

The segments have the original's format, so that `tidelog inspect` reads them, and a Pump that is
given them as its `value/` would serve them. A Prewrite is there as it was stored; a Commit, whose
place the index doesn't keep, is made anew behind it. export.json is written last: where it is, the
export is whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import msgspec

from tidelog import record
from tidelog.errors import Corrupt, Purged
from tidelog.ports import Disk, File
from tidelog_proto import binlog_pb2
from tidelog_pump.log.files import DIRECTORY
from tidelog_pump.log.files import name as segment_name
from tidelog_pump.log.segments import Segments
from tidelog_pump.stranded.records import Stray

EXPORT_FILE = "export.json"
UNREADABLE = 16
"""Of those that can't be read any more, how many are named."""
WHAT_TO_DO = (
    "These transactions were acked by this Pump and, as far as the cluster knows, read by nobody: "
    "the Pump was taken offline up to the tombstone. `tidelog inspect` shows them, with --ts each "
    "one. Those with a commit_ts are committed upstream: compare their rows with the downstream "
    "and mend it, or begin the feeds again from a copy of the source. Of the open ones only the "
    "upstream knows the end. Then make the file `accepted` beside this one: the Pump joins as a "
    "new one, and what no reader is past yet is read from it as usual."
)


class Exported(msgspec.Struct):
    """Counts of transactions; `first` and `last` are commit_ts. `unreadable` are among neither."""

    node: str
    epoch: int
    tombstone_ts: int
    committed: int = 0
    open: int = 0
    unpaired: int = 0
    first: int = 0
    last: int = 0
    bytes: int = 0
    files: list[str] = []
    unreadable: int = 0
    unreadable_names: list[str] = []
    what_to_do: str = WHAT_TO_DO

    @property
    def count(self) -> int:
        return self.committed + self.open + self.unpaired + self.unreadable

    def told(self) -> str:
        """For status and log."""
        between = f" from {self.first} to {self.last}" if self.first else ""
        parts = [f"{self.committed} transactions committed{between}"]
        parts += [f"{self.open} open Prewrites"] if self.open else []
        parts += [f"{self.unpaired} Commits without their Prewrite"] if self.unpaired else []
        parts += [f"{self.unreadable} that can't be read"] if self.unreadable else []
        return ", ".join(parts)


def folder(tombstone_ts: int, epoch: int) -> str:
    """Of each tombstone a folder: a later one touches nothing that an operator has yet to see."""
    return f"stranded/{tombstone_ts}-{epoch}"


class Export:
    """Writes one. Of a run that was cut short another begins anew."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        found: Exported,
        segment_bytes: int,
        progress: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._segments = segments
        self._found = found
        self._most = segment_bytes
        self._progress = progress
        self._at = folder(found.tombstone_ts, found.epoch)
        self._file: File | None = None
        self._max_ts = 0

    async def run(self, strays: Iterator[Stray]) -> Exported:
        """Raises DiskFull, IoFailed."""
        await self._begin()
        try:
            async for stray, payloads in self._read(strays):
                await self._append(payloads, max(stray.start_ts, stray.commit_ts))
                self._count(stray)
            await self._close()
        finally:
            if self._file is not None:
                self._file.close()
        body = msgspec.json.format(msgspec.json.encode(self._found))
        await self._disk.write_file(f"{self._at}/{EXPORT_FILE}", body)
        return self._found

    async def _begin(self) -> None:
        place = f"{self._at}/{DIRECTORY}"
        self._disk.mkdir(place)
        for name in self._disk.listdir(place):
            await self._disk.remove(f"{place}/{name}")
        for above in (".", "stranded", self._at):
            await self._disk.sync_dir(above)

    async def _read(self, strays: Iterator[Stray]) -> AsyncIterator[tuple[Stray, list[bytes]]]:
        for stray in strays:
            self._progress()
            try:
                payloads = [
                    self._segments.payload(at) for at in (stray.prewrite, stray.commit) if at
                ]
            except (Purged, Corrupt) as error:
                self._found.unreadable += 1
                if len(self._found.unreadable_names) < UNREADABLE:
                    self._found.unreadable_names.append(f"{stray.start_ts}: {error.message}")
                continue
            if stray.commit is None and stray.commit_ts:
                commit = binlog_pb2.Binlog(
                    tp=binlog_pb2.Commit, start_ts=stray.start_ts, commit_ts=stray.commit_ts
                )
                payloads.append(commit.SerializeToString())
            yield stray, payloads

    def _count(self, stray: Stray) -> None:
        found, ts = self._found, stray.commit_ts
        if not ts:
            found.open += 1
            return
        if stray.prewrite is None:
            found.unpaired += 1
        else:
            found.committed += 1
        found.first = min(found.first or ts, ts)
        found.last = max(found.last, ts)

    async def _append(self, payloads: list[bytes], max_ts: int) -> None:
        if self._file is not None and self._file.size > self._most:
            await self._close()
        if self._file is None:
            name = segment_name(len(self._found.files))
            self._file = await self._disk.open(f"{self._at}/{name}", create=True)
            self._found.files.append(name)
        chunks = [part for payload in payloads for part in (record.header(payload), payload)]
        await self._file.append(chunks, sync=False)
        self._max_ts = max(self._max_ts, max_ts)

    async def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                await file.append([record.footer(self._max_ts)], sync=True)
                self._found.bytes += file.size
            finally:
                file.close()
            await self._disk.sync_dir(f"{self._at}/{DIRECTORY}")
        self._max_ts = 0

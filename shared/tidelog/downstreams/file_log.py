"""A directory of pb_binlog files that is appended to, on the Disk port.

Whatever was appended counts once its place is saved (`savepoint`): at the next open the files are
cut there, so a transaction is never half in them, nor twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.errors import Stopped
from tidelog.failpoints import hit
from tidelog.pb_files import names
from tidelog.pb_files.framing import frame
from tidelog.pb_files.names import FileName
from tidelog.ports import Buffer, Disk, File

_LOST_HINT = "restore the directory from a backup, or give the feed an empty one"


class Place(msgspec.Struct, frozen=True):
    """Everything before it is whole. `file` -1: before the first file."""

    file: int = -1
    offset: int = 0


class FileLog:
    """One writer. After an error open another one."""

    def __init__(self, disk: Disk, segment_bytes: int) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._files: list[FileName] = []
        self._file: File | None = None

    @property
    def place(self) -> Place:
        """Where the next record goes, if the file is not full."""
        if self._file is None:
            return Place()
        return Place(self._files[-1].number, self._file.size)

    async def open(self, place: Place) -> int:
        """Cut what stands behind `place`; returns how many bytes that were. Raises Stopped for a
        file that is missing or shorter than that."""
        self._files = names.in_order(self._disk.listdir(""))
        behind = 0
        while self._files and self._files[-1].number > place.file:
            name = self._files.pop().text
            behind += self._disk.size(name)
            await self._disk.remove(name)
        if place.file < 0:
            return behind
        if not self._files or self._files[-1].number != place.file:
            raise Stopped(f"file {place.file} of the savepoint is missing", hint=_LOST_HINT)
        last = self._files[-1]
        self._file = file = await self._disk.open(last.text)
        if file.size < place.offset:
            raise Stopped(
                f"{last.text} has {file.size} bytes, the savepoint says {place.offset}",
                hint=_LOST_HINT,
            )
        if file.size > place.offset:
            behind += file.size - place.offset
            await file.truncate(place.offset)
        return behind

    async def append(self, payloads: Sequence[tuple[int, Buffer]], *, sync: bool) -> None:
        """Records with their commit_ts. A file is left, synced, once it is full. Raises IoFailed,
        DiskFull."""
        chunks: list[Buffer] = []
        waiting = 0
        for commit_ts, payload in payloads:
            if self._file is None or self._file.size + waiting >= self._segment_bytes:
                await self._write(chunks, sync=True)
                chunks, waiting = [], 0
                await self._begin(commit_ts)
            framed = frame(payload)
            chunks += framed
            waiting += sum(map(len, framed))
        await self._write(chunks, sync=sync)

    async def _write(self, chunks: Sequence[Buffer], *, sync: bool) -> None:
        if self._file is None:
            return
        if chunks:
            await self._file.append(chunks, sync=sync)
            hit("applier.files.written")
        elif sync:
            await self._file.sync()

    async def _begin(self, commit_ts: int) -> None:
        number = self._files[-1].number + 1 if self._files else 0
        name = names.parse(names.file_name(number, commit_ts))
        assert name is not None
        if self._file is not None:
            self._file.close()
        self._file = await self._disk.open(name.text, create=True)
        self._files.append(name)
        await self._disk.sync_dir("")

    async def purge(self, before_ms: int) -> list[str]:
        """Remove the files whose last record is older (Unix milliseconds): it is as old as the
        beginning of the next one. The newest stays. Returns their names."""
        gone = []
        while len(self._files) > 1 and 0 < self._files[1].begun_ms < before_ms:
            gone.append(self._files.pop(0).text)
            await self._disk.remove(gone[-1])
            await self._disk.sync_dir("")  # else a power loss may bring back an older one alone
        return gone

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

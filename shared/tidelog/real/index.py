"""The IndexStore port on RocksDB (rocksdict, raw mode; library-traps G16-G20).

A write holds the interpreter for its whole length, so batches are cut small, nothing is synced (the
index is rebuilt from the segments), and every trigger that would make a write wait for a compaction
is out of reach. The write-ahead log stays on: without it a write is a third cheaper, but each kill
of the process would cost a scan of what the memtables held.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rocksdict import Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from tidelog.errors import Corrupt, DiskFull, InvariantBroken, IoFailed, TidelogError

BATCH_ENTRIES = 4096
BATCH_BYTES = 1 << 20
MEMTABLE_BYTES = 16 << 20
MEMTABLES = 16
"""Writes wait only when this many memtables are full: 256 MiB behind the flush."""
BEHIND = 12
"""So many that wait for the flush, and the caller is told to wait."""
FAILED = "failed"
"""A file in the directory: a call failed, so the next `open` must not trust what is there."""
NEVER = 1 << 30
MAX_KEY = 32
_CLOSED = "the index is used after it was closed"


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(MEMTABLES)
    options.set_level_zero_slowdown_writes_trigger(NEVER)
    options.set_level_zero_stop_writes_trigger(NEVER)
    options.set_soft_pending_compaction_bytes_limit(0)
    options.set_hard_pending_compaction_bytes_limit(0)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 << 20)
    options.set_stats_dump_period_sec(0)
    return options


class RocksIndex:
    """Open one directory. Raises Corrupt when RocksDB can't, DiskFull when it finds no room for
    what it writes then; either way it may be deleted and rebuilt."""

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._failed = ""
        if (Path(path) / FAILED).exists():
            raise self._corrupt("a call of it failed before the last restart")
        try:
            self._db = Rdict(self._path, _options())
        except Exception as error:
            if os.strerror(errno.ENOSPC) in str(error):
                raise DiskFull(f"the index {self._path} can't be opened: {error}") from error
            raise self._corrupt(str(error)) from error
        self._unsynced = WriteOptions()
        # Not synced, but in the page cache: a killed process loses nothing, a dead machine a tail.
        self._unsynced.sync = False
        self._synced = WriteOptions()
        self._synced.sync = True
        self._closed = False

    def _corrupt(self, why: str) -> Corrupt:
        return Corrupt(
            f"the index {self._path} can't be opened: {why}",
            hint="it is derived: delete this directory, it is rebuilt from the segments",
        )

    def _fail(self, error: Exception) -> TidelogError:
        """What RocksDB says in a call is not told apart: damaged blocks, a full disk, a bug. It is
        derived, so whatever it was, the next start builds it again. But one that was closed in
        order is whole, whoever asks it still."""
        return InvariantBroken(_CLOSED) if self._closed else self._mark(error)

    def _mark(self, error: Exception) -> IoFailed:
        self._failed = f"{self._path}: {error}"
        try:
            (Path(self._path) / FAILED).write_text(f"{error}\n")
        except OSError as second:
            self._failed += f" (and it can't be marked: {second})"
        return IoFailed(self._failed)

    def behind(self) -> bool:
        if self._failed:
            raise IoFailed(self._failed)
        try:
            waiting = self._db.property_int_value("rocksdb.num-immutable-mem-table")
        except Exception as error:
            raise self._fail(error) from error
        return waiting is not None and waiting >= BEHIND

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        """Atomic up to BATCH_ENTRIES entries and BATCH_BYTES; a larger one goes in pieces, in
        order, puts first, and a crash may lose pieces from the end only."""
        batch = WriteBatch(raw_mode=True)
        size = 0
        for key, value in puts:
            batch.put(key, value)
            size += len(key) + len(value)
            if len(batch) >= BATCH_ENTRIES or size >= BATCH_BYTES:
                self._write(batch)
                batch, size = WriteBatch(raw_mode=True), 0
        for key in deletes:
            batch.delete(key)
            if len(batch) >= BATCH_ENTRIES:
                self._write(batch)
                batch = WriteBatch(raw_mode=True)
        if len(batch):
            self._write(batch)

    def _write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch, self._unsynced)
        except Exception as error:
            raise self._fail(error) from error

    def get(self, key: bytes) -> bytes | None:
        try:
            found: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._fail(error) from error
        return found

    def scan(self, start: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        if start >= stop or limit <= 0:
            return []
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(stop)
        try:
            found = self._first(start, bounds, limit)
            if len(found) < limit:
                self._check_end(found[-1][0] + b"\x00" if found else start, bounds)
        except Exception as error:
            raise self._fail(error) from error
        return found

    def _first(self, start: bytes, bounds: ReadOptions, limit: int) -> list[tuple[bytes, bytes]]:
        items = self._db.items(from_key=start, read_opt=bounds)
        try:
            return list(islice(iter(items), limit))  # type: ignore[arg-type]
        finally:
            del items  # an iterator that lives pins memory and the lock

    def _check_end(self, key: bytes, bounds: ReadOptions) -> None:
        """An iteration that meets a damaged block ends there as if nothing followed: what is not
        found would be taken for nothing. Raises if there is more, or it can't be known."""
        rest = self._db.iter(bounds)
        try:
            rest.seek(key)
            if rest.valid():
                raise IoFailed("a scan ended too early")
            rest.status()
        finally:
            del rest

    def delete_range(self, start: bytes, stop: bytes) -> None:
        if start < stop:
            try:
                self._db.delete_range(start, stop, self._unsynced)
            except Exception as error:
                raise self._fail(error) from error

    def clear(self) -> None:
        try:
            self._db.delete_range(b"", b"\xff" * MAX_KEY, self._synced)
        except Exception as error:
            raise self._fail(error) from error

    def close(self) -> None:
        """Flush, so that the next start finds everything; closing twice is no error. Raises
        IoFailed: it is closed, and the next `open` does not trust what is there."""
        if self._closed:
            return
        self._closed = True
        failed: list[Exception] = []
        # Closed in any case: or nobody in this process could open the path again.
        for call in (self._db.flush, self._db.close):
            try:
                call()
            except Exception as error:  # noqa: BLE001 (what the binding raises)
                failed.append(error)
        if failed:
            raise self._mark(failed[0]) from failed[0]

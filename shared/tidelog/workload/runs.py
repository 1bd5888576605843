"""Runs that follow each other in one directory: the later one knows that the earlier are over.

A workload is the database whose binlogs it writes, and one that was killed left Prewrites open.
Nobody else can say what became of them, and a feed waits for that. Who holds the directory's lock
can: whoever might have committed them is gone, so they are rolled back, for good.
"""

from __future__ import annotations

import msgspec

from tidelog.errors import Corrupt
from tidelog.ports import Disk, Lock
from tidelog.unreadable import NOT_READABLE

LOCK_FILE = ".lock"
RECORD_FILE = "runs.json"


class Record(msgspec.Struct, frozen=True):
    """`first_ts`: every transaction of every run in this directory began at or above it."""

    first_ts: int


def take(disk: Disk) -> Lock:
    """The directory, for as long as the run lasts. Raises DirectoryLocked."""
    return disk.lock(LOCK_FILE)


async def first_of_all(disk: Disk, first_ts: int) -> int:
    """The first run's `first_ts`, durable; the present one's if this is the first. Raises
    Corrupt."""
    if not disk.exists(RECORD_FILE):
        await disk.write_file(RECORD_FILE, msgspec.json.encode(Record(first_ts)))
        return first_ts
    try:
        return msgspec.json.decode(disk.read_file(RECORD_FILE), type=Record).first_ts
    except NOT_READABLE as error:
        raise Corrupt(
            f"{RECORD_FILE} can't be read: {error}",
            hint="remove it: what earlier runs left open then waits for `tidelog resolve`",
        ) from error

"""The relay's files by name, and what each begins with."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from tidelog import record
from tidelog.errors import Corrupt, ForeignCluster, ForeignDirectory, UnparsablePayload
from tidelog.ports import Buffer, Disk, File
from tidelog.relay import records
from tidelog_proto.relay_pb2 import RelayRecord

HEADER_READ = 4 << 10
"""More than a header takes: a feed's name, and two numbers."""
_NAME = re.compile(r"relay-(\d{6,10})")
HINT = (
    "look at it with `tidelog inspect`; while the feed's stream still holds what is not applied,"
    " the relay's directory may be deleted with all that is in it"
)


@dataclass
class Part:
    """One file. `prev_commit_ts`: what stands before it; `begin`: where its header ends."""

    disk: Disk
    number: int
    path: str
    file: File
    prev_commit_ts: int = 0
    begin: int = 0


@dataclass(frozen=True)
class Owner:
    """Whose changes a relay holds. `cluster_id` 0 = unknown, then any will do."""

    feed: str
    cluster_id: int

    def check(self, path: str, feed: str, cluster_id: int) -> None:
        """Raises ForeignDirectory, ForeignCluster."""
        if feed != self.feed:
            raise ForeignDirectory(
                f"{path} is of feed {feed!r}, not of {self.feed!r}",
                hint="give each feed's Applier a directory of its own",
            )
        if cluster_id and self.cluster_id and cluster_id != self.cluster_id:
            raise ForeignCluster(
                f"{path} is of cluster {cluster_id}, not of {self.cluster_id}",
                hint="give each cluster's Applier a directory of its own, or set cluster-id",
            )


class Folder:
    """A relay's directory within a disk; "" = the disk's own."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.synced = posixpath.join(directory, "synced")

    async def make(self) -> None:
        """Durably: else a power loss takes the directory, and all in it."""
        place = self.directory
        if place:
            self.disk.mkdir(place)
        while place:
            place = posixpath.dirname(place)
            await self.disk.sync_dir(place)

    async def sync(self) -> None:
        await self.disk.sync_dir(self.directory)

    def path(self, number: int) -> str:
        return posixpath.join(self.directory, f"relay-{number:06d}")

    def numbers(self) -> list[int]:
        """Of the relay's files, oldest first. Others are left alone."""
        entries = self.disk.listdir(self.directory)
        return sorted(int(match[1]) for entry in entries if (match := _NAME.fullmatch(entry)))

    async def open(self, number: int, *, create: bool = False) -> Part:
        path = self.path(number)
        return Part(self.disk, number, path, await self.disk.open(path, create=create))


def read_header(part: Part) -> tuple[str, int] | None:
    """Feed and cluster id; the rest is set in `part`. None if no whole header is there. Raises
    Corrupt for a first record that is something else."""
    found = record.split(part.file.read(0, HEADER_READ)).records
    if not found:
        return None
    one = parsed(part.path, 0, found[0][1])
    if one.WhichOneof("content") != "header":
        raise corrupt(part.path, 0, "a file begins with a header, this one doesn't")
    part.prev_commit_ts = one.header.prev_commit_ts
    part.begin = record.HEADER_BYTES + len(found[0][1])
    return one.header.feed, one.header.cluster_id


def parsed(path: str, offset: int, payload: Buffer) -> RelayRecord:
    """Raises Corrupt."""
    try:
        return records.parsed(payload)
    except UnparsablePayload as error:
        raise corrupt(path, offset, error.message) from error


def corrupt(path: str, offset: int, what: str) -> Corrupt:
    return Corrupt(f"{path} at offset {offset}: {what}", hint=HINT)

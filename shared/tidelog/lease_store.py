"""Where a lease stands: a record in a bucket, changed only by revision, and who we are in the data
directory. The registry's and each feed's are made of it.

No clock is compared with another one: a record is old by how long whoever looks at it has seen it
unchanged.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from tidelog.errors import Corrupt
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.sealed import read_sealed, seal
from tidelog.unreadable import NOT_READABLE

FILE = "lease.json"
UNREADABLE = "delete it: its node waits for its own lease then, as for another one's"
WRITE_S = 1.5
"""Shorter than any lease: an answer that does not come must leave time for another try."""


class Holder(msgspec.Struct, frozen=True):
    """`owner` names a data directory, whose lock keeps other processes off it, except off a copy of
    it; `epoch` counts the takings of the lease, `life` is drawn at each. `host`: where the holder's
    status page is. `paused`: of a feed's, it holds the lease and publishes nothing, by an order."""

    owner: str
    epoch: int = 0
    life: str = ""
    node: str = ""
    host: str = ""
    since_ms: int = 0
    released: bool = False
    paused: bool = False

    def follows(self, other: Holder) -> bool:
        """Was the lease taken from that one, by whomever?"""
        return self.epoch >= other.epoch and self.life != other.life

    def is_of(self, other: Holder) -> bool:
        """Did that one's directory write it? What a copy of the directory wrote since follows."""
        return self.owner == other.owner and not self.follows(other)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(" ", "seconds")
        return f"{self.node or self.owner} at {self.host or '?'} (since {since})"


class LeaseStore:
    """The record `key` of `bucket`, which is created when it is missing."""

    def __init__(self, ports: Ports, bucket: str, key: str) -> None:
        self._disk = ports.disk
        self._rng = ports.rng
        self._bucket = Bucket(ports.bus, bucket)
        self._key = key

    async def known(self) -> tuple[Holder, bool]:
        """Who we were in our last life, and whether there was one. Raises Corrupt."""
        mine = read_sealed(self._disk, FILE, Holder, UNREADABLE)
        return mine or Holder(self._rng.token()), mine is not None

    async def remember(self, mine: Holder) -> None:
        await self._disk.write_file(FILE, seal(mine))

    async def read(self) -> tuple[Holder | None, int]:
        """The record and the revision to replace. Raises Corrupt, Unavailable."""
        entry, revision = await self._bucket.read_or_create(self._key)
        if entry is None:
            return None, revision
        try:
            return msgspec.json.decode(entry.value, type=Holder), revision
        except NOT_READABLE as error:
            raise Corrupt(f"the lease {self._key} can't be read: {error}") from error

    async def write(self, holder: Holder, revision: int) -> int:
        """Replace that revision; returns the new one.

        Raises Conflict, StreamMissing, Unavailable.
        """
        return await self._bucket.put(
            self._key, msgspec.json.encode(holder), expected=revision, timeout_s=WRITE_S
        )

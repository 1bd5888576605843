"""Where the oracle's bound is durable: our data directory, and a record in the registry bucket
that fences allocators against each other (I9)."""

from __future__ import annotations

import msgspec

from tidelog import subjects
from tidelog.errors import Conflict, Corrupt, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.sealed import read_sealed, seal
from tidelog.unreadable import NOT_READABLE
from tidelog_registry.lease.tenure import AnotherRegistry, Tenure

FILE = "tso.json"
KEY = "tso"
WRITE_S = 1.5
"""How long an answer is waited for: the bound lies 3 s ahead."""


class Bound(msgspec.Struct, frozen=True):
    """`owner` names a data directory: only its registry may give timestamps up to `bound`, and of
    it and of its copies only the one that leads by `epoch`."""

    owner: str
    bound: int
    epoch: int = 0


class BoundStore:
    def __init__(self, ports: Ports, cluster: str, tenure: Tenure) -> None:
        self._tenure = tenure
        self._disk = ports.disk
        self._rng = ports.rng
        self._bucket = Bucket(ports.bus, subjects.registry_bucket(cluster))
        self._mine = Bound("", 0)
        self._revision = 0

    @property
    def owner(self) -> str:
        return self._mine.owner

    async def open(self) -> int:
        """Our own last bound, 0 for a new data directory. Raises Corrupt."""
        mine = read_sealed(self._disk, FILE, Bound)
        if mine is None:
            mine = Bound(self._rng.token(), 0)
            await self._disk.write_file(FILE, seal(mine))
        self._mine = mine
        return mine.bound

    async def _recorded(self) -> tuple[Bound | None, int]:
        """The record in the bucket and the revision to replace. Raises Unavailable."""
        entry, revision = await self._bucket.read_or_create(KEY)
        return None if entry is None else _decode(entry.value), revision

    async def claim(self) -> int:
        """Make the record ours, so that whatever its earlier owner has under way is refused.

        Returns the bound it had, 0 = there was none. Raises Conflict, Unavailable (try again).
        """
        found, revision = await self._recorded()
        bound = found.bound if found is not None else 0
        data = msgspec.json.encode(Bound(self.owner, bound, self._tenure.epoch))
        try:
            self._revision = await self._bucket.put(KEY, data, expected=revision, timeout_s=WRITE_S)
        except StreamMissing as error:
            raise Unavailable("the registry bucket was deleted this moment") from error
        return bound

    async def extend(self, bound: int) -> None:
        """Make the bound durable in both places.

        Raises AnotherRegistry if a later one claimed the record, or somebody else went further;
        Unavailable, DiskFull (try again).
        """
        mine = Bound(self.owner, bound, self._tenure.epoch)
        hit("registry.tso.before_bound")
        await self._disk.write_file(FILE, seal(mine))
        hit("registry.tso.bound_kept")
        self._mine = mine
        try:
            self._revision = await self._bucket.put(
                KEY, msgspec.json.encode(mine), expected=self._revision, timeout_s=WRITE_S
            )
        except (Conflict, StreamMissing, Unavailable) as refusal:
            found, revision = await self._recorded()
            if found is not None and _ahead(found, mine):
                raise AnotherRegistry(
                    f"allocator {found.owner} gave timestamps up to {found.bound}"
                ) from refusal
            # Ours of before, lost or rolled back with its store, or an answer that didn't arrive.
            self._revision = revision
            raise Unavailable(f"the oracle's record is not written: {refusal}") from refusal


def _ahead(found: Bound, mine: Bound) -> bool:
    further = found.owner != mine.owner and found.bound > mine.bound
    return further or found.epoch > mine.epoch


def _decode(data: bytes) -> Bound:
    try:
        return msgspec.json.decode(data, type=Bound)
    except NOT_READABLE as error:
        raise Corrupt(f"the oracle's bound can't be read: {error}") from error

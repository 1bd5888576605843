"""Where the oracle's bound is durable: our data directory, and a record in the registry bucket
that fences allocators against each other (I9)."""

from __future__ import annotations

import msgspec

from tidelog import subjects
from tidelog.errors import Conflict, Corrupt, Stopped, StreamMissing, Unavailable
from tidelog.kv import Bucket
from tidelog.ports import Ports

FILE = "tso.json"
KEY = "tso"
TRIES = 5


class Bound(msgspec.Struct, frozen=True):
    """`owner` names a data directory: only its registry may give timestamps up to `bound`."""

    owner: str
    bound: int


class AnotherAllocator(Stopped):
    """Two registries give timestamps in one cluster."""

    default_hint = "run one registry for a cluster; this one stops"


class BoundStore:
    def __init__(self, ports: Ports, cluster: str) -> None:
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
        if self._disk.exists(FILE):
            self._mine = _decode(self._disk.read_file(FILE))
        else:
            self._mine = Bound(self._rng.token(), 0)
            await self._disk.write_file(FILE, msgspec.json.encode(self._mine))
        return self._mine.bound

    async def recorded(self) -> tuple[Bound | None, int]:
        """The record in the bucket and its revision. Raises Unavailable."""
        await self._bucket.create()
        try:
            entry = await self._bucket.get(KEY)
        except StreamMissing as error:
            raise Unavailable("the registry bucket was deleted this moment") from error
        return (None, 0) if entry is None else (_decode(entry.value), entry.revision)

    def take_over(self, revision: int) -> None:
        """The next extension replaces this revision, whoever wrote it."""
        self._revision = revision

    async def extend(self, bound: int) -> None:
        """Make the bound durable in both places.

        Raises AnotherAllocator if somebody else holds the record, Unavailable (try again).
        """
        mine = Bound(self.owner, bound)
        data = msgspec.json.encode(mine)
        await self._disk.write_file(FILE, data)
        self._mine = mine
        for _ in range(TRIES):
            try:
                self._revision = await self._bucket.put(KEY, data, expected=self._revision)
                return
            except (Conflict, StreamMissing, Unavailable) as error:
                refusal = error
            found, revision = await self.recorded()
            if found is not None and found.owner != self.owner:
                raise AnotherAllocator(f"allocator {found.owner} took over the oracle's record")
            # Ours of before, lost with its store, or an answer that didn't arrive.
            self._revision = revision
        raise Unavailable(f"the oracle's record can't be written: {refusal}")


def _decode(data: bytes) -> Bound:
    try:
        return msgspec.json.decode(data, type=Bound)
    except msgspec.DecodeError as error:
        raise Corrupt(f"the oracle's bound can't be read: {error}") from error

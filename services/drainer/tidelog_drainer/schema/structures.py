"""Public structures in SCHEMAS_<FEED>, written before anything names them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from tidelog.errors import StreamMissing
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.schema.structure import TableStructure
from tidelog.sealed import read_sealed, seal

LOOK_S = 1.0
AT_ONCE = 200
"""Structures in one append, where there are many; so many bytes at most."""
AT_ONCE_BYTES = 512 << 10
WRITTEN_MAX = 1 << 18
"""Keys remembered as written; older ones are written again where they are met again."""
SCHEMAS_FILE = "schemas.json"
UNREADABLE = (
    "delete it, and everything is written again to the feed's bucket of structures; without it"
    " a loss of that bucket while the Drainer is down is not noticed"
)


class Known(msgspec.Struct, frozen=True):
    """The bucket as this Drainer last wrote it, kept in its directory: by it one that was deleted,
    recreated or rolled back is recognised. `first_job` and `last_job`: of the DDL history, by
    which a shorter one is recognised; 0: nobody looked."""

    created: str
    last_seq: int
    first_job: int = 0
    last_job: int = 0


class Structures:
    def __init__(self, ports: Ports, bucket: Bucket) -> None:
        self._ports = ports
        self._bucket = bucket
        self._written: OrderedDict[str, None] = OrderedDict()
        self._looked_at = -LOOK_S
        self._lost = False
        self._writing = asyncio.Lock()
        self.known: Known | None = None

    def recall(self) -> None:
        """What an earlier life wrote, so that a loss meanwhile is seen. Raises Corrupt."""
        self.known = read_sealed(self._ports.disk, SCHEMAS_FILE, Known, UNREADABLE)

    async def is_lost(self) -> bool:
        """Is the bucket another one than the one written? Asked once a second. Raises
        Unavailable."""
        time = self._ports.clock.monotonic()
        known = self.known  # the snapshot is written beside it, and may be answered first
        if known is None or (time - self._looked_at < LOOK_S and not self._lost):
            return False
        state = await self._bucket.state()
        shorter = state is not None and state.last_seq < known.last_seq
        if state is None or shorter or state.created != known.created:
            self._lost = True
        self._looked_at = time
        return self._lost

    async def begin_anew(self) -> None:
        """The bucket was lost: nothing is written yet. It counts as lost until `found`."""
        state = await self._bucket.create()
        known = self.known or Known("", 0)
        self.known = Known(state.created, 0, known.first_job, known.last_job)
        self._lost = True
        self._written.clear()

    def found(self) -> None:
        """Everything was written again."""
        self._lost = False

    async def exist(self) -> None:
        """Make the bucket, if this Drainer never had one."""
        if self.known is None:
            state = await self._bucket.create()
            self.known = Known(state.created, 0)

    async def publish(self, structures: dict[str, TableStructure]) -> None:
        """Write the structures, by key, that this life has not yet written.

        Raises Unavailable, StreamMissing: the outcome doesn't matter, writing again changes
        nothing.
        """
        new = {key: structures[key] for key in structures if key not in self._written}
        if not new:
            return
        await self.exist()
        for part in _parts({key: msgspec.json.encode(one) for key, one in new.items()}):
            assert self.known is not None
            before = self.known.last_seq  # what is written meanwhile may be answered first
            revision = await self._bucket.put_all(part, ttl_s=0)
            if revision <= before:
                self._lost = True
                raise StreamMissing(f"{self._bucket.name} was rolled back")
            await self.remember(revision)
            self._written.update(dict.fromkeys(part))
        while len(self._written) > WRITTEN_MAX:
            self._written.popitem(last=False)

    @property
    def remembered(self) -> int:
        """How many are known to be written."""
        return len(self._written)

    def forget(self, keys: Iterable[str]) -> None:
        """They are written again where they are met again."""
        for key in keys:
            self._written.pop(key, None)

    async def remember(self, revision: int, first_job: int = 0, last_job: int = 0) -> None:
        """The bucket holds this revision, and the history these jobs."""
        known = self.known or Known("", 0)
        self.known = Known(
            known.created,
            max(known.last_seq, revision),
            first_job or known.first_job,
            max(last_job, known.last_job),
        )
        async with self._writing:  # a batch's structures and the snapshot are written at a time
            await self._ports.disk.write_file(SCHEMAS_FILE, seal(self.known))


def _parts(values: dict[str, bytes]) -> Iterable[dict[str, bytes]]:
    part: dict[str, bytes] = {}
    size = 0
    for key, value in values.items():
        if part and (len(part) >= AT_ONCE or size + len(value) > AT_ONCE_BYTES):
            yield part
            part, size = {}, 0
        part[key] = value
        size += len(value)
    if part:
        yield part

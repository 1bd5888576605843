"""Table structures by (db, table, version), from the feed's bucket of schemas."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.changes import DdlMessage, schema_key
from tidelog.errors import Corrupt, StreamMissing, Unavailable
from tidelog.kv import Bucket, Entry
from tidelog.ports import Ports
from tidelog.relay import TableKey
from tidelog.schema.structure import TableStructure
from tidelog.subjects import schemas_bucket
from tidelog.unreadable import NOT_READABLE

CACHED = 4096
TRIES = 4
PAUSE_S = 0.5
_STRUCTURE = msgspec.json.Decoder(TableStructure)


class Structures:
    """A bounded cache; a structure never changes under its key."""

    def __init__(self, ports: Ports, feed: str) -> None:
        self._ports = ports
        self._bucket = Bucket(ports.bus, schemas_bucket(feed))
        self._known: dict[TableKey, TableStructure] = {}

    async def get(self, db: str, table: str, version: int) -> TableStructure:
        """Raises Unavailable, also while nobody has published it: the Drainer writes
        structures again when it sees that their bucket was lost. Raises Corrupt where somebody
        else wrote there."""
        key = (db, table, version)
        found = self._known.get(key)
        if found is None:
            found = await self._fetch(db, table, version)
            if len(self._known) >= CACHED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = found
        return found

    async def all(self, keys: Iterable[TableKey]) -> dict[TableKey, TableStructure]:
        """Raises as `get`."""
        return {key: await self.get(*key) for key in keys}

    def forget(self, ddl: DdlMessage) -> None:
        """Of its tables what was before it: the rows behind it name what is after it, and one that
        names an older version all the same has it fetched again."""
        for one in ddl.tables:
            if one.before is not None:
                self._known.pop((one.db_before, one.before.name, one.before.version), None)

    async def _fetch(self, db: str, table: str, version: int) -> TableStructure:
        key = schema_key(db, table, version)
        for left in reversed(range(TRIES)):
            try:
                entry = await self._bucket.get(key)
            except StreamMissing:
                entry = None
            except Unavailable:
                if not left:
                    raise
                entry = None
            if entry is not None:
                return self._decoded(entry)
            if left:
                await self._ports.clock.sleep(PAUSE_S)
        raise Unavailable(
            f"the structure of {db}.{table} at version {version} is not in {self._bucket.name}",
            hint="the Drainer publishes it before the rows, and again after its bucket was lost",
        )

    def _decoded(self, entry: Entry) -> TableStructure:
        """Raises Corrupt."""
        try:
            return _STRUCTURE.decode(entry.value)
        except NOT_READABLE as error:
            raise Corrupt(
                f"{entry.key} in {self._bucket.name} is no structure of a table: {error}",
                hint=f"`nats stream rm {self._bucket.stream}`: the Drainer writes all structures"
                " anew with its next batch; then start the Applier again",
            ) from error

"""Keeps the consumers over restarts: in the registry bucket, and in the data directory for the
time when JetStream's store is gone."""

from __future__ import annotations

import msgspec

from tidelog import subjects
from tidelog.errors import Corrupt, StreamMissing
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog_registry.consumers import Kept

FILE = "consumers.json"
KEY = "consumers"


class ConsumerStore:
    def __init__(self, ports: Ports, cluster: str) -> None:
        self._disk = ports.disk
        self._bucket = Bucket(ports.bus, subjects.registry_bucket(cluster))

    async def load(self) -> Kept:
        """The data directory's copy, else the bucket's. Raises Unavailable, Corrupt."""
        try:
            if self._disk.exists(FILE):
                return msgspec.json.decode(self._disk.read_file(FILE), type=Kept)
            await self._bucket.create()
            entry = await self._bucket.get(KEY)
            return Kept() if entry is None else msgspec.json.decode(entry.value, type=Kept)
        except msgspec.DecodeError as error:
            raise Corrupt(f"the kept consumers can't be read: {error}") from error

    async def save(self, kept: Kept) -> None:
        """Raises Unavailable; the copy in the data directory is then written already."""
        data = msgspec.json.encode(kept)
        await self._disk.write_file(FILE, data)
        try:
            await self._bucket.put(KEY, data)
        except StreamMissing:
            await self._bucket.create()
            await self._bucket.put(KEY, data)

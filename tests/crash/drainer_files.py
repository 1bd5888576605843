"""A Drainer's small files as a store: its epoch, where the feed began, its sources, the structures'
bucket as it last knew it. The buckets are lost: only what is in the directory counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.crash.ledger import Ledger, MakeStore, started
from tests.crash.recorder import Wrong
from tests.unit.pump.driven import Machine
from tidelog.feeds import Feed
from tidelog.kv import Bucket
from tidelog.ports import Bus, Disk, Ports
from tidelog.sealed import unseal
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.sources import Sources
from tidelog_drainer.publish import lives
from tidelog_drainer.publish.beginning import FeedRecord
from tidelog_drainer.schema.structures import Known, Structures

CONFIG = DrainerConfig(feed="shop", node_id="drainer-1")
Value = tuple[str, Any]
"""A file, and what of it counts."""


class NoFeeds:
    """The bucket of feeds, of which nothing is left."""

    def __init__(self) -> None:
        self.told: Feed | None = None

    async def get(self, name: str) -> Feed | None:
        return None

    async def save(self, feed: Feed) -> None:
        """It is lost again."""


class DrainerFiles:
    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self.ledger = ledger
        self._disk = disk
        clock = SimpleNamespace(wall_ms=lambda: 1_795_219_000_000)
        self._ports = cast(Ports, SimpleNamespace(disk=disk, clock=clock, bus=None))
        self._sources = Sources(disk)
        self._feed = FeedRecord(CONFIG, self._ports)
        self._feed._feeds = cast(Any, NoFeeds())
        self._structures = Structures(self._ports, Bucket(cast(Bus, None), "b"))

    async def open(self) -> None:
        self._structures.recall()
        self._sources.begin(0, chain=0)

    async def _found(self) -> dict[str, Any]:
        feed, known = await self._feed.read(), self._structures.known
        found = {
            "epoch": self._epoch(),
            "sources": tuple(Sources(self._disk).begin(0, chain=0)),
            "feed": feed.begun if feed is not None else None,
            "schemas": known.last_seq if known is not None else None,
        }
        return {name: value for name, value in found.items() if value not in (None, ())}

    def _epoch(self) -> int | None:
        if not self._disk.exists(lives.EPOCH_FILE):
            return None
        told = unseal(self._disk.read_file(lives.EPOCH_FILE), dict[str, Any])
        return cast(int, told["number"])

    async def look(self) -> int:
        found, handed = await self._found(), self.ledger.handed
        for end in range(len(handed), self.ledger.acked - 1, -1):
            if dict(handed[:end]) == found:
                return end
        raise Wrong(f"{found} is there, {dict(handed[: self.ledger.acked])} was acked")

    async def rise(self) -> None:
        """A new epoch, above all that were ever used."""
        number = 1 + max((n for name, n in self.ledger.handed if name == "epoch"), default=0)
        given = ("epoch", number)
        epoch = await self.ledger.hand(given, by=lives.rise(CONFIG, self._ports))
        if epoch.number != number:
            raise Wrong(f"epoch {epoch.number}, {number - 1} was used before")

    async def begun(self) -> None:
        await self.ledger.hand(("feed", True), by=self._feed.begun())

    async def source(self, *nodes: str) -> None:
        await self.ledger.hand(("sources", nodes), by=self._sources.keep(nodes))

    async def structures(self) -> None:
        revision = len(self.ledger.handed) + 1
        given = ("schemas", revision)
        self._structures.known = self._structures.known or Known("today", 0)
        await self.ledger.hand(given, by=self._structures.remember(revision))

    async def settle(self) -> None:
        """It may be there of a life whose last sync failed."""
        said = dict(self.ledger.handed)
        await self.rise()
        if "sources" in said:
            await self.source(*said["sources"])
        if "feed" in said:
            await self.begun()

    async def write_on(self) -> None:
        await self.source("pump-1", "pump-2", f"pump-{10 + len(self.ledger.handed)}")
        await self.structures()


async def checkpoints(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    """Three lives; Pumps come and go."""
    for life in range(3):
        store = await started(make, machine, ledger)
        assert isinstance(store, DrainerFiles)
        await store.source("pump-1")
        await store.begun()
        await store.structures()
        await store.source("pump-1", "pump-2", f"pump-{life + 3}")
        await store.structures()

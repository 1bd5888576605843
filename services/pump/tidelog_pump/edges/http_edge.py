"""What the Pump adds to its admin HTTP server (original.md A.3).

Each request is one message: a tree that is being restarted answers 503 by itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog import ask_registry, messages
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import BadInput, NotFound, TidelogError
from tidelog.node_form import Form, node_forms
from tidelog.ports import Bus, IndexStore
from tidelog.routes import Handler
from tidelog.timestamps import TS_MAX
from tidelog_pump.edges.lookup import Shown, binlogs_at
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull.puller import PullerMessage, ReadFeeds
from tidelog_pump.retention.gc_actor import Collect, Collected, GcMessage
from tidelog_pump.unforeseen import typed

REGISTRY_TIMEOUT_S = 3.0


class Readers(msgspec.Struct, frozen=True):
    """Answer to /drainers. `feeds`: who pulled from this Pump, and from where on; the rest is what
    the registry knows, null with its error while it can't be asked."""

    feeds: dict[str, int]
    drainers: list[Form] | None = None
    consumers: list[messages.Consumer] | None = None
    safe_point: int | None = None
    error: str = ""


class Binlogs(msgspec.Struct, frozen=True):
    """Answer to /debug/binlog/{ts}: the transactions whose start_ts or commit_ts it is."""

    ts: int
    found: list[Shown]


class ShowReaders(msgspec.Struct, frozen=True):
    reply: Reply[Readers]


class ShowBinlogs(msgspec.Struct, frozen=True):
    ts: int
    reply: Reply[Binlogs]


HttpMessage = ShowReaders | ShowBinlogs


class HttpEdge(Actor[HttpMessage]):
    def __init__(
        self,
        bus: Bus,
        cluster: str,
        segments: Segments,
        store: IndexStore,
        puller: Ref[PullerMessage],
    ) -> None:
        self._bus = bus
        self._cluster = cluster
        self._segments = segments
        self._store = store
        self._puller = puller

    async def on_batch(self, batch: list[HttpMessage]) -> None:
        for message in batch:
            try:
                match message:
                    case ShowReaders():
                        message.reply.set(await self._readers())
                    case ShowBinlogs():
                        message.reply.set(self._binlogs(message.ts))
            except Exception as raised:  # noqa: BLE001 (one request must not end the edge)
                message.reply.fail(typed(raised, "http"))

    async def _readers(self) -> Readers:
        feeds: dict[str, int] = await self._puller.ask(ReadFeeds)
        try:
            known = await ask_registry.nodes(self._bus, self._cluster, timeout_s=REGISTRY_TIMEOUT_S)
        except TidelogError as error:
            return Readers(feeds, error=f"the registry can't be asked: {error}")
        drainers = node_forms(known, messages.DRAINER)
        return Readers(feeds, drainers, known.consumers, known.safe_point)

    def _binlogs(self, ts: int) -> Binlogs:
        found = binlogs_at(self._segments, self._store, ts)
        if not found:
            raise NotFound(f"no transaction has start_ts or commit_ts {ts} here")
        return Binlogs(ts, found)


def drainers(edge: Ref[HttpMessage]) -> Handler:
    async def handle(_given: dict[str, str]) -> Any:
        readers: Readers = await edge.ask(ShowReaders)
        return readers

    return handle


def binlog(edge: Ref[HttpMessage]) -> Handler:
    async def handle(given: dict[str, str]) -> Any:
        ts = parse_ts(given["ts"])
        binlogs: Binlogs = await edge.ask(lambda reply: ShowBinlogs(ts, reply))
        return binlogs

    return handle


def collect(gc: Ref[GcMessage]) -> Handler:
    """What is done is done when the answer comes; the index is swept behind it."""

    async def handle(_given: dict[str, str]) -> Any:
        collected: Collected = await gc.ask(Collect)
        return collected

    return handle


def parse_ts(text: str) -> int:
    """Raises BadInput."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= TS_MAX):
        raise BadInput(f"{text[:40]!r} is no timestamp", hint="a start_ts or commit_ts, decimal")
    return int(text)

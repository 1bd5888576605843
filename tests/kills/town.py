"""Everything that the kill rig runs, each a process of its own, and each a victim."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from tests.integration.pump_client.cluster import Service
from tests.kills.judge import connected
from tests.servers import MariaDb, NatsServer
from tests.wrong import Wrong
from tidelog.downstream import Checkpoint
from tidelog.errors import EXIT_RESTART, EXIT_UNAVAILABLE

FEED = "main"
PUMPS = 3
DRAINERS = ("drainer-1", "drainer-2")
MAY_END = (EXIT_RESTART, EXIT_UNAVAILABLE)
"""With these a service asks to be started again."""
UNFORESEEN = "unforeseen error"
"""What it logs of a bug, though it asks for the same."""
SEGMENT = BATCH = str(256 << 10)
"""Of a Pump's log, and of what a Drainer appends at once: a large transaction comes in parts."""


class Writer(Service):
    """Ready when it has acked something in this life."""

    acked: Callable[[], int] = lambda: 0
    known: Callable[[], int] = lambda: 0
    """The same, without a look at the ledger: a start may come from another thread."""
    before = 0

    def start(self) -> None:
        self.before = self.known()
        super().start()

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        return self.acked() > self.before


@dataclass
class Victim:
    """`kill` returns when the process is gone; `start` begins the next, which is up when `ready`
    says so. `points`: the first words of the failpoints that it passes."""

    name: str
    kill: Callable[[], None]
    start: Callable[[], None]
    ready: Callable[[], bool]
    service: Service | None = None
    points: tuple[str, ...] = ()


class Town:
    def __init__(self, nats: NatsServer, database: MariaDb, directory: Path, seed: int) -> None:
        self.nats, self.database = nats, database
        common = ["--nats-url", nats.url]
        self._services: list[Victim] = []
        self._add("registry", "tidelog_registry", directory, common, ("registry",))
        for number in range(1, PUMPS + 1):
            flags = ["--grpc-addr", "127.0.0.1:0", "--segment-bytes", SEGMENT]
            flags += ["--gc", "20s", "--gc-interval", "1s", "--gc-hard-cap", "1d"]
            named = [*common, *flags, "--node-id", f"pump-{number}"]
            self._add(f"pump-{number}", "tidelog_pump", directory, named, ("pump", "node"))
        for name in DRAINERS:
            flags = ["--feed", FEED, "--ddl-history", "embedded", "--batch-bytes", BATCH]
            named = [*common, *flags, "--node-id", name]
            self._add(name, "tidelog_drainer", directory, named, ("drainer", "node"))
        flags = [*common, "--feed", FEED, "--checkpoint-s", "0.5", "--node-id", "applier"]
        self._add("applier", "tidelog_applier", directory, flags, ("applier", "reader", "node"))
        url = f"mysql://{database.user}@{database.host}:{database.port}/"
        self["applier"].env["TIDELOG_APPLIER_DOWNSTREAM"] = url
        flags = [*common, "--seed", str(seed), "--rate"]
        self.writer = Writer("tests.kills.writer", directory / "writer", flags)
        self._services.append(_of(self.writer, "writer", ("client",)))
        self.victims = [
            *self._services,
            Victim("nats-server", nats.kill, nats.start, lambda: True),
            Victim("mariadbd", database.kill, database.start, lambda: True),
        ]
        self.by_name = {victim.name: victim for victim in self.victims}
        self.checkpoint = 0
        self.ended: list[str] = []
        """Who asked to be started again, and how it ended."""

    def _add(
        self, name: str, module: str, directory: Path, flags: list[str], points: tuple[str, ...]
    ) -> None:
        self._services.append(_of(Service(module, directory / name, flags), name, points))

    def __getitem__(self, name: str) -> Service:
        (found,) = (one.service for one in self._services if one.name == name)
        assert found is not None
        return found

    @property
    def services(self) -> list[Service]:
        """Tidelog's own: without the writer, who is an application."""
        return [one.service for one in self._services if one.service not in (None, self.writer)]

    @property
    def ledger(self) -> Path:
        return self.writer.directory / "ledger"

    def start(self, rate: int) -> None:
        self.writer.flags.append(str(rate))
        for one in self._services:
            one.start()

    def end(self) -> None:
        for one in reversed(self._services):
            one.kill()

    async def mend(self) -> None:
        """An orchestrator: who asked to be started again is. Raises Wrong for any other end."""
        for victim in self._services:
            if self._ended(victim):
                await asyncio.to_thread(victim.start)

    async def kill(self, victim: Victim) -> None:
        """Unless a failpoint did. Raises Wrong if it ended by itself, and may not."""
        self._ended(victim)
        await asyncio.to_thread(victim.kill)

    def _ended(self, victim: Victim) -> bool:
        """By itself, asking to be started again. Raises Wrong for any other end, and for one that
        nobody foresaw."""
        service = victim.service
        process = service.process if service is not None else None
        status = process.poll() if process is not None else None
        if service is None or status in (None, -signal.SIGKILL):
            return False
        if status not in MAY_END or UNFORESEEN in service.log():
            raise Wrong(f"{victim.name} ended by itself with {status}:\n{service.log()}")
        self.ended.append(f"{victim.name} {status}")
        return True

    def rival(self, victim: Victim) -> Victim | None:
        """The other Drainer, if it runs: while it leads, this one passes few failpoints."""
        if victim.name not in DRAINERS:
            return None
        (other,) = (name for name in DRAINERS if name != victim.name)
        found = self.by_name[other]
        return found if found.service is not None and found.service.process is not None else None

    def look(self) -> None:
        """The checkpoint, which never goes back."""
        found = self._checkpoint()
        if found < self.checkpoint:
            raise Wrong(f"the checkpoint went from {self.checkpoint} back to {found}")
        self.checkpoint = found

    def _checkpoint(self) -> int:
        try:
            with contextlib.closing(connected(self.database)) as one, one.cursor() as cursor:
                cursor.execute("SELECT checkPoint FROM tidb_binlog.checkpoint")
                texts = [text for (text,) in cursor.fetchall()]
        except pymysql.err.ProgrammingError:  # not created yet
            return 0
        found = [msgspec.json.decode(text, type=Checkpoint) for text in texts]
        return max((one.commit_ts for one in found), default=0)

    def stop_writer(self) -> None:
        assert self.writer.process is not None
        self.writer.process.send_signal(signal.SIGTERM)

    def told(self) -> str:
        """What everybody says, for a rig that is stuck."""
        return "\n".join(f"{one.name}: {_said(one.service)}" for one in self._services)


def _of(service: Service, name: str, points: tuple[str, ...]) -> Victim:
    def ready() -> bool:
        try:
            return service.ready()
        except AssertionError:  # it ended; `mend` looks how
            return False

    return Victim(name, service.kill, service.start, ready, service, points)


def _said(service: Service | None) -> Any:
    if service is None or service.process is None or service.process.poll() is not None:
        return "not running"
    try:
        address = (service.directory / "http").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            return json.load(answer)["actors"]
    except OSError:
        return service.log()[-800:]

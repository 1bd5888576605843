"""One run of what was asked for: the limits first, then the figures beside them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench import (
    apply,
    apply_memory,
    backlog,
    drain,
    growth,
    idle,
    latency,
    limits,
    limits_sql,
    memory,
    pull,
    pump,
    rebuild,
    recovery,
    replay,
    tso,
)
from bench.figure import Figure, Limit
from tests.servers import MariaDb, mariadb_server, nats_server

MARIADB = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")


class Step(NamedTuple):
    """`scale`: what its share is multiplied by. `seldom`: only if it is named, as it takes minutes.
    `report`: its share for docs/figures.md; 0 = not there."""

    name: str
    measure: Callable[..., Awaitable[list[Figure]]]
    scale: float = 1.0
    sql: bool = False
    seldom: bool = False
    report: float = 0.0


STEPS = (
    Step("tso", tso.measure, report=0.5),
    Step("pump", pump.measure, scale=3.0, report=0.2),
    Step("pull", pull.measure, report=0.25),
    Step("rebuild", rebuild.measure, report=0.1),
    Step("drain", drain.measure, report=1.0),
    Step("idle", idle.measure, report=0.5),
    Step("memory", memory.measure, seldom=True, report=0.03),
    Step("backlog", backlog.measure, sql=True, report=0.2),
    Step("apply", apply.measure, sql=True, report=0.2),
    Step("latency", latency.measure, sql=True, report=0.25),
    Step("recovery", recovery.measure, sql=True, report=1.0),
    Step("growth", growth.measure, sql=True, report=0.6),
    Step("apply-memory", apply_memory.measure, sql=True, seldom=True, report=0.02),
    Step("replay", replay.measure, sql=True, seldom=True),
)
LIMITS = "limits"
NEED_SQL_LIMITS = ("backlog", "apply", "latency")
"""Steps whose figures stand beside the database's limits."""

Tell = Callable[[str], None]
"""What is measured now."""
Took = Callable[[str, float], None]
"""What has been measured, and how many seconds it took."""


class Course:
    """`shares`: of the steps that are wanted, and of the limits."""

    def __init__(
        self, directory: Path, shares: Mapping[str, float], tell: Tell, took: Took, profile: str
    ) -> None:
        self._directory = directory
        self._shares = shares
        self._tell = tell
        self._took = took
        self._profile = profile
        self._servers = ExitStack()
        self._db: MariaDb | None = None
        self.limits: dict[str, Limit] = {}
        self.figures: list[Figure] = []

    @property
    def db(self) -> MariaDb:
        """The private MariaDB, started when first needed."""
        if self._db is None:
            self._db = self._servers.enter_context(mariadb_server(self._directory, *MARIADB))
        return self._db

    async def run(self) -> None:
        self._directory.mkdir()
        with self._servers:
            await self._timed(LIMITS, self._measure_limits(self._shares[LIMITS]))
            for step in STEPS:
                if step.name in self._shares:
                    await self._timed(step.name, self._step(step))

    async def _timed(self, name: str, measuring: Awaitable[None]) -> None:
        self._tell(name)
        began = time.perf_counter()
        await measuring
        self._took(name, time.perf_counter() - began)

    async def _step(self, step: Step) -> None:
        place, of = self._directory / step.name, self._shares[step.name] * step.scale
        databases = [self.db] if step.sql else []
        self.figures += await step.measure(place, *databases, self.limits, of, self._profile)

    async def _measure_limits(self, share: float) -> None:
        seconds = 2 * share
        self.limits |= limits.disk(self._directory, seconds)
        with nats_server(self._directory / "limits") as server:
            self.limits |= await limits.rpc(server.url, seconds)
            self.limits |= await limits.jetstream(server.url, seconds)
        await limits.settle()
        if self._shares.keys() <= {LIMITS} or self._shares.keys() & set(NEED_SQL_LIMITS):
            self.limits |= await limits_sql.replace(self.db, int(200_000 * share))
            await limits.settle()

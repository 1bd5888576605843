"""`tidelog demo`: everything embedded, a workload, a Pump killed on the way, and a verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from tidelog.config import ServiceConfig
from tidelog.errors import Unavailable
from tidelog.ports import Bus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.workload import Verdict, Workload, WorkloadConfig, compare
from tidelog_cli import status, up, wait
from tidelog_cli.connect import connected, nodes
from tidelog_cli.glance import Glance
from tidelog_cli.readback import sqlite_reader
from tidelog_cli.state_file import TopologyState, read

VICTIM = "pump-1"
SETTLE_S = 60.0
LOOK_S = 0.5
LARGE_ROW_BYTES = 1_500_000
"""Above what one bus message takes, so these Prewrites travel by gRPC."""

FRAME = 8
"""Lines of the view around the topology: its frame, the step, the counts, where they are folded."""

Emit = Callable[[Any], None]


class View:
    """What the demo shows while it runs."""

    def __init__(self) -> None:
        self.step = "starting NATS, a registry, two Pumps, a Drainer and an Applier"
        self.counts: dict[str, Any] = {}
        self.report: status.Report | None = None

    def render(self) -> RenderableType:
        head = Text(self.step, "bold")
        if not self.counts:
            return Panel(head, title="tidelog demo")
        done = [Text(f"{name} {value}") for name, value in self.counts.items()]
        parts: list[RenderableType] = [head, Columns(done, padding=(0, 3))]
        if self.report is not None:
            parts.append(Glance(self.report, FRAME))
        return Panel(Group(*parts), title="tidelog demo")


async def run(
    seconds: float, rate: int, keep: Path | None, console: Console | None, emit: Emit | None
) -> int:
    """0 if source and downstream are equal. With `emit`, one JSON line instead of the view."""
    view = View()
    directory = keep or Path(tempfile.mkdtemp(prefix="tidelog-demo-"))
    with contextlib.ExitStack() as stack:
        live = Live(view.render(), console=console, refresh_per_second=4) if console else None
        if live is not None:
            stack.enter_context(live)
        verdict = await Play(directory, seconds, rate, view, live).run()
    if emit is not None:
        emit({"equal": verdict.equal, "tables": verdict.tables, "rows": verdict.rows} | view.counts)
    if console is not None:
        _tell(console, verdict, directory)
    return 0 if verdict.equal else 1


class Play:
    """One run: the topology in one task, what is done to it in another."""

    def __init__(
        self, directory: Path, seconds: float, rate: int, view: View, live: Live | None
    ) -> None:
        self._database = directory / "downstream.db"
        self._options = up.options(
            directory / "topology",
            f"sqlite:///{self._database}",
        )
        self._seconds = seconds
        self._rate = rate
        self._view = view
        self._live = live

    async def run(self) -> Verdict:
        stop, ready = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(up.run(self._options, stop, lambda _: ready.set()))
            acting = group.create_task(self._act(ready, stop))
        return acting.result()

    async def _act(self, ready: asyncio.Event, stop: asyncio.Event) -> Verdict:
        await ready.wait()
        state = read(self._options.directory)
        assert state is not None
        try:
            async with connected(state) as bus:
                return await self._drive(state, bus)
        finally:
            stop.set()

    async def _drive(self, state: TopologyState, bus: Bus) -> Verdict:
        """The workload, the kill in its middle, the wait for the downstream, the comparison."""
        config = ServiceConfig(cluster=state.cluster, nats_url=state.nats)
        ports = real_ports(config, RealDisk(self._options.directory / "workload"), bus)
        workload = Workload(
            ports,
            WorkloadConfig(
                cluster=state.cluster,
                seconds=self._seconds,
                rate=self._rate,
                large_row_bytes=LARGE_ROW_BYTES,
            ),
        )
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(workload.run(over))
            watcher = group.create_task(self._watch(bus, state, workload))
            try:
                self._say(f"{self._rate} transactions a second, schema changes, clients that die")
                await asyncio.sleep(self._seconds / 2)
                self._say(f"{VICTIM} was killed with SIGKILL and is started again")
                _kill(self._options.directory)
                await workload.finished.wait()
                self._say("the workload is through; waiting for the downstream")
                last = await _settled(workload)
                await wait.applied(bus, state.cluster, state.feed, last, SETTLE_S, lambda _: None)
                self._say("comparing row by row")
            finally:
                watcher.cancel()
                over.set()
        contents = workload.source.contents()
        return await compare(contents, sqlite_reader(self._database, contents))

    def _say(self, step: str) -> None:
        self._view.step = step
        self._show()

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self._view.render())

    async def _watch(self, bus: Bus, state: TopologyState, workload: Workload) -> None:
        """Refresh the view until cancelled."""
        before, rate = 0, 0.0
        while True:
            counts = workload.counts
            rate = 0.5 * rate + 0.5 * (counts.committed - before) / LOOK_S
            before = counts.committed
            self._view.counts = {
                "committed": counts.committed,
                "txn/s": round(rate),
                "rows": counts.rows,
                "schema changes": counts.ddls,
                "rolled back": counts.rolled_back,
                "clients died": counts.died,
            }
            with contextlib.suppress(Unavailable):
                self._view.report = status.report(await nodes(bus, state.cluster), state.feed)
            self._show()
            await asyncio.sleep(LOOK_S)


async def _settled(workload: Workload) -> int:
    """Wait until every transaction is decided at its Pump; returns the newest commit_ts."""
    await workload.client.flush(SETTLE_S)
    async with asyncio.timeout(SETTLE_S):
        while workload.outcomes.unasked():  # noqa: ASYNC110 - other processes ask, at their pace
            await asyncio.sleep(LOOK_S)
    return workload.source.last_commit_ts


def _kill(directory: Path) -> None:
    state = read(directory)
    assert state is not None
    os.kill(state.pids[VICTIM], signal.SIGKILL)


def _tell(console: Console, verdict: Verdict, directory: Path) -> None:
    console.print()
    if verdict.equal:
        console.print(
            f"[green]source = downstream[/green]: {verdict.rows} rows in {verdict.tables} tables"
        )
    else:
        console.print("[red]source and downstream differ[/red]")
        for line in verdict.differences:
            console.print(f"  {line}", highlight=False, markup=False)
    database = shlex.quote(str(directory / "downstream.db"))
    for line in (
        "",
        f"look around (rm -r {shlex.quote(str(directory))} when done):",
        f"  {up.program()} tail --dir {shlex.quote(str(directory / 'topology'))}",
        f"  sqlite3 {database} .tables",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)

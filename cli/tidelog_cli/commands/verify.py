"""`tidelog verify`: its options, and what it shows meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidelog.errors import EXIT_FAILED, EXIT_OK
from tidelog_cli import state_file, wait
from tidelog_cli.connect import connected
from tidelog_cli.terminal import Cluster, Dir, Feed, Json, Nats, console, emit, errors, run
from tidelog_cli.verify import report, verifying
from tidelog_cli.verify.comparing import Limits
from tidelog_cli.verify.report import TableResult


class Shown:
    """Progress on standard error, where that is a terminal."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bars = Progress(
            *columns, TimeElapsedColumn(), console=errors, disable=not errors.is_terminal
        )
        self._rows = self.bars.add_task("waiting", total=None)
        self._tables, self._done = 0, 0

    def waits(self, why: str) -> None:
        self.bars.update(self._rows, description=why)

    def begins(self, tables: int, rows: int) -> None:
        self._tables = tables
        self.bars.update(self._rows, description=f"rows of {tables} tables", total=rows)

    def rows(self, count: int) -> None:
        self.bars.advance(self._rows, count)

    def compared(self, result: TableResult) -> None:
        self._done += 1
        text = f"rows, {self._done} of {self._tables} tables"
        self.bars.update(self._rows, description=text)


def verify_command(
    source: Annotated[
        str,
        typer.Option(
            envvar="TIDELOG_VERIFY_SOURCE",
            help="mysql://USER:PASSWORD@HOST:PORT/ (of TiDB as it was at the commit_ts), or "
            "dump:///FILE of a workload.",
        ),
    ],
    downstream: Annotated[
        str,
        typer.Option(
            envvar="TIDELOG_VERIFY_DOWNSTREAM", help="mysql://… or sqlite:////FILE; read only."
        ),
    ],
    commit_ts: Annotated[
        int, typer.Option(help="Wait until the downstream holds this; 0 = as it stands.")
    ] = 0,
    table: Annotated[
        list[str] | None, typer.Option(help="DB.TABLE with wildcards; again for more. All if none.")
    ] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option("--map", help="FROM=TO, as the feed's routes: 'shop.*=copy.*'."),
    ] = None,
    pause: Annotated[
        bool, typer.Option("--pause", help="Hold the feed's Applier meanwhile.")
    ] = False,
    chunk_rows: Annotated[int, typer.Option(min=1, help="Rows of one checksum.")] = 5000,
    show: Annotated[int, typer.Option(min=0, help="Differences shown of each table.")] = 10,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the commit_ts.")] = 60.0,
    checkpoint_table: Annotated[
        str, typer.Option(help="Where the downstream's checkpoint is.")
    ] = verifying.CHECKPOINT_TABLE,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    feed: Feed = "",
    as_json: Json = False,
) -> None:
    """Compare a source and a downstream by checksums of chunks: 0 equal, 1 different."""
    asked = verifying.Asked(
        source,
        downstream,
        commit_ts,
        feed,
        table or (),
        mapped or (),
        Limits(chunk_rows, show),
        timeout,
        checkpoint_table,
    )

    @asynccontextmanager
    async def paused(shown: Shown, least: int) -> AsyncIterator[None]:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:
            await wait.applied(bus, state.cluster, state.feed, least, timeout, lambda _: None)
            async with verifying.held(bus, state.cluster, state.feed, timeout, shown):
                yield

    async def work() -> int:
        shown = Shown()
        with shown.bars:
            hold = partial(paused, shown) if pause else None
            found = await verifying.verify(asked, shown, hold)
        if as_json:
            emit(found)
        else:
            console.print(report.results_table(found))
            for line in report.lines(found):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        return EXIT_OK if found.equal else EXIT_FAILED

    run(work())

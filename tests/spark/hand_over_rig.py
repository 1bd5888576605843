"""A large backlog is handed over by `tidelog replay --of` while its source goes on: does the stream
go on behind it, and is all of it there? Also where the command is interrupted, or the replay's
process is killed: the Applier takes over then.

    python -m tests.spark.hand_over_rig --changes 1000000 [--trouble interrupt|kill]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from bench.backlog import Applied, Backlog, Kind, Published, write
from bench.limits_sql import connect
from bench.stage import CLUSTER, Stage
from bench.upstream import Upstream
from tests.last_line import last_line
from tests.servers import MariaDb, mariadb_server
from tidelog.bulk.told import Progress

ROWS = 100
"""Of a transaction."""
COLUMNS = 6
BEHIND_S = 300.0
TROUBLE_AT = "replaying"


class Source:
    """Transactions that go on while the backlog is handed over."""

    def __init__(self, upstream: Upstream, backlog: Backlog) -> None:
        self._upstream = upstream
        self._backlog = backlog
        self._rows = backlog.rows
        self._commit_ts = list(backlog.commit_ts)
        self.is_over = False

    async def go_on(self) -> None:
        table = self._backlog.table
        while not self.is_over:
            changes = [("c", table.insert(n)) for n in range(self._rows, self._rows + ROWS)]
            self._commit_ts += await self._upstream.transactions(table, [changes])
            self._rows += ROWS
            await asyncio.sleep(0.1)

    @property
    def all(self) -> Backlog:
        backlog = self._backlog
        return Backlog(backlog.table, self._commit_ts, self._rows, self._rows, backlog.versions)


class Command:
    """`tidelog replay --of`, as an operator sees it."""

    def __init__(self, stage: Stage, directory: Path, trouble: str) -> None:
        config = directory / "applier" / "applier.toml"
        self._argv = [sys.executable, "-m", "tidelog_cli", "replay", "--of", "applier", "--json"]
        self._argv += ["--applier-config", str(config), "--nats", stage.url]
        self._argv += ["--cluster", CLUSTER, "--master", "local[2]"]
        self._trouble = trouble
        self._began = time.monotonic()

    async def run(self) -> int:
        """Returns the exit code."""
        process = await asyncio.create_subprocess_exec(*self._argv, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode().strip()
            print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)
            with suppress(msgspec.DecodeError):
                progress = msgspec.json.decode(text, type=Progress)
                if progress.stage == TROUBLE_AT and progress.done and self._trouble:
                    self._make_trouble(process.pid)
        return await process.wait()

    def _make_trouble(self, pid: int) -> None:
        if self._trouble == "interrupt":
            os.kill(pid, signal.SIGINT)
        else:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)
        self._trouble = ""


async def play(directory: Path, db: MariaDb, changes: int, trouble: str) -> int:
    """How many rows are there. Raises TimeoutError where some are missing or wrong at the end."""
    url = f"mysql://{db.user}@{db.host}:{db.port}/"
    async with Stage(directory / "stage", url) as stage:
        await stage.start("registry", *stage.pumps)
        upstream = Upstream(stage.bus, stage.pumps)
        kind = Kind("rig", "rig", COLUMNS, changes // ROWS, ROWS, "rows/s", 0, "")
        backlog = await write(upstream, kind, 1.0)
        await stage.start("drainer", feed="main")
        published = Published(stage, "main", backlog.commit_ts)
        while await published.count() < len(backlog.commit_ts):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        source = Source(upstream, backlog)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(source.go_on())
            await stage.start("applier", feed="main")
            command = Command(stage, directory / "stage", trouble)
            began = time.monotonic()
            code = await command.run()
            print(f"exit {code} after {time.monotonic() - began:.1f} s", flush=True)
            source.is_over = True
        assert (code == 0) == (not trouble)
        await _whole(db, source.all)
        print(f"all rows are there {time.monotonic() - began:.1f} s after the order")
        stage.check()
        return source.all.rows


async def _whole(db: MariaDb, backlog: Backlog) -> None:
    connection = await connect(db)
    try:
        applied = Applied(connection, backlog)
        async with asyncio.timeout(BEHIND_S):
            while await applied.count() < len(backlog.commit_ts):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    finally:
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--trouble", choices=["", "interrupt", "kill"], default="")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidelog-hand-over-") as name:
        directory = Path(name)
        with mariadb_server(directory) as db:
            rows = asyncio.run(play(directory, db, chosen.changes, chosen.trouble))
    ended = "whole" if not chosen.trouble else f"ended by {chosen.trouble}"
    print(last_line("hand-over", rows, f"rows; the command was {ended}"))


if __name__ == "__main__":
    main()

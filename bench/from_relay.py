"""The Applier alone, from the relay log on its disk into MariaDB: no NATS, no Pump, no Drainer.

It runs as after the loss of an upstream (`--recover`); the time is from its first look into the
relay to the last applied transaction, as its own log says.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import relay_log
from bench.alone import FEED
from bench.figure import Usage
from bench.limits_apply import create, replaces
from bench.limits_sql import connect, run
from bench.resident import resident
from bench.shapes import Load
from bench.stage import cpu_seconds
from tests.servers import MariaDb, free_port
from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams import open_downstream
from tidelog.real.disk import RealDisk
from tidelog_applier.apply.epochs import Epochs

BEGAN, ENDED = "recovering from the relay log", "recovered"
TIMEOUT_S = 1800.0
STEP_S = 0.02


class Applied(NamedTuple):
    """`peak`: MiB of the Applier at most."""

    rows: int
    seconds: float
    usage: Usage
    peak: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


async def apply(db: MariaDb, url: str, directory: Path, load: Load, profile: str = "") -> Applied:
    """Into a table as it is before the load's measured part; there is nothing else downstream.
    `profile`: a file to put cProfile's statistics into."""
    await filled(db, load)
    written = await relay_log.write(directory, load)
    return await applied(db, url, directory, load, written, profile)


async def filled(db: MariaDb, load: Load) -> None:
    """The table as it is before the measured part."""
    connection = await connect(db)
    try:
        await create(connection, load.table)
        present = [change for transaction in load.present for change in transaction]
        for statement in replaces(load.table, present):
            await run(connection, statement)
    finally:
        connection.close()


async def applied(
    db: MariaDb,
    url: str,
    directory: Path,
    load: Load,
    written: relay_log.Written,
    profile: str = "",
) -> Applied:
    """The relay that is in the data directory; the Applier may remove of it what is applied."""
    await _begun(url, written, directory)
    with _started(directory, url, profile) as applier:
        seen = await _watched(applier, {"applier": applier.process.pid, "mariadb": db.pid})
    lines = applier.lines()
    seconds = (_at(lines, ENDED) - _at(lines, BEGAN)).total_seconds()
    return Applied(sum(map(len, load.measured)), seconds, seen.usage, seen.peak)


async def _begun(url: str, written: relay_log.Written, directory: Path) -> None:
    """A checkpoint as an Applier leaves it that was killed before its first row."""
    downstream = open_downstream(DownstreamOptions(url=url, lanes=1))
    opened = await downstream.open(FEED)
    saved = Checkpoint(
        written.after, consistent=False, feed=FEED, epoch=opened.epoch, reach=written.end
    )
    await downstream.save_checkpoint(saved)
    await Epochs(RealDisk(directory), "relay").add(opened.epoch)
    await downstream.close()


class Started(NamedTuple):
    process: subprocess.Popen[bytes]
    log: Path

    def lines(self) -> list[Mapping[str, Any]]:
        text = self.log.read_text().splitlines()
        return [msgspec.json.decode(line) for line in text if line.startswith("{")]


@contextmanager
def _started(directory: Path, url: str, profile: str) -> Iterator[Started]:
    """Raises RuntimeError if it doesn't end well."""
    command = [sys.executable, *(("-m", "cProfile", "-o", profile) if profile else ())]
    command += ["-m", "tidelog_applier", "--feed", FEED, "--downstream", url, "--recover", "true"]
    command += ["--data-dir", str(directory), "--nats-url", f"nats://127.0.0.1:{free_port()}"]
    environ = os.environ | {"TIDELOG_LOG_FORMAT": "json"}
    log = directory / "recovery.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environ)
    try:
        yield Started(process, log)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise RuntimeError(
            f"the Applier ended with {process.returncode}: {log.read_text()[-2000:]}"
        )


class Seen(NamedTuple):
    """While it worked. `peak` in MiB."""

    usage: Usage
    peak: float


async def _watched(applier: Started, pids: Mapping[str, int]) -> Seen:
    """Until it ends; what it takes to start Python is not counted."""
    began, before, used = 0.0, dict[str, float](), dict[str, float]()
    peak = seconds = 0.0
    async with asyncio.timeout(TIMEOUT_S):
        while applier.process.poll() is None:
            now = {name: cpu_seconds(pid) for name, pid in pids.items()}
            if not before and BEGAN in applier.log.read_text():
                began, before = time.perf_counter(), now
            elif before and now["applier"]:
                seconds = time.perf_counter() - began
                used = {name: now[name] - before[name] for name in now}
                with suppress(LookupError):  # it is about to end
                    peak = max(peak, resident(applier.process.pid, "VmHWM"))
            await asyncio.sleep(STEP_S)
    return Seen(Usage({name: busy / seconds for name, busy in used.items()}, {}), peak)


def _at(lines: list[Mapping[str, Any]], event: str) -> datetime:
    for line in lines:
        if str(line["event"]).startswith(event):
            return datetime.fromisoformat(str(line["timestamp"]))
    raise RuntimeError(f"the Applier did not say {event!r}")

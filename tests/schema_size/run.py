"""A Drainer whose upstream has run many DDLs (scenario T8), on real processes.

    python -m tests.schema_size.run [--jobs 1000000] [--tables 100000] [--history http]

It prints the time from its start to ready, from the whole history and again from the snapshot, and
its memory; both times rows of some tables must come out as they went in, with all columns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from crc32c import crc32c

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.integration.pump_client.cluster import Service
from tests.last_line import last_line
from tests.processes import until
from tests.schema_size.jobs import FIRST_TABLE, Jobs
from tests.servers import nats_server
from tidelog.change_reader import ChangeReader
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus
from tidelog.rows.table_codec import INSERT, TableCodec
from tidelog.rows.values import Value
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation

TABLES_USED = 20
WAIT_S = 600.0
MOST_MIB = 1024
"""T8."""


class Figures(msgspec.Struct):
    """Seconds and MiB."""

    first_start_s: float = 0
    first_start_cpu_s: float = 0
    """Of the Drainer alone, whatever else the machine does."""
    saved_s: float = 0
    """Until the snapshot was written, from the start on."""
    peak_mib: float = 0
    restart_s: float = 0
    restart_cpu_s: float = 0
    first_rows_s: float = 0
    """From ready, until rows of tables that had to be read first were in the stream."""
    restart_mib: float = 0
    bucket_messages: int = 0


@contextlib.contextmanager
def history_of(kind: str, jobs: Jobs, tables: int, directory: Path, url: str) -> Iterator[str]:
    """Who keeps the jobs; yields the `ddl-history`."""
    if kind == "file":
        path = directory / "jobs.json"
        with path.open("wb") as file:
            for n, job in enumerate(jobs.all()):
                file.write((b"," if n else b"[") + job)
            file.write(b"]")
        yield f"file:{path}"
        return
    if kind == "embedded":
        home = directory / "registry"
        home.mkdir()
        header, size = struct.Struct("<II"), 0
        with (home / "ddl-history.log").open("wb") as file:
            for job in jobs.all():
                size += file.write(header.pack(len(job), crc32c(job)) + job)
        (home / "ddl-history.synced").write_bytes(size.to_bytes(8, "little"))
        registry = Service("tidelog_registry", home, ["--nats-url", url, "--cluster", CLUSTER])
        began = time.monotonic()
        registry.start()
        try:
            until(registry.ready, "the registry", WAIT_S)
            print(f"registry ready in {time.monotonic() - began:.1f} s", flush=True)
            yield "embedded"
        finally:
            registry.kill(signal.SIGTERM)
        return
    argv = [sys.executable, "-m", "tests.schema_size.status_api", str(jobs.count), str(tables)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Rig:
    def __init__(self, bus: Bus, pump: FakePump, drainer: Service, jobs: Jobs) -> None:
        self._bus, self._pump, self._drainer, self._jobs = bus, pump, drainer, jobs
        self._ts = jobs.last_ts

    async def start(self) -> float:
        """Seconds until it is ready."""
        began = time.monotonic()
        self._drainer.start()
        while not await asyncio.to_thread(self._drainer.ready):
            assert time.monotonic() - began < WAIT_S, self._drainer.log()
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def saved(self) -> None:
        """Until the snapshot has all jobs."""
        end = time.monotonic() + WAIT_S
        while True:
            schema = (await asyncio.to_thread(self._status))["schema"]
            if schema["saved_job"] >= 3 * self._jobs.count and schema["jobs"] < 1000:
                return
            assert time.monotonic() < end, schema
            await asyncio.sleep(0.1)

    async def rows(self, seed: int) -> None:
        """A row into some tables, in one transaction each; all must come out."""
        rng = random.Random(seed)
        expected: list[dict[str, Value]] = []
        begin = self._ts
        for table in rng.sample(range(len(self._jobs.columns)), TABLES_USED):
            info = self._jobs.table(table)
            row: dict[str, Value] = {
                column.name.text: f"v{table}" if column.type.Tp == 15 else table + column.offset
                for column in info.columns
            }
            assert len(row) == self._jobs.columns[table]
            expected.append(row)
            self._ts += 10
            mutation = TableMutation(
                table_id=FIRST_TABLE + table,
                inserted_rows=[TableCodec(info).encode_insert(row, table)],
                sequence=[INSERT],  # type: ignore[list-item]
            )
            value = PrewriteValue(schema_version=self._jobs.count, mutations=[mutation])
            binlog = Binlog(
                start_ts=self._ts - 1,
                commit_ts=self._ts,
                prewrite_value=value.SerializeToString(),
            )
            payload = binlog.SerializeToString()
            self._pump.commit([(self._ts, self._ts - 1, payload)], self._ts)
        reader = ChangeReader(self._bus, FEED, begin)
        found: list[Any] = []
        end = time.monotonic() + WAIT_S
        while len(found) < len(expected):
            assert time.monotonic() < end, self._drainer.log()
            for change in await reader.next(0.2):
                found += [event.after for rows in change.rows for event in rows.events]
        await reader.close()
        key = json.dumps
        assert sorted(map(key, found)) == sorted(map(key, expected))

    def peak_mib(self) -> float:
        assert self._drainer.process is not None
        text = Path(f"/proc/{self._drainer.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) / 1024

    def cpu_s(self) -> float:
        assert self._drainer.process is not None
        stat = Path(f"/proc/{self._drainer.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _status(self) -> Any:
        address = (self._drainer.directory / "http").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/status", timeout=30) as answer:
            return json.load(answer)["actors"]["publisher"]


async def measure(rig: Rig, bus: Bus, drainer: Service) -> Figures:
    figures = Figures()
    began = time.monotonic()
    figures.first_start_s = await rig.start()
    figures.first_start_cpu_s = rig.cpu_s()
    await rig.rows(1)
    await rig.saved()
    figures.saved_s = time.monotonic() - began
    figures.peak_mib = rig.peak_mib()
    await asyncio.to_thread(drainer.kill, signal.SIGTERM)
    figures.restart_s = await rig.start()
    figures.restart_cpu_s = rig.cpu_s()
    ready = time.monotonic()
    await rig.rows(2)
    figures.first_rows_s = time.monotonic() - ready
    figures.restart_mib = rig.peak_mib()
    state = await bus.stream_state(f"KV_SCHEMAS_{FEED.upper()}")
    figures.bucket_messages = state.messages if state is not None else 0
    return figures


def run(directory: Path, jobs: int, tables: int, kind: str = "http") -> Figures:
    """Everything on a server of its own in `directory`."""
    made = Jobs(jobs, tables)

    async def main(url: str) -> Figures:
        bus = await NatsBus.connect(url, timeout_s=10)
        registry = FakeRegistry(bus)
        await registry.bucket.create()
        if kind != "embedded":
            await registry.start()
        pump = await registry.pump("p1")
        pump.commit([], made.last_ts)
        flags = ["--nats-url", url, "--cluster", CLUSTER, "--feed", FEED]
        flags += ["--start-ts", str(made.last_ts), "--node-id", "d1"]
        with history_of(kind, made, tables, directory, url) as history:
            flags += ["--ddl-history", history]
            drainer = Service("tidelog_drainer", directory / "drainer", flags)
            try:
                return await measure(Rig(bus, pump, drainer, made), bus, drainer)
            finally:
                drainer.kill(signal.SIGTERM)
                await pump.close()
                await bus.close()

    with nats_server(directory) as nats:
        return asyncio.run(main(nats.url))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--history", choices=("http", "file", "embedded"), default="http")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidelog-schema-") as home:
        found = run(Path(home), asked.jobs, asked.tables, asked.history)
    print(f"{asked.jobs} jobs, {asked.tables} tables, {asked.history}:")
    for name, value in msgspec.to_builtins(found).items():
        print(f"  {name:18} {value:10.1f}")
    wrong = int(max(found.peak_mib, found.restart_mib) >= MOST_MIB)
    if wrong:
        print(f"a Drainer of {asked.tables} tables may have {MOST_MIB} MiB")
    more = f"tables whose rows came out as they went in, history by {asked.history}"
    print(last_line("schema size", 2 * TABLES_USED, more, wrong=wrong))
    return wrong


if __name__ == "__main__":
    sys.exit(main())

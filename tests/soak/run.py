"""Load for long, and kills: `python -m tests.soak.run --minutes 180 --rate 500`.

`tidelog up` with two Pumps into SQLite, retention of a minute, a reader of the stream. Each 30 s
one of its processes is killed. Everything committed is read once and in order, the downstream is
equal to the source at the end; memory and descriptors of each process do not grow; after each kill
the downstream is soon as near as it was before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.membership.stream import Stream
from tests.last_line import last_line
from tests.soak.slopes import Slope, is_flat, slope, warm
from tests.soak.watch import BLOCKS, MIB, NATS, Watch
from tests.topology import Running, up
from tests.wrong import Wrong
from tidelog.actor import first_error
from tidelog.config import ServiceConfig
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.timestamps import compose, physical_ms
from tidelog.workload import Workload, WorkloadConfig, compare
from tidelog.workload.ledger import Committed
from tidelog_cli.readback import sqlite_reader

CLUSTER, FEED = "default", "main"
VICTIMS = ("pump-1", "drainer", "applier", "pump-2", "registry", "nats")
ENVIRONMENT = {
    "TIDELOG_PUMP_GC": "1m",
    "TIDELOG_PUMP_GC_INTERVAL": "10s",
    "TIDELOG_PUMP_SEGMENT_BYTES": str(8 << 20),
    "TIDELOG_DRAINER_CHANGES_MAX_BYTES": str(128 << 20),
}
"""Retention works all the while: small segments that go soon, a stream that discards; it is as long
as it ever gets after some minutes, and nats-server's memory, which grows with that, too."""
LOOK_S = 1.0
LAG_S = 2.0
"""The downstream is there again when it is no further behind."""
BACK_S = 60.0
"""How long that may take after a kill, on a machine with other work."""
RSS_MIB = 512.0
"""No process of a short run has more."""
SLACK = 24.0
"""Descriptors that come and go: connections, files that are being read."""
LONG_S = 1800.0
"""From so long a run on, slopes count."""
SETTLED_S = 600.0
"""By then the stream of a long run is full."""
LIMIT = 0.01
"""Of the mean, an hour."""
FLUSH_S = 120.0


@dataclass
class Soak:
    seconds: float
    rate: float
    kill_each_s: float
    seed: int
    kills: list[tuple[str, float]] = field(default_factory=list)
    """Who, and how many seconds until the downstream was there again."""
    committed: int = 0
    read: int = 0
    wrong: list[str] = field(default_factory=list)

    async def run(self, running: Running, database: Path) -> Watch:
        """Raises Wrong."""
        watch = Watch(running.directory)
        bus = await NatsBus.connect(running.nats, timeout_s=10)
        ports = real_ports(ServiceConfig(), RealDisk(running.directory / "load"), bus)
        config = WorkloadConfig(
            cluster=CLUSTER,
            seed=self.seed,
            seconds=0,
            rate=self.rate,
            clients=32,
            ddl_share=0.0005,
            dead_share=0.002,
            lock_ttl_s=1.5,
        )
        load = Workload(ports, config, self._commit)
        self._stream = Stream(bus, FEED, lambda: "soak")
        stop = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(load.run(stop))
                reading = group.create_task(self._stream.run())
                looking = group.create_task(self._look(watch))
                await self._suffer(running)
                await self._end(load, running)
                contents = load.source.contents()
                reading.cancel()
                looking.cancel()
                stop.set()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            await bus.close()
        self.read = self._stream.checked
        if self.read != self.committed:
            self.wrong.append(f"{self.committed} committed, and {self.read} were read")
        verdict = await compare(contents, sqlite_reader(database, contents))
        self.wrong += verdict.differences
        return watch

    def _commit(self, entry: Committed) -> None:
        self._stream.ledger.add(entry)
        self.committed += entry.kind != "nothing"

    async def _look(self, watch: Watch) -> None:
        while True:
            watch.look()
            await asyncio.sleep(LOOK_S)

    async def _suffer(self, running: Running) -> None:
        """The load alone first, then a kill each so often, one after the other in another order."""
        rng = random.Random(self.seed)
        ends = time.monotonic() + self.seconds
        await self._within(self._flows(running), "the load to arrive")
        victims: list[str] = []
        while (left := ends - time.monotonic()) > self.kill_each_s / 2:
            await asyncio.sleep(min(self.kill_each_s / 2, left))
            victims = victims or rng.sample(VICTIMS, len(VICTIMS))
            victim, at = victims.pop(), time.monotonic()
            os.kill(running.pid(victim), signal.SIGKILL)
            since = compose(int(time.time() * 1000))
            await self._within(self._flows(running, since), f"the flow after a kill of {victim}")
            took = time.monotonic() - at
            self.kills.append((victim, took))
            print(f"kill {len(self.kills)}: {victim}, {took:.1f} s, {self.read_so_far}", flush=True)
            await asyncio.sleep(max(0.0, self.kill_each_s / 2 - took))
        await asyncio.sleep(max(0.0, ends - time.monotonic()))

    @property
    def read_so_far(self) -> str:
        return f"{self._stream.checked} of {self.committed} read"

    def _flows(self, running: Running, beyond: int = 0) -> Callable[[], Awaitable[bool]]:
        """Is the downstream near the clock, and has it what was committed after `beyond`?"""

        async def look() -> bool:
            applied = await asyncio.to_thread(_applied_ts, running)
            behind_s = time.time() - physical_ms(applied) / 1000
            return applied > beyond and behind_s < LAG_S

        return look

    async def _within(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + BACK_S
        while not await condition():
            if time.monotonic() > deadline:
                raise Wrong(f"waited {BACK_S} s for {what}")
            await asyncio.sleep(0.1)  # a process's status can't be awaited

    async def _end(self, load: Workload, running: Running) -> None:
        load.end()
        async with asyncio.timeout(FLUSH_S):
            await load.finished.wait()
        if not await load.client.flush(FLUSH_S):
            raise Wrong(f"{load.client.unacked} Commits and Rollbacks are not acked")
        last = load.source.last_commit_ts

        async def applied() -> bool:
            there = await asyncio.to_thread(_applied_ts, running)
            return min(there, self._stream.position) >= last

        await self._within(applied, "everything to be applied and read")


def _applied_ts(running: Running) -> int:
    """0 while the Applier does not answer."""
    try:
        return int(running.said("applier")["applied_ts"])
    except (OSError, urllib.error.URLError, KeyError, ValueError, json.JSONDecodeError):
        return 0


def judged(soak: Soak, watch: Watch, warm_up_s: float) -> list[str]:
    """Prints the table; what grows."""
    wrong: list[str] = []
    settled_s = SETTLED_S if soak.seconds >= LONG_S else 0.0
    print(
        f"{'process':10} {'lives':>5} {'RSS MiB':>8} {'most':>6} {'RSS slope':>20} {'fds':>5} most"
    )
    for name, samples in sorted(watch.rss.items()):
        memory = warm(samples, warm_up_s, settled_s)
        counts = warm(watch.descriptors[name], warm_up_s)
        if not memory:
            continue
        line: Slope = slope(memory)
        most, fds = max(s.value for s in memory), [s.value for s in counts]
        lives = len({s.life for s in samples})
        print(
            f"{name:10} {lives:5} {line.mean:8.0f} {most:6.0f} {line!s:>20}"
            f"{' ' if line.tells(LIMIT) else '?'}{sum(fds) / len(fds):5.0f} {max(fds):.0f}"
        )
        if soak.seconds >= LONG_S and line.above(LIMIT):
            wrong.append(f"{name} grows by {line}")
        if soak.seconds < LONG_S and most > RSS_MIB:
            wrong.append(f"{name} has {most:.0f} MiB")
        if not is_flat(counts, SLACK):
            wrong.append(f"{name} holds more and more descriptors: {max(fds):.0f}")
    print(f"?: too unsure to tell growth by {LIMIT:.0%} an hour from none; a longer run may")
    print(f"{NATS}: without the {watch.blocks / MIB:.1f} MiB of its buckets' newest files")
    if soak.kills and not watch.blocks:
        wrong.append(f"{NATS} keeps its buckets elsewhere than at {BLOCKS}")
    return wrong


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--kill-each", type=float, default=30.0, help="seconds")
    parser.add_argument("--least", type=float, default=0.0, help="committed a second, in the mean")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    options = parser.parse_args(argv)
    soak = Soak(options.minutes * 60, options.rate, options.kill_each, options.seed)
    print(f"seed {options.seed}", flush=True)
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        database = Path(home) / "down.db"
        with up(Path(home) / "top", f"sqlite:///{database}", "--pumps", "2") as running:
            try:
                watch = asyncio.run(soak.run(running, database))
            except (Wrong, TimeoutError) as error:
                print(f"kill {len(soak.kills)} of seed {soak.seed}: {error!r}{running.logs()}")
                return 1
            kept = sum(f.stat().st_size for f in running.directory.rglob("*.vlog"))
    soak.wrong += judged(soak, watch, warm_up_s=min(20.0, soak.seconds / 6))
    rate = soak.committed / soak.seconds
    if rate < options.least:
        soak.wrong.append(f"{rate:.0f} transactions a second are too few to prove anything")
    if not soak.kills:
        soak.wrong.append("nothing was killed")
    back = [took for _, took in soak.kills]
    print(f"the Pumps keep {kept >> 20} MiB; {rate:.0f} transactions a second of {soak.rate:.0f}")
    print(f"{len(back)} kills; near again after {max(back, default=0):.1f} s at most")
    for line in soak.wrong[:20]:
        print("WRONG", line)
    print(last_line("soak", soak.read, f"seed {soak.seed}", wrong=len(soak.wrong)))
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A disk gets full under a service: `python -m tests.faults.disk_full --fills 20`.

Real processes on file systems of their own, in memory, of 8 MiB (the Drainer's has 24, as it keeps
16 free, the registry's 32). Under load one of them is filled to the last byte: a Pump's, the
Drainer's, the Applier's with its relay, the registry's. What would have to be stored is refused by
one typed, definite error; reads and the gc go on. Nobody ends but a Pump whose disk gets full
between its look at it and its write (exit code 70, as after any failed write): it is started again,
on the full disk. With the room everything goes on by itself: what was committed arrives, once, in
order, and is downstream.

It mounts, so it works in a mount namespace of its own (`unshare`), which goes with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.adapters.mysql.mysql_rig import UNSYNCED
from tests.faults.stack import APPLIER, DRAINER, PUMPS, REGISTRY, Plan, Stack, Wrongs, actors
from tests.integration.drainer.load import CLUSTER
from tests.integration.pump.small_disk import fill
from tests.last_line import last_line
from tests.servers import MariaDb, NatsServer, mariadb_server, nats_server
from tests.wrong import Wrong
from tidelog.ask_registry import nodes
from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import DiskFull, NotOnline, Unavailable
from tidelog.logs import configure
from tidelog.oracle import RegistryOracle
from tidelog.pump_client.delivery.way import NatsWay
from tidelog.subjects import pump as pump_subject
from tidelog_proto.binlog_pb2 import Binlog, Prewrite, Rollback
from tidelog_proto.transport_pb2 import PullFrame, PullRequest

MIB = 1 << 20
PUMP = PUMPS[0]
SIZES = {PUMP: 8 * MIB, DRAINER: 24 * MIB, APPLIER: 8 * MIB, REGISTRY: 32 * MIB}
"""The registry keeps each DDL job: of 200 fills they are some 10 MiB."""
FLAGS = {
    PUMP: [
        *("--storage-stop-write-at-available-space", "1 MiB", "--segment-bytes", "16384"),
        *("--gc", "3s", "--gc-interval", "500ms", "--gc-hard-cap", "1h"),
    ],
    DRAINER: ["--spool-above", "65536"],
    APPLIER: ["--relay-max-file-size", "100000"],
}
SERVICES = tuple(SIZES)
STAYS_S = (0.5, 3.0)
AGAIN_S = 0.05
SEEN_S = 30.0
INSIDE = "TIDELOG_TEST_DISK_FULL_INSIDE"


def share(fills: int, seed: int) -> list[str]:
    """Each service in its turn."""
    rng = random.Random(seed)
    found: list[str] = []
    while len(found) < fills:
        found += rng.sample(SERVICES, len(SERVICES))
    return found[:fills]


class Room:
    """A small file system, and who eats what is left of it."""

    def __init__(self, place: Path, size: int) -> None:
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=True)
        self.place = place / "data"
        self._filler = place / "filler"

    @contextlib.asynccontextmanager
    async def full(self, *, kept: bool) -> AsyncIterator[None]:
        """`kept`: whatever is deleted meanwhile."""
        await asyncio.to_thread(self.fill)
        eating = asyncio.create_task(self._eat() if kept else asyncio.sleep(0))
        try:
            yield
        finally:
            eating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await eating
            self._filler.unlink(missing_ok=True)

    async def _eat(self) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)  # nobody tells when there is room again
            self.fill()

    def fill(self) -> None:
        with contextlib.suppress(AssertionError):  # there was some room again at once
            fill(self._filler)


class Rig:
    def __init__(self, nats: NatsServer, database: MariaDb, directory: Path, *, seed: int) -> None:
        self.fills: Counter[str] = Counter()
        self.seconds = 0.0
        self.slowest_s = 0.0
        self._first = 0
        self.seed = seed
        self._rng = random.Random(seed)
        self._rooms = {name: Room(directory / f"room-{name}", SIZES[name]) for name in SERVICES}
        places = {name: room.place for name, room in self._rooms.items()}
        self.stack = Stack(
            nats,
            database,
            directory,
            Plan(flags=FLAGS, data=places, orchestrated=(PUMP,)),
            seed=seed,
        )
        self._checks = {
            PUMP: self._pump,
            DRAINER: self._drainer,
            APPLIER: self._applier,
            REGISTRY: self._registry,
        }

    async def run(
        self, services: Sequence[str], on_fill: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        async with self.stack.loaded():
            for name in services:
                self.stack.doing = f"a full disk under {name}"
                await self._seen(self._collectable, "closed segments")
                # What a Pump's gc gives back stays: a full disk is to mend itself.
                async with self._rooms[name].full(kept=name != PUMP):
                    await self._checks[name]()
                    await asyncio.sleep(self._rng.uniform(*STAYS_S))  # so long it stays so
                    self.stack.check()
                took = await self.stack.caught_up()
                self.slowest_s = max(self.slowest_s, took)
                self.fills[name] += 1
                on_fill(f"{self.stack.doing}: all there after {took:.1f} s")
        self.seconds = time.monotonic() - began

    # What each has to do on a full disk -----------------------------------------------------

    async def _collectable(self) -> bool:
        """A Pump has closed segments, which its gc can take soon."""
        self._first = await self._first_segment()
        return int((await self._said(PUMP)).get("writer", {}).get("segments", 0)) > 2

    async def _pump(self) -> None:
        way = NatsWay(self.stack.bus, CLUSTER, 0, PUMP)

        async def probe_refused() -> bool:
            """What the index gives back before the Pump has met the full disk, some MB at once, is
            eaten, too; what the gc gives stays, and what a Pump makes room with to start there."""
            room = self._rooms[PUMP]
            is_refused = await _refused(way, b"")
            if is_refused is False and shutil.disk_usage(room.place).free > MIB:
                await asyncio.to_thread(room.fill)
            return bool(is_refused)

        await self._seen(probe_refused, "a probe to be refused")
        await self._prewrite_refused(way)
        request = PullRequest(after_ts=self.stack.live.position, max_bytes=MIB)

        async def pulled() -> bool:
            try:
                answer = await self.stack.bus.request(
                    pump_subject(CLUSTER, PUMP, "pull"), request.SerializeToString(), timeout_s=10
                )
            except Unavailable:
                return False
            return not PullFrame.FromString(answer.data).code

        await self._seen(pulled, "a pull")

        async def collected() -> bool:
            return await self._first_segment() > self._first

        await self._seen(collected, "the gc")

    async def _prewrite_refused(self, way: NatsWay) -> None:
        """Or taken, for the gc or the index had made room. Each is another one: of one that was
        taken without an answer the Pump would say so again. What may have been taken is rolled
        back."""
        oracle, unsure = RegistryOracle(self.stack.bus, CLUSTER), list[int]()

        async def refused() -> bool:
            unsure.append(start_ts := await oracle.fresh())
            asked = Binlog(tp=Prewrite, start_ts=start_ts, prewrite_value=b"v")
            try:
                if is_refused := await _refused(way, asked.SerializeToString()):
                    unsure.pop()
            except Taken:
                writer = (await self._said(PUMP)).get("writer", {})
                if writer.get("disk_full") and await self._first_segment() == self._first:
                    raise
                return True
            return bool(is_refused)

        async def closed() -> bool:
            ends = [
                Binlog(tp=Rollback, start_ts=start_ts).SerializeToString() for start_ts in unsure
            ]
            try:
                return not any(await way.write(ends, 10.0))
            except Unavailable:
                return False

        await self._seen(refused, "a Prewrite to be refused")
        if unsure:
            await self._seen(closed, "Rollbacks to be taken")

    async def _first_segment(self) -> int:
        return int((await self._said(PUMP)).get("gc", {}).get("first_segment", 0))

    async def _drainer(self) -> None:
        """A large transaction has no place to wait in, or a schema change that came before it has
        none to be kept: the Drainer says so, and for whom."""
        writing = asyncio.create_task(self.stack.load.write_fragments())

        async def told() -> bool:
            said = await self._said(DRAINER)
            waiting = str(said.get("publisher", {}).get("waiting", ""))
            return "SpoolFull" in str(said.get("collector", {})) or "No space left" in waiting

        await self._seen(told, "the Drainer to say that there is no room")
        await writing

    async def _applier(self) -> None:
        """It waits, and says why; the stream is read by others meanwhile."""

        async def told() -> bool:
            return "No space left" in str((await self._said(APPLIER)).get("applier", {}))

        await self._seen(told, "the Applier to say that there is no space")
        enough = self.stack.live.checked + 20
        await self.stack.until(lambda: self.stack.live.checked >= enough, "the stream")

    async def _registry(self) -> None:
        """No timestamps, no DDL jobs; what is known is told."""
        bus, refused = self.stack.bus, False

        async def without_time() -> bool:
            try:
                await RegistryOracle(bus, CLUSTER, timeout_s=1.0).take(1)
            except Unavailable as error:
                return "No space left" in str(error)
            return False

        await self._seen(without_time, "timestamps to be refused")
        try:
            # Larger than what may be left of the file's last block.
            await EmbeddedHistory(bus, CLUSTER).append(
                b'{"id": 1000000, "type": 3%s}' % bytes(b" " * 16384)
            )
        except DiskFull as error:
            refused = error.definite
        if not refused:
            raise Wrong("a DDL job was not refused for sure on a full disk")
        told = await nodes(bus, CLUSTER, timeout_s=5)
        if len([node for node in told.nodes if node.isAlive]) < 4:
            raise Wrong(f"the registry lost sight of somebody: {told.nodes}")

    async def _said(self, name: str) -> dict[str, dict[str, Any]]:
        """Nothing, if it can't be asked."""
        try:
            return await asyncio.to_thread(actors, self.stack.services[name])
        except OSError:
            return {}

    async def _seen(self, condition: Callable[[], Any], what: str) -> None:
        """Raises Wrong."""
        deadline = time.monotonic() + SEEN_S
        while not await condition():
            self.stack.check()
            if time.monotonic() > deadline:
                raise self.stack.stuck(what, SEEN_S)
            await asyncio.sleep(AGAIN_S)  # between two questions

    def summary(self) -> str:
        each = ", ".join(f"{name} {count}" for name, count in sorted(self.fills.items()))
        return (
            f"{len(self.stack.ledger.order)} transactions ({self.stack.load.ddls} DDLs), each read"
            f" once and in order, the downstream equal; disks filled: {each}; with the room"
            f" everything had arrived after {self.slowest_s:.1f} s at most; started again:"
            f" {dict(self.stack.restarted) or 0}; {self.seconds:.0f} s\n"
            + last_line("disk full", self.fills.total(), f"seed {self.seed}")
        )


class Taken(Wrong):
    """A Prewrite was, by a disk that should be full."""


async def _refused(way: NatsWay, body: bytes) -> bool | None:
    """By a full disk, for sure; False if a probe was taken, None if there is no answer: the Pump
    may be starting on the full disk. Raises Wrong if it is refused otherwise, Taken if a Prewrite
    wasn't."""
    try:
        refusals = await way.write([body], 10.0)
    except Unavailable:
        return None
    refusal = refusals[0] if refusals else None
    if isinstance(refusal, Unavailable | NotOnline):
        return None
    if refusal is None:
        if body:
            raise Taken("a Prewrite was taken")
        return False
    if not isinstance(refusal, DiskFull) or not refusal.definite:
        raise Wrong(f"answered by {refusal!r}, not by a DiskFull that is definite")
    return True


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    if options.fills < 1:
        parser.error("nothing is to be tried")
    if INSIDE not in os.environ:
        if subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
            print("it needs root, or user namespaces, to mount file systems (`unshare -rm`)")
            return 1
        again = [sys.executable, "-m", "tests.faults.disk_full", *argv]
        environ = os.environ | {INSIDE: "1"}
        return subprocess.run(["unshare", "-rm", *again], env=environ, check=False).returncode
    configure("auto", "error")
    with (
        tempfile.TemporaryDirectory(prefix="disk-full-", ignore_cleanup_errors=True) as directory,
        nats_server(Path(directory)) as nats,
        mariadb_server(Path(directory), *UNSYNCED) as database,
    ):
        try:
            rig = Rig(nats, database, Path(directory), seed=options.seed)
            asyncio.run(
                rig.run(share(options.fills, options.seed), lambda what: print(what, flush=True))
            )
        except Wrongs as error:
            print(f"seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

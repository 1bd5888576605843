"""A machine that loses power, and the Pump on it: the tree of the Pump's own `build` without its
edges, on the simulated disk and index."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from tidelog.errors import ActorStopped, NoResponders, TidelogError
from tidelog.messages import ONLINE, Nodes, encode
from tidelog.ports import Bus, IndexStore, Message, Ports
from tidelog.sim.clock import SimClock
from tidelog.sim.disk import FOLDER, DiskFaults, SimDisk
from tidelog.sim.index import SimIndex, SimIndexFile
from tidelog.sim.life import Life, current_life
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.sim.rng import SimRng
from tidelog.sim.trace import Trace
from tidelog.supervisor import Supervisor
from tidelog_pump.config import PumpConfig
from tidelog_pump.index import keys
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.purge import PurgeRecord
from tidelog_pump.log.segments import Segments
from tidelog_pump.retention.gc_actor import Collect, Collected
from tidelog_pump.service import build
from tidelog_pump.sort.sorter_actor import AwaitResolved, Resolved
from tidelog_pump.write.writer import Append, Outcome, SetState

CLUSTER_ID = 7
EDGES = ("resolver", "faker", "grpc", "nats", "membership", "http", "stranded")
"""What reaches for others: a crash state is about this Pump's own files."""
OLD_S = 61.0
SMALL = 16 << 20
"""And so is the reserve: it lies on each of thousands of disks."""
CONFIG = PumpConfig(node_id="pump-1", cluster_id=CLUSTER_ID, oracle="follow")


class Registry:
    """All of the bus that a Pump without its edges asks: of the registry, what everybody has. No
    other Pump of its node id answers."""

    async def request(self, subject: str, *_: object, **__: object) -> Message:
        if ".pump." in subject:
            raise NoResponders(subject)
        return Message("", encode(Nodes([], safe_point=1 << 62)))


class Machine:
    """Disk and index outlive the processes. No call takes time: only the order counts."""

    def __init__(self, config: PumpConfig = CONFIG, seed: int = 0) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.config = config
        self.loop = loop
        self.trace = Trace(loop.time)
        faults = DiskFaults(write_s=0.0, sync_s=0.0, stall_chance=0.0, capacity=SMALL)
        self.disk = SimDisk("pump-1", random.Random(seed), self.trace, faults)
        self.indexes: dict[str, SimIndexFile] = {}
        self.lives = 0
        self.fail_index_at = 0
        """Of the index's writes, the one that fails; 0: none."""
        self.on_index: Callable[[], None] = lambda: None
        """Called after each write to the index."""

    def ports(self, life: Life) -> Ports:
        def nowhere(*_: Any) -> Any:
            raise LookupError("a Pump has none")

        return Ports(
            clock=SimClock(self.loop),
            rng=SimRng(0, f"rng/{life.number}"),
            disk=self.disk.mount(life),
            bus=cast(Bus, Registry()),
            open_index=lambda path: self._open_index(path, life),
            drop_index=self._drop_index,
            open_downstream=nowhere,
            open_ddl_history=nowhere,
            open_rpc=nowhere,
            within=nowhere,
        )

    def _open_index(self, path: str, life: Life) -> IndexStore:
        file = self.indexes.setdefault(path, SimIndexFile())
        file.on_write = lambda: self.on_index()
        file.fail_at = self.fail_index_at
        return SimIndex(file, life, self.trace)

    def _drop_index(self, path: str) -> None:
        self.indexes.pop(path, None)


class Pump:
    """One process on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        machine.lives += 1
        self.life = Life("pump-1", machine.lives)
        self._stop = asyncio.Event()
        token = current_life.set(self.life)
        try:
            self.tree: Supervisor = build(machine.config, machine.ports(self.life))
            children = [c for c in self.tree._children if c.ref.name.split(".")[1] not in EDGES]
            self.tree._children = children
            self.task = machine.loop.create_task(self.tree.run(self._stop), name="pump")
        finally:
            current_life.reset(token)

    def actor(self, name: str) -> Any:
        """A living actor, whatever it is. Raises what ended the process instead."""
        child = next(c for c in self.tree._children if c.ref.name == f"pump.{name}")
        if self.task.done():
            self.task.result()
        if child.cell is None:
            raise ActorStopped(f"{name} is not running")
        return child.cell.actor

    def _ref(self, name: str) -> Any:
        return next(c.ref for c in self.tree._children if c.ref.name == f"pump.{name}")

    async def started(self) -> None:
        """Until all of it runs and takes Prewrites. Raises what ended it instead."""
        while not self.tree.ready:
            if self.task.done():
                self.task.result()
                raise AssertionError("the Pump ended by itself")
            await asyncio.sleep(0)
        await self._ref("writer").tell(SetState(ONLINE))

    async def append(
        self, payloads: Sequence[bytes], acked: Callable[[list[Outcome]], None] | None = None
    ) -> list[Outcome]:
        """Hand over one batch; `acked` is told in the very instant of the ack. Raises the error
        that ended the process if there is no ack."""
        ref, done = self._ref("writer"), self.machine.loop.create_future()

        def settle(outcomes: list[Outcome] | None, error: Exception | None) -> None:
            if outcomes is not None and acked is not None:
                acked(outcomes)
            if not done.done():
                done.set_result((outcomes, error))

        reply = ref.reply(settle)
        await ref.tell(Append(CLUSTER_ID, list(payloads), reply))
        outcomes, error = await done
        if outcomes is None:
            # The asker is told first; what the process died of is known when it is dead.
            await asyncio.wait([self.task], timeout=60)
            if self.task.done():
                self.task.result()
            raise error
        return cast(list[Outcome], outcomes)

    async def idle(self) -> None:
        """Until the index has everything that the log has."""
        indexer, segments = self.actor("indexer"), self.segments
        while indexer._pairing.head[:2] != segments.end:
            if self.task.done():
                self.task.result()
            at = segments.end
            if at.offset == 0 and indexer._pairing.head.fid < at.fid:
                return  # the last segment is new and empty
            await asyncio.sleep(0.001)

    @property
    def segments(self) -> Segments:
        return cast(Segments, self.actor("indexer")._segments)

    async def log(self) -> list[bytes]:
        """Every payload from the first segment on."""
        return [
            bytes(payload)
            async for records in self.segments.scan(self.segments.start)
            for _, payload in records
        ]

    @property
    def purged(self) -> PurgeRecord:
        return cast(PurgeRecord, self.actor("gc")._purge.record)

    async def collect(self) -> Collected:
        """What an operator's gc does, the index included; when what is stored is old enough."""
        await asyncio.sleep(OLD_S)
        gc = self.actor("gc")
        done: Collected = await self._ref("gc").ask(Collect)
        await asyncio.wait([gc._running])
        return done

    def commits(self) -> dict[tuple[int, int], bytes]:
        """What a pull would find, with the Prewrite's payload read by its pointer."""
        store: IndexStore = self.actor("indexer")._store
        found: dict[tuple[int, int], bytes] = {}
        for key, value in store.scan(*keys.commit_range(self.purged.ts, 1 << 62), 1 << 20):
            commit_ts, start_ts, place = keys.unpack_commit(key, value)
            found[commit_ts, start_ts] = self.segments.payload(Pointer(*place[:2]))
        return found

    def open_bounds(self) -> dict[int, int]:
        """The index's open Prewrites."""
        store: IndexStore = self.actor("indexer")._store
        entries = store.scan(*keys.open_range(), 1 << 20)
        return {s: bound for s, bound, _ in (keys.unpack_open(*entry) for entry in entries)}

    async def resolved(self) -> Resolved:
        answer: Resolved = await self._ref("sorter").ask(lambda r: AwaitResolved(-1, 0, r))
        return answer

    async def stop(self) -> None:
        """As by SIGTERM."""
        self._stop.set()
        await self.task

    async def kill(self) -> None:
        """The process is gone; what becomes of the disk is the caller's to say."""
        self.life.alive = False
        self.task.cancel()
        await asyncio.wait([self.task])


async def ends(pump: Pump) -> BaseException | None:
    """The error that ended it, None if it still runs."""
    if not pump.task.done():
        return None
    return pump.task.exception() if not pump.task.cancelled() else None


def play(main: Callable[[], Any], seed: int | str = 0) -> Any:
    """Run `main()` on a loop of its own."""
    return run_loop(SimLoop(seed, max_steps=2_000_000), main())


def refused(outcomes: list[Outcome]) -> list[TidelogError]:
    return [outcome for outcome in outcomes if outcome is not None]


def files_of(machine: Machine) -> dict[str, bytes | None]:
    """What its disk shows, synced or not."""
    names = machine.disk._names
    return {p: None if inode is FOLDER else bytes(inode.data) for p, inode in names.items()}

"""A running Pump drains, one at a time, the slots that scaling down has left (design section 12).

A slot is an orphan when nobody has held its lock for the grace time, and the registry does not say
that it is offline already. The adopter takes its lock and runs its Pump beside ours, from the same
parts: it serves pulls under its own node id, takes Commits and Rollbacks, asks for the ends of open
Prewrites, and takes no Prewrites. Drained, it is taken offline; its directory stays as it is.

Who starts and finds no free slot makes the file `wanted` in one that has the file `adopted`; the
adopter then ends that Pump in order and lets the lock go (see claim.py). A failure of the adopted
Pump is not ours: it is told, and the slot left alone for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from tidelog import subjects
from tidelog.actor import Actor, Nothing
from tidelog.errors import DirectoryLocked, TidelogError
from tidelog.messages import OFFLINE, Empty, Nodes, StateRequest, decode_reply, encode
from tidelog.ports import Lock
from tidelog.supervisor import Stuck, Supervisor
from tidelog_pump.identity import NODE_FILE, NodeRecord
from tidelog_pump.slots.claim import ADOPTED, TURN_FILE, WANTED, Slot, slots, try_lock, unmark
from tidelog_pump.slots.drain import Step, known_as, step
from tidelog_pump.slots.orphans import Orphans

log = structlog.get_logger()

LOOK_S = 2.0
WATCH_S = 0.5
ASK_S = 3.0
CLOSE_S = 10.0
"""How long one that is closing may take to end when its slot is wanted."""
LEFT_ALONE_S = 600.0
"""After a failure of an adopted Pump."""


class Adopted(NamedTuple):
    """A Pump on a slot, and how to let go of what it holds once its tree has ended, however."""

    tree: Supervisor
    let_go: Callable[[], None]


Make = Callable[[Slot], Adopted]


class Adopter(Actor[Nothing]):
    def __init__(self, own: Slot, cluster: str, grace_s: float, make: Make) -> None:
        self._own = own
        self._ports = own.root
        self._cluster = cluster
        self._make = make
        self._orphans = Orphans(grace_s)
        self._left_alone: dict[str, float] = {}
        """Until when; see LEFT_ALONE_S."""
        self._offline: set[str] = set()
        """Slots whose Pump the registry calls offline."""
        self._failures: dict[str, str] = {}
        self._slot = ""
        self._step = Step.WAIT
        self._adopted: Adopted | None = None
        self._stop = asyncio.Event()
        self._stopping = False
        self._living: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        self._living = self.spawn(self._live(), "look")

    async def on_batch(self, batch: list[Nothing]) -> None:
        """Nobody writes to it."""

    async def on_stop(self) -> None:
        """The adopted Pump ends in order; another Pump may adopt its slot."""
        self._stopping = True
        self._stop.set()
        if self._living is not None:
            await asyncio.wait([self._living])

    async def _live(self) -> None:
        while not self._stopping:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._stop.wait()
            except TimeoutError:
                await self._look()

    async def _look(self) -> None:
        now = self._ports.clock.monotonic()
        try:
            turn = self._ports.disk.lock(TURN_FILE)
        except DirectoryLocked:
            return  # somebody starts
        try:
            free = [name for name in slots(self._ports.disk) if self._is_free(name)]
            self._orphans.saw(free, now)
            self._offline &= set(free)
            lock = await self._choose(now)
        finally:
            turn.release()
        if lock is not None:
            await self._adopt(lock)

    def _is_free(self, name: str) -> bool:
        lock = None if name == self._own.name else try_lock(self._ports.disk, name)
        if lock is not None:
            lock.release()
        return lock is not None

    async def _choose(self, now: float) -> Slot | None:
        """The lock of the next one to drain, if there is one."""
        alone = {name for name, until in self._left_alone.items() if now < until}
        due = self._orphans.due(now, alone | self._offline)
        nodes = await self._ask_nodes() if due else None
        for name in due if nodes is not None else ():
            assert nodes is not None
            known = known_as(nodes, self._node_of(name))
            if (known is not None and known.state == OFFLINE) or not self._node_of(name):
                self._offline.add(name)
            elif (lock := try_lock(self._ports.disk, name)) is not None:
                return self._slot_of(name, lock)
        return None

    def _slot_of(self, name: str, lock: Lock) -> Slot:
        return Slot(name, lock, self._ports.within(name), self._ports, adopted=True)

    def _node_of(self, name: str) -> str:
        """Empty of one that was never served."""
        path = f"{name}/{NODE_FILE}"
        if not self._ports.disk.exists(path):
            return ""
        try:
            return msgspec.json.decode(self._ports.disk.read_file(path), type=NodeRecord).node
        except msgspec.DecodeError:
            return name  # its Pump says what is wrong with it

    async def _ask_nodes(self) -> Nodes | None:
        subject = subjects.registry(self._cluster, "nodes")
        try:
            answer = await self._ports.bus.request(subject, encode(Empty()), timeout_s=ASK_S)
            return decode_reply(answer.data, Nodes)
        except TidelogError as error:
            log.info("the registry does not say which Pumps are offline", reason=str(error))
            return None

    # One that is adopted

    async def _adopt(self, slot: Slot) -> None:
        log.warning("a slot that nobody serves is drained", slot=slot.name)
        self._slot, self._step = slot.name, Step.WAIT
        let_go = slot.lock.release
        try:
            await self._ports.disk.write_file(f"{slot.name}/{ADOPTED}", self._own.name.encode())
            self._adopted = self._make(slot)
            let_go = self._adopted.let_go
            await self._run(self._adopted.tree)
        except Stuck:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, it is not our Pump's)
            self._failures[slot.name] = f"{type(error).__name__}: {error}"
            self._left_alone[slot.name] = self._ports.clock.monotonic() + LEFT_ALONE_S
            log.error("the adopted slot's Pump failed", slot=slot.name, error=str(error))
        else:
            self._failures.pop(slot.name, None)
        finally:
            self._slot, self._adopted = "", None
            try:
                await unmark(self._ports.disk, slot.name)
            finally:
                let_go()

    async def _run(self, tree: Supervisor) -> None:
        """Until it is offline, its slot is wanted, or we stop. Raises what ended it."""
        ended = asyncio.Event()
        watch = self.spawn(self._watch(tree, ended), "watch")
        try:
            await tree.run(ended)
        finally:
            watch.cancel()
            await asyncio.wait([watch])

    async def _watch(self, tree: Supervisor, end: asyncio.Event) -> None:
        wanted_s = 0.0
        while not self._stopping:
            await self._ports.clock.sleep(WATCH_S)
            if tree.ready:
                await self._go_on(tree)
            if self._ports.disk.exists(f"{self._slot}/{WANTED}"):
                wanted_s += WATCH_S
                if self._step is not Step.CLOSING or wanted_s > CLOSE_S:
                    log.info("the adopted slot is wanted back", slot=self._slot)
                    break
            if self._step is Step.DONE:
                log.info("the adopted slot is offline", slot=self._slot)
                break
        end.set()

    async def _go_on(self, tree: Supervisor) -> None:
        identity = tree.status()["identity"]
        node, epoch = str(identity["node"]), identity["epoch"]
        assert isinstance(epoch, int)
        nodes = await self._ask_nodes()
        if nodes is None:
            return
        self._step = step(nodes, node, epoch)
        if self._step is Step.LEAVE:
            try:
                answer = await self._ports.bus.request(
                    subjects.registry(self._cluster, "state"),
                    encode(StateRequest(node, "offline")),
                    timeout_s=ASK_S,
                )
                decode_reply(answer.data, Empty)
            except TidelogError as error:
                log.info("not offline yet", node=node, reason=str(error))

    def status(self) -> dict[str, object]:
        shown: dict[str, object] = {
            "slot": self._own.name,
            "unserved_s": self._orphans.ages(self._ports.clock.monotonic()),
            "offline": sorted(self._offline),
            "failures": self._failures,
            "adopted": self._slot,
        }
        if self._adopted is not None and self._adopted.tree.ready:
            # Not of one that ends: its index may be closed already.
            shown |= {"step": self._step.value, "actors": self._adopted.tree.status()}
        return shown

"""A running Pump drains, one at a time, the slots that scaling down has left (design section 12).

A slot is an orphan when nobody has held its lock for the grace time, and the registry does not say
that it is offline already. The adopter takes its lock and runs its Pump beside ours, from the same
parts: it serves pulls under its own node id, takes Commits and Rollbacks, asks for the ends of open
Prewrites, and takes no Prewrites. Drained, it is taken offline; its directory stays as it is.

Who starts and finds no free slot makes the file `wanted` in one that has the file `adopted`; the
adopter then ends that Pump in order and lets the lock go (see claim.py). A failure of the adopted
Pump is not ours: it is told, and the slot left alone for a while (`orphans.py`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple

import structlog

from tidelog import ask_registry
from tidelog.actor import Actor, Nothing
from tidelog.errors import DirectoryLocked, DiskFull, Stuck, TidelogError
from tidelog.messages import OFFLINE, Nodes, StateReply, StateRequest
from tidelog.ports import Lock
from tidelog.sealed import unseal
from tidelog.supervisor import Supervisor
from tidelog.unreadable import NOT_READABLE
from tidelog_pump.identity import NODE_FILE, NodeRecord
from tidelog_pump.slots.claim import (
    ADOPTED,
    TURN_FILE,
    WANTED,
    Slot,
    slots,
    take_turn,
    try_lock,
    unmark,
)
from tidelog_pump.slots.drain import Step, known_as, step
from tidelog_pump.slots.orphans import LeftAlone, Orphans

log = structlog.get_logger()

LOOK_S = 2.0
WATCH_S = 0.5
ASK_S = 3.0
CLOSE_S = 10.0
"""How long one that is closing may take to end when its slot is wanted."""
SLOTS = "slots-dir"
"""The name under which a failure of the directory itself is told."""


class Adopted(NamedTuple):
    """A Pump on a slot, and how to let go of what it holds once its tree has ended, however: all of
    it, even where that raises."""

    tree: Supervisor
    let_go: Callable[[], None]


Make = Callable[[Slot], Adopted]


class Adopter(Actor[Nothing]):
    """`failures`: slots that can't be drained, and why; others read it."""

    def __init__(
        self, own: Slot, cluster: str, grace_s: float, make: Make, failures: dict[str, str]
    ) -> None:
        self._own = own
        self._ports = own.root
        self._cluster = cluster
        self._make = make
        self._orphans = Orphans(grace_s)
        self._left_alone = LeftAlone()
        self._offline: set[str] = set()
        """Slots whose Pump the registry calls offline."""
        self._failures = failures
        self._slot = ""
        self._step = Step.WAIT
        self._adopted: Adopted | None = None
        self._stop = asyncio.Event()
        self._stopping = False
        self._living: asyncio.Task[None] | None = None

    async def on_start(self) -> None:
        self._living = self.spawn(self._live(), "look")

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
            free = self._free()
        except TidelogError as error:
            self._tell(SLOTS, error)
            return
        if free is None:
            return  # somebody has the turn
        self._orphans.saw(free, now)
        self._offline &= set(free)
        due = self._orphans.due(now, self._left_alone.names(now) | self._offline)
        nodes = await self._ask_nodes() if due else None
        slot = None if nodes is None else await self._choose(due, nodes)
        if slot is not None:
            await self._adopt(slot)

    async def _choose(self, due: list[str], nodes: Nodes) -> Slot | None:
        """The next one to drain, if there is one."""
        for name in due:
            try:
                if self._is_done(name, nodes):
                    self._offline.add(name)
                elif (slot := await self._taken(name)) is not None:
                    return slot
            except DiskFull as error:
                self._tell(name, error)  # tried with the next look: nothing was begun
            except TidelogError as error:
                self._leave_alone(name, error)
        return None

    def _free(self) -> list[str] | None:
        """Slots that nobody holds; None without the turn. One that can't be used is not free."""
        try:
            turn = self._ports.disk.lock(TURN_FILE)
        except DirectoryLocked:
            return None
        try:
            others = [name for name in slots(self._ports.disk) if name != self._own.name]
            for name in self._failures.keys() - set(others):
                del self._failures[name]
            return [name for name in others if self._is_free(name)]
        finally:
            turn.release()

    def _is_free(self, name: str) -> bool:
        try:
            lock = try_lock(self._ports.disk, name)
        except TidelogError as error:
            self._tell(name, error)
            return False
        if lock is None:
            self._failures.pop(name, None)  # whoever serves it tells how it does
            return False
        lock.release()
        return True

    def _is_done(self, name: str, nodes: Nodes) -> bool:
        """It was never served, or its Pump is offline."""
        node = self._node_of(name)
        known = known_as(nodes, node)
        return not node or (known is not None and known.state == OFFLINE)

    async def _taken(self, name: str) -> Slot | None:
        """Locked and marked, if it is free still. Whoever looks next finds both."""
        turn = await take_turn(self._ports)
        try:
            lock = try_lock(self._ports.disk, name)
            if lock is None:
                return None
            try:
                await self._ports.disk.write_file(f"{name}/{ADOPTED}", self._own.name.encode())
                return Slot(name, lock, self._ports.within(name), self._ports, adopted=True)
            except BaseException:
                lock.release()
                raise
        finally:
            turn.release()

    def _node_of(self, name: str) -> str:
        """Empty of one that was never served."""
        path = f"{name}/{NODE_FILE}"
        if not self._ports.disk.exists(path):
            return ""
        try:
            return unseal(self._ports.disk.read_file(path), NodeRecord).node
        except NOT_READABLE:
            return name  # its Pump says what is wrong with it

    async def _ask_nodes(self) -> Nodes | None:
        try:
            return await ask_registry.nodes(self._ports.bus, self._cluster, timeout_s=ASK_S)
        except TidelogError as error:
            log.info("the registry does not say which Pumps are offline", reason=str(error))
            return None

    # One that is adopted

    async def _adopt(self, slot: Slot) -> None:
        log.warning("a slot that nobody serves is drained", slot=slot.name)
        self._slot, self._step = slot.name, Step.WAIT
        let_go = slot.lock.release
        given = True
        try:
            # Of two Pumps in one log: this one's lines, of all that it begins, have its slot.
            with structlog.contextvars.bound_contextvars(slot=slot.name):
                self._adopted = self._make(slot)
                let_go = self._adopted.let_go
                await self._run(self._adopted.tree)
        except Stuck:
            given = False  # something of it may still write: the end of the process gives it back
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, it is not our Pump's)
            self._leave_alone(slot.name, error)
        else:
            self._failures.pop(slot.name, None)
        finally:
            self._slot, self._adopted = "", None
            if given:
                await self._give_back(slot.name, let_go)

    async def _give_back(self, name: str, let_go: Callable[[], None]) -> None:
        """In one turn: who wants it finds it free, never without mark and locked."""
        turn: Lock | None = None
        try:
            turn = await take_turn(self._ports)
            await unmark(self._ports.disk, name)
        except TidelogError as error:
            log.warning("the marks of a slot can't be deleted", slot=name, error=str(error))
        finally:
            try:
                let_go()
            except TidelogError as error:
                log.error("a slot was not closed in order", slot=name, error=str(error))
            finally:
                if turn is not None:
                    turn.release()

    def _leave_alone(self, name: str, error: Exception) -> None:
        self._left_alone.failed(name, self._ports.clock.monotonic())
        self._tell(name, error)

    def _tell(self, name: str, error: Exception) -> None:
        """In the log once, in the status until it is over."""
        what = error.message if isinstance(error, TidelogError) else str(error)
        why = f"{type(error).__name__}: {what}"
        if self._failures.get(name) != why:
            log.error("a slot can't be drained", slot=name, error=str(error))
        self._failures[name] = why

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
        clock, wanted_at = self._ports.clock, math.inf
        while not self._stopping:
            await clock.sleep(WATCH_S)
            if tree.ready:
                self._failures.pop(self._slot, None)  # what it was is over: it is being drained
                await self._go_on(tree)
            if self._ports.disk.exists(f"{self._slot}/{WANTED}"):
                wanted_at = min(wanted_at, clock.monotonic())
                if self._step is not Step.CLOSING or clock.monotonic() - wanted_at > CLOSE_S:
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
                wish = StateRequest(node, "offline")
                await ask_registry.ask(
                    self._ports.bus, self._cluster, "state", wish, StateReply, timeout_s=ASK_S
                )
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

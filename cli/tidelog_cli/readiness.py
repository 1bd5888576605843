"""When `tidelog up` is ready, for whom its start waits, and what its nodes complain of later.

Ready means that writes are taken: the registry and each Pump say so themselves, each Pump is
online (or kept out by an operator, while another one is), Drainer and Applier are registered. Those
two get READERS_S more to become online and ready as well, unless an operator keeps them out.
A feed that stopped or a downstream that can't be reached is said and does not hold the start for
ever: what the Pumps take meanwhile is kept for both. One whose process comes only then, and refuses
its configuration, ends the topology all the same.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence

from aiohttp import ClientError, ClientSession, ClientTimeout

from tidelog import messages
from tidelog.errors import TidelogError, Unavailable
from tidelog.messages import CLOSING, OFFLINE, ONLINE, PAUSED, PAUSING, NodeStatus
from tidelog.ports import Bus
from tidelog_cli.child import Child
from tidelog_cli.connect import connected, nodes
from tidelog_cli.state_file import TopologyState

POLL_S = 0.05
LOOK_S = 1.0
SAY_S = 5.0
"""A start that waits this long for the same nodes says so, and again when a reason changes."""
READERS_S = 10.0
PROBE_S = 3.0
REGISTRY = "tidelog_registry"
PUMP = "tidelog_pump"
READERS = ("tidelog_drainer", "tidelog_applier")


class Teller:
    """What is worth a line, each thing once. Pure: times are given."""

    def __init__(self) -> None:
        self._waited_for: frozenset[str] = frozenset()
        self._since = 0.0
        self._reasons: dict[str, str] = {}
        self._errors: dict[str, str] = {}

    def waits(self, reasons: Mapping[str, str], now: float) -> list[str]:
        """Lines on a start that waits, by node, for `reasons`. While others get there it moves,
        and there is nothing to tell."""
        if frozenset(reasons) != self._waited_for:
            self._waited_for, self._since = frozenset(reasons), now
        if now - self._since < SAY_S:
            return []
        new = {node: why for node, why in reasons.items() if self._reasons.get(node) != why}
        if new:
            self._reasons.update(new)
            self._since = now  # a reason that changes all the time isn't told all the time
        return [f"waiting for {node}: {why}" for node, why in sorted(new.items())]

    def errors(self, found: Sequence[NodeStatus]) -> list[str]:
        """Lines on the nodes whose error is another one now than it was."""
        lines: list[str] = []
        for node in found:
            error = node.detail.get("error", "")
            before = self._errors.get(node.nodeId, "")
            if not node.isAlive or error == before:
                continue
            self._errors[node.nodeId] = error
            lines.append(f"{node.nodeId}: {error or 'goes on'}")
        return lines


def missing(found: Sequence[NodeStatus], wanted: Sequence[str]) -> dict[str, str]:
    """Those who don't count as online yet, and what is known of them."""
    known = {node.nodeId: node for node in found}
    reasons: dict[str, str] = {}
    for name in wanted:
        node = known.get(name)
        if node is None:
            reasons[name] = "not registered"
        elif not node.isAlive:
            reasons[name] = "unreachable"
        elif node.state != ONLINE:
            reasons[name] = node.state
    return reasons


def kept_out(found: Sequence[NodeStatus], wanted: Sequence[str], where: str) -> dict[str, str]:
    """Those who are there and do nothing by an operator's order, and what ends that. `where`: the
    options that name this topology."""
    reasons: dict[str, str] = {}
    for node in found:
        if node.nodeId not in wanted or not node.isAlive:
            continue
        takes_writes = node.kind == messages.PUMP
        if node.state in (PAUSING, PAUSED):
            effect = ", it takes no writes" if takes_writes else ""
            resume = f"`tidelog resume {shlex.quote(node.nodeId)} {where}` ends that"
            reasons[node.nodeId] = f"an operator paused it{effect}: {resume}"
        elif node.state in (CLOSING, OFFLINE):
            effect = ": it takes no writes any more" if takes_writes else ""
            reasons[node.nodeId] = f"an operator takes it offline{effect}"
    return reasons


def holds_up(
    found: Sequence[NodeStatus],
    wanted: Sequence[str],
    unready: dict[str, str],
    kept: dict[str, str],
) -> dict[str, str]:
    """For whom the start waits, of those who are missing, not ready, or kept out: for a Drainer or
    an Applier until it is registered. While another Pump takes writes, for none that is kept out or
    was let go for good (a stranded one doesn't join by itself)."""
    pumps = [node for node in found if node.kind == messages.PUMP]
    passed = {node.nodeId for node in found if node.kind != messages.PUMP}
    if any(n.isAlive and n.state == ONLINE and n.nodeId not in unready for n in pumps):
        passed |= kept.keys() | {node.nodeId for node in pumps if node.state == OFFLINE}
    reasons = missing(found, wanted) | unready | kept
    return {name: why for name, why in reasons.items() if name not in passed}


def late(
    found: Sequence[NodeStatus], wanted: Sequence[str], kept: Mapping[str, str]
) -> dict[str, str]:
    """The Drainers and Appliers that are registered, and still on their way to online."""
    readers = {node.nodeId for node in found if node.kind != messages.PUMP}
    return {
        name: why
        for name, why in missing(found, wanted).items()
        if name in readers and name not in kept
    }


class Readiness:
    """Looks at the children of one topology; `say` gets each line."""

    def __init__(
        self,
        children: Sequence[Child],
        state: Callable[[], TopologyState],
        say: Callable[[str], None],
    ) -> None:
        self._children = children
        self._state = state
        self._say = say
        self._teller = Teller()
        self._wanted = [c.service.name for c in children if c.service.module != REGISTRY]
        self._registries = {c.service.name for c in children if c.service.module == REGISTRY}
        self._kept_out: dict[str, str] = {}
        self._late: dict[str, str] = {}
        self._found: Sequence[NodeStatus] = ()

    async def reached(self, stop: asyncio.Event) -> bool:
        """Wait until the topology is ready; False if `stop` came first."""
        async with ClientSession(timeout=ClientTimeout(total=PROBE_S)) as session:
            while not stop.is_set():
                try:
                    async with connected(self._state()) as bus:
                        return await self._reached(stop, session, bus)
                except Unavailable:  # its server runs, and is slow while everything starts
                    await asyncio.sleep(POLL_S)
        return False

    async def _reached(self, stop: asyncio.Event, session: ClientSession, bus: Bus) -> bool:
        loop = asyncio.get_running_loop()
        writable_at: float | None = None
        while not stop.is_set():
            unready = await self._unready(session)
            must = {
                child.service.name: unready[child.service.name]
                for child in self._children
                if child.service.name in unready and child.service.module in (REGISTRY, PUMP)
            }
            if not self._registries.intersection(must):
                must = await self._holds_up(bus, must)
            unready = self._late | unready
            if must:
                writable_at = None
            elif writable_at is None:
                writable_at = loop.time()
            waited = writable_at is not None and loop.time() - writable_at >= READERS_S
            if waited or (writable_at is not None and not unready):
                for name, why in sorted((unready | self._kept_out).items()):
                    self._say(f"{name} is not ready: {why}")
                self._begins()
                return True
            self._tell(self._teller.waits(must or unready, loop.time()))
            await asyncio.sleep(POLL_S)
        return False

    def _begins(self) -> None:
        """From now on a child that refuses its configuration is one that ended, like any other."""
        for child in self._children:
            child.was_ready |= child.service.module not in READERS
        self._take_in(self._found)

    def _take_in(self, found: Sequence[NodeStatus]) -> None:
        """The same for the readers, once the process that runs now is registered: one that is
        known from before may have been given another configuration, and not have read it yet."""
        at = {node.nodeId: f"http://{node.http}" for node in found if node.isAlive and node.http}
        for child in self._children:
            if not child.was_ready and child.service.module in READERS:
                child.was_ready = at.get(child.service.name) == child.http()

    async def _unready(self, session: ClientSession) -> dict[str, str]:
        """The children whose /readyz has never been a 200, and what they say instead."""
        reasons: dict[str, str] = {}
        for child in self._children:
            if not child.was_ready:
                why = await self._probe(session, child.http())
                child.was_ready = not why
                if why:
                    reasons[child.service.name] = why
        return reasons

    async def _probe(self, session: ClientSession, url: str) -> str:
        """Why it isn't ready; empty if it is."""
        if not url:
            return "it is starting"
        try:
            async with session.get(f"{url}/readyz") as answer:
                text = (await answer.text()).strip()
                return "" if answer.status == 200 else text.removeprefix("not ready: ")
        except (ClientError, TimeoutError, OSError):
            return "it does not answer yet"

    async def _holds_up(self, bus: Bus, unready: dict[str, str]) -> dict[str, str]:
        try:
            found = await nodes(bus, self._state().cluster)
        except TidelogError as error:
            return {"registry": error.message}
        where = f"--dir {shlex.quote(str(self._children[0].home.parent))}"
        self._found = found.nodes
        self._kept_out = kept_out(found.nodes, self._wanted, where)
        self._late = late(found.nodes, self._wanted, self._kept_out)
        return holds_up(found.nodes, self._wanted, unready, self._kept_out)

    async def watch(self) -> None:
        """Tell of every error that a node shows or loses, until cancelled."""
        while True:
            try:
                async with connected(self._state()) as bus:
                    await self._watch(bus)
            except TidelogError as error:  # none of these ends a topology that runs
                self._say(f"nobody can be asked how they do: {error.message}")
                await asyncio.sleep(SAY_S)

    async def _watch(self, bus: Bus) -> None:
        silent = False
        while True:
            try:
                found = await nodes(bus, self._state().cluster)
            except TidelogError as error:
                if not silent:
                    self._say(error.message)
                silent = True
            else:
                silent = False
                self._take_in(found.nodes)
                self._tell(self._teller.errors(found.nodes))
            await asyncio.sleep(LOOK_S)

    def _tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._say(line)

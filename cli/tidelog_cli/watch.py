"""`tidelog watch`: what the registry tells of the nodes as it happens, and what it could not tell.

Events are core NATS messages: one that nobody heard is gone. So the nodes are looked at each second
besides; a change that no event told is shown as `seen`, a time without ears as `missed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.text import Text

from tidelog import messages, subjects
from tidelog.errors import TidelogError, UnparsablePayload
from tidelog.messages import CLOSING, OFFLINE, Nodes, NodeStatus
from tidelog.node_form import is_unreachable
from tidelog.ports import Clock, Request
from tidelog.printable import printable
from tidelog.real.bus import NatsBus
from tidelog_cli.connect import nodes, nodes_soon
from tidelog_cli.node_table import colour

CHANGED, SEEN, MISSED = "changed", "seen", "missed"
LOOK_S = 1.0
QUEUE = 1024

Key = tuple[str, str]
Known = tuple[str, bool]


class Deaf(msgspec.Struct, frozen=True):
    """Nothing could be heard for a while; it is over."""

    why: str


class Ended(msgspec.Struct, frozen=True):
    """An operator has seen enough."""


Told = NodeStatus | Nodes | Deaf | Ended


class Line(msgspec.Struct, frozen=True):
    """`event`: "changed" as the registry told it, "seen" by looking, "missed": because of `why`
    nothing could be heard. `was`: the state before; "" = it was not there."""

    event: str
    at_ms: int
    node: NodeStatus | None = None
    was: str = ""
    why: str = ""


class Watch:
    """Pure. Makes lines of what is told; a difference found by looking counts when a second look
    shows it too, because an event may have been on its way past the first."""

    def __init__(self) -> None:
        self._known: dict[Key, Known] = {}
        self._doubts: dict[Key, Known] = {}
        self.began = False

    def take(self, told: NodeStatus | Nodes | Deaf, at_ms: int) -> list[Line]:
        match told:
            case NodeStatus():
                return [self._line(CHANGED, told, at_ms)]
            case Deaf(why):
                return [Line(MISSED, at_ms, why=why)]
            case Nodes():
                return self._look(told, at_ms)

    def _look(self, found: Nodes, at_ms: int) -> list[Line]:
        here = {(n.kind, n.nodeId): n for n in found.nodes}
        present = {key: (node.state, node.isAlive) for key, node in here.items()}
        if not self.began:
            # An event that came first is newer than this.
            self.began, self._known = True, present | self._known
            return []
        doubts = {k: now for k, now in present.items() if self._known.get(k) != now}
        sure = [k for k, now in doubts.items() if self._doubts.get(k) == now]
        self._doubts = doubts
        return [self._line(SEEN, here[key], at_ms) for key in sorted(sure)]

    def _line(self, event: str, node: NodeStatus, at_ms: int) -> Line:
        key = (node.kind, node.nodeId)
        was = self._known.get(key, ("", False))[0]
        self._known[key] = (node.state, node.isAlive)
        self._doubts.pop(key, None)
        return Line(event, at_ms, node, was)


async def follow(
    bus: NatsBus,
    cluster: str,
    clock: Clock,
    stop: asyncio.Event,
    begins: Callable[[Nodes], None],
    show: Callable[[Line], None],
    waits: Callable[[str], None],
) -> None:
    """Until `stop`, whatever happens to NATS and the registry. `begins` gets the nodes as they are
    at first: from then on nothing is missed unsaid. `waits` is told why it can't begin yet."""
    watch = Watch()
    queue: asyncio.Queue[Told] = asyncio.Queue(QUEUE)

    async def heard(request: Request) -> None:
        try:
            await queue.put(messages.decode(request.data, NodeStatus))
        except UnparsablePayload as error:
            await queue.put(Deaf(error.message))

    async def end() -> None:
        await stop.wait()
        await queue.put(Ended())

    await bus.serve(subjects.registry_events(cluster), heard)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_look(bus, cluster, queue, waits)), group.create_task(end())]
        while not isinstance(told := await queue.get(), Ended):
            if isinstance(told, Nodes) and not watch.began:
                begins(told)
            for line in watch.take(told, clock.wall_ms()):
                show(line)
        for task in tasks:
            task.cancel()


async def _look(
    bus: NatsBus, cluster: str, queue: asyncio.Queue[Told], waits: Callable[[str], None]
) -> None:
    """Each second; and tell when there were no ears, or nobody who spoke."""
    connections, silent, ask = bus.reconnects, "", nodes_soon
    while True:
        if bus.reconnects != connections:
            connections = bus.reconnects
            await queue.put(Deaf("the connection to NATS was lost"))
        try:
            found = await ask(bus, cluster)
        except TidelogError as error:
            if ask is nodes_soon and not silent:
                waits(error.message)
            silent = error.message
        else:
            if silent:
                await queue.put(Deaf(silent))
            silent, ask = "", nodes
            await queue.put(found)
        await asyncio.sleep(LOOK_S)


def as_form(line: Line) -> dict[str, Any]:
    """The documented JSON form."""
    if line.node is None:
        return {"event": line.event, "at_ms": line.at_ms, "why": line.why}
    unreachable = is_unreachable(line.node)
    node: dict[str, Any] = msgspec.to_builtins(line.node)
    about = {"event": line.event, "at_ms": line.at_ms, "was": line.was, "unreachable": unreachable}
    return about | node


def as_text(line: Line) -> Text:
    """One line for a person."""
    at, node = f"{datetime.fromtimestamp(line.at_ms / 1000, UTC):%H:%M:%S}", line.node
    if node is None:
        return Text(f"{at}  events may have been missed: {printable(line.why)}", "red")
    state = node.state + (", unreachable" if is_unreachable(node) else "")
    text = Text.assemble(f"{at}  {node.kind} {printable(node.nodeId)}  ", (state, colour(state)))
    if line.was and line.was != node.state:
        text.append(f"  (was {line.was})")
    if line.event == SEEN:
        text.append("  (seen: no event told of it)")
    for what, said in sorted(node.detail.items()):
        if what in (CLOSING, OFFLINE) and what != node.state:
            continue  # its last word came before this state
        text.append(f"  {printable(what)}: {printable(said)}", "red" if what == "error" else "")
    return text

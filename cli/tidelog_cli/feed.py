"""`tidelog feed …`: create one, look at them, let go of one for good, or of who reads one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidelog import ask_registry, messages, subjects
from tidelog.errors import BadInput, Refused, Unavailable
from tidelog.feeds import Feed, Feeds, beginning, checked_name, refuse_future
from tidelog.messages import (
    DRAINER,
    DRAINER_CONSUMER,
    PUMP,
    Consumer,
    Nodes,
    NodeStatus,
    SafePoint,
    SafePointRequest,
)
from tidelog.ports import Bus
from tidelog.positions import of_kind
from tidelog.pump_control import ControlRequest, Forgotten
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose
from tidelog_cli.connect import TIMEOUT_S, nodes_soon


class ForgottenFeed(msgspec.Struct, frozen=True):
    """The documented JSON form. `pumps`: up to where it had read at each that knew it; `silent`:
    Pumps that did not answer, which still hold it."""

    feed: str
    pumps: dict[str, int]
    silent: list[str]
    safe_point: int


class Unregistered(msgspec.Struct, frozen=True):
    """The documented JSON form. `commit_ts`: up to where it had read."""

    feed: str
    consumer: str
    commit_ts: int
    safe_point: int


async def create(bus: Bus, cluster: str, name: str, initial_commit_ts: int) -> Feed:
    """Record it, with the moment that -1 is now. Raises Refused if there is one, or was; BadInput
    for a beginning that can't be."""
    checked_name(name)
    known = await nodes_soon(bus, cluster)
    feeds = Feeds(bus, cluster)
    if await feeds.get(name) is None and await _was_there(bus, known, name):
        raise Refused(
            f"feed {name!r} is older than its record: its stream, or a Pump, knows it",
            hint="its Drainer goes on with it; another feed needs another name",
        )
    newest = max((node.highTS for node in of_kind(known, PUMP)), default=0)
    refuse_future(initial_commit_ts, max(newest, this_moment()))
    begins = await beginning(bus, cluster, initial_commit_ts)
    _refuse_departed(known, name, begins)
    feed = new(name, begins)
    await feeds.create(feed)
    return feed


def _refuse_departed(known: Nodes, name: str, begins: int) -> None:
    """Raises BadInput for a beginning below what a Pump held that has left: its Drainer would
    stop there."""
    pumps = [node for node in of_kind(known, PUMP) if node.state == messages.OFFLINE]
    left = {node.nodeId: node.maxCommitTS for node in pumps if node.maxCommitTS > begins}
    if left:
        newest = max(left.values())
        raise BadInput(
            f"{', '.join(sorted(left))} went offline with transactions up to {newest}, which are"
            f" nowhere any more, and feed {name!r} would begin at {begins}",
            hint=f"--initial-commit-ts {newest} or above; -1 is now",
        )


async def is_there(bus: Bus, cluster: str, name: str) -> bool:
    """Whether somebody created it, or it is older than its record. Raises Unavailable."""
    if await Feeds(bus, cluster).get(checked_name(name)) is not None:
        return True
    return await _was_there(bus, await nodes_soon(bus, cluster), name)


async def found(bus: Bus, cluster: str, name: str) -> Feed:
    """The record of one that is there; one that is older than its record began with all that the
    Pumps held. Raises Unavailable."""
    return await Feeds(bus, cluster).get(name) or Feed(name, begun=True)


async def ensure(bus: Bus, cluster: str, name: str, initial_commit_ts: int) -> None:
    """Create it unless there is one. Raises Unavailable."""
    feeds = Feeds(bus, cluster)
    if await feeds.get(name) is None:
        await feeds.ensure(new(name, await beginning(bus, cluster, initial_commit_ts)))


def this_moment() -> int:
    """By this machine's clock: good enough to see that a timestamp is no such thing."""
    return compose(RealClock().wall_ms())


def new(name: str, begins: int) -> Feed:
    return Feed(name, begins, RealClock().wall_ms())


async def _was_there(bus: Bus, known: Nodes, name: str) -> bool:
    stream = await bus.stream_state(subjects.changes_stream(name))
    return name in known.feeds or (stream is not None and stream.last_seq > 0)


async def listed(bus: Bus, cluster: str) -> list[Feed]:
    return await Feeds(bus, cluster).all()


async def shown(bus: Bus, cluster: str, name: str) -> Feed:
    """Raises BadInput if there is none."""
    found = await Feeds(bus, cluster).get(name)
    if found is None:
        names = ", ".join(feed.name for feed in await listed(bus, cluster)) or "none"
        raise BadInput(f"nobody created a feed {name!r}", hint=f"there are: {names}")
    return found


def refuse_if_read(known: Nodes, feed: str) -> None:
    """Raises Refused for one that has readers, registered or alive. (Its Drainers are registered
    under one name, and that stays when all of them are gone for good.)"""
    registered = [c.name for c in known.consumers if c.feed == feed and c.name != DRAINER_CONSUMER]
    readers = [f"consumer {name}" for name in registered]
    drainers = [n for n in of_kind(known, DRAINER) if n.feed == feed]
    readers += [f"Drainer {n.nodeId}" for n in drainers if not _is_gone(n)]
    if readers:
        raise Refused(
            f"feed {feed!r} has readers: {', '.join(readers)}",
            hint="they go first: `tidelog offline NODE`, `tidelog feed unregister`",
        )


def _is_gone(drainer: NodeStatus) -> bool:
    """For good: one that was stopped may come back, and needs what its feed has not read."""
    away = not drainer.isAlive and drainer.state == messages.OFFLINE
    return away and drainer.order.action == "offline"


async def forget(
    bus: Bus, cluster: str, feed: str, confirm: Callable[[str], None]
) -> ForgottenFeed:
    """At every Pump, what the registry keeps of it, and its record. `confirm` raises if the
    operator does not agree. Raises Refused while it is read."""
    if not feed:
        raise BadInput("a feed without a name is not kept", hint="name the one that status shows")
    known = await nodes_soon(bus, cluster)
    refuse_if_read(known, feed)
    confirm(f"Forget feed {feed!r}? What it has not read may then be deleted.")
    pumps, silent = await _forgotten(bus, cluster, known, feed)
    feeds = Feeds(bus, cluster)
    if not pumps and feed not in known.feeds and await feeds.get(feed) is None:
        there = f"these do not answer: {', '.join(silent)}" if silent else ""
        names = ", ".join(sorted(known.feeds)) or "none"
        raise BadInput(f"nobody knows a feed {feed!r}", hint=there or f"known are: {names}")
    request = SafePointRequest(Consumer("", feed, 0), remove=True)
    now = await ask_registry.ask(bus, cluster, "safepoint", request, SafePoint, timeout_s=TIMEOUT_S)
    await feeds.remove(feed)
    return ForgottenFeed(feed, pumps, silent, now.safe_point)


async def unregister(
    bus: Bus, cluster: str, feed: str, consumer: str, confirm: Callable[[str], None]
) -> Unregistered:
    """Nobody waits for it any more. `confirm` as in `forget`. Raises BadInput, Refused for a
    node's."""
    known = await nodes_soon(bus, cluster)
    there = {one.name: one.commit_ts for one in known.consumers if one.feed == feed}
    if consumer not in there:
        names = ", ".join(sorted(there)) or "nobody"
        raise BadInput(f"{consumer!r} reads no feed {feed!r}", hint=f"registered for it: {names}")
    nodes = [node.nodeId for node in known.nodes if node.feed == feed]
    if consumer == DRAINER_CONSUMER or consumer in nodes:
        raise Refused(f"{consumer!r} is a node", hint="`tidelog offline NODE` lets one go")
    upto = there[consumer]
    confirm(f"Unregister {consumer!r}? What it has not read, above {upto}, may then be deleted.")
    request = SafePointRequest(Consumer(consumer, feed, 0), remove=True)
    now = await ask_registry.ask(bus, cluster, "safepoint", request, SafePoint, timeout_s=TIMEOUT_S)
    return Unregistered(feed, consumer, upto, now.safe_point)


async def _forgotten(
    bus: Bus, cluster: str, known: Nodes, feed: str
) -> tuple[dict[str, int], list[str]]:
    """By Pump up to where it had read, and the Pumps that don't answer."""
    pumps: dict[str, int] = {}
    silent: list[str] = []
    for pump in of_kind(known, PUMP):
        subject = subjects.pump(cluster, pump.nodeId, "control")
        body = messages.encode(ControlRequest("forget", feed=feed))
        try:
            answer = await bus.request(subject, body, timeout_s=TIMEOUT_S)
        except Unavailable:
            if pump.isAlive or pump.state != messages.OFFLINE:
                silent.append(pump.nodeId)
            continue
        said = messages.decode_reply(answer.data, Forgotten)
        if said.after_ts is not None:
            pumps[pump.nodeId] = said.after_ts
    return pumps, silent

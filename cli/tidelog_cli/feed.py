"""`tidelog feed forget`: a feed that nobody reads any more holds nothing back."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidelog import ask_registry, messages, subjects
from tidelog.errors import BadInput, Refused, Unavailable
from tidelog.messages import DRAINER, PUMP, Consumer, Nodes, SafePoint, SafePointRequest
from tidelog.ports import Bus
from tidelog.pump_control import ControlRequest, Forgotten
from tidelog_cli.connect import TIMEOUT_S, nodes_soon, of_kind


class ForgottenFeed(msgspec.Struct, frozen=True):
    """The documented JSON form. `pumps`: up to where it had read at each that knew it; `silent`:
    Pumps that did not answer, which still hold it."""

    feed: str
    pumps: dict[str, int]
    silent: list[str]
    safe_point: int


def refuse_if_read(known: Nodes, feed: str) -> None:
    """Raises Refused for one that has readers, registered or alive."""
    readers = [f"consumer {c.name}" for c in known.consumers if c.feed == feed]
    drainers = [n for n in of_kind(known, DRAINER) if n.feed == feed]
    readers += [f"Drainer {n.nodeId}" for n in drainers if n.isAlive or n.state != messages.OFFLINE]
    if readers:
        raise Refused(
            f"feed {feed!r} has readers: {', '.join(readers)}",
            hint="it is needed, or they go first",
        )


async def forget(
    bus: Bus, cluster: str, feed: str, confirm: Callable[[str], None]
) -> ForgottenFeed:
    """At every Pump, and what the registry keeps of it. `confirm` raises if the operator does not
    agree. Raises Refused while it is read."""
    if not feed:
        raise BadInput("a feed without a name is not kept", hint="name the one that status shows")
    known = await nodes_soon(bus, cluster)
    refuse_if_read(known, feed)
    confirm(f"Forget feed {feed!r}? What it has not read may then be deleted.")
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
    if not pumps and feed not in known.feeds:
        there = f"these do not answer: {', '.join(silent)}" if silent else ""
        names = ", ".join(sorted(known.feeds)) or "none"
        raise BadInput(f"nobody knows a feed {feed!r}", hint=there or f"known are: {names}")
    request = SafePointRequest(Consumer("", feed, 0), remove=True)
    now = await ask_registry.ask(bus, cluster, "safepoint", request, SafePoint, timeout_s=TIMEOUT_S)
    return ForgottenFeed(feed, pumps, silent, now.safe_point)

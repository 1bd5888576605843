"""A replay that ended holds nothing back any more: the Pumps and the registry forget its pulls."""

from __future__ import annotations

import structlog

from tidelog import ask_registry, messages, subjects
from tidelog.errors import TidelogError
from tidelog.messages import OFFLINE, PUMP, Consumer, SafePoint, SafePointRequest
from tidelog.ports import Bus
from tidelog.pump_control import ControlRequest, Forgotten

ASK_S = 2.0

log = structlog.get_logger()


async def forget(bus: Bus, cluster: str, feed: str) -> None:
    """Who does not answer, or refuses, is named in the log: there it holds what it has not read,
    until it has been idle long enough."""
    silent: list[str] = []
    try:
        nodes = await ask_registry.nodes(bus, cluster, timeout_s=ASK_S)
        for pump in nodes.nodes:
            if pump.kind == PUMP and pump.state != OFFLINE:
                body = messages.encode(ControlRequest("forget", feed=feed))
                subject = subjects.pump(cluster, pump.nodeId, "control")
                try:
                    answer = await bus.request(subject, body, timeout_s=ASK_S)
                    messages.decode_reply(answer.data, Forgotten)
                except TidelogError:
                    silent.append(pump.nodeId)
        request = SafePointRequest(Consumer("", feed, 0), remove=True)
        await ask_registry.ask(bus, cluster, "safepoint", request, SafePoint, timeout_s=ASK_S)
    except TidelogError:
        silent.append("the registry")
    if silent:
        log.warning("a rewind that ended is not forgotten everywhere", feed=feed, silent=silent)

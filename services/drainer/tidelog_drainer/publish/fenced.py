"""Fenced off: by the Drainer that leads now, by one that has lost the lease, or by a stranger."""

from __future__ import annotations

from tidelog import ask_registry
from tidelog.actor import Ref
from tidelog.ask_registry import HEARD_S
from tidelog.errors import Unavailable
from tidelog.lease import TAKEOVER_S, AskLead, LeaseMail
from tidelog.messages import DRAINER
from tidelog.ports import Ports
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.tail import Fenced, StreamTail, TailLost

RETRY_S = 0.5


async def stand_off(
    config: DrainerConfig, ports: Ports, lease: Ref[LeaseMail], tail: StreamTail, error: Fenced
) -> None:
    """Whoever fenced us off leads the feed, says the lease soon: then all of this starts anew, on
    stand-by. Raises TailLost where it was a Drainer of this feed, which has lost the lease by now
    or hears of that soon, or where its stream is lost since. Returns where it is one who asks no
    lease of ours: only a person can tell which of the two is right."""
    await lease.ask(AskLead)
    before = await tail.look()
    await ports.clock.sleep(TAKEOVER_S)
    await lease.ask(AskLead)
    after = await tail.look()
    if before is None or after is None or after.created != before.created:
        raise TailLost(f"the stream that {error.by} wrote to is gone")
    if after.last_seq < before.last_seq:
        raise TailLost(f"what {error.by} wrote is gone")
    if await _is_known(config, ports, error.by):
        raise TailLost(f"{error.by} fenced this Drainer off, and does not lead")


async def _is_known(config: DrainerConfig, ports: Ports, node: str) -> bool:
    """Is it another Drainer of this feed? Waits until the registry can tell."""
    began, now = None, 0.0
    while node != config.node and (began is None or now - began < HEARD_S):
        try:
            nodes = await ask_registry.nodes(ports.bus, config.cluster, timeout_s=TAKEOVER_S)
        except Unavailable:
            await ports.clock.sleep(RETRY_S)
            continue
        if any((n.kind, n.nodeId, n.feed) == (DRAINER, node, config.feed) for n in nodes.nodes):
            return True
        await ports.clock.sleep(RETRY_S)
        now = ports.clock.monotonic()
        began = now if began is None else began
    return False

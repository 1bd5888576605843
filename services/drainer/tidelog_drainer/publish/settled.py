"""What the registry knows, once it has heard everybody."""

from __future__ import annotations

import structlog

from tidelog import ask_registry
from tidelog.errors import Unavailable
from tidelog.messages import Nodes
from tidelog.ports import Ports
from tidelog_drainer.config import DrainerConfig

ASK_S = 2.0
RETRY_S = 0.3

log = structlog.get_logger()


async def settled_nodes(config: DrainerConfig, ports: Ports) -> Nodes:
    """Waits for it."""
    waiting = False
    while True:
        try:
            nodes = await ask_registry.nodes(ports.bus, config.cluster, timeout_s=ASK_S)
            if nodes.settled:
                return nodes
        except Unavailable as error:
            if not waiting:
                log.warning("the registry is needed to place the feed", error=str(error))
            waiting = True
        await ports.clock.sleep(RETRY_S * (0.5 + ports.rng.random()))

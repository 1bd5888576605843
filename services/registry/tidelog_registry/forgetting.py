"""A feed whose last Drainer an operator took out holds nothing back any more, at the Pumps too:
they remember what it pulled, so that a Drainer which is only away finds its data."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tidelog import messages, subjects
from tidelog.errors import TidelogError
from tidelog.ports import Ports
from tidelog.pump_control import ControlRequest, Forgotten

log = structlog.get_logger()

TRIES = 5
ASK_S = 2.0
RETRY_S = 1.0


async def forget(ports: Ports, cluster: str, feed: str, pumps: Sequence[str]) -> None:
    """Ask each Pump. One that never answers holds the feed's data until it is told again."""
    body = messages.encode(ControlRequest("forget", feed=feed))
    silent = list(pumps)
    for _ in range(TRIES):
        for pump in list(silent):
            subject = subjects.pump(cluster, pump, "control")
            try:
                answer = await ports.bus.request(subject, body, timeout_s=ASK_S)
                messages.decode_reply(answer.data, Forgotten)
            except TidelogError as error:
                log.info("a Pump does not forget a feed yet", pump=pump, reason=str(error))
            else:
                silent.remove(pump)
        if not silent:
            return
        await ports.clock.sleep(RETRY_S)
    log.warning(
        "these Pumps still hold a feed back", feed=feed, pumps=silent, hint="`tidelog feed forget`"
    )

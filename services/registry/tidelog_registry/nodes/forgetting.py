"""A feed whose last Drainer an operator took out holds nothing back any more, at the Pumps too:
they remember what it pulled, so that a Drainer which is only away finds its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from tidelog import messages, subjects
from tidelog.errors import TidelogError
from tidelog.ports import Ports
from tidelog.pump_control import ControlRequest, Forgotten

log = structlog.get_logger()

TRIES = 25
ASK_S = 2.0
RETRY_S = 5.0
"""A Pump forgets no feed that pulled in the last minute."""


async def forget(
    ports: Ports, cluster: str, feed: str, pumps: Sequence[str], gone: Callable[[], bool]
) -> None:
    """Ask each Pump, as long as the feed is `gone`. One that doesn't answer holds its data until it
    is told again."""
    body = messages.encode(ControlRequest("forget", feed=feed))
    silent = list(pumps)
    for _ in range(TRIES):
        for pump in list(silent) if gone() else ():
            subject = subjects.pump(cluster, pump, "control")
            try:
                answer = await ports.bus.request(subject, body, timeout_s=ASK_S)
                messages.decode_reply(answer.data, Forgotten)
            except TidelogError as error:
                log.info("a Pump does not forget a feed yet", pump=pump, reason=str(error))
            else:
                silent.remove(pump)
        if not silent or not gone():
            return
        await ports.clock.sleep(RETRY_S)
    log.warning(
        "these Pumps still hold a feed back", feed=feed, pumps=silent, hint="`tidelog feed forget`"
    )

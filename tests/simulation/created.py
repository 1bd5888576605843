"""A feed as its operator creates it, for rigs that start a Drainer themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.errors import TidelogError
from tidelog.feeds import Feed, Feeds, beginning
from tidelog.ports import Bus

AGAIN_S = 0.2


async def created(
    bus: Bus,
    cluster: str,
    feed: str,
    initial_commit_ts: int = 0,
    *,
    until: Callable[[], bool] = lambda: True,
) -> None:
    """Create it, and again should it be lost before `until`: who created it looks whether the
    Drainer begins."""
    while True:
        try:
            begins = await beginning(bus, cluster, initial_commit_ts)
            await Feeds(bus, cluster).ensure(Feed(feed, begins))
        except TidelogError:
            await asyncio.sleep(AGAIN_S)
            continue
        if until():
            return
        await asyncio.sleep(AGAIN_S)

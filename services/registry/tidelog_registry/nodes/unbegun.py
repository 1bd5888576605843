"""Feeds that somebody created and no Drainer has begun: nobody speaks for them yet, and a Pump that
leaves takes with it what they are to publish."""

from __future__ import annotations

import structlog

from tidelog.errors import TidelogError
from tidelog.feeds import Feed, Feeds
from tidelog.ports import Bus

log = structlog.get_logger()

NOT_READ = "feeds that are created and have not begun, which are not read yet"


class Unbegun:
    """As they were read last; they are read only while a Pump wants to leave."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._feeds = Feeds(bus, cluster)
        self._found: list[Feed] | None = None
        self._why = ""

    async def look(self, *, wanted: bool) -> None:
        found: list[Feed] | None = None
        why = ""
        try:
            if wanted:
                found = [feed for feed in await self._feeds.all() if not feed.begun]
        except TidelogError as error:
            why = str(error)
            if why != self._why:
                log.warning("no Pump leaves: feeds can't be read", reason=why)
        self._found, self._why = found, why

    def behind(self, ts: int) -> dict[str, str]:
        """Who has yet to read up to `ts`, by name of the feed ("" = nobody knows which)."""
        if self._found is None:
            return {"": f"{NOT_READ}: {self._why}" if self._why else NOT_READ}
        return {
            feed.name: f"feed {feed.name}, which begins at {feed.initial_commit_ts} and was not"
            " begun yet: start its Drainer, or `tidelog feed forget` it"
            for feed in self._found
            if feed.initial_commit_ts < ts
        }

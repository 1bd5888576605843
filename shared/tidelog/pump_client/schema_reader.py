"""The newest schema, read from the registry on demand."""

from __future__ import annotations

import msgspec

from tidelog.actor import Actor, Reply
from tidelog.errors import Unavailable
from tidelog.ports import DdlHistory
from tidelog.pump_client.tables.catalog import Catalog


class Refresh(msgspec.Struct, frozen=True):
    """Read what is new; answered with the catalog as of some moment after the question, or with
    Unavailable."""

    reply: Reply[Catalog]


class SchemaReader(Actor[Refresh]):
    """One request for all who wait."""

    def __init__(self, history: DdlHistory) -> None:
        self._history = history
        self._catalog = Catalog()

    async def on_batch(self, batch: list[Refresh]) -> None:
        try:
            async for jobs in self._history.jobs(self._catalog.last_job):
                self._catalog.add(jobs)
                self.progress()
        except Unavailable as error:
            for message in batch:
                message.reply.fail(error)
            return
        for message in batch:
            message.reply.set(self._catalog)

    def status(self) -> dict[str, object]:
        return {"schema_version": self._catalog.version}

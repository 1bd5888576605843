"""Files of a registry and of a writer as stores: the DDL history, by which rows are decoded, and
the decisions to commit."""

from __future__ import annotations

import json
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from tests.crash.ledger import Ledger, MakeStore, started
from tests.crash.recorder import Wrong
from tests.unit.pump.driven import Machine
from tidelog.actor import Reply
from tidelog.messages import DdlList
from tidelog.ports import Disk, Ports
from tidelog.pump_client.decisions.decisions import Decision
from tidelog.pump_client.decisions.journal import Journal
from tidelog_registry.ddl_store import Append, DdlStore, Page


@cache
def job(number: int) -> bytes:
    """As large as its number says, a little odd."""
    return json.dumps({"id": number, "type": 3, "query": "x" * (number * 67 % 700)}).encode()


class DdlHistory:
    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self.ledger = ledger
        bus = SimpleNamespace(max_payload=1 << 20)
        self._actor = DdlStore(cast(Ports, SimpleNamespace(disk=disk, bus=bus)))

    async def open(self) -> None:
        await self._actor.on_start()

    async def _ask(self, *asks: Any) -> list[Any]:
        """Each with its reply; raises what one of them is told."""
        told: list[Any] = []

        def settle(value: Any, error: Exception | None) -> None:
            if error is not None:
                raise error
            told.append(value)

        await self._actor.on_batch([ask(Reply(settle, {})) for ask in asks])
        return told

    async def look(self) -> int:
        found: list[int] = []
        while True:
            after = found[-1] if found else 0
            (page,) = await self._ask(lambda reply, at=after: Page(DdlList(at, 1000), reply))
            bodies = [bytes(raw) for raw in page.jobs]
            ids = range(after + 1, after + 1 + len(bodies))
            if bodies != [job(one) for one in ids]:
                raise Wrong(f"other jobs than those of {ids}")
            found += ids
            if not page.more:
                return self.ledger.ends_after(found, 0)

    async def append(self, *numbers: int) -> None:
        asks = [lambda reply, n=n: Append(job(n), reply) for n in numbers]
        new = [n for n in numbers if n not in self.ledger.handed]
        await self.ledger.hand(*new, by=self._ask(*asks))

    @property
    def next(self) -> int:
        """The first id that was not handed in yet."""
        return self.ledger.handed[-1] + 1 if self.ledger.handed else 1

    async def settle(self) -> None:
        """What `open` found it made durable."""

    async def write_on(self) -> None:
        """The newest comes again: its writer does not know what became of it."""
        await self.append(*range(max(1, self.next - 1), self.next + 1))
        await self.append(self.next)


async def ddls(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    for groups in ((1, 1, 3, 2), (4, 1), (1, 2)):
        store = await started(make, machine, ledger)
        assert isinstance(store, DdlHistory)
        for count in groups:
            await store.append(*range(store.next, store.next + count))


class Decisions:
    """`done`: the start_ts up to which decisions are forgotten; a file that was to be made anew may
    still have them."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self.ledger = ledger
        self._journal = Journal(disk, "the writer")
        self._found: list[int] = []

    async def open(self) -> None:
        found = await self._journal.open()
        if any(one.commit_ts != one.start_ts + 1 for one in found):
            raise Wrong(f"another decision among {found[-4:]}")
        self._found = [one.start_ts for one in found]

    async def look(self) -> int:
        begin = sum(ts <= self.ledger.done for ts in self.ledger.handed)
        return self.ledger.ends_after([ts for ts in self._found if ts > self.ledger.done], begin)

    async def append(self, count: int) -> None:
        """So many decisions at once."""
        last = self.ledger.handed[-1] if self.ledger.handed else 0
        given = [last + 10 * n for n in range(1, count + 1)]
        made = [Decision(ts, ts + 1) for ts in given]
        await self.ledger.hand(*given, by=self._journal.append(made))
        self._found += given

    async def forget(self, kept: int) -> None:
        """All but the newest."""
        handed = self.ledger.handed
        self.ledger.done = handed[-kept - 1]
        made = [Decision(ts, ts + 1) for ts in handed[-kept:]]
        await self._journal.make_anew(made, self.ledger.done)

    async def settle(self) -> None:
        """What `open` found it made durable."""

    async def write_on(self) -> None:
        await self.append(2)
        await self.forget(1)
        await self.append(1)


async def decisions(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    for groups in ((1, 3, 1), (2, 5), (1, 1)):
        store = await started(make, machine, ledger)
        assert isinstance(store, Decisions)
        for count in groups:
            await store.append(count)
        await store.forget(2)
        await store.append(1)

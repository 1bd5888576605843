"""The Applier's relay log as a store: small and large batches, new files, purges."""

from __future__ import annotations

from tests.crash.ledger import Ledger, MakeStore, started
from tests.unit.pump.driven import Machine
from tests.unit.relay.relay_rig import CLUSTER_ID, FEED, STRUCTURES, piece, read, rows, whole
from tidelog.ports import Disk
from tidelog.relay import Incoming, RelayLog


class Relay:
    """`done` of the ledger: the commit_ts up to which all is applied, which the downstream's
    checkpoint tells each start."""

    def __init__(self, disk: Disk, ledger: Ledger, max_file_bytes: int) -> None:
        self.ledger = ledger
        self.log = RelayLog(
            disk, "relay", feed=FEED, cluster_id=CLUSTER_ID, max_file_bytes=max_file_bytes
        )

    async def open(self) -> None:
        await self.log.open(self.ledger.done)

    async def look(self) -> int:
        done = self.ledger.done
        begin = sum(ts <= done for ts, _ in self.ledger.handed)
        found = [(ts, tuple(bodies)) for ts, bodies in await read(self.log, done)]
        end = self.ledger.ends_after(found, begin)
        last = max([done, *(ts for ts, _ in self.ledger.handed[:end])])
        assert self.log.end == last, f"it ends at {self.log.end}, its batches at {last}"
        return end

    async def small(self, *sizes: int) -> None:
        """A batch in one record, rows of about so many bytes."""
        ts = self.log.end + 1
        bodies = [rows(ts, size, ts % 3) for size in sizes]
        item = whole(ts, ts - 1, *bodies)
        await self.ledger.hand((ts, tuple(bodies)), by=self.log.append([item], STRUCTURES))

    async def both(self) -> None:
        """Two batches with one sync."""
        ts = self.log.end + 1
        first, second = rows(ts, 80), rows(ts + 1, 90, 1)
        items = [whole(ts, ts - 1, first), whole(ts + 1, ts, second)]
        given = (ts, (first,)), (ts + 1, (second,))
        await self.ledger.hand(*given, by=self.log.append(items, STRUCTURES))

    async def begin_large(self) -> None:
        """A piece of a batch whose other pieces never come."""
        given_up = piece(0, rows(self.log.end + 1, 400), attempt="given up")
        await self.log.append([given_up], STRUCTURES)

    async def large(self) -> None:
        """A batch in pieces, of which the last comes with its end."""
        ts = self.log.end + 1
        bodies = [rows(ts, 300), rows(ts, 400, 1), rows(ts, 350)]
        await self.log.append([piece(0, bodies[0]), piece(1, bodies[1])], STRUCTURES)
        last: list[Incoming] = [piece(2, bodies[2]), whole(ts, ts - 1, pieces=3)]
        await self.ledger.hand((ts, tuple(bodies)), by=self.log.append(last, STRUCTURES))

    async def purge(self, kept: int) -> None:
        """All but the newest `kept` batches are applied."""
        self.ledger.done = max(self.ledger.done, self.log.end - kept)
        await self.log.purge(self.ledger.done)

    async def settle(self) -> None:
        """What `open` found it made durable."""

    async def write_on(self) -> None:
        await self.small(900)
        await self.small(40)  # in most states the first of a new file
        await self.purge(1)


def small_files(disk: Disk, ledger: Ledger) -> Relay:
    return Relay(disk, ledger, 700)


def larger_files(disk: Disk, ledger: Ledger) -> Relay:
    return Relay(disk, ledger, 3000)


async def _relay(make: MakeStore, machine: Machine, ledger: Ledger) -> Relay:
    store = await started(make, machine, ledger)
    assert isinstance(store, Relay)
    return store


async def appends(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    """Two lives, the second of which cuts off what the first left half."""
    relay = await _relay(make, machine, ledger)
    await relay.small(30)
    await relay.both()
    await relay.small(300, 30)
    await relay.begin_large()
    await relay.large()
    await relay.small(900)
    await relay.begin_large()
    relay = await _relay(make, machine, ledger)
    await relay.large()
    await relay.begin_large()
    await relay.small(60)
    await relay.both()


async def purges(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    """Files go while others come; a life ends in the middle of it."""
    relay = await _relay(make, machine, ledger)
    for size in (300, 900, 30, 500, 800):
        await relay.small(size)
    await relay.purge(3)
    await relay.large()
    await relay.small(600)
    await relay.purge(1)
    relay = await _relay(make, machine, ledger)
    await relay.both()
    await relay.begin_large()
    await relay.purge(0)
    await relay.large()
    for size in (700, 30, 900):
        await relay.small(size)
        await relay.purge(1)

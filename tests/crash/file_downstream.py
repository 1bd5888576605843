"""The Applier's file downstream as a store: transactions in files, and the checkpoint over them."""

from __future__ import annotations

from io import BytesIO

from tests.crash.ledger import Ledger, MakeStore, started
from tests.crash.recorder import Wrong
from tests.unit.downstreams.test_files import BASE, DAY, work
from tests.unit.pump.driven import Machine
from tidelog.downstream import Checkpoint, Lane
from tidelog.downstreams.files import FilesDownstream
from tidelog.downstreams.target import Target
from tidelog.pb_files import names
from tidelog.pb_files.framing import records
from tidelog.ports import Disk
from tidelog.timestamps import physical_ms
from tidelog_proto.pb_binlog_pb2 import Binlog

TARGET = Target.parse("file:///out?segment_bytes=700&retention_days=2")
Applied = tuple[int, tuple[tuple[int, int], ...]]
"""A checkpoint's commit_ts, and the records that came with it: (commit_ts, rows)."""


class Files:
    """Of what is older than `retention_days` files may be gone, the oldest first."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self.ledger = ledger
        self._disk = disk
        self._downstream = FilesDownstream(TARGET, lambda _: disk)
        self._lane: Lane
        self._saved = 0

    async def open(self) -> None:
        opened = await self._downstream.open("f")
        self._saved = opened.checkpoint.commit_ts if opened.checkpoint is not None else 0
        self._lane = await self._downstream.lane(0)

    async def look(self) -> int:
        handed: list[Applied] = self.ledger.handed
        end = next((n + 1 for n, (ts, _) in enumerate(handed) if ts == self._saved), 0)
        if end < self.ledger.acked or (self._saved and not end):
            raise Wrong(f"{self.ledger.acked} were acked, the checkpoint is {self._saved}")
        should = [one for _, part in handed[:end] for one in part]
        there = self._records()
        if there != should[len(should) - len(there) :]:
            raise Wrong(f"files hold {there[-4:]}, up to the checkpoint there are {should[-4:]}")
        gone = should[: len(should) - len(there)]
        if gone and physical_ms(gone[-1][0]) > physical_ms(self._saved) - 2 * 86_400_000:
            raise Wrong(f"{gone[-1]} is gone, the checkpoint is {self._saved}")
        return end

    def _records(self) -> list[tuple[int, int]]:
        found = []
        for name in names.in_order(self._disk.listdir("")):
            for one in records(BytesIO(self._disk.read_file(name.text))):
                if one.bad:
                    raise Wrong(f"{name.text} at {one.offset}: {one.bad}")
                binlog = Binlog.FromString(one.payload)
                found.append((binlog.commit_ts, len(binlog.dml_data.events)))
        return found

    async def apply(self, *txns: tuple[int, int]) -> None:
        """Transactions of so many rows, each so much later than the one before."""
        at, told = self._saved or BASE, []
        for after, rows in txns:
            at += after
            told.append((at, rows))
        self._saved = at
        await self.ledger.hand((at, tuple(told)), by=self._lane.apply(work(*told)))

    async def in_pieces(self) -> None:
        """A large transaction; while it is under way, the checkpoint before it is not saved."""
        ts = (self._saved or BASE) + 1
        await self._lane.apply(work((ts, 5), ends=False))
        await self._lane.apply(work((ts, 6), ends=False))
        self._saved = ts
        given = (ts, ((ts, 5), (ts, 6), (ts, 2)))
        await self.ledger.hand(given, by=self._lane.apply(work((ts, 2))))

    async def half(self) -> None:
        """One that its Applier did not live to end."""
        ts = (self._saved or BASE) + 1
        await self._lane.apply(work((ts, 5), ends=False))

    async def idle(self) -> None:
        """A watermark: the checkpoint moves by itself."""
        self._saved = (self._saved or BASE) + 5
        saved = self._downstream.save_checkpoint(Checkpoint(self._saved, True, feed="f"))
        await self.ledger.hand((self._saved, ()), by=saved)

    async def settle(self) -> None:
        """What `open` found it made durable."""

    async def write_on(self) -> None:
        await self.apply((1, 2), (1, 30))
        await self.apply((1, 1))


async def checkpoints(make: MakeStore, machine: Machine, ledger: Ledger) -> None:
    """Three lives; days pass, so that the oldest files go."""
    store = await _files(make, machine, ledger)
    await store.apply((1, 1))
    await store.apply((1, 3), (2, 1), (1, 7))
    await store.idle()
    await store.in_pieces()
    await store.half()
    store = await _files(make, machine, ledger)
    await store.apply((DAY, 9), (1, 8))
    await store.in_pieces()
    await store.idle()
    await store.apply((DAY, 12))
    store = await _files(make, machine, ledger)
    await store.apply((DAY, 12), (1, 2))
    await store.apply((1, 40))
    await store.apply((DAY, 3))


async def _files(make: MakeStore, machine: Machine, ledger: Ledger) -> Files:
    store = await started(make, machine, ledger)
    assert isinstance(store, Files)
    return store

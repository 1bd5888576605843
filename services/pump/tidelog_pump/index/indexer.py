"""The indexer: what is synced becomes findable, then the sorter is told (section 6, Index).

It alone writes the index and, at the start, reads the log from the index's head to its end before
anything else runs. An index that is not of this log, or claims more than it holds, is thrown away
and built again; so is one that failed while it was used, at the next start.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator

import msgspec
import structlog

from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import UnparsablePayload
from tidelog.failpoints import hit, stalled
from tidelog.payload import Kind, classify
from tidelog.ports import Buffer, Clock, IndexStore
from tidelog_pump.index import keys
from tidelog_pump.index.believed_file import BelievedFile
from tidelog_pump.index.census import Census
from tidelog_pump.index.keys import NOWHERE, Head, State, Transaction
from tidelog_pump.index.pairing import Pairing
from tidelog_pump.index.patience import Patience
from tidelog_pump.index.taken import taken
from tidelog_pump.log.files import corrupt, name
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.promised import NOTHING, PromisedFile
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import INDEX_DROPPED, LOSS
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.sort.sorter_actor import LATE_KEPT, Indexed, Recovered, SorterMessage
from tidelog_pump.write.answers import answers_first
from tidelog_pump.write.intake import Stored

log = structlog.get_logger()

BATCH_ENTRIES = 512
BUFFER_BYTES = 16 << 20
BEHIND_S = 0.01
"""How often to look whether the index has caught up with its own work."""
MARKS_S = 1.0
"""How often to look whether there are marks of W to write."""
PAGE = 4096
SHOWN = 16


class Written(msgspec.Struct, frozen=True):
    """Records that are in the log, synced, in its order; with a reply if the chaser read them: then
    the sorter doesn't know their Prewrites yet. Answered when they are indexed and it does.
    `wall_ms`: the clock as they came, or earlier, by which their timestamps are believed (I9)."""

    stored: list[Stored]
    wall_ms: int
    chased: Reply[None] | None = None


class Note(msgspec.Struct, frozen=True):
    """Keys beside the log's own: what is known of late copies. Answered when written."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    reply: Reply[None]


class Lose(msgspec.Struct, frozen=True):
    """The purge point moved: what nobody can read any more of what goes is lost (`taken`).
    Answered when it is written and the sorter knows."""

    reply: Reply[None]


IndexerMessage = Written | Note | Lose


def look_up(store: IndexStore, start_ts: int) -> Transaction | None:
    """What the index knows of a start_ts."""
    value = store.get(keys.transaction_key(start_ts))
    return None if value is None else keys.unpack_transaction(value)


def read_back(pointer: Pointer, payload: Buffer) -> Stored:
    """What to index of a record in the log. Raises Corrupt for one that no Pump stores so."""
    try:
        facts = classify(payload)
    except UnparsablePayload as error:
        raise corrupt(pointer, error.message) from error
    # Not as a view: those are compared an item at a time, which takes fifty times as long.
    as_stored = facts.payload is payload or facts.payload == bytes(payload)
    if facts.kind is Kind.PREWRITE and not as_stored:
        raise corrupt(pointer, "a Prewrite whose fields are in no order that can be indexed")
    place = Place(pointer.fid, pointer.offset, len(payload), facts.body)
    return Stored(facts.kind, facts.start_ts, facts.commit_ts, place)


def locate(store: IndexStore, start_ts: int) -> Pointer | None:
    """Where the record of a transaction lies: its Prewrite's, or the Commit's if that is all; None
    if neither is known."""
    known = look_up(store, start_ts)
    if known is None:
        return None
    alone = store.get(keys.unpaired_key(start_ts))
    if alone is not None:
        return keys.unpack_unpaired(keys.unpaired_key(start_ts), alone)[2]
    return None if known.place == NOWHERE else Pointer(*known.place[:2])


def unpaired(store: IndexStore, limit: int) -> list[tuple[int, int, Pointer]]:
    """The first Commits without a Prewrite: start_ts, commit_ts, where the Commit lies."""
    return [keys.unpack_unpaired(*entry) for entry in store.scan(*keys.unpaired_range(), limit)]


class Indexer(Actor[IndexerMessage]):
    tick_s = 1.0

    def __init__(
        self,
        clock: Clock,
        segments: Segments,
        store: IndexStore,
        sorter: Ref[SorterMessage],
        purge: PurgePoint,
        promised: PromisedFile,
        census: Census,
        believed: BelievedFile,
        *,
        follow: bool,
        clock_skew_s: float,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.max_bytes = buffer_bytes
        self._clock = clock
        self._segments = segments
        self._store = store
        self._sorter = sorter
        self._purge = purge
        self._promised = promised
        self._census = census
        self._believed = believed
        self._late: deque[tuple[int, int]] = deque(maxlen=LATE_KEPT)
        self._follow = follow
        self._skew_ms = int(clock_skew_s * 1000)
        self._pairing: Pairing
        self._reported_loss = 0
        self._to_read = 0
        self._waiting_s = 0.0
        self.replayed = 0

    def weigh(self, message: IndexerMessage) -> int:
        match message:
            case Written():
                return 64 + 128 * len(message.stored)
            case Note():
                return 64 + 64 * (len(message.puts) + len(message.deletes))
            case Lose():
                return 64

    async def on_start(self) -> None:
        first = self._purge.record.first
        await self._segments.open(self._reached(), first)
        await self._segments.remove(range(first))
        await self._believed.load()
        self._pairing = await self._load()
        await self._read_log(Pointer(*self._pairing.head[:2]))
        await self._believed.finish()
        pairing = self._pairing
        log.info("log read", replayed=self.replayed, open=pairing.open_count)
        last = keys.newest_commit(self._store.scan)
        late, end = list(self._late), self._segments.end
        hit("pump.indexer.log_read")
        await self._sorter.tell(Recovered(pairing.high.value, last, pairing.opened(), end, late))
        self.spawn(self._keep_marks(), "marks")

    def _reached(self) -> Pointer | None:
        """Where the log ended once: it may be gone with all that lay in its directory. Without
        `promised` an operator has accepted that."""
        at = max(self._promised.now.at, Pointer(self._purge.record.first, 0))
        return None if self._promised.began or at == NOTHING.at else at

    async def _read_log(self, begin: Pointer) -> None:
        """A MiB at a time: what else runs in the process goes on. Timestamps are believed as they
        were when they came, as far as that is known."""
        patience = Patience(self._clock)
        total = self._to_read = self._segments.bytes_from(begin)
        async for records in self._segments.scan(begin):
            now_ms = self._clock.wall_ms()
            for pointer, payload in records:
                came_ms = self._believed.came_ms(pointer, now_ms)
                self._pairing.feed(read_back(pointer, payload), came_ms)
                if len(self._pairing) >= BATCH_ENTRIES:
                    await self._write()
            await self._write()
            self._note()
            self.replayed += len(records)
            self._to_read = self._segments.bytes_from(records[-1][0])
            if patience.is_time_to_tell():
                log.info(
                    "reading the log",
                    segment=name(records[-1][0].fid),
                    percent=round(100 * (1 - self._to_read / total), 1),
                    bytes_left=self._to_read,
                    records=self.replayed,
                    seconds=round(patience.waited_s),
                )
            await self._clock.sleep(0)
        await self._write()

    def starting(self) -> dict[str, object]:
        return {
            "replayed": self.replayed,
            "bytes_left": self._to_read,
            "waiting_for_index_s": self._waiting_s,
        }

    async def _load(self) -> Pairing:
        """The state at the index's head; from the first record on if there is no usable index."""
        start = self._segments.start
        # The purge point was allocated once: whoever has nothing else begins with W there.
        head = anew = Head(*start, self._purge.ts)
        if self._store.scan(b"", b"\xff", 1):
            found = self._stored_head(start)
            if found is None:
                INDEX_DROPPED.inc()
                log.warning("the index does not fit the log, building it again")
                self._store.clear()
            head = found or anew
        self._store.write([(keys.FORMAT_KEY, keys.FORMAT), *self._ended_before()])
        for lost in taken(self._store, self._purge.record.first, self._purge.ts):
            self._store.write(lost.puts, lost.deletes)
            await self._clock.sleep(0)
        opened = sorted(self._open_prewrites(), key=lambda entry: entry[2])
        high = HighTs(follow=self._follow, skew_ms=self._skew_ms, value=head.high_ts)
        newest = keys.newest_transaction(self._store.scan)
        purged_ts = lambda: self._purge.ts  # noqa: E731
        promised = lambda: self._promised.now  # noqa: E731
        return Pairing(self._store.get, head, opened, high, newest, purged_ts, promised)

    def _stored_head(self, start: Pointer) -> Head | None:
        """Where the index ends in the log; None if it is not of this log, or not whole."""
        value = self._store.get(keys.HEAD_KEY)
        if value is None or self._store.get(keys.FORMAT_KEY) != keys.FORMAT:
            return None
        try:
            head = keys.unpack_head(value)
        except struct.error:
            return None
        at = Pointer(*head[:2])
        fits = start.fid <= at.fid and at <= self._segments.end
        return head if fits and self._segments.is_boundary(at) else None

    def _ended_before(self) -> Iterator[tuple[bytes, bytes]]:
        """Transactions that ended in a segment that is gone, or were lost with it (see `purge`)."""
        for start_ts in set(self._purge.record.taken) - {s for s, _ in self._purge.record.ended}:
            key = keys.transaction_key(start_ts)
            if self._store.get(key) is None:
                yield key, keys.pack_transaction(State.LOST, 0, NOWHERE)
        for start_ts, commit_ts in self._purge.record.ended:
            key = keys.transaction_key(start_ts)
            if self._store.get(key) is None:
                state = State.COMMITTED if commit_ts else State.ROLLED_BACK
                yield key, keys.pack_transaction(state, commit_ts, NOWHERE)

    def _open_prewrites(self) -> list[tuple[int, int, Place]]:
        start, stop = keys.open_range()
        found: list[tuple[int, int, Place]] = []
        while True:
            page = self._store.scan(start, stop, PAGE)
            found += [keys.unpack_open(key, value) for key, value in page]
            if len(page) < PAGE:
                return found
            start = page[-1][0] + b"\x00"

    async def on_batch(self, batch: list[IndexerMessage]) -> None:
        await answers_first()
        closed: list[tuple[int, int]] = []
        chased: list[Written] = []
        for message in batch:
            match message:
                case Written():
                    closed += await self._feed(message.stored, message.wall_ms)
                    if message.chased is not None:
                        chased.append(message)
                case Note():
                    closed += await self._write()
                    self._store.write(message.puts, message.deletes)
                    message.reply.set(None)
                case Lose():
                    closed += await self._write()
                    await self._lose(message)
        closed += await self._write()
        hit("pump.indexer.before_telling")
        if closed and not chased:
            high_ts = self._pairing.high.value
            indexed = Indexed(closed, high_ts=high_ts, end=self._indexed)
            await self._sorter.tell(indexed)
        elif chased:
            await self._tell_of(chased, closed)
        self._note()

    def _note(self) -> None:
        self._believed.note(self._indexed, self._pairing.head.high_ts)

    async def _keep_marks(self) -> None:
        """In a task of its own: no binlog waits for it."""
        while True:
            await self._clock.sleep(MARKS_S)
            await self._believed.look(self._clock.monotonic())

    @property
    def _indexed(self) -> Pointer:
        return Pointer(*self._pairing.head[:2])

    async def _tell_of(self, chased: list[Written], closed: list[tuple[int, int]]) -> None:
        """Of what the chaser read the sorter learns here what is open."""
        opened: dict[int, int] = {}
        for message in chased:
            for kind, start_ts, _, _ in message.stored:
                bound = self._pairing.bound(start_ts) if kind is Kind.PREWRITE else None
                if bound is not None:
                    opened[start_ts] = bound
        high_ts = self._pairing.high.value
        told = Indexed(closed, list(opened.items()), high_ts, self._indexed)
        await self._sorter.tell(told)
        for message in chased:
            if message.chased is not None:
                message.chased.set(None)

    async def _lose(self, message: Lose) -> None:
        hit("pump.indexer.before_losing")
        for lost in taken(self._store, self._purge.record.first, self._purge.ts):
            await self._until_it_keeps_up()
            self._store.write(lost.puts, lost.deletes)
            for start_ts in lost.closed:
                self._pairing.lose(start_ts)
            if lost.closed:
                await self._sorter.tell(Indexed([(start_ts, 0) for start_ts in lost.closed]))
            await self._clock.sleep(0)  # it may read all of the index
            self.progress()
        message.reply.set(None)

    async def _feed(self, records: list[Stored], wall_ms: int) -> list[tuple[int, int]]:
        closed: list[tuple[int, int]] = []
        feed, pairing = self._pairing.feed, self._pairing
        for stored in records:
            feed(stored, wall_ms)
            if len(pairing) >= BATCH_ENTRIES:
                closed += await self._write()
        return closed

    async def _until_it_keeps_up(self) -> None:
        """A write that waits for the index's own work would hold the whole process (G16)."""
        patience: Patience | None = None
        while stalled("pump.indexer.before_write") or self._store.behind():
            patience = patience or Patience(self._clock)
            await self._clock.sleep(BEHIND_S)
            self.progress()
            self._waiting_s = round(patience.waited_s, 1)
            if patience.is_time_to_tell():
                log.warning("the index does not keep up, waiting for it", seconds=self._waiting_s)
        self._waiting_s = 0.0

    async def on_tick(self) -> None:
        # A reader may have met the damage; who is asked here ends the process, and it is rebuilt.
        self._store.behind()

    async def _write(self) -> list[tuple[int, int]]:
        await self._until_it_keeps_up()
        changes = self._pairing.take()
        hit("pump.indexer.before_write")
        self._store.write(changes.puts, changes.deletes)
        hit("pump.indexer.after_write")
        for what, start_ts, commit_ts, at in changes.odd:
            where = name(at.fid)
            log.warning(what, start_ts=start_ts, commit_ts=commit_ts, file=where, offset=at.offset)
        self._late += changes.late
        self._census.open = self._pairing.open_count
        LOSS.inc(self._pairing.unpaired - self._reported_loss)
        self._reported_loss = self._pairing.unpaired
        return changes.closed

    async def on_stop(self) -> None:
        await self._believed.finish()
        self._believed.let_go()
        await self._segments.finish()

    def status(self) -> dict[str, object]:
        pairing = self._pairing
        return {
            "head": list(pairing.head[:2]),
            "marks": self._believed.status(),
            "replayed": self.replayed,
            "waiting_for_index_s": self._waiting_s,
            "open": pairing.open_count,
            "unpaired": pairing.unpaired,
            "unpaired_commits": [
                {"start_ts": start_ts, "commit_ts": commit_ts, "segment": at.fid, "at": at.offset}
                for start_ts, commit_ts, at in unpaired(self._store, SHOWN)
            ],
            "late_pairs": pairing.late_pairs,
            "conflicts": pairing.conflicts,
            "purged_commits": pairing.purged,
        }

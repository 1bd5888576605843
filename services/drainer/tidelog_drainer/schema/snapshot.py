"""The folded schema in the feed's bucket: a root, an index in parts, and pages of packed tables.

Keys are `schema/root`, `schema/index/N/S` and `schema/page/N/S`: no structure's key has a slash.
A part is written into the one of its two slots S that the root doesn't name, and the root last, so
that a crash in between leaves the old snapshot whole, and nothing but the root grows old. The root
names each part's revision: one that somebody else wrote over, or that was rolled back, is seen.
Above what is folded the root holds the newest jobs: the deltas.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from itertools import islice
from typing import TypeVar

import msgspec

from tidelog.errors import Conflict
from tidelog.failpoints import hit
from tidelog.kv import Bucket
from tidelog.schema.errors import TablesAway
from tidelog.schema.folded import Folded, State, stripped
from tidelog.schema.steps import Step
from tidelog.schema.tracker import SchemaTracker
from tidelog.unreadable import NOT_READABLE
from tidelog_drainer.schema.errors import SnapshotDamaged
from tidelog_drainer.schema.pages import Pages, group_of, pages_of

FORMAT = 1
ROOT = "schema/root"
PARTS_AT_ONCE = 16
"""Pages or parts of the index in one append."""
STEPS_BYTES = 4 << 20
"""Jobs kept in the root, packed and not yet compressed; those beyond are read from the history."""

T = TypeVar("T")


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """Where a part lies, and the revision it must have. `size`: not compressed."""

    slot: int
    revision: int
    size: int


class Root(msgspec.Struct, frozen=True):
    """`read_upto`: the newest job that was read when this was written, `first_job` the oldest one
    of the history."""

    format: int
    ts: int
    version: int
    last_job: int
    dbs: dict[int, str]
    dropped_dbs: dict[int, int]
    pages: dict[int, Ref]
    index: dict[int, Ref]
    steps: list[Step]
    read_upto: int
    first_job: int


class Attempt(msgspec.Struct, frozen=True):
    """A snapshot whose parts are written, and its root maybe. `moved`: by id what was written, and
    the page."""

    value: bytes
    root: Root
    pages: Pages
    tables: dict[int, dict[int, bytes]]
    moved: dict[int, tuple[State, int]]


class Snapshot:
    """The snapshot as this Drainer last read or wrote it. One save at a time."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._root: Root | None = None
        self._revision = 0
        self._pages = Pages()
        self._unsure: Attempt | None = None
        """Its root may have been written: no answer came."""

    @property
    def root(self) -> Root | None:
        return self._root

    @property
    def revision(self) -> int:
        """Of the root, or of its marker; 0: there was never one."""
        return self._revision

    async def begin_anew(self) -> None:
        """What is in the bucket is not to be gone on with: the next save replaces it. Raises
        StreamMissing, Unavailable."""
        self._root, self._pages, self._unsure = None, Pages(), None
        _, self._revision = await self._bucket.read(ROOT)

    async def read(self) -> Folded | None:
        """The index; the tables stay where they are. None: there is no snapshot. Raises
        SnapshotDamaged, StreamMissing, Unavailable."""
        self._root, self._revision, self._pages, self._unsure = None, 0, Pages(), None
        entry, self._revision = await self._bucket.read(ROOT)
        if entry is None:
            return None
        root = _unpack(entry.value, Root)
        if root.format != FORMAT:
            raise SnapshotDamaged(f"its format is {root.format}, not {FORMAT}")
        folded = Folded()
        folded.ts, folded.version, folded.last_job = root.ts, root.version, root.last_job
        folded.dbs, folded.dropped_dbs = dict(root.dbs), dict(root.dropped_dbs)
        ended: list[tuple[int, State]] = []
        for number, ref in root.index.items():
            part = await self._part(f"schema/index/{number}", ref)
            for version, state in _unpack(part, list[tuple[int, State]]):
                if version:
                    ended.append((version, state))
                else:
                    folded.add(state)
        ended.sort(key=lambda one: one[0])
        folded.ended = {state.table.id: (version, state) for version, state in ended}
        self._root = root
        self._pages = Pages(state for _, state in folded.states())
        for page, ref in root.pages.items():
            self._pages.sized(page, ref.size)
        return folded

    async def load(self, folded: Folded, pages: list[int], needed: int = 0) -> None:
        """Bring pages that were asked for, `needed` with those that are here; those that a save
        took away meanwhile are asked for by other numbers then. Raises SnapshotDamaged,
        StreamMissing, Unavailable."""
        asked = self._root
        for page in pages:
            ref = self._root.pages.get(page) if self._root is not None else None
            if ref is None and self._root is not asked:
                continue
            if ref is None:
                raise SnapshotDamaged(f"page {page} is not in the root")
            part = await self._part(f"schema/page/{page}", ref)
            tables = _unpack(part, dict[int, bytes])
            if self._root is None or self._root.pages.get(page) != ref:
                continue
            if self._pages.members.get(page, set()) - tables.keys():
                raise SnapshotDamaged(f"page {page} lacks tables that the index says it has")
            folded.load(page, tables, keep=max(needed, len(pages)))

    async def save(self, tracker: SchemaTracker, first_job: int) -> bool:
        """Write what has changed. False: somebody else wrote the root meanwhile, and nothing was
        changed. Raises SnapshotDamaged, StreamMissing, Unavailable: then the old one holds, unless
        only the answer got lost."""
        if self._unsure is not None:
            unsure, found = self._unsure, await self._bucket.get(ROOT)
            self._unsure = None
            if found is not None and found.value == unsure.value:
                self._go_on(tracker, unsure, found.revision)
        attempt = await self._prepare(tracker, first_job)
        hit("drainer.schema.parts_written")
        self._unsure = attempt
        try:
            revision = await self._bucket.put(ROOT, attempt.value, expected=self._revision)
        except Conflict:
            self._unsure = None
            return False
        self._unsure = None
        self._go_on(tracker, attempt, revision)
        return True

    async def _prepare(self, tracker: SchemaTracker, first_job: int) -> Attempt:
        """Write all parts that have changed; the root names them, once it is written."""
        folded, layout = tracker.folded, self._pages.copy()
        pages = dict(self._root.pages) if self._root is not None else {}
        index = dict(self._root.index) if self._root is not None else {}
        touched = _place(folded, layout, taken=pages)
        tables: dict[int, dict[int, bytes]] = {}
        for page in sorted(touched & layout.members.keys()):
            states = [_state(folded, table_id) for table_id in layout.members[page]]
            whole = await self._whole(folded, states)
            tables[page] = {state.table.id: state.table.data for state in whole}
            layout.sized(page, sum(len(data) for data in tables[page].values()))
        await self._write("schema/page", tables, pages)
        for page in touched - tables.keys():
            pages.pop(page, None)
        moved = {i: (_state(folded, i), page) for page, here in tables.items() for i in here}
        groups: dict[int, list[tuple[int, State]]] = {}
        for group in sorted({group_of(page) for page in touched}):
            ids = [i for page in pages_of(group) for i in layout.members.get(page, ())]
            groups[group] = [_entry(folded, i, layout.page_of(i)) for i in ids]
        await self._write("schema/index", {g: e for g, e in groups.items() if e}, index)
        for group in groups:
            if not groups[group]:
                index.pop(group, None)
        steps = _fitting(tracker.steps())
        root = Root(
            FORMAT,
            folded.ts,
            folded.version,
            folded.last_job,
            folded.dbs,
            folded.dropped_dbs,
            pages,
            index,
            steps,
            steps[-1].id if steps else folded.last_job,
            first_job,
        )
        return Attempt(zlib.compress(_encode(root), 1), root, layout, tables, moved)

    def _go_on(self, tracker: SchemaTracker, attempt: Attempt, revision: int) -> None:
        """What was written is the snapshot now."""
        self._root, self._revision, self._pages = attempt.root, revision, attempt.pages
        live = tracker.folded.live
        for page, here in attempt.tables.items():
            # Of those that have ended, which grow with the history, hardly one is asked for again.
            asked_for = {i: data for i, data in here.items() if i in live}
            tracker.folded.load(page, asked_for, keep=1)
        tracker.folded.saved(attempt.moved)
        tracker.again()

    async def _whole(self, folded: Folded, states: list[State]) -> list[State]:
        while True:
            try:
                return folded.whole(states)
            except TablesAway as away:
                await self.load(folded, away.pages, away.needed)

    async def _write(self, prefix: str, parts: Mapping[int, object], refs: dict[int, Ref]) -> None:
        """Write parts into their free slots; `refs` then tells where they are."""
        rest = iter(parts)
        while numbers := list(islice(rest, PARTS_AT_ONCE)):
            slots = {n: 1 - refs[n].slot if n in refs else 0 for n in numbers}
            raw = {n: _encode(parts[n]) for n in numbers}
            values = {f"{prefix}/{n}/{slots[n]}": zlib.compress(raw[n], 1) for n in numbers}
            last = await self._bucket.put_all(values, ttl_s=0)
            for at, number in enumerate(numbers):
                revision = last - len(numbers) + 1 + at
                refs[number] = Ref(slots[number], revision, len(raw[number]))

    async def _part(self, key: str, ref: Ref) -> bytes:
        entry = await self._bucket.get(f"{key}/{ref.slot}")
        if entry is None or entry.revision != ref.revision:
            found = "nothing" if entry is None else f"revision {entry.revision}"
            raise SnapshotDamaged(f"{found} at {key} instead of revision {ref.revision}")
        return entry.value


def _place(folded: Folded, layout: Pages, taken: dict[int, Ref]) -> set[int]:
    """Give every changed table a page. Returns the pages that are not as they were."""
    touched: set[int] = set()
    for table_id in sorted(folded.changed):
        if table_id in folded.live or table_id in folded.ended:
            touched |= layout.put(table_id, len(_state(folded, table_id).table.data), taken)
        else:
            touched |= layout.drop(table_id)
    return touched


def _state(folded: Folded, table_id: int) -> State:
    state = folded.live.get(table_id)
    return state if state is not None else folded.ended[table_id][1]


def _entry(folded: Folded, table_id: int, page: int) -> tuple[int, State]:
    state = _state(folded, table_id)
    version = folded.ended[table_id][0] if table_id in folded.ended else 0
    return version, stripped(state, page)


def _fitting(steps: list[Step]) -> list[Step]:
    room, fitting = STEPS_BYTES, list[Step]()
    for step in steps:
        room -= (
            200 + len(step.query) + sum(len(info.data) for info in (*step.infos, step.info) if info)
        )
        if room < 0:
            break
        fitting.append(step)
    return fitting


_encode = msgspec.msgpack.Encoder().encode


def _unpack(value: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(zlib.decompress(value), type=kind)
    except (zlib.error, *NOT_READABLE) as error:
        raise SnapshotDamaged(f"{error}") from error

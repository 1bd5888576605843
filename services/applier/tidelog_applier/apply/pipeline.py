"""From batches to a downstream that holds them: windows over the lanes, DDL as a barrier between.

    rows      decoded, planned, handed to the lanes; a few windows are on their way at once
    DDL       alone, after everything before it is applied and saved
    position  the end of the last window such that it and all before it are applied (`flight.py`)

The control connection is opened anew when nothing is on its way: opening ends the lanes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint, Lane, TableRule, Work
from tidelog.errors import Stopped, TidelogError
from tidelog.failpoints import hit
from tidelog.plan.decode import Decoded, Key, Rules, key_of
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Planner
from tidelog.ports import Ports
from tidelog.relay import Batch, LargeBatch, Structures
from tidelog.schema.structure import TableStructure
from tidelog_applier import metrics
from tidelog_applier.apply.control import Control
from tidelog_applier.apply.flight import Flight, Window
from tidelog_applier.apply.lanes import PASSING, Lanes, Spawn, Write, writes
from tidelog_applier.apply.skipping import RefusedRows, SkippingLane
from tidelog_applier.apply.trouble import Trouble
from tidelog_applier.config import ApplierConfig
from tidelog_applier.position import Position

T = TypeVar("T")
log = structlog.get_logger()

WINDOWS = 3
"""On their way at once: some lanes are still at the first while others are at the second, and the
third waits for both."""
CUT_LEAST = 1000
"""A batch is not cut into windows of fewer rows, however small `txn-batch` is: each window is a
commit for every lane that has a share of it."""
ALIVE_S = 5.0
SHOWN = 20
"""Tables in the status."""


class Pipeline:
    """Not for two tasks at once, but for `save_if_due`."""

    def __init__(
        self,
        config: ApplierConfig,
        ports: Ports,
        position: Position,
        spawn: Spawn,
        progress: Callable[[], None],
        *,
        if_free: bool = False,
    ) -> None:
        self._config = config
        self._ports = ports
        self._position = position
        self._spawn = spawn
        self.progress = progress
        self.control = Control(config, ports, position, if_free=if_free)
        self.flight = Flight()
        self.refused = RefusedRows(ports.disk, position)
        self._counted = 0, 0
        """Rows and transactions that the metrics have."""
        self.windows = 0
        """Planned so far."""
        self._lanes: Lanes | None = None
        self._planner = Planner(1)
        self._atomic = True
        self._in_part = False
        """Of a batch, windows were handed over, and not yet its last: however it ends, what is
        applied is no position."""
        self._landed = asyncio.Event()
        self._failure: TidelogError | None = None
        self._trouble = Trouble(ports, position, "the downstream")
        self._unsaved = False
        """A position could not be saved beside the rows: it is what has to work again."""

    # Opening --------------------------------------------------------------------------------

    async def open(self) -> None:
        """Nothing is on its way, but for what a lane that stopped never writes. Raises what
        `Control.open` does."""
        await self._end_lanes()
        if len(self.flight):
            self._give_up()
        opened = await self.control.open()
        self._atomic = opened.atomic or self._config.mode == "atomic"
        count = 1 if self._atomic else opened.lanes
        self._lanes = Lanes(
            count, self._connect, self._ports, self._position, self._spawn, self._failed
        )
        self._planner.resize(count)
        self.flight.applied = max(self.flight.applied, self.control.saved_ts)
        self._position.applied = self.flight.applied

    async def ensure_open(self) -> None:
        """Until it works. Raises what asking again doesn't change."""
        if not self.control.is_open:
            await self._reopen()
            if self._unsaved:
                await self.certainly(self._save_beside)
                self._unsaved = False
            self._trouble.over()

    async def _reopen(self) -> None:
        """Where it isn't open. That it can be opened says nothing of what failed on it: whoever
        tries that again says when the trouble is over."""
        while not self.control.is_open:
            await self.drain()
            try:
                await self.open()
            except PASSING as error:
                metrics.RECONNECTS.inc()
                self.progress()
                await self._trouble.met(error)

    def waits(self, error: TidelogError) -> None:
        """It was not opened, and will be tried again."""
        self._trouble.say(error)

    async def close(self) -> None:
        await self._end_lanes()
        await self.control.close()
        self.refused.close()

    async def _connect(self, number: int) -> Lane:
        lane_of = partial(self.control.downstream.lane, number)
        lane = await lane_of()
        if self._config.on_refused == "skip":
            return SkippingLane(lane, lane_of, self.refused)
        return lane

    def _give_up(self) -> None:
        """Some of it may be applied: nothing consistent is saved any more."""
        self.flight.give_up()
        self._planner = Planner(1)
        self._in_part = True

    async def _end_lanes(self) -> None:
        lanes, self._lanes = self._lanes, None
        if lanes is not None:
            await lanes.end()

    def _failed(self, error: TidelogError) -> None:
        self._failure = error
        self._landed.set()

    def check(self) -> None:
        """Raises what a lane stopped for."""
        if self._failure is not None:
            raise self._failure

    # Rows -----------------------------------------------------------------------------------

    async def rows(self, batches: Sequence[Batch]) -> None:
        """Hand them to the lanes, cut into windows of about `txn-batch` rows, unless a transaction
        downstream must end with one upstream. Raises what a lane stopped for."""
        await self._before_rows(batches[-1].commit_ts)
        structures = {key: found for batch in batches for key, found in batch.structures.items()}
        safe = batches[0].txns[0].commit_ts <= self.control.safe_until
        end = Window(batches[-1].commit_ts, txns=sum(len(batch.txns) for batch in batches))
        decoded, size = Decoded(), 0
        most = max(self._config.txn_batch, CUT_LEAST)
        for body, after in ((body, batch.after) for batch in batches for body in batch.rows):
            if decoded.rows >= most and not self._atomic:
                part = Window(self.flight.begun, rows=decoded.rows, bytes=size)
                tables = await self._tables(decoded, structures)
                self._in_part = True
                await self._hand_over(tables, part, safe=safe, up_to=end.commit_ts)
                decoded, size = Decoded(), 0
                await self._before_rows(batches[-1].commit_ts)
            await self._decode(decoded, [body], after)
            size += len(body)
        end.rows, end.bytes = decoded.rows, size
        await self._hand_over(await self._tables(decoded, structures), end, safe=safe)
        self._in_part = False

    async def large(self, batch: LargeBatch) -> None:
        """Piece by piece; all in one downstream transaction where each has to be whole. Raises
        Stopped for several transactions that are too large for files."""
        if self._config.scheme == "file" and len(batch.txns) > 1:
            await self.rows([await self._at_once(batch)])
            return
        await self._before_rows(batch.commit_ts)
        safe = batch.txns[0].commit_ts <= self.control.safe_until
        end = Window(batch.commit_ts, txns=len(batch.txns))
        if self._atomic:
            # Its lane can't wait for the control connection, which waits for the lanes. Of what was
            # read back `structures` has all tables of the file: some may be gone by now.
            named = await self._named(batch)
            rules = {key: await self._rule(key[0], batch.structures[key]) for key in named}
            end.rows, end.waiting = sum(txn.rows for txn in batch.txns), 1
            self.flight.begin(end)
            self._put(0, partial(self._write_pieces, batch, rules, safe), end)
            return
        self._in_part = True
        async for bodies in batch.pieces():
            decoded = Decoded()
            await self._decode(decoded, bodies, batch.after)
            size = sum(map(len, bodies))
            window = Window(self.flight.begun, rows=decoded.rows, bytes=size)
            await self._before_rows(batch.commit_ts)
            tables = await self._tables(decoded, batch.structures)
            await self._hand_over(tables, window, safe=safe, up_to=batch.commit_ts)
        self.flight.begin(end)
        self._in_part = False
        self._show()

    async def _named(self, batch: LargeBatch) -> set[Key]:
        """The tables that its rows name. Reads it once more."""
        found: set[Key] = set()
        async for bodies in batch.pieces():
            self.progress()
            found.update(map(key_of, bodies))
        return found

    async def _at_once(self, batch: LargeBatch) -> Batch:
        """Its pieces come table by table, and files hold one transaction after the other."""
        room = self._config.buffer_bytes
        if batch.size > room:
            raise Stopped(
                f"{len(batch.txns)} transactions up to {batch.commit_ts} are one batch of"
                f" {batch.size} bytes, and files take no more than {room} at once",
                hint=f"set the Applier's buffer-bytes to {batch.size} at least; a lower batch-bytes"
                " of the Drainer makes smaller batches of what is to come",
            )
        rows = [body async for bodies in batch.pieces() for body in bodies]
        return Batch(
            batch.commit_ts, batch.after, batch.txns, rows, [], batch.structures, batch.size
        )

    def moved(self, commit_ts: int) -> None:
        """Nothing is to be applied up to there."""
        self.flight.begin(Window(commit_ts))
        self._show()

    async def _decode(self, decoded: Decoded, bodies: Sequence[bytes], after: int) -> None:
        """A body at a time, so that the lanes get their turns."""
        for body in bodies:
            decoded.add(body, after)
            await asyncio.sleep(0)

    async def _tables(self, decoded: Decoded, structures: Structures) -> list[TableEvents]:
        rules = {key: await self._rule(key[0], structures[key]) for key in decoded.keys}
        return decoded.with_rules(structures, rules)

    async def _rule(self, db: str, structure: TableStructure) -> TableRule:
        return await self.certainly(lambda: self.control.rule(db, structure))

    async def _hand_over(
        self, tables: list[TableEvents], window: Window, *, safe: bool, up_to: int = 0
    ) -> None:
        number = self.windows
        plan = self._planner.plan(number, tables, safe=safe)
        if plan is None:
            metrics.FLUSHES.inc()
            await self.drain()
            plan = self._planner.plan(number, tables, safe=safe)
            assert plan is not None, "nothing is in flight"
        hit("applier.pipeline.planned")
        self.windows += 1
        metrics.WINDOWS.inc()
        works = [(lane, shares) for lane, shares in enumerate(plan) if shares]
        window.waiting = len(works)
        self.flight.begin(window)
        if not works:
            self._planner.applied(number)
        for lane, shares in works:
            checkpoint = None
            if self._atomic:
                checkpoint = self.control.next(window.commit_ts, consistent=True)
            work = Work(shares, safe=safe, checkpoint=checkpoint, up_to=up_to or window.commit_ts)
            self._put(lane, writes(work), window, number, checkpoint)
        self._show()

    async def _write_pieces(
        self, batch: LargeBatch, rules: Rules, safe: bool, lane: Lane, again: bool
    ) -> None:
        """One downstream transaction, from its beginning."""
        planner = Planner(1)
        number = 0
        async for bodies in batch.pieces():
            decoded = Decoded()
            await self._decode(decoded, bodies, batch.after)
            tables = decoded.with_rules(batch.structures, rules)
            plan = planner.plan(number, tables, safe=safe or again)
            assert plan is not None, "one lane has no conflicts"
            planner.applied(number)
            number += 1
            await lane.apply(Work(plan[0], safe=safe or again, ends=False))
        checkpoint = self.control.next(batch.commit_ts, consistent=True)
        await lane.apply(Work([], checkpoint=checkpoint))
        self.control.saved(checkpoint)

    def _put(
        self,
        lane: int,
        write: Write,
        window: Window,
        number: int = -1,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        assert self._lanes is not None

        def done() -> None:
            if checkpoint is not None:
                self.control.saved(checkpoint)
            if self.flight.finish(window) and number >= 0:
                self._planner.applied(number)
            self._show()

        self._lanes.put(lane, write, done)

    async def _before_rows(self, upto: int) -> None:
        """Room for one more window, and a checkpoint that says that rows are on their way."""
        self.progress()  # one of the many pieces of a large batch, perhaps
        await self.ensure_open()
        await self._until(self._has_room)
        if self._atomic:
            await self.certainly(self.control.claim)
        elif not self.control.tells_of_rows(upto):
            await self.save(consistent=False)

    def _has_room(self) -> bool:
        return len(self.flight) < WINDOWS and self.flight.bytes < self._config.buffer_bytes

    def _show(self) -> None:
        self._position.applied = self.flight.applied
        rows, txns = self._counted
        self._counted = self.flight.rows, self.flight.txns
        metrics.ROWS.inc(self.flight.rows - rows)
        metrics.TXNS.inc(self.flight.txns - txns)
        self._position.rows, self._position.txns = self._counted
        self._landed.set()

    # DDL ------------------------------------------------------------------------------------

    async def ddl(self, ddl: DdlMessage, commit_ts: int) -> list[str]:
        """Alone. `commit_ts`: everything up to there is applied after it. Returns what the
        downstream can't hold."""
        await self.ensure_open()
        await self.drain()
        if self.flight.applied > self.control.saved_ts or self.control.checkpoint is None:
            # Rows of before must not be applied to what comes after.
            await self.save(consistent=False)
        hit("applier.pipeline.drained")
        saved_ts = self.control.saved_ts
        notes: list[str] = []
        while True:
            try:
                notes = await self.control.run_ddl(ddl, commit_ts)
                break
            except PASSING as error:
                self.progress()
                await self._trouble.met(error)
                await self._reopen()
                if self.control.has_run(ddl) or self.control.saved_ts != saved_ts:
                    log.info("it was done after all", ddl=ddl.kind, commit_ts=ddl.commit_ts)
                    break
        self._trouble.over()
        for one in ddl.tables:
            if one.before is not None:
                self._planner.forget((one.db_before, one.before.name))
        self.flight.begin(Window(commit_ts))
        self._show()
        return notes

    # Waiting and saving ---------------------------------------------------------------------

    async def drain(self) -> None:
        """Until everything that was handed over is applied. Raises what a lane stopped for."""
        await self._until(lambda: not len(self.flight))

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self.check()
            self._landed.clear()
            try:
                async with asyncio.timeout(ALIVE_S):
                    await self._landed.wait()
            except TimeoutError:
                self.progress()  # only the lanes can tell whether they get on
        self.check()

    async def save(self, *, consistent: bool) -> None:
        """The position as it is now; again until it works."""
        await self.certainly(lambda: self.control.save(self.flight.applied, consistent=consistent))

    async def certainly(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Something that the control connection may be asked twice."""
        while True:
            try:
                found = await ask()
            except PASSING as error:
                self.progress()
                await self._trouble.met(error)
                await self._reopen()
                continue
            self._trouble.over()
            return found

    async def settle(self) -> bool:
        """Nothing more is handed over: save a consistent position once all is applied, if that
        works now. Is it so? Raises TakenOver, Stopped, and what a lane stopped for."""
        self.check()
        if self._is_settled() or len(self.flight) or self._in_part or not self.control.is_open:
            return self._is_settled()
        try:
            await self.control.save(self.flight.applied, consistent=True)
        except PASSING as error:
            self._not_saved(error)
        return self._is_settled()

    def _is_settled(self) -> bool:
        saved = self.control.checkpoint
        told = saved is None or saved.consistent or saved.unsure > saved.commit_ts
        return not len(self.flight) and told and self.control.saved_ts >= self.flight.applied

    async def save_if_due(self) -> None:
        """The position now and then, once; while an atomic downstream saves it with its rows, only
        when none are on their way. Raises TakenOver, Stopped."""
        behind = self.flight.applied > self.control.saved_ts
        due = self._ports.clock.monotonic() - self.control.saved_at >= self._config.checkpoint_s
        if not (behind and due and self.control.is_open) or (self._atomic and len(self.flight)):
            return
        try:
            await self._save_beside()
        except PASSING as error:
            self._not_saved(error)

    async def _save_beside(self) -> None:
        applied = self.flight.applied
        await self.control.save(applied, consistent=self._atomic, if_ahead=True)

    def _not_saved(self, error: TidelogError) -> None:
        self._unsaved = True
        log.info("the checkpoint was not saved", reason=str(error))

    @property
    def is_atomic(self) -> bool:
        """Rows and checkpoint commit together, whole upstream transactions at once."""
        return self._atomic

    def status(self) -> dict[str, object]:
        return {
            "refused": self.refused.status(),
            "mode": "atomic" if self._atomic else "parallel",
            "lanes": len(self._lanes) if self._lanes is not None else 0,
            "one_lane": self._planner.one_lane()[:SHOWN],
            "windows": self.windows,
            "on_their_way": len(self.flight),
            "safe_until": self.control.safe_until
            if self.flight.applied < self.control.safe_until
            else 0,
            "consistent": bool(self.control.checkpoint and self.control.checkpoint.consistent),
        }

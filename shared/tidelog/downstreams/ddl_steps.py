"""Runs a DDL's steps exactly once over crashes, where DDL commits by itself (docs/adr/0016).

Before each step the checkpoint records it with its tables' definitions. At the next start these
definitions say whether the step is still to do (as before it), done (as expected after it), or
whether somebody else changed the table: then an operator decides, and the checkpoint records that.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog

from tidelog import failpoints
from tidelog.changes import DdlMessage
from tidelog.ddl_pending import AGAIN, DONE, DdlFacts, DdlPending
from tidelog.downstream import Checkpoint, TakenOver
from tidelog.downstreams import ddl_facts, metrics, state_tables
from tidelog.downstreams.checkpoint_table import DROPPED, STATE_DB, CheckpointTable
from tidelog.downstreams.ddl_mysql import (
    Attempt,
    Effect,
    Facts,
    Step,
    plan,
)
from tidelog.downstreams.ddl_watch import DdlWatch
from tidelog.downstreams.definitions import Definitions, difference, equal
from tidelog.downstreams.literals import quote, table_name
from tidelog.downstreams.mysql_session import STRICT, MysqlSession, StatementRefused
from tidelog.downstreams.state_tables import CONTROL
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.errors import Stopped, Unavailable

log = structlog.get_logger()


class DdlSteps:
    """For one DDL. `saved`: the checkpoint as it is stored; `keep_ms`: how long dropped tables'
    rows stay, 0 = not at all; `marks`: what a transaction with rows begins with (seed 004)."""

    def __init__(
        self,
        session: MysqlSession,
        flavor: Flavor,
        table: CheckpointTable,
        saved: Checkpoint | None,
        keep_ms: int,
        watch: DdlWatch,
        marks: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._definitions = Definitions(session)
        self._flavor = flavor
        self._table = table
        self._saved = saved if saved is not None else Checkpoint(commit_ts=0)
        self._keep_ms = keep_ms
        self._watch = watch
        self._marks = marks
        self._notes: list[str] = []

    async def run(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        """Returns what the downstream can't hold, and what it refused. Raises Stopped where an
        operator has to decide."""
        await self._session.use(STRICT)
        await self._watch.begin()
        try:
            return await self._run(ddl, checkpoint)
        except Unavailable as error:
            if not self._watch.overran:
                raise
            raise self._stands(ddl, "it takes longer than ddl-timeout-s allows") from error
        finally:
            self._watch.end()

    async def _run(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        begun, first, steps = await self._planned(ddl)
        for number, step in enumerate(steps):
            if number < first.step:
                continue
            met = begun if number == first.step else None
            pending = msgspec.structs.replace(first, step=number, before=(), decision="")
            if await self._is_to_do(ddl, step, met):
                if step.swap:
                    await self._swap(ddl, step, pending, checkpoint)
                    return self._notes
                await self._do(ddl, step, pending)
            else:
                log.info("ddl step is done", commit_ts=ddl.commit_ts, step=number)
            for sql in step.after:
                await self._session.run(sql)
        await self._forget_old(ddl.commit_ts)
        await self._save(checkpoint)
        return self._notes

    async def _planned(self, ddl: DdlMessage) -> tuple[DdlPending | None, DdlPending, list[Step]]:
        """What was begun of this DDL, what to begin with, and all steps."""
        begun = self._saved.ddl_pending
        if begun is None or begun.commit_ts != ddl.commit_ts:
            return await self._planned_first(ddl)
        try:
            steps = self._plan(ddl, begun.facts)
        except Stopped:
            if begun.decision == DONE:
                return None, DdlPending(ddl.commit_ts, facts=begun.facts), []
            return await self._planned_first(ddl)
        if _fits(begun, steps):
            return begun, begun, steps
        if not begun.decision:
            raise self._stands(ddl, "another release began it, and planned it otherwise")
        # The word is about the whole then.
        first = DdlPending(ddl.commit_ts, facts=begun.facts)
        return None, first, steps if begun.decision == AGAIN else []

    async def _planned_first(
        self, ddl: DdlMessage
    ) -> tuple[DdlPending | None, DdlPending, list[Step]]:
        facts = await ddl_facts.ask(self._session, ddl, keep_dropped=self._keep_ms > 0)
        first = DdlPending(ddl.commit_ts, facts=facts)
        try:
            return None, first, self._plan(ddl, facts)
        except Stopped as error:
            await self._record(first)  # an operator's word is about one that is under way
            raise self._stands(ddl, error.message) from error

    def _plan(self, ddl: DdlMessage, facts: DdlFacts) -> list[Step]:
        """Raises Stopped where nobody can tell its rows here."""
        return plan(ddl, Facts.of(self._flavor, facts, self._table.owner))

    async def _save(self, checkpoint: Checkpoint) -> None:
        await self._begin()
        await self._session.run(self._table.replace(checkpoint))
        await self._session.run("COMMIT")

    async def _begin(self) -> None:
        """A transaction, if nobody has taken over. (Where the takeover could end this connection,
        it has; the epoch tells also where it could not.)"""
        await self._session.run("BEGIN")
        fence = state_tables.fence(self._table.feed, CONTROL, self._table.epoch)
        if await self._session.run(fence) != 1:
            raise TakenOver(f"another Applier has taken over the feed {self._table.feed}")

    async def _record(self, pending: DdlPending) -> None:
        await self._save(msgspec.structs.replace(self._saved, ddl_pending=pending))
        failpoints.hit("applier.ddl.recorded")

    async def _is_to_do(self, ddl: DdlMessage, step: Step, begun: DdlPending | None) -> bool:
        """`begun`: this very step was begun before, and nobody knows how far it came."""
        if begun is not None and begun.decision:
            log.info("an operator decided", commit_ts=ddl.commit_ts, decision=begun.decision)
            return begun.decision == AGAIN
        if step.effect is Effect.DROPS:
            return await self._is_there_to_drop(step, begun)
        if begun is None or not begun.before:
            return True
        found = await self._definitions.of(step.tables)
        if found == begun.before:
            return True
        wanted = await self._definitions.after(step, begun.before)
        if any(equal(found, one, step.effect) for one in wanted):
            return False
        raise self._undecided(ddl, step, found, wanted[0] if wanted else begun.before)

    async def _is_there_to_drop(self, step: Step, begun: DdlPending | None) -> bool:
        (place,) = step.tables
        is_there = await self._definitions.exists(place)
        if not is_there and begun is None:
            self._notes.append(f"table {'.'.join(place)}: it was not there to drop")
        return is_there

    async def _do(self, ddl: DdlMessage, step: Step, pending: DdlPending) -> None:
        if step.effect is not Effect.DROPS:
            before = await self._definitions.of(step.tables)
            pending = msgspec.structs.replace(pending, before=before)
        await self._record(pending)
        if step.effect is Effect.MAKES and before[0]:
            await self._compare(step, before)
        for sql in step.before:
            await self._session.run(sql)
        await self._attempt(ddl, step)
        failpoints.hit("applier.ddl.run")

    async def _compare(self, step: Step, found: tuple[str, ...]) -> None:
        """A table that is there before the upstream creates it stays as it is."""
        if found not in await self._definitions.after(step, ("",)):
            table = ".".join(step.tables[0])
            self._notes.append(f"table {table}: it was there before, with another definition")

    async def _attempt(self, ddl: DdlMessage, step: Step) -> None:
        """The first attempt that the server takes. What it refuses is counted and told."""
        refusal, is_about_data = "", False
        for attempt in step.attempts:
            if attempt.lenient and not is_about_data:
                continue
            try:
                await self._send(attempt)
            except StatementRefused as error:
                refusal, is_about_data = error.message, error.is_about_data
                self._refused(ddl, error)
                continue
            if attempt.note:
                self._notes.append(attempt.note)
            return
        raise self._stands(ddl, refusal)

    async def _send(self, attempt: Attempt) -> None:
        if attempt.lenient:
            await self._session.run_lenient(attempt.sql)
        elif attempt.rows:
            whole = ("BEGIN", *self._marks, attempt.sql, "COMMIT")
            await self._session.run_all([sql.encode() for sql in whole])
        elif attempt.sql:
            await self._session.run(attempt.sql)

    async def _swap(
        self, ddl: DdlMessage, step: Step, pending: DdlPending, checkpoint: Checkpoint
    ) -> None:
        await self._record(pending)
        await self._begin()
        try:
            for sql in (*self._marks, *step.swap):
                await self._session.run(sql)
        except StatementRefused as error:
            self._refused(ddl, error)
            raise self._stands(ddl, error.message) from error
        await self._session.run(self._table.replace(checkpoint))
        failpoints.hit("applier.ddl.swap")
        await self._session.run("COMMIT")

    def _refused(self, ddl: DdlMessage, error: StatementRefused) -> None:
        log.warning("ddl attempt refused", code=error.code, error=error.message)
        metrics.DDL_REFUSED.labels(ddl.kind).inc()
        told = " ".join(error.message.split())
        self._notes.append(f"{ddl.kind} at {ddl.commit_ts}: {told}")

    def _commands(self, ddl: DdlMessage, done: str, again: str) -> str:
        told = (
            f"`tidelog ddl {word} {self._table.feed} {ddl.commit_ts}`" for word in (DONE, AGAIN)
        )
        return f"{next(told)} if {done}, {next(told)} {again}"

    def _stands(self, ddl: DdlMessage, reason: str) -> Stopped:
        return Stopped(
            f"the {ddl.kind} at {ddl.commit_ts} can't be run: {reason}",
            hint=self._commands(
                ddl, "you made the change in another way", "once nothing stands against it"
            ),
        )

    def _undecided(
        self, ddl: DdlMessage, step: Step, found: tuple[str, ...], wanted: tuple[str, ...]
    ) -> Stopped:
        """Somebody else changed a table while the step was under way."""
        seen = "; ".join(
            f"table {'.'.join(place)}: {difference(want, have)}"
            for place, want, have in zip(step.tables, wanted, found, strict=True)
            if want != have
        )
        sql = " ".join(step.attempts[0].sql.split())
        return Stopped(
            f"the {ddl.kind} at {ddl.commit_ts} was begun, and what is there is neither what was"
            f" there before nor what should be there after its statement {sql[:300]}: {seen}",
            hint=self._commands(
                ddl, "that change is there", "to run the statement on what is there"
            ),
        )

    async def _forget_old(self, commit_ts: int) -> None:
        """Dropped tables that the upstream could not bring back any more. May run twice. Another
        feed's clock is another one."""
        horizon = max(0, (commit_ts >> 18) - self._keep_ms) << 18
        ours = f"owner = {quote(self._table.owner)}"
        rows = await self._session.rows(
            f"SELECT table_id, hidden FROM {DROPPED} WHERE {ours} AND commit_ts < {horizon}"
            " LIMIT 100"
        )
        for table_id, hidden in rows:
            await self._session.run(f"DROP TABLE IF EXISTS {table_name(STATE_DB, str(hidden))}")
            gone = f"{ours} AND table_id = {int(table_id)}"
            await self._session.run(f"DELETE FROM {DROPPED} WHERE {gone}")


def _fits(begun: DdlPending, steps: list[Step]) -> bool:
    """Is what was begun one of the steps?"""
    at = begun.step
    return at < len(steps) and len(begun.before) in (0, len(steps[at].tables))

"""What came, window by window, into the pipeline: the DDLs of a batch before its rows."""

from __future__ import annotations

from collections import deque

import structlog

from tidelog import failpoints
from tidelog.changes import DdlMessage
from tidelog.ports import Clock
from tidelog.relay import Batch, LargeBatch
from tidelog_applier import metrics
from tidelog_applier.apply.lanes import Spawn
from tidelog_applier.apply.pipeline import ALIVE_S, Pipeline
from tidelog_applier.apply.windows import Cut
from tidelog_applier.read import Moved

log = structlog.get_logger()

NOTES = 200


class Taking:
    """Not for two tasks at once. `doing`: the DDL that runs now, for status."""

    def __init__(self, pipeline: Pipeline, clock: Clock, spawn: Spawn) -> None:
        self._pipeline = pipeline
        self._clock = clock
        self._spawn = spawn
        self._notes: deque[str] = deque(maxlen=NOTES)
        self._ddls = self._met_again = 0
        self._doing = ""

    async def take(self, one: Cut) -> None:
        """Hand it over; a DDL is done when this returns. Raises what the pipeline does."""
        match one:
            case Moved():
                self._pipeline.moved(one.commit_ts)
            case list():
                await self._batches(one)
            case LargeBatch():
                await self._ddls_of(one)
                await self._pipeline.large(one)

    async def _batches(self, batches: list[Batch]) -> None:
        await self._ddls_of(batches[0])
        if any(batch.rows for batch in batches):
            await self._pipeline.rows(batches)
        else:
            self._pipeline.moved(batches[-1].commit_ts)

    async def _ddls_of(self, batch: Batch | LargeBatch) -> None:
        """An early DDL comes with rows that need it (docs/adr/0005): then the position behind it
        is the one before its transaction."""
        rows = isinstance(batch, LargeBatch) or bool(batch.rows)
        for number, ddl in enumerate(batch.ddls, 1):
            if self._pipeline.control.has_run(ddl):
                log.info("ddl is done already", kind=ddl.kind, commit_ts=ddl.commit_ts)
                self._met_again += 1
                continue
            is_last = number == len(batch.ddls) and not rows
            await self._run_ddl(ddl, batch.commit_ts if is_last else batch.commit_ts - 1)
            if not is_last:
                failpoints.hit("applier.early.run")

    async def _run_ddl(self, ddl: DdlMessage, commit_ts: int) -> None:
        self._doing = f"{ddl.kind} at {ddl.commit_ts}"
        log.info("ddl", kind=ddl.kind, commit_ts=ddl.commit_ts, query=ddl.query[:500])
        alive = self._spawn(self._stay_alive(), "ddl")
        try:
            notes = await self._pipeline.ddl(ddl, commit_ts)
        finally:
            alive.cancel()
            self._doing = ""
        for note in notes:
            log.warning("not held downstream", what=note, commit_ts=ddl.commit_ts)
            metrics.NOT_HELD.inc()
            self._notes.append(note)
        self._ddls += 1
        metrics.DDLS.labels(ddl.kind).inc()

    async def _stay_alive(self) -> None:
        """A DDL may rewrite a large table: only the downstream can tell whether it gets on."""
        doing = self._doing
        while True:
            await self._clock.sleep(ALIVE_S)
            self._pipeline.progress()
            said = await self._pipeline.control.downstream.ddl_progress()
            self._doing = f"{doing}: {said}" if said else doing

    def status(self) -> dict[str, object]:
        return {
            "doing": self._doing,
            "ddls": self._ddls,
            "ddls_met_again": self._met_again,
            "not_held": list(self._notes),
        }

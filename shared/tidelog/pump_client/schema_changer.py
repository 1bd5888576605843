"""Runs schema changes as TiDB does: the job into the history, then its Prewrite and Commit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import BadInput, Conflict, Corrupt, Refused, TidelogError, Unavailable
from tidelog.ports import Disk
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.errors import CommitUnknown, OutcomeUnknown
from tidelog.pump_client.two_phase import Upstream
from tidelog.schema.model import DdlJob
from tidelog.timestamps import physical_ms
from tidelog.unreadable import NOT_READABLE
from tidelog_proto.binlog_pb2 import Binlog

PENDING_PATH: Final = "ddl-pending"
RETRY_S: Final = 0.3
TRIES: Final = 32
"""Plans that other clients' schema changes may overtake, one after the other."""

log = structlog.get_logger()


class DdlResult(msgspec.Struct, frozen=True):
    """What a statement did. `schema_version` 0 and `commit_ts` 0: nothing was to be done."""

    schema_version: int = 0
    commit_ts: int = 0
    job_id: int = 0


class Pending(msgspec.Struct):
    """A job that may be in the history, and the schema states whose pairs are still to be written;
    `start_ts` is that of the pair under way."""

    job: DdlJob
    after: int
    states: list[int]
    start_ts: int = 0


class SchemaChanger:
    """One schema change at a time. What is under way is in the state directory first.

    `pinned`: the start_ts that the file names, 0 = none. Whoever reads it, the next `run` or a next
    life, asks what became of that pair; so its decision must not be forgotten."""

    def __init__(self, upstream: Upstream, history: EmbeddedHistory, disk: Disk | None) -> None:
        self._upstream = upstream
        self._history = history
        self._disk = disk
        self._turn = asyncio.Lock()
        self._pending: Pending | None = None
        self.pinned = 0

    def load(self) -> None:
        """What an earlier life began; before decisions are read. Raises Corrupt."""
        if self._disk is None or not self._disk.exists(PENDING_PATH):
            return
        data = self._disk.read_file(PENDING_PATH)
        if not data:
            return
        try:
            self._pending = msgspec.json.decode(data, type=Pending)
        except NOT_READABLE as error:
            raise Corrupt(
                f"{PENDING_PATH} can't be read: {error}",
                hint="it names a schema change whose place in the stream may be missing: see "
                "whether readers have the last one, then move the file away",
            ) from error
        self.pinned = self._pending.start_ts

    async def resume(self) -> None:
        """Finish it; waits for registry and Pumps."""
        async with self._turn:
            await self._finish_earlier()

    async def run(self, query: str) -> DdlResult:
        """See `Writer.ddl`."""
        tree = parse(query)
        text = query.strip().rstrip(";").rstrip() + ";"
        async with self._turn:
            await self._finish_earlier()
            for _ in range(TRIES):
                catalog = await self._upstream.catalog()
                now_ts = await self._upstream.oracle.fresh(0)
                at = datetime.fromtimestamp(physical_ms(now_ts) / 1000, UTC)
                change = plan(tree, catalog, f"{at:%Y-%m-%d %H:%M:%S.%f}")
                if change is None:
                    return DdlResult()
                job = change.job(catalog.next_id, catalog.version, text, now_ts)
                pending = Pending(job, catalog.last_job, list(change.schema_states))
                await self._announce(pending)
                if await self._append(pending, sent=False):
                    commit_ts = await self._binlogs(pending)
                    return DdlResult(job.version, commit_ts, job.id)
                await self._clear()
            raise Refused(f"other clients change the schema all the time: {TRIES} tries")

    async def _finish_earlier(self) -> None:
        """A job that is in the history must get its binlogs, whoever is left to write them. Raises
        Refused while it is."""
        pending = self._pending
        if pending is None:
            return
        try:
            is_there = await self._append(pending, sent=True)
        except CommitUnknown as error:
            raise Refused(
                f"an earlier schema change is to be finished first ({pending.job.query}):"
                f" {error.message}",
                hint=error.hint,
            ) from error
        if is_there:
            await self._binlogs(pending)
        else:
            await self._clear()

    async def _append(self, pending: Pending, *, sent: bool) -> bool:
        """Until the registry has it, or has another one in its place (False). `sent`: it may be in
        the history already, whatever a registry says now; then a refusal does not end it."""
        body = msgspec.json.encode(pending.job)
        while True:
            try:
                await self._history.append(body, after=pending.after)
                return True
            except Conflict:
                return False
            except (BadInput, Refused) as error:
                if not sent and await self._clear():
                    raise
                who = "the next one" if sent else "a next life"
                raise CommitUnknown(
                    f"the schema change may happen, though it is refused now: {error.message}",
                    hint=f"{who} goes on with it. {error.hint}",
                ) from error
            except Unavailable as error:
                sent = sent or not error.definite
                await self._upstream.clock.sleep(RETRY_S)

    async def _binlogs(self, pending: Pending) -> int:
        """A pair for each state, each tried with a new start_ts until it is committed."""
        commit_ts = 0
        while pending.states:
            verdict = await self._upstream.became_of(pending.start_ts) if pending.start_ts else 0
            commit_ts = verdict or await self._pair(pending)
            pending.states.pop(0)
            pending.start_ts = 0
        await self._clear()
        return commit_ts

    async def _pair(self, pending: Pending) -> int:
        job = pending.job
        while True:
            try:
                pending.start_ts = await self._upstream.begin()
                try:
                    await self._keep(pending)
                except BaseException:  # a full disk; the next one begins another
                    self._upstream.end(pending.start_ts)
                    raise
                return await self._upstream.commit(
                    Binlog(
                        start_ts=pending.start_ts,
                        ddl_query=job.query.encode(),
                        ddl_job_id=job.id,
                        ddl_schema_state=pending.states[0],
                    )
                )
            except (Refused, Unavailable, OutcomeUnknown):
                await self._upstream.clock.sleep(RETRY_S)

    async def _announce(self, pending: Pending) -> None:
        """Raises what keeps it from being written: then nothing was sent, and nobody goes on."""
        try:
            await self._keep(pending)
        except TidelogError:
            self._pending = None
            raise

    async def _keep(self, pending: Pending) -> None:
        self._pending = pending
        await self._write(msgspec.json.encode(pending))
        self.pinned = pending.start_ts

    async def _clear(self) -> bool:
        """The change is over. False: the file still names it, and a next life goes on with it: that
        changes nothing if it is done; the next change overwrites it."""
        self._pending = None
        try:
            await self._write(b"")
        except TidelogError as error:
            log.warning("a schema change that is over is still noted", reason=error.message)
            return False
        self.pinned = 0
        return True

    async def _write(self, data: bytes) -> None:
        if self._disk is not None:
            await self._disk.write_file(PENDING_PATH, data)

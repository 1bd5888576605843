"""Two-phase commit in TiDB's order (seed 001): Prewrite acked, then commit_ts, then the Commit."""

from __future__ import annotations

import msgspec

from tidelog.errors import TidelogError
from tidelog.ports import Clock, Oracle
from tidelog.pump_client import PumpClient
from tidelog.workload.counts import Counts
from tidelog.workload.draft import Draft
from tidelog.workload.generator import (
    COMMIT,
    DIE_COMMITTED,
    DIE_ROLLED_BACK,
    DIE_UNDECIDED,
    ROLL_BACK,
)
from tidelog.workload.ledger import Committed, Ledger, digest
from tidelog.workload.outcomes import Outcomes
from tidelog.workload.timestamps import fresh
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, Commit, Rollback


class Upstream(msgspec.Struct, frozen=True):
    """What a transaction needs of the world."""

    client: PumpClient
    oracle: Oracle
    clock: Clock
    outcomes: Outcomes
    counts: Counts
    ledger: Ledger


async def run_transaction(world: Upstream, draft: Draft, fate: str, lock_ttl_s: float) -> None:
    """Carry a draft to its fate; its locks are held until that is decided."""
    start_ts = draft.start_ts
    prewrite = draft.prewrite()
    world.outcomes.begin(start_ts)
    try:
        if not await write_prewrite(world, prewrite):
            return
        if fate in (ROLL_BACK, DIE_ROLLED_BACK):
            await _roll_back(world, prewrite, dead=fate == DIE_ROLLED_BACK)
        elif fate == DIE_UNDECIDED:
            await _expire(world, start_ts, lock_ttl_s)
        else:
            assert fate in (COMMIT, DIE_COMMITTED)
            await _commit(world, draft, prewrite, dead=fate == DIE_COMMITTED)
    finally:
        draft.release()


async def write_prewrite(world: Upstream, prewrite: Binlog) -> bool:
    """False when no Pump acked: then the transaction has failed, and every Pump tried is told."""
    try:
        await world.client.write(prewrite)
    except TidelogError as error:
        world.counts.failed += 1
        world.counts.unknown += 0 if error.definite else 1
        world.outcomes.roll_back(prewrite.start_ts)
        await world.client.write(finish(prewrite, Rollback))
        return False
    return True


async def _commit(world: Upstream, draft: Draft, prewrite: Binlog, *, dead: bool) -> None:
    commit_ts = await fresh(world.oracle, world.clock, draft.start_ts)
    if not world.outcomes.commit(draft.start_ts, commit_ts):
        await world.client.write(finish(prewrite, Rollback))
        return
    draft.apply(commit_ts)
    world.ledger(
        Committed(
            commit_ts,
            draft.start_ts,
            "rows",
            len(draft.changes),
            digest((c.table.db, c.table.name, c.op, c.before, c.after) for c in draft.changes),
            dead=dead,
        )
    )
    world.counts.committed += 1
    world.counts.rows += len(draft.changes)
    if dead:
        _die(world, draft.start_ts)
    else:
        await world.client.write(finish(prewrite, Commit, commit_ts))


async def _roll_back(world: Upstream, prewrite: Binlog, *, dead: bool) -> None:
    world.outcomes.roll_back(prewrite.start_ts)
    world.counts.rolled_back += 1
    if dead:
        _die(world, prewrite.start_ts)
    else:
        await world.client.write(finish(prewrite, Rollback))


async def _expire(world: Upstream, start_ts: int, lock_ttl_s: float) -> None:
    """Nobody decides until the locks expire; then the transaction is rolled back for good."""
    _die(world, start_ts)
    await world.clock.sleep(lock_ttl_s)
    world.outcomes.roll_back(start_ts)
    world.counts.rolled_back += 1


def _die(world: Upstream, start_ts: int) -> None:
    world.counts.died += 1
    world.outcomes.abandon(start_ts)
    world.client.forget(start_ts)


def finish(prewrite: Binlog, kind: BinlogType.ValueType, commit_ts: int = 0) -> Binlog:
    """The Commit or Rollback of a Prewrite; a DDL's repeats what the DDL is."""
    binlog = Binlog(tp=kind, start_ts=prewrite.start_ts, prewrite_key=prewrite.prewrite_key)
    if commit_ts:
        binlog.commit_ts = commit_ts
    if prewrite.ddl_job_id and commit_ts:
        binlog.ddl_query = prewrite.ddl_query
        binlog.ddl_job_id = prewrite.ddl_job_id
        binlog.ddl_schema_state = prewrite.ddl_schema_state
    return binlog

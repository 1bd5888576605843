"""Locks in the way of a read: what their transactions came to, which their primary keys tell."""

from __future__ import annotations

from tidelog.ports import Oracle
from tidelog.upstream.tikv import TikvClient
from tidelog.upstream.tikv_txn_status import COMMITTED, ROLLED_BACK, verdict_of_check
from tidelog_proto.kvrpcpb_pb2 import (
    CheckTxnStatusRequest,
    CheckTxnStatusResponse,
    Context,
    LockInfo,
)


class Locks:
    """Of one read at `at_ts`. A lock whose transaction is decided is read past, or through, and
    stays for TiDB to clear; that of a dead one is rolled back, as any reader does."""

    def __init__(self, tikv: TikvClient, oracle: Oracle, at_ts: int) -> None:
        self._tikv = tikv
        self._oracle = oracle
        self.at_ts = at_ts
        self._through: set[int] = set()
        self._past: set[int] = set()

    def pass_by(self, context: Context) -> None:
        context.committed_locks.extend(sorted(self._through))
        context.resolved_locks.extend(sorted(self._past))

    async def look_at(self, locks: list[LockInfo]) -> bool:
        """Is any of them decided, so that reading again gets further? Raises Unavailable."""
        primaries = {lock.lock_version: lock.primary_lock for lock in locks}
        before = len(self._through) + len(self._past)
        for start_ts, primary in primaries.items():
            await self._look(start_ts, primary)
        return len(self._through) + len(self._past) > before

    async def _look(self, start_ts: int, primary: bytes) -> None:
        request = CheckTxnStatusRequest(
            primary_key=primary, lock_ts=start_ts, current_ts=await self._oracle.fresh(self.at_ts)
        )
        answer, _ = await self._tikv.ask(
            primary, "KvCheckTxnStatus", request, CheckTxnStatusResponse
        )
        if answer.HasField("error"):
            return  # not found: it may be written yet; asked again while the read waits
        verdict = verdict_of_check(answer)
        if verdict.state == COMMITTED and verdict.commit_ts <= self.at_ts:
            self._through.add(start_ts)
        elif verdict.state in (COMMITTED, ROLLED_BACK):
            self._past.add(start_ts)

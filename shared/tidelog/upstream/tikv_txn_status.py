"""What became of a transaction, as TiKV has it (`ports.TxnStatus`; appendix B.4).

The transaction's primary key decides: first by reading its versions, which changes nothing; where
they tell nothing and the caller forces it, by TiKV's own check, which rolls back a lock whose time
is over, or leaves a record that the transaction can't be prewritten any more.
"""

from __future__ import annotations

from tidelog.errors import Unavailable
from tidelog.ports import Oracle, Verdict
from tidelog.upstream.pd import PdClient
from tidelog.upstream.tikv import TikvClient
from tidelog_proto.kvrpcpb_pb2 import (
    CheckTxnStatusRequest,
    CheckTxnStatusResponse,
    LockNotExistRollback,
    MvccGetByKeyRequest,
    MvccGetByKeyResponse,
    MvccInfo,
    NoAction,
    Rollback,
    TTLExpireRollback,
)

COMMITTED, ROLLED_BACK, UNDECIDED = "committed", "rolled_back", "undecided"
UNKNOWN = Verdict(UNDECIDED)


class TikvTxnStatus:
    def __init__(self, tikv: TikvClient, pd: PdClient, oracle: Oracle) -> None:
        self._tikv = tikv
        self._pd = pd
        self._oracle = oracle

    async def verdict(self, start_ts: int, prewrite_key: bytes, *, force: bool) -> Verdict:
        """Undecided without a key: of the empty one TiKV would say that it never was. Raises
        Unavailable."""
        if not prewrite_key:
            return UNKNOWN
        answer, _ = await self._tikv.ask(
            prewrite_key,
            "MvccGetByKey",
            MvccGetByKeyRequest(key=prewrite_key),
            MvccGetByKeyResponse,
        )
        if answer.error:
            raise Unavailable(f"TiKV can't read {prewrite_key.hex()}: {answer.error}")
        found = verdict_of_versions(answer.info, start_ts)
        if found.state != UNDECIDED or not force:
            return found
        locked = answer.info.HasField("lock") and answer.info.lock.start_ts == start_ts
        if not locked and await self._collected(start_ts):
            return UNKNOWN
        return await self._forced(start_ts, prewrite_key)

    async def _forced(self, start_ts: int, key: bytes) -> Verdict:
        request = CheckTxnStatusRequest(
            primary_key=key,
            lock_ts=start_ts,
            # 0: we read nothing, so its commit_ts need not be pushed above anything of ours.
            caller_start_ts=0,
            current_ts=await self._oracle.fresh(start_ts),
            rollback_if_not_exist=True,
        )
        answer, _ = await self._tikv.ask(key, "KvCheckTxnStatus", request, CheckTxnStatusResponse)
        if answer.HasField("error"):
            said = str(answer.error).strip() or "no reason"
            raise Unavailable(f"TiKV can't check the transaction {start_ts}: {said}")
        verdict = verdict_of_check(answer)
        # What was collected meanwhile left the same trace as what never was.
        if answer.action == LockNotExistRollback and await self._collected(start_ts):
            return UNKNOWN
        return verdict

    async def _collected(self, start_ts: int) -> bool:
        """May the record of its commit have been removed, because later ones replaced it? Then
        nothing in TiKV can tell, and only an operator may (`tidelog resolve`)."""
        return start_ts <= await self._pd.gc_safe_point()


def verdict_of_versions(info: MvccInfo, start_ts: int) -> Verdict:
    """A record of the transaction itself; one of none decides nothing."""
    for write in info.writes:
        if write.start_ts == start_ts:
            if write.type == Rollback:
                return Verdict(ROLLED_BACK)
            return Verdict(COMMITTED, write.commit_ts)
    # A rollback in whose place another transaction's commit stands.
    if any(w.commit_ts == start_ts and w.has_overlapped_rollback for w in info.writes):
        return Verdict(ROLLED_BACK)
    return UNKNOWN


def verdict_of_check(answer: CheckTxnStatusResponse) -> Verdict:
    """Of an answer without errors. A lock of an asynchronous commit decides nothing by itself: the
    transaction's other keys do."""
    if answer.commit_version:
        return Verdict(COMMITTED, answer.commit_version)
    if answer.lock_ttl or answer.lock_info.use_async_commit:
        return UNKNOWN
    if answer.action in (NoAction, TTLExpireRollback, LockNotExistRollback):
        return Verdict(ROLLED_BACK)
    return UNKNOWN

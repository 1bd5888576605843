"""Ranges of TiKV's keys at a timestamp, over the regions they lie in (`meta_history.MetaScan`)."""

from __future__ import annotations

from tidelog.errors import Unavailable
from tidelog.ports import Clock, Oracle
from tidelog.upstream.locks import Locks
from tidelog.upstream.memcomparable import decode_bytes
from tidelog.upstream.meta_history import Pairs
from tidelog.upstream.tikv import TikvClient
from tidelog_proto.kvrpcpb_pb2 import LockInfo, ScanRequest, ScanResponse
from tidelog_proto.metapb_pb2 import Region

LOCK_S = 20.0
"""So long a lock in the way is waited for: TiDB's live for 3 s without a sign of life."""
PAUSE_S = 0.2
MOST = 1 << 10
"""Pairs of one answer."""


class TikvScan:
    """Values may be so large that a store can't send many of them in time: of one that didn't,
    fewer are asked for (`TikvClient`), and then more and more again."""

    def __init__(self, tikv: TikvClient, oracle: Oracle, clock: Clock) -> None:
        self._tikv = tikv
        self._oracle = oracle
        self._clock = clock
        self._most = MOST

    async def scan(self, start: bytes, stop: bytes, *, at_ts: int, limit: int) -> Pairs:
        """Raises Unavailable."""
        locks = Locks(self._tikv, self._oracle, at_ts)
        while start < stop:
            pairs, region = await self._part(start, stop, min(limit, self._most), locks)
            if pairs or not region.end_key:
                return pairs
            start = decode_bytes(region.end_key)[0]
        return []

    async def _part(
        self, start: bytes, stop: bytes, limit: int, locks: Locks
    ) -> tuple[Pairs, Region]:
        """What of the range lies in the region of its start."""
        deadline = self._clock.monotonic() + LOCK_S
        while True:
            request = ScanRequest(start_key=start, end_key=stop, limit=limit, version=locks.at_ts)
            locks.pass_by(request.context)
            answer, region = await self._tikv.ask(start, "KvScan", request, ScanResponse)
            limit = request.limit
            self._most = min(MOST, 2 * limit)
            waiting = _locks(answer)
            if not waiting:
                return [(pair.key, pair.value) for pair in answer.pairs], region
            if not await locks.look_at(waiting):
                if self._clock.monotonic() > deadline:
                    raise Unavailable(
                        f"the key {waiting[0].key.hex()} has been locked for {LOCK_S} s by the"
                        f" transaction {waiting[0].lock_version}",
                        hint="a TiDB writes there, or has died and its lock lives on",
                    )
                await self._clock.sleep(PAUSE_S)


def _locks(answer: ScanResponse) -> list[LockInfo]:
    """Raises Unavailable where a key can't be read for another reason."""
    errors = [pair.error for pair in answer.pairs if pair.HasField("error")]
    if answer.HasField("error"):
        errors.append(answer.error)
    if any(not error.HasField("locked") for error in errors):
        raise Unavailable(f"TiKV can't read a range: {str(errors[0]).strip()}")
    return [error.locked for error in errors]

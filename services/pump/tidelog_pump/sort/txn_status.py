"""What became of a transaction, asked of an upstream that is no TiDB (design section 5)."""

from __future__ import annotations

from tidelog import subjects
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode_reply, encode
from tidelog.ports import Bus, Verdict

ASK_S = 5.0


class BusTxnStatus:
    """`ports.TxnStatus` over `tidelog.<c>.txnstatus`."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._bus = bus
        self._subject = subjects.txnstatus(cluster)

    async def verdict(self, start_ts: int, prewrite_key: bytes, *, force: bool) -> Verdict:
        """Raises Unavailable if nobody answers."""
        request = TxnStatusRequest(start_ts, prewrite_key, force)
        answer = await self._bus.request(self._subject, encode(request), timeout_s=ASK_S)
        reply = decode_reply(answer.data, TxnStatusReply)
        return Verdict(reply.state, reply.commit_ts)

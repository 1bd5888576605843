"""TiKV: a question about a key goes to the store that leads the key's region, wherever that is."""

from __future__ import annotations

from typing import TypeVar

from tidelog.errors import Unavailable
from tidelog.ports import Clock
from tidelog.upstream.pd import PdClient, parsed
from tidelog.upstream.places import Place, first_place, next_peer, place_after
from tidelog.upstream.rpc import Rpc, RpcFailed
from tidelog_proto.errorpb_pb2 import Error
from tidelog_proto.kvrpcpb_pb2 import (
    CheckTxnStatusRequest,
    CheckTxnStatusResponse,
    MvccGetByKeyRequest,
    MvccGetByKeyResponse,
    ScanRequest,
    ScanResponse,
)
from tidelog_proto.metapb_pb2 import Region, Tombstone

SERVICE = "/tikvpb.Tikv/"
TRY_S = 2.0
ASK_S = 15.0
"""Through a split or the choice of another leader (10 s at TiKV's defaults)."""
PAUSE_S = (0.05, 1.0)
LESS = 8
"""How many times fewer pairs a scan asks for that got no answer in time."""

Question = MvccGetByKeyRequest | CheckTxnStatusRequest | ScanRequest
Answer = TypeVar("Answer", MvccGetByKeyResponse, CheckTxnStatusResponse, ScanResponse)


class TikvClient:
    """Regions aren't kept: what is asked here is rare, and PD has them in memory."""

    def __init__(self, rpc: Rpc, pd: PdClient, clock: Clock, *, ask_s: float = ASK_S) -> None:
        self._rpc = rpc
        self._pd = pd
        self._clock = clock
        self._ask_s = ask_s

    async def ask(
        self, key: bytes, method: str, request: Question, kind: type[Answer]
    ) -> tuple[Answer, Region]:
        """The answer of the region that holds `key`, and that region. What it says of the key
        itself is the caller's. A scan whose answer does not come in time asks for fewer pairs from
        then on: its `limit` says how many. Raises Unavailable, ForeignCluster."""
        deadline = self._clock.monotonic() + self._ask_s
        pause_s = PAUSE_S[0]
        place: Place | None = None
        failed = 0
        while True:
            try:
                place = place or await self._find(key)
                answer = await self._once(place, method, request, kind)
            except RpcFailed as error:
                said = error.message
                failed += 1
                if error.status == "DEADLINE_EXCEEDED" and isinstance(request, ScanRequest):
                    request.limit = max(1, request.limit // LESS)
                place = _other(place, failed)
            else:
                if not answer.HasField("region_error"):
                    return answer, place.region
                said = answer.region_error.message or "a region error"
                pause_s = max(pause_s, _asked_pause_s(answer.region_error))
                place = place_after(answer.region_error, place, key)
            if self._clock.monotonic() + pause_s > deadline:
                raise Unavailable(f"TiKV gave no answer about the key {key.hex()}: {said}")
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])

    async def _find(self, key: bytes) -> Place:
        place = first_place(*await self._pd.region(key))
        if place is None:
            raise Unavailable(f"PD knows of no peer of the region of {key.hex()}")
        return place

    async def _once(
        self, place: Place, method: str, request: Question, kind: type[Answer]
    ) -> Answer:
        store = await self._pd.store(place.peer.store_id)
        if not store.address or store.state == Tombstone:
            raise RpcFailed(f"store {place.peer.store_id} is gone")
        request.context.region_id = place.region.id
        request.context.region_epoch.CopyFrom(place.region.region_epoch)
        request.context.peer.CopyFrom(place.peer)
        body = request.SerializeToString()
        return parsed(
            kind, await self._rpc.call(store.address, SERVICE + method, body, timeout_s=TRY_S)
        )


def _other(place: Place | None, failed: int) -> Place | None:
    """After so many stores that didn't answer; None: all peers had their turn, ask PD."""
    if place is None or failed % max(1, len(place.region.peers)) == 0:
        return None
    return next_peer(place)


def _asked_pause_s(error: Error) -> float:
    """What a busy store asks for, within our bounds."""
    return min(error.server_is_busy.backoff_ms / 1000, PAUSE_S[1])

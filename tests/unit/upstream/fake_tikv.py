"""Stores of TiKV with regions and their leaders, and what transactions left on single keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import FakePd
from tidelog.upstream.memcomparable import encode_bytes
from tidelog.upstream.places import holds
from tidelog_proto.errorpb_pb2 import EpochNotMatch, Error, NotLeader, RegionNotFound
from tidelog_proto.kvrpcpb_pb2 import (
    CheckTxnStatusRequest,
    CheckTxnStatusResponse,
    Context,
    KeyError,  # noqa: A004 (its published name)
    LockInfo,
    LockNotExistRollback,
    MvccGetByKeyRequest,
    MvccGetByKeyResponse,
    MvccInfo,
    MvccLock,
    MvccWrite,
    Put,
    Rollback,
    ScanRequest,
    ScanResponse,
    TTLExpireRollback,
    TxnNotFound,
)
from tidelog_proto.kvrpcpb_pb2 import KvPair as Pair
from tidelog_proto.metapb_pb2 import Peer, Region, RegionEpoch, Store

STORES = {1: "kv1:20160", 2: "kv2:20160", 3: "kv3:20160"}


@dataclass
class Lock:
    start_ts: int
    primary: bytes
    alive: bool = True
    async_commit: bool = False
    value: bytes = b""


@dataclass
class Key:
    lock: Lock | None = None
    writes: list[MvccWrite] = field(default_factory=list)
    value: bytes | None = None
    since: int = 1
    """The commit_ts of `value`."""

    def commit(self, start_ts: int, commit_ts: int) -> None:
        self.writes.append(MvccWrite(type=Put, start_ts=start_ts, commit_ts=commit_ts))
        self.lock = None

    def roll_back(self, start_ts: int) -> None:
        self.writes.append(MvccWrite(type=Rollback, start_ts=start_ts, commit_ts=start_ts))
        self.lock = None


class FakeTikv:
    """One region over everything at first, led by store 1; PD goes on telling what it was told
    last."""

    def __init__(self, net: FakeNet, pd: FakePd) -> None:
        self._pd = pd
        self.keys: dict[bytes, Key] = {}
        self.regions: list[Region] = []
        self.leaders: dict[int, int] = {}
        """Region's id -> the store that leads it."""
        self.told = True
        """Does a store that doesn't lead know who does?"""
        for store_id, address in STORES.items():
            pd.stores[store_id] = Store(id=store_id, address=address)
            net.servers[address] = self.server(store_id)
        self.set_regions([(b"", b"")])
        self.tell_pd()

    def key(self, key: bytes) -> Key:
        return self.keys.setdefault(key, Key())

    def found(self, key: bytes) -> Key:
        """What a read finds there."""
        return self.keys.get(key, Key())

    def set_regions(self, bounds: list[tuple[bytes, bytes]], *, version: int = 1) -> None:
        """Each from its start to before its stop; as after a split where there are several."""
        self.regions = [
            Region(
                id=10 + n,
                start_key=encode_bytes(start) if start else b"",
                end_key=encode_bytes(stop) if stop else b"",
                region_epoch=RegionEpoch(conf_ver=1, version=version),
                peers=[Peer(id=100 * (10 + n) + store, store_id=store) for store in STORES],
            )
            for n, (start, stop) in enumerate(bounds)
        ]
        self.leaders = {region.id: 1 for region in self.regions}

    def tell_pd(self) -> None:
        self._pd.regions = [
            (_copy(region), self._peer(region, self.leaders[region.id])) for region in self.regions
        ]

    def _peer(self, region: Region, store: int) -> Peer:
        return next(peer for peer in region.peers if peer.store_id == store)

    def server(self, store: int) -> Callable[[str, bytes], Awaitable[bytes]]:
        async def answer(method: str, request: bytes) -> bytes:
            handler: Callable[[int, bytes], bytes] = getattr(self, f"_{method}")
            return handler(store, request)

        return answer

    def _refusal(self, store: int, context: Context, key: bytes) -> Error | None:
        region = next((r for r in self.regions if r.id == context.region_id), None)
        if region is None:
            lost = RegionNotFound(region_id=context.region_id)
            return Error(message="region not found", region_not_found=lost)
        assert context.peer.store_id == store
        if self.leaders[region.id] != store:
            leader = self._peer(region, self.leaders[region.id]) if self.told else None
            refused = NotLeader(region_id=region.id, leader=leader)
            return Error(message="not leader", not_leader=refused)
        if region.region_epoch != context.region_epoch:
            newer = EpochNotMatch(current_regions=self.regions)
            return Error(message="epoch not match", epoch_not_match=newer)
        assert holds(region, key)
        return None

    def _MvccGetByKey(self, store: int, body: bytes) -> bytes:  # noqa: N802
        request = MvccGetByKeyRequest.FromString(body)
        if refusal := self._refusal(store, request.context, request.key):
            return MvccGetByKeyResponse(region_error=refusal).SerializeToString()
        key = self.found(request.key)
        lock = MvccLock(start_ts=key.lock.start_ts) if key.lock else None
        info = MvccInfo(lock=lock, writes=key.writes)
        return MvccGetByKeyResponse(info=info).SerializeToString()

    def _KvCheckTxnStatus(self, store: int, body: bytes) -> bytes:  # noqa: N802
        request = CheckTxnStatusRequest.FromString(body)
        if refusal := self._refusal(store, request.context, request.primary_key):
            return CheckTxnStatusResponse(region_error=refusal).SerializeToString()
        assert request.current_ts > request.lock_ts
        return self._checked(request).SerializeToString()

    def _checked(self, request: CheckTxnStatusRequest) -> CheckTxnStatusResponse:
        key, start_ts = self.key(request.primary_key), request.lock_ts
        if key.lock is not None and key.lock.start_ts == start_ts:
            if key.lock.async_commit:
                return CheckTxnStatusResponse(lock_info=LockInfo(use_async_commit=True))
            if key.lock.alive:
                return CheckTxnStatusResponse(lock_ttl=3000)
            key.roll_back(start_ts)
            return CheckTxnStatusResponse(action=TTLExpireRollback)
        for write in key.writes:
            if write.start_ts == start_ts:
                committed = 0 if write.type == Rollback else write.commit_ts
                return CheckTxnStatusResponse(commit_version=committed)
        if not request.rollback_if_not_exist:
            return CheckTxnStatusResponse(error=KeyError(txn_not_found=TxnNotFound()))
        key.roll_back(start_ts)
        return CheckTxnStatusResponse(action=LockNotExistRollback)

    def _KvScan(self, store: int, body: bytes) -> bytes:  # noqa: N802
        request = ScanRequest.FromString(body)
        if refusal := self._refusal(store, request.context, request.start_key):
            return ScanResponse(region_error=refusal).SerializeToString()
        region = next(r for r in self.regions if r.id == request.context.region_id)
        pairs: list[Pair] = []
        for name in sorted(self.keys):
            end = region.end_key
            if not request.start_key <= name < request.end_key:
                continue
            if (end and encode_bytes(name) >= end) or len(pairs) == request.limit:
                break
            pair = self._read(name, request)
            if pair is not None:
                pairs.append(pair)
        return ScanResponse(pairs=pairs).SerializeToString()

    def _read(self, name: bytes, request: ScanRequest) -> Pair | None:
        key, context = self.keys[name], request.context
        lock = key.lock
        if lock is not None and lock.start_ts in context.committed_locks:
            return Pair(key=name, value=lock.value)
        if lock is not None and lock.start_ts not in context.resolved_locks:
            locked = LockInfo(primary_lock=lock.primary, lock_version=lock.start_ts, key=name)
            return Pair(error=KeyError(locked=locked), key=name)
        if key.value is None or key.since > request.version:
            return None
        return Pair(key=name, value=key.value)


def _copy(region: Region) -> Region:
    copied = Region()
    copied.CopyFrom(region)
    return copied

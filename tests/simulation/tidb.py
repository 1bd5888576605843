"""The TiDB cluster of a history whose oracle is `pd`: timestamps through changes of PD's leader,
and TiKV's word on every transaction of the load.

What the load decided is what TiKV holds: a lock at the primary key from the Prewrite on, a record
of its commit or rollback afterwards. A check by force finds the lock alive, or over by PD's time,
and then rolls it back for good: the load's own commit fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.simulation.plan import Tidb
from tests.unit.upstream.fake_net import FakeDuplex, FakeNet
from tests.unit.upstream.fake_pd import FakePd
from tests.unit.upstream.fake_tikv import FakeTikv, Key, Lock
from tidelog.sim import World
from tidelog.sim.life import Life
from tidelog.sim.trace import Event
from tidelog.timestamps import compose, physical_ms
from tidelog.upstream.config import UpstreamConfig
from tidelog.upstream.pd import PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog.upstream.rpc import RpcFailed
from tidelog.workload.outcomes import COMMITTED, ROLLED_BACK, Outcomes
from tidelog_proto.binlog_pb2 import Binlog, Prewrite
from tidelog_proto.errorpb_pb2 import Error
from tidelog_proto.kvrpcpb_pb2 import (
    CheckTxnStatusRequest,
    CheckTxnStatusResponse,
    Context,
    LockNotExistRollback,
    TTLExpireRollback,
)
from tidelog_proto.transport_pb2 import WriteBatch

PDS = ("pd1:2379", "pd2:2379", "pd3:2379")
URLS = ",".join(f"http://{pd}" for pd in PDS)
SAVED_MS, GUARD_MS = 3000, 1000
"""So far ahead PD's bound is durable, and what is left of it when it is moved."""
MOST_LOGICAL = (1 << 18) - 1

FAILED_OVER = "PD's leader went on from the bound that was durable"
ALIVE, EXPIRED, NEVER = "lock alive", "lock expired", "lock that never came"
NOT_LEADER, SPLIT = "store that does not lead the region", "region of another epoch"
MOMENTS = (
    FAILED_OVER,
    *(f"TiKV: {what}" for what in (ALIVE, EXPIRED, NEVER, COMMITTED, ROLLED_BACK)),
    *(f"TiKV: {what}" for what in (NOT_LEADER, SPLIT)),
)
"""What histories have to reach beside the faults: what PD and TiKV were asked and said."""


class Pd(FakePd):
    """Timestamps below a bound that is durable before they are given; whoever is elected begins
    above it. `off_ms`: by server, how far its clock is off."""

    def __init__(self, net: FakeNet, wall_ms: Callable[[], int], off_ms: dict[str, int]) -> None:
        self.counts_of: Counter[str] = Counter()
        self._bound_ms = 0
        self._elected = True
        super().__init__(net, *off_ms, wall_ms=lambda: wall_ms() + off_ms[self.leader or PDS[0]])

    @property
    def given(self) -> int:
        """The largest timestamp so far."""
        return compose(self.physical, self.logical)

    def elect(self, server: str) -> None:
        self.leader = server
        self.physical, self.logical = max(self._wall_ms(), self._bound_ms + 1), 0
        self._bound_ms = self.physical + SAVED_MS
        self._elected = True

    def _Tso(self, request: bytes) -> bytes:  # noqa: N802 (the method's name)
        if self.logical > MOST_LOGICAL // 2:
            self.physical, self.logical = self.physical + 1, 0
        answer = super()._Tso(request)
        if self.physical + GUARD_MS > self._bound_ms:
            self._bound_ms = self.physical + SAVED_MS
        if self._elected and self.physical > self._wall_ms():
            self.counts_of[FAILED_OVER] += 1
        self._elected = False
        return answer


class Tikv(FakeTikv):
    """Of the load's outcomes. `never`: of the transactions whose client died before it decided, one
    in so many had not locked anything."""

    def __init__(self, net: FakeNet, pd: Pd, outcomes: Outcomes, ttl_ms: int, never: int) -> None:
        super().__init__(net, pd)
        self.counts: Counter[str] = Counter()
        self._outcomes = outcomes
        self._ttl_ms = ttl_ms
        self._never = never
        self._primaries: dict[bytes, dict[int, None]] = {}

    def prewritten(self, start_ts: int, primary: bytes) -> None:
        self._primaries.setdefault(primary, {})[start_ts] = None

    def known(self) -> list[bytes]:
        return list(self._primaries)

    def found(self, name: bytes) -> Key:
        key, said = Key(), ""
        for start_ts in self._primaries.get(name, {}):
            outcome = self._outcomes.known(start_ts)
            if outcome is None or self._is_unlocked(start_ts):
                continue
            said = outcome.state
            if said == COMMITTED:
                key.commit(start_ts, outcome.commit_ts)
            elif said == ROLLED_BACK:
                key.roll_back(start_ts)
            else:
                key.lock = Lock(start_ts, name)
        if said:
            self._count(said if key.lock is None else ALIVE)
        return key

    def _is_unlocked(self, start_ts: int) -> bool:
        outcome = self._outcomes.known(start_ts)
        if outcome is None or outcome.state in (COMMITTED, ROLLED_BACK):
            return False
        return outcome.expected and start_ts % self._never == 0

    def _checked(self, request: CheckTxnStatusRequest) -> CheckTxnStatusResponse:
        start_ts = request.lock_ts
        outcome = self._outcomes.known(start_ts)
        if outcome is not None and outcome.state == COMMITTED:
            self._count(COMMITTED)
            return CheckTxnStatusResponse(commit_version=outcome.commit_ts)
        if outcome is not None and outcome.state == ROLLED_BACK:
            self._count(ROLLED_BACK)
            return CheckTxnStatusResponse()
        never = outcome is None or self._is_unlocked(start_ts)
        left_ms = physical_ms(start_ts) + self._ttl_ms - physical_ms(request.current_ts)
        if not never and left_ms > 0:
            self._count(ALIVE)
            return CheckTxnStatusResponse(lock_ttl=left_ms)
        self._outcomes.verdict(start_ts, force=True)
        self._count(NEVER if never else EXPIRED)
        return CheckTxnStatusResponse(action=LockNotExistRollback if never else TTLExpireRollback)

    def _refusal(self, store: int, context: Context, key: bytes) -> Error | None:
        refused = super()._refusal(store, context, key)
        if refused is not None:
            self._count(NOT_LEADER if refused.HasField("not_leader") else SPLIT)
        return refused

    def _count(self, what: str) -> None:
        self.counts[f"TiKV: {what}"] += 1


class TidbCluster:
    """The servers, and how each process of the history reaches them."""

    def __init__(self, world: World, plan: Tidb, outcomes: Outcomes) -> None:
        self.net = FakeNet()
        rng = world.random("pd/clocks")
        off_ms = {server: rng.randint(-plan.skew_ms, plan.skew_ms) for server in PDS}
        self.pd = Pd(self.net, world.clock().wall_ms, off_ms)
        self.tikv = Tikv(self.net, self.pd, outcomes, plan.lock_ttl_ms, plan.never)
        self.config = UpstreamConfig(pd_urls=URLS)
        self._world = world
        world.open_rpc = lambda life, tls: OfNode(self, life)
        world.trace.watchers.append(self._watch)

    def oracle(self) -> PdOracle:
        """The load's, as a TiDB has it."""
        clock = self._world.clock()
        return PdOracle(PdClient(self.net, clock, URLS), clock)

    def counts(self) -> Counter[str]:
        return self.pd.counts_of + self.tikv.counts

    def is_cut(self, life: Life) -> bool:
        return not life.alive or self._world.node(life.name).is_cut

    def _watch(self, event: Event) -> None:
        """A TiDB locks its keys while its Prewrite is on the way to a Pump."""
        if event.node != "workload" or event.what != "request" or ".write" not in event.detail:
            return
        for payload in WriteBatch.FromString(event.data).payloads:
            binlog = Binlog.FromString(payload)
            if payload and binlog.tp == Prewrite:
                self.tikv.prewritten(binlog.start_ts, binlog.prewrite_key)


class OfNode:
    """`upstream.rpc.Rpc` of one process: one that is cut off from the bus is cut off from all."""

    def __init__(self, cluster: TidbCluster, life: Life) -> None:
        self._cluster, self._life = cluster, life

    async def call(self, address: str, method: str, request: bytes, *, timeout_s: float) -> bytes:
        self.check(address)
        answer = await self._cluster.net.call(address, method, request, timeout_s=timeout_s)
        self.check(address)
        return answer

    def check(self, address: str) -> None:
        if self._cluster.is_cut(self._life):
            raise RpcFailed(f"{address} is not to be reached")

    def stream(self, address: str, method: str) -> StreamOfNode:
        return StreamOfNode(self, address, self._cluster.net.stream(address, method))

    async def close(self) -> None:
        pass


class StreamOfNode:
    """`upstream.rpc.Duplex`."""

    def __init__(self, rpc: OfNode, address: str, stream: FakeDuplex) -> None:
        self._rpc, self._address, self._stream = rpc, address, stream

    async def send(self, message: bytes) -> None:
        self._rpc.check(self._address)
        await self._stream.send(message)

    async def receive(self) -> bytes:
        answer = await self._stream.receive()
        self._rpc.check(self._address)
        return answer

    def close(self) -> None:
        self._stream.close()

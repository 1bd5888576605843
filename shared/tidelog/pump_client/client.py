"""PumpClient: how a database, or any application, hands its binlogs to Tidelog (appendix A.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from google.protobuf.message import DecodeError

from tidelog.errors import BadInput, DeadlineExceeded, Overloaded, UnparsablePayload
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus, Clock, Disk, Oracle, Rng
from tidelog.pump_client.delivery.backlog import Backlog, Finish
from tidelog.pump_client.delivery.finisher import Delivery, Finisher, answered
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.pump_client.delivery.lane import Lane
from tidelog.pump_client.delivery.prewrites import Prewrites
from tidelog.pump_client.delivery.skip_recorder import SkipRecorder
from tidelog.pump_client.delivery.way import NatsWay
from tidelog.pump_client.errors import NoPump, NotPrewritten, OutcomeUnknown
from tidelog.pump_client.routing.directory import Directory
from tidelog.pump_client.routing.pump_list import Pump, PumpList
from tidelog.pump_client.routing.routes import Routes
from tidelog.pump_client.routing.strategy import make_strategy
from tidelog.pump_client.running import running
from tidelog.pump_client.skipping import Skipping
from tidelog.real.grpc_channel import require_grpc
from tidelog.real.pem import read_pem
from tidelog.security.tls import TlsFiles
from tidelog.supervisor import Supervisor
from tidelog_proto.binlog_pb2 import Binlog, Prewrite, Rollback

WRITE_TIMEOUT_S = 15.0
TRY_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 600.0
CLOSE_S = 10.0
NATS, GRPC = "nats", "grpc"
FRAMING = 1024
"""Room left in a message of the bus around a single payload."""


class PumpClient:
    """Writes binlogs to the Pumps of one cluster.

        async with PumpClient(bus, "default", cluster_id, clock, rng) as client:
            await client.write(Binlog(tp=Prewrite, start_ts=start, prewrite_value=rows))
            commit = await oracle.fresh(start)      # only after the Prewrite's ack
            await client.write(Binlog(tp=Commit, start_ts=start, commit_ts=commit))

    `cluster_id` is checked by the Pumps. `strategy`: "range" (in turn), "hash" (by start_ts) or
    "score" (as often as the Pumps' announced scores say). `labels`: Pumps that announce all of
    these come first under every strategy, the others only when none of them is available.
    `transport`: "nats", many binlogs in one message, or "grpc", a call for each at the address
    that the Pump announces; payloads above the bus limit go by gRPC under both.
    `write_timeout_s`: how long a Prewrite looks for a Pump after its first try; `try_timeout_s`:
    how long one Pump may take to answer; `finish_timeout_s`: how long a Commit or Rollback is
    tried. Raises BadInput for a strategy or transport that is not known.

    Use it from one event loop. Many concurrent `write`s travel together: concurrency, not one
    caller's speed, fills the messages. What waits for a Pump, and Commits and Rollbacks that are
    not acked, are bounded by count and bytes: beyond that `write` waits.

    `ignore_error`: when no Pump takes a Prewrite, the application goes on without binlogs until
    `recover()`. Commits of such transactions are counted, and a record of them goes through the
    log as soon as a Pump takes it: readers meet it as `MarkedTxn.skipped`. `name` names this client
    in it; `oracle` gives its timestamps (the registry's, if none is given); `disk` keeps what is
    untold over a restart. Everything else under `ignore_error` is as described.
    """

    def __init__(
        self,
        bus: Bus,
        cluster: str,
        cluster_id: int,
        clock: Clock,
        rng: Rng,
        *,
        strategy: str = "range",
        labels: Mapping[str, str] | None = None,
        transport: str = NATS,
        write_timeout_s: float = WRITE_TIMEOUT_S,
        try_timeout_s: float = TRY_TIMEOUT_S,
        finish_timeout_s: float = FINISH_TIMEOUT_S,
        ignore_error: bool = False,
        name: str = "pump-client",
        oracle: Oracle | None = None,
        disk: Disk | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        if transport not in (NATS, GRPC):
            raise BadInput(f"transport {transport!r} is not known", hint=f"one of {NATS}, {GRPC}")
        if transport == GRPC:
            require_grpc()
        if tls is not None:
            read_pem(tls)  # later on they may be in renewal, and only then be wrong
        self._bus = bus
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._clock = clock
        self._rng = rng
        self._transport = transport
        self._tls = tls
        self._try_timeout_s = try_timeout_s
        self._pumps = PumpList(labels)
        self._routes = Routes()
        self._prewrites = Prewrites(
            self._pumps,
            self._routes,
            make_strategy(strategy),
            clock,
            write_timeout_s=write_timeout_s,
        )
        self._backlog = Backlog()
        self._delivery = Delivery(
            self._pumps, self._backlog, clock, finish_timeout_s=finish_timeout_s
        )
        self._skipping = Skipping(name, disk) if ignore_error else None
        self._oracle = oracle or RegistryOracle(bus, cluster)
        self._life = AsyncExitStack()

    # ---- life

    def supervise(self, supervisor: Supervisor) -> None:
        """Add the client's actors to a supervisor of yours, instead of `async with`."""
        supervisor.actor("pump-directory", self._make_directory)
        supervisor.actor(
            "pump-finisher", lambda: Finisher(self._delivery, self._backlog, self._clock)
        )
        if (skipping := self._skipping) is not None:
            skipping.load()
            supervisor.actor("pump-skip-recorder", lambda: self._make_recorder(skipping))

    async def __aenter__(self) -> Self:
        supervisor = Supervisor("pump-client")
        self.supervise(supervisor)
        await self._life.enter_async_context(running(supervisor))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits up to CLOSE_S for Commits and Rollbacks that are still unacked, then ends."""
        try:
            if error is None:
                await self.flush(CLOSE_S)
        finally:
            await self._life.__aexit__(kind, error, trace)

    # ---- writing

    async def write(
        self, binlog: bytes | Binlog, *, wait: bool = False, deadline_s: float | None = None
    ) -> None:
        """Hand over one binlog (serialised or not).

        Prewrite: returns when one Pump has it on disk. That Pump is the transaction's Pump.
        Raises a definite error when surely no Pump holds it (`NoPump`, which names what each Pump
        said; `BadInput`), and `OutcomeUnknown` when one may, also after `deadline_s` seconds;
        either way, and when the caller is cancelled, the transaction must be rolled back, and its
        Rollback written too.

        Commit or Rollback: goes to the Pump that acked the Prewrite. Returns when it is on its
        way, as TiDB does; it is tried for `finish_timeout_s`, after which the Pump asks
        `txnstatus`. Waits while too many are unacked, at most `deadline_s`, then raises
        `Overloaded`: it was not accepted, and is not sent. Once accepted it is sent, also if the
        caller is cancelled. With `wait=True` it returns when acked, and raises what it was given
        up for, or `DeadlineExceeded` after `deadline_s`: it is still being tried. A Commit of a
        transaction that this client has no acked Prewrite of raises NotPrewritten (one that
        `ignore_error` left without is counted instead). A Rollback of one goes to every Pump that
        was tried with the Prewrite, which may hold it; if none was, there is nothing to roll back.
        """
        if isinstance(binlog, bytes):
            payload, parsed = binlog, _parse(binlog)
        else:
            payload, parsed = binlog.SerializeToString(), binlog
        start_ts = parsed.start_ts
        skipping = self._skipping
        if skipping is not None and self._skips(skipping, parsed):
            return
        if parsed.tp != Prewrite:
            items = self._finishes(payload, start_ts, rollback=parsed.tp == Rollback)
            if items:
                await self._finish(items, wait=wait, deadline_s=deadline_s)
            return
        try:
            if deadline_s is None:
                await self._prewrites.write(payload, start_ts)
            else:
                await self._prewrites.write_within(payload, start_ts, deadline_s)
        except (NoPump, OutcomeUnknown) as error:
            if skipping is None:
                raise
            await skipping.begin(start_ts, error)

    def forget(self, start_ts: int) -> None:
        """Drop what is remembered of a transaction that will get neither Commit nor Rollback."""
        self._routes.close(start_ts)
        if self._skipping is not None:
            self._skipping.ended(start_ts)

    def abandon(self, start_ts: int) -> None:
        """Roll a transaction back without waiting: each Pump that may hold its Prewrite is told as
        far as there is room for that, and asks `txnstatus` where there is none."""
        payload = Binlog(tp=Rollback, start_ts=start_ts).SerializeToString()
        for item in self._finishes(payload, start_ts, rollback=True):
            self._delivery.try_accept(item)
        self.forget(start_ts)

    def pump_of(self, start_ts: int) -> str:
        """The Pump that acked an open transaction's Prewrite; "" = none."""
        route = self._routes.get(start_ts)
        return route.pump if route is not None else ""

    def recover(self) -> None:
        """Under `ignore_error`: write binlogs again."""
        if self._skipping is not None:
            self._skipping.recover()

    @property
    def skipping(self) -> bool:
        """Nothing is written, and `recover` was not called yet."""
        return self._skipping is not None and self._skipping.on

    @property
    def unacked(self) -> int:
        """Commits and Rollbacks not acked yet."""
        return self._backlog.open

    async def flush(self, timeout_s: float) -> bool:
        """Wait until every Commit and Rollback is acked or given up; False when time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._backlog.drained()
        except TimeoutError:
            return False
        return True

    def status(self) -> dict[str, object]:
        return {
            "available": [pump.node for pump in self._pumps.available],
            "online": [pump.node for pump in self._pumps.online],
            "open_transactions": len(self._routes),
            "unacked": self._backlog.open,
            "unacked_bytes": self._backlog.bytes,
            "skipping": self._skipping.status() if self._skipping is not None else None,
        }

    def _skips(self, skipping: Skipping, binlog: Binlog) -> bool:
        """Whether to write nothing. A Commit without a Prewrite is of a transaction that was
        skipped; where a Pump may hold its Prewrite nevertheless, that one asks `txnstatus`."""
        if binlog.tp == Prewrite:
            if skipping.on:
                skipping.passed(binlog.start_ts)
            return skipping.on
        skipping.ended(binlog.start_ts)
        route = self._routes.get(binlog.start_ts)
        acked = route is not None and route.pump
        if binlog.tp == Rollback or acked or not skipping.reason:
            return False
        self._routes.close(binlog.start_ts)
        skipping.committed(binlog.commit_ts, ddl=bool(binlog.ddl_job_id))
        return True

    # ---- Commits and Rollbacks

    def _finishes(self, payload: bytes, start_ts: int, *, rollback: bool) -> list[Finish]:
        """One to the Pump of the Prewrite; of a Rollback that nobody acked the Prewrite of, one to
        each Pump that was tried."""
        route = self._routes.get(start_ts)
        deadline = self._delivery.deadline()
        if route is not None and route.pump:
            return [Finish(start_ts, payload, route.pump, deadline, others=route.others())]
        if not rollback:
            raise NotPrewritten(f"no Pump acked the Prewrite of {start_ts} to this client")
        tried = route.tried if route is not None else ()
        if not tried:
            self._routes.close(start_ts)
        return [Finish(start_ts, payload, node, deadline) for node in tried]

    async def _finish(self, items: list[Finish], *, wait: bool, deadline_s: float | None) -> None:
        first = items[0]
        if deadline_s is None:
            await self._deliver(items, wait=wait)
            return
        try:
            async with asyncio.timeout(deadline_s):
                await self._deliver(items, wait=wait)
        except TimeoutError:
            if not first.accepted:
                raise Overloaded(f"{self.unacked} Commits and Rollbacks wait for Pumps") from None
            if wait:
                raise DeadlineExceeded(
                    f"no ack of {first.start_ts} from {first.node} in {deadline_s} s",
                    hint="it is still being tried",
                ) from None

    async def _deliver(self, items: list[Finish], *, wait: bool) -> None:
        """The route ends with the acceptance of the first: the others need no room then."""
        acks = [answered(item) for item in items] if wait else []
        first, *rest = items
        try:
            await self._delivery.accept(first)
        finally:
            if first.accepted:
                self._routes.close(first.start_ts)
                for item in rest:
                    self._delivery.follow_up(item)
        for ack in acks:
            await ack

    # ---- parts

    def _make_directory(self) -> Directory:
        return Directory(
            self._pumps,
            self._make_lane,
            self._bus,
            self._clock,
            self._rng,
            cluster=self._cluster,
        )

    def _make_recorder(self, skipping: Skipping) -> SkipRecorder:
        return SkipRecorder(
            skipping,
            self._pumps,
            self._routes,
            self._prewrites,
            self._delivery,
            self._oracle,
            self._clock,
        )

    def _make_lane(self, pump: Pump) -> Lane:
        grpc = GrpcWay(pump.node, lambda: pump.address, self._cluster_id, self._tls)
        nats = NatsWay(self._bus, self._cluster, self._cluster_id, pump.node)
        return Lane(
            pump,
            self._pumps,
            grpc if self._transport == GRPC else nats,
            grpc,
            self._clock,
            limit=lambda: self._bus.max_payload - FRAMING,
            try_timeout_s=self._try_timeout_s,
        )


def _parse(payload: bytes) -> Binlog:
    try:
        return Binlog.FromString(payload)
    except DecodeError as error:
        raise UnparsablePayload(f"{len(payload)} bytes are no Binlog") from error

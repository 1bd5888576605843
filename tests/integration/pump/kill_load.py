"""The kill rig's transactions: of various sizes, committed, rolled back, left by their clients."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import TypeVar

from tests.integration.pump.kill_ledger import Ledger, key_of, value_of
from tidelog.errors import TidelogError
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode, encode
from tidelog.ports import Bus, Clock, Oracle, Request
from tidelog.pump_client import PumpClient
from tidelog.subjects import txnstatus
from tidelog.workload.timestamps import fresh
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, Rollback

T = TypeVar("T")
CLIENTS = 64
SIZES = {100: 300, 1000: 150, 4 << 10: 60, 64 << 10: 4, 700 << 10: 1, 2 << 20: 3}
"""Bytes at most: weight. Half of the last ones are above the bus limit and go by gRPC."""
FATES = {"commit": 84, "roll back": 7, "die committed": 3, "die rolled back": 3, "die": 3}


class Load:
    """`rate` transactions a second on average: what an outage holds up is made up for."""

    def __init__(
        self, client: PumpClient, oracle: Oracle, clock: Clock, ledger: Ledger, seed: int, rate: int
    ) -> None:
        self._client = client
        self._oracle = oracle
        self._clock = clock
        self._ledger = ledger
        self._rng = random.Random(seed)
        self._pace_s = CLIENTS / rate
        self._stop = asyncio.Event()
        self.progress = asyncio.Event()
        """Set when something was acked."""

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._live())

    async def _live(self) -> None:
        due = self._clock.monotonic()
        while not self._stop.is_set():
            due += self._pace_s * (0.5 + self._rng.random())
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            await self._transaction()

    def _draw(self, weighted: Mapping[T, int]) -> T:
        return self._rng.choices(list(weighted), list(weighted.values()))[0]

    async def _transaction(self) -> None:
        client, ledger = self._client, self._ledger
        size = self._rng.randint(1, self._draw(SIZES))
        fate = self._draw(FATES)
        start_ts = await fresh(self._oracle, self._clock, 0)
        ledger.begin(start_ts, size)
        binlog = Binlog(
            tp=Prewrite,
            start_ts=start_ts,
            prewrite_key=key_of(start_ts),
            prewrite_value=value_of(start_ts, size),
        )
        try:
            await client.write(binlog)
        except TidelogError:
            ledger.roll_back(start_ts)
            await client.write(Binlog(tp=Rollback, start_ts=start_ts))
            return
        ledger.ack(start_ts)
        self.progress.set()
        if fate.endswith("commit") or fate == "die committed":
            commit_ts = await fresh(self._oracle, self._clock, start_ts)
            end = Binlog(tp=Commit, start_ts=start_ts, commit_ts=commit_ts)
            if not ledger.commit(start_ts, commit_ts):
                end = Binlog(tp=Rollback, start_ts=start_ts)
        else:
            end = Binlog(tp=Rollback, start_ts=start_ts)
            if fate != "die":
                ledger.roll_back(start_ts)
        if fate.startswith("die"):
            client.forget(start_ts)
        else:
            await client.write(end)


async def answer_for(bus: Bus, cluster: str, ledger: Ledger) -> None:
    """Serve `txnstatus`: the ledger's word."""

    async def asked(request: Request) -> None:
        question = decode(request.data, TxnStatusRequest)
        state, commit_ts = ledger.verdict(question.start_ts, force=question.force)
        request.respond(encode(TxnStatusReply(state, commit_ts)))

    await bus.serve(txnstatus(cluster), asked)

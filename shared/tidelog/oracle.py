"""Timestamps from the registry's own oracle (`embedded`, I9), many callers in one request."""

from __future__ import annotations

import asyncio
import math

from tidelog import subjects
from tidelog.batched_oracle import BatchedOracle
from tidelog.errors import NoResponders, Unavailable
from tidelog.messages import TsoReply, TsoRequest, decode_reply, encode
from tidelog.ports import Bus

REQUEST_S = 5.0
"""How long a registry is asked that says nothing, or that it can't yet."""
TRY_S = 1.0
"""It is asked again after this long: one that dies takes with it what it was asked, while the next
one is there within 2 s (the same directory), and nothing is committed until then. Safe, because a
timestamp whose answer nobody waits for is nobody's, and a later answer's was allocated after the
call began as well. Longer than PATIENCE_S of the registry's `oracle/tso.py`, so that what it waits
for is heard."""


class RegistryOracle(BatchedOracle):
    """`ports.Oracle` over `registry.tso`."""

    def __init__(self, bus: Bus, cluster: str, *, timeout_s: float = REQUEST_S) -> None:
        super().__init__()
        self._bus = bus
        self._subject = subjects.registry(cluster, "tso")
        self._timeout_s = timeout_s

    async def _ask(self, total: int) -> int:
        again = max(0, math.ceil(self._timeout_s / TRY_S) - 1)
        for _ in range(again):
            try:
                async with asyncio.timeout(TRY_S):
                    return await self._request(total, self._timeout_s)
            except NoResponders:
                raise
            except (TimeoutError, Unavailable):
                continue
        return await self._request(total, self._timeout_s - again * TRY_S)

    async def _request(self, total: int, timeout_s: float) -> int:
        answer = await self._bus.request(
            self._subject, encode(TsoRequest(total)), timeout_s=timeout_s
        )
        return decode_reply(answer.data, TsoReply).last_ts

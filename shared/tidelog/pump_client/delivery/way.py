"""The ways to a Pump: one request on the bus for many binlogs, or a gRPC call for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from google.protobuf.message import DecodeError

from tidelog.errors import TidelogError, Unavailable, told_error
from tidelog.ports import Bus
from tidelog.pump_client.errors import OutcomeUnknown
from tidelog.subjects import pump as pump_subject
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult

Refusals = Sequence[TidelogError | None]
_ACKED = b"\x0a\x00"
"""One empty WriteResult of a WriteBatchResult."""


class Way(Protocol):
    async def write(self, payloads: Sequence[bytes], timeout_s: float) -> Refusals:
        """Hand over serialised Binlogs; an empty one is a probe. Returns why each was refused, None
        = acked; empty = all were acked. Raises TidelogError when there is no answer."""

    async def close(self) -> None: ...


class NatsWay:
    """`tidelog.<c>.pump.<node>.write` (design section 5)."""

    def __init__(self, bus: Bus, cluster: str, cluster_id: int, node: str) -> None:
        self._bus = bus
        self._node = node
        self._subject = pump_subject(cluster, node, "write")
        self._cluster_id = cluster_id

    async def write(self, payloads: Sequence[bytes], timeout_s: float) -> Refusals:
        request = WriteBatch(cluster_id=self._cluster_id, payloads=payloads).SerializeToString()
        answer = (await self._bus.request(self._subject, request, timeout_s=timeout_s)).data
        if answer == _ACKED * len(payloads):
            return ()
        try:
            results = WriteBatchResult.FromString(answer).results
        except DecodeError:
            raise Unavailable(f"{self._node}: an answer that can't be read") from None
        if len(results) != len(payloads):
            raise Unavailable(f"{self._node} answered {len(results)} of {len(payloads)}")
        return [refusal(r.code, r.message, definite=r.definite) for r in results]

    async def close(self) -> None:
        """Nothing is held."""


def refusal(code: str, message: str, *, definite: bool) -> TidelogError | None:
    """The error a Pump names; "" = none."""
    if not code:
        return None
    error = told_error([code], message)
    if error.definite and not definite:
        return OutcomeUnknown(f"{code}: {message}")
    return error

"""Binlogs above the bus limit: `/binlog.Pump/WriteBinlog` at the Pump's advertised address.

grpcio is optional: without it such a Prewrite is a definite MessageTooLarge. One channel per Pump
(library traps G24, G25); raw bytes, so that nothing is encoded twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import (
    BadInput,
    DeadlineExceeded,
    MessageTooLarge,
    Refused,
    TidelogError,
    Unavailable,
)
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp

if TYPE_CHECKING:
    import grpc.aio

METHOD = "/binlog.Pump/WriteBinlog"
_OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]

_BY_STATUS: dict[str, type[TidelogError]] = {
    "RESOURCE_EXHAUSTED": MessageTooLarge,
    "FAILED_PRECONDITION": Refused,
    "INVALID_ARGUMENT": BadInput,
    "UNIMPLEMENTED": BadInput,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}
"""gRPC status -> our class: the Pump's table read backwards. Every other status leaves the outcome
unknown."""


class GrpcWay:
    """The channel to one Pump, opened when first needed and again when its address changes."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._address = ""
        self._channel: grpc.aio.Channel | None = None

    async def write(self, address: str, payload: bytes, timeout_s: float) -> None:
        """Returns once acked. Raises TidelogError; `definite` says whether it surely did not
        happen."""
        try:
            import grpc
            import grpc.aio
        except ImportError:
            raise MessageTooLarge(
                f"{len(payload)} bytes are above the bus limit", hint="install tidelog[pump]"
            ) from None
        if not address:
            raise MessageTooLarge(
                f"{len(payload)} bytes are above the bus limit, and the Pump has no gRPC address",
                hint="set the Pump's grpc-addr",
            )
        if address != self._address or self._channel is None:
            await self.close()
            self._address = address
            self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        call = self._channel.unary_unary(METHOD, None, None)
        request = WriteBinlogReq(clusterID=self._cluster_id, payload=payload).SerializeToString()
        try:
            answer = WriteBinlogResp.FromString(await call(request, timeout=timeout_s))
        except grpc.aio.AioRpcError as error:
            cls = _BY_STATUS.get(error.code().name, Unavailable)
            raise cls(error.details() or error.code().name) from error
        if answer.errmsg:
            raise Unavailable(answer.errmsg)

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close(grace=1.0)

"""`/binlog.Pump/WriteBinlog` at the Pump's advertised address: for binlogs above the bus limit, or
for all (`transport="grpc"`).

One channel per Pump (library traps G24, G25); raw bytes, so that nothing is encoded twice. grpcio
is optional.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from google.protobuf.message import DecodeError

from tidelog.actor import is_cancelled
from tidelog.errors import (
    BadInput,
    ConfigError,
    DeadlineExceeded,
    MessageTooLarge,
    NoResponders,
    Refused,
    TidelogError,
    Unavailable,
    Untrusted,
)
from tidelog.payload import SLOWEST_BYTES_PER_S
from tidelog.pump_client.delivery.way import Refusals, refusal
from tidelog.pump_client.errors import NotSent
from tidelog.pump_grpc import DEFINITE_KEY, ERROR_KEY, NODE_KEY
from tidelog.real.grpc_channel import RECONNECT, UNBOUNDED, open_channel, require_grpc
from tidelog.security.tls import TlsFiles
from tidelog.subjects import escape
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp

if TYPE_CHECKING:
    import grpc.aio

    Call = grpc.aio.UnaryUnaryCall[bytes, bytes]

METHOD = "/binlog.Pump/WriteBinlog"
_OPTIONS = [*UNBOUNDED, *RECONNECT]

SMALLEST_LIMIT = 4 << 20
"""gRPC's own limit of a message where nobody sets one."""
FRAMING = 64
"""What a WriteBinlogReq adds to its payload at most."""

_BY_STATUS: dict[str, type[TidelogError]] = {
    "FAILED_PRECONDITION": Refused,
    "INVALID_ARGUMENT": BadInput,
    "UNIMPLEMENTED": NoResponders,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}
"""gRPC status -> our class, where no Pump of ours names it: another kind of Pump, gRPC itself, or
whoever has the address of a Pump that moved. Every other status leaves the outcome unknown."""


_PERHAPS = "if it stays so, the Pump may not take our certificate: check ssl-cert, and its ssl-ca"
_NO_TLS = ("handshake", "verification check", "unwrap failed")
"""What gRPC says of TLS it says in the text of an UNAVAILABLE; no call has begun then."""


class GrpcWay:
    """The channel to one Pump, opened when first needed and again when its address changes. `tls`:
    files that could be used when the client began."""

    def __init__(
        self, node: str, address: Callable[[], str], cluster_id: int, tls: TlsFiles | None = None
    ) -> None:
        self._node = node
        self._tls = tls or TlsFiles()
        self._address_now = address
        self._cluster_id = cluster_id
        self._address = ""
        self._channel: grpc.aio.Channel | None = None

    async def write(self, payloads: Sequence[bytes], timeout_s: float) -> Refusals:
        """A call for each, all under way at once."""
        channel = await self._connected()
        method = channel.unary_unary(METHOD, None, None)
        meant = ((NODE_KEY, escape(self._node)),)
        calls: list[Call] = []
        try:
            for payload in payloads:
                request = WriteBinlogReq(clusterID=self._cluster_id, payload=payload)
                time = timeout_s + len(payload) / SLOWEST_BYTES_PER_S
                calls.append(method(request.SerializeToString(), timeout=time, metadata=meant))
            outcomes = [
                await _outcome(call, len(payload))
                for call, payload in zip(calls, payloads, strict=True)
            ]
            if any(isinstance(outcome, Untrusted) for outcome in outcomes):
                await self.close()  # the next one reads the certificates anew
            return [self._hinted(outcome) for outcome in outcomes]
        finally:
            for call in calls:
                call.cancel()  # does nothing to one that is done

    def _hinted(self, outcome: TidelogError | None) -> TidelogError | None:
        """gRPC does not tell whether the Pump refused our certificate or went away."""
        if self._tls.on and type(outcome) is Unavailable:
            return Unavailable(outcome.message, hint=_PERHAPS)
        return outcome

    async def _connected(self) -> grpc.aio.Channel:
        """Raises NotSent; ConfigError: grpcio is not installed."""
        require_grpc()

        address = self._address_now()
        if not address:
            raise NotSent(
                f"{self._node} announces no gRPC address", hint="set the Pump's grpc-addr"
            )
        if self._channel is not None and address == self._address:
            return self._channel
        try:
            fresh = open_channel(address, self._tls, _OPTIONS)
        except ConfigError as error:
            # They could be used once: somebody renews them, one file after the other.
            raise NotSent(error.message, hint=error.hint) from error
        old, self._channel, self._address = self._channel, fresh, address
        if old is not None:
            await old.close(None)  # cancels what is under way there
        return fresh

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close(grace=1.0)


async def _outcome(call: Call, size: int) -> TidelogError | None:
    import grpc.aio

    try:
        answer = WriteBinlogResp.FromString(await call)
    except grpc.aio.AioRpcError as error:
        return _typed(error, size)
    except DecodeError:
        return Unavailable("an answer that can't be read")
    except asyncio.CancelledError:
        if is_cancelled() or not call.cancelled():
            raise
        return Unavailable("its channel was closed: the Pump has moved")
    return Unavailable(answer.errmsg) if answer.errmsg else None


def _typed(error: grpc.aio.AioRpcError, size: int) -> TidelogError:
    told = dict(cast("Iterable[tuple[str, str]]", error.trailing_metadata() or ()))
    message = error.details() or error.code().name
    named = refusal(told.get(ERROR_KEY, ""), message, definite=told.get(DEFINITE_KEY) == "true")
    if named is not None:
        return named
    status = error.code().name
    if status == "UNAVAILABLE" and any(word in message.lower() for word in _NO_TLS):
        return Untrusted(
            f"no TLS with the Pump: {_first_words(message)}",
            hint="check ssl-ca, ssl-cert and ssl-key on both sides",
        )
    if status == "RESOURCE_EXHAUSTED":
        # gRPC says this of a message above its limit, which is final, and of too many calls.
        return (MessageTooLarge if size >= SMALLEST_LIMIT - FRAMING else Unavailable)(message)
    return _BY_STATUS.get(status, Unavailable)(message)


def _first_words(message: str) -> str:
    """gRPC puts addresses and file positions around what is of interest."""
    return message.rpartition("last error:")[2].strip()[:300] or message[:300]

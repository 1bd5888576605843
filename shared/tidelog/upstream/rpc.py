"""How PD, TiKV and etcd are called: gRPC as bytes, so that fakes answer without a network."""

from __future__ import annotations

from typing import Protocol

from tidelog.errors import Unavailable


class RpcFailed(Unavailable):
    """The call's status is not OK, or no answer came; `status` is gRPC's name of it."""

    def __init__(self, message: str, *, status: str = "UNAVAILABLE") -> None:
        super().__init__(message)
        self.status = status


class Duplex(Protocol):
    """A call with a stream each way. After an error or a cancelled method it is only closed."""

    async def send(self, message: bytes) -> None:
        """Raises RpcFailed."""

    async def receive(self) -> bytes:
        """The next message. Raises RpcFailed, at the end of the stream too."""

    def close(self) -> None: ...


class Rpc(Protocol):
    """`address` is HOST:PORT, `method` /package.Service/Method."""

    async def call(self, address: str, method: str, request: bytes, *, timeout_s: float) -> bytes:
        """The answer. Raises RpcFailed."""

    def stream(self, address: str, method: str) -> Duplex: ...
    async def close(self) -> None: ...

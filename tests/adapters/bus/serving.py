"""What the tests of a bus on a real server serve, and what they do to its client."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from tidelog.errors import Unavailable
from tidelog.ports import Request
from tidelog.real.bus import NatsBus


async def echo(request: Request) -> None:
    request.respond(request.data)


async def answered(bus: NatsBus) -> None:
    """What is served is reached again."""
    async with asyncio.timeout(20):
        while True:
            try:
                assert (await bus.request("echo", b"x", timeout_s=5)).data == b"x"
                return
            except Unavailable:
                await asyncio.sleep(0.01)


def narrow(bus: NatsBus) -> None:
    """What the kernel takes for a server that stands still is little, on any machine."""
    client: Any = bus.connection._client
    link = client._transport._io_writer.transport.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)


async def cancelled(task: asyncio.Task[Any] | None) -> None:
    assert task is not None
    task.cancel()
    await asyncio.wait([task])

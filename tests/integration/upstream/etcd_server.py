"""Debian's etcd as a process of a test, with a directory of its own."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@asynccontextmanager
async def etcd(directory: Path, client: int, peer: int) -> AsyncIterator[None]:
    command = shutil.which("etcd")
    assert command, "make etcd"
    server = await asyncio.create_subprocess_exec(
        command,
        *("--name", "one", "--data-dir", str(directory), "--log-level", "error"),
        *(f"--listen-client-urls=http://127.0.0.1:{client}",),
        *(f"--advertise-client-urls=http://127.0.0.1:{client}",),
        *(f"--listen-peer-urls=http://127.0.0.1:{peer}",),
        *(f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",),
        f"--initial-cluster=one=http://127.0.0.1:{peer}",
    )
    try:
        yield
    finally:
        server.kill()
        await server.wait()

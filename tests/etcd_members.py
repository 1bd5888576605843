"""Debian's etcd as processes of a test: one member or several, plain or with TLS."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers import free_port
from tidelog.errors import Unavailable
from tidelog.security.tls import TlsFiles
from tidelog.upstream.etcd import EtcdClient

HOST = "127.0.0.1"
ROOT = b"/tidb-binlog/v1/"


class Place(NamedTuple):
    """Where a member listens, for clients and for its peers."""

    client: int
    peer: int


def places(*names: str) -> dict[str, Place]:
    return {name: Place(free_port(), free_port()) for name in names}


@asynccontextmanager
async def member(
    directory: Path, name: str, cluster: Mapping[str, Place], tls: TlsFiles | None = None
) -> AsyncIterator[None]:
    """One process, killed at the end; its data stays in the directory. With TLS it asks its clients
    for a certificate."""
    command = shutil.which("etcd")
    assert command, "make etcd"
    client = f"{'https' if tls else 'http'}://{HOST}:{cluster[name].client}"
    peers = {other: f"http://{HOST}:{place.peer}" for other, place in cluster.items()}
    files = [] if tls is None else [
        "--client-cert-auth",
        f"--trusted-ca-file={tls.ssl_ca}",
        f"--cert-file={tls.ssl_cert}",
        f"--key-file={tls.ssl_key}",
    ]  # fmt: skip
    server = await asyncio.create_subprocess_exec(
        command,
        *("--name", name, "--data-dir", str(directory / name), "--log-level", "error"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
        *(f"--listen-peer-urls={peers[name]}", f"--initial-advertise-peer-urls={peers[name]}"),
        "--initial-cluster=" + ",".join(f"{other}={url}" for other, url in peers.items()),
        *files,
    )
    try:
        yield
    finally:
        server.kill()
        await server.wait()


async def answered(client: EtcdClient) -> None:
    """Waits until the members have found each other."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.under(ROOT)
                return
            except Unavailable:
                await asyncio.sleep(0.1)

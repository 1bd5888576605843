"""Who gets in at a Pump's gRPC addresses, and what becomes of it when they or its files change."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import grpc
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.adapters.pump.rig import GrpcClient, registry_and_client, running
from tests.adapters.pump.test_pump_real import config
from tests.adapters.security.pki import CLIENT, HOST, Authority, Pair
from tests.servers import NatsServer, nats_server
from tests.unit.pump.rig import CLUSTER_ID, NODE
from tidelog.errors import ConfigError, Forbidden, TidelogError, Untrusted
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.real.clock import RealClock
from tidelog.real.pem import read_pem
from tidelog.security.tls import TlsFiles
from tidelog_proto.pump_pb2 import PullBinlogReq
from tidelog_pump.edges.grpc_edge import GrpcEdge


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


class Callers:
    """An authority, the Pump's files, and who calls it with what."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "ours")
        self._own = directory / "pump"
        self._own.mkdir()
        self.own = Pair(str(self._own / "cert.pem"), str(self._own / "key.pem"))
        self.give(self.authority.issue("pump"))

    def spoil(self) -> None:
        """Its key is none, from now on."""
        Path(self.own.key).write_text("no key at all")

    def give(self, pair: Pair) -> None:
        """The Pump's own certificate is this one, from now on."""
        for target, source in zip(self.own, pair, strict=True):
            Path(target).write_bytes(Path(source).read_bytes())

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(
            ssl_ca=self.authority.ca,
            ssl_cert=self.own.cert,
            ssl_key=self.own.key,
            cert_allowed_cn=("writer",),
        )

    async def probe(self, address: str, cn: str, ca: str = "") -> TidelogError | None:
        """What a Pump says to one of that name, who trusts `ca`."""
        pair = self.authority.issue(cn, ["somewhere"], uses=[CLIENT])
        tls = TlsFiles(ssl_ca=ca or self.authority.ca, ssl_cert=pair.cert, ssl_key=pair.key)
        way = GrpcWay(NODE, lambda: address, CLUSTER_ID, tls)
        try:
            return (await way.write([b""], 10.0))[0]
        finally:
            await way.close()


async def refused_pull(address: str, callers: Callers, cn: str) -> grpc.StatusCode:
    pair = callers.authority.issue(cn, uses=[CLIENT])
    pem = read_pem(TlsFiles(ssl_ca=callers.authority.ca, ssl_cert=pair.cert, ssl_key=pair.key))
    credentials = grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)
    async with grpc.aio.secure_channel(address, credentials) as channel:
        pull = channel.unary_stream("/binlog.Pump/PullBinlogs", None, None)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in pull(PullBinlogReq(clusterID=CLUSTER_ID).SerializeToString()):
                pass
        return refused.value.code()


def test_by_tcp_only_who_is_named_writes_and_reads_by_the_socket_who_may_enter_its_directory(
    tmp_path: Path, server: NatsServer
) -> None:
    async def main() -> None:
        callers = Callers(tmp_path)
        settings = msgspec.structs.replace(config(tmp_path, CLUSTER_ID), security=callers.files)
        async with (
            registry_and_client(server.url, NODE) as (_, client),
            running(settings, tmp_path / "data", server.url) as tree,
        ):
            await client.until_online()
            address = str(tree.status()["grpc"]["bound"])
            assert await callers.probe(address, "writer") is None
            another = await callers.probe(address, "another")
            assert isinstance(another, Forbidden)
            assert "cert-allowed-cn" in str(another)
            assert await refused_pull(address, callers, "another") is (
                grpc.StatusCode.PERMISSION_DENIED
            )
            local = GrpcClient(f"unix:{settings.socket}", CLUSTER_ID)
            assert await local.write(b"") == ""
            await local.close()

    asyncio.run(main())


def test_files_that_can_t_be_used_leave_the_certificates_as_they_are_until_they_can(
    tmp_path: Path, server: NatsServer
) -> None:
    async def main() -> None:
        callers = Callers(tmp_path)
        settings = msgspec.structs.replace(config(tmp_path, CLUSTER_ID), security=callers.files)
        async with (
            registry_and_client(server.url, NODE) as (_, client),
            running(settings, tmp_path / "data", server.url) as tree,
        ):
            await client.until_online()
            address = str(tree.status()["grpc"]["bound"])
            other = Authority(tmp_path, "other")
            callers.spoil()
            with capture_logs() as said:
                for _ in range(3):
                    assert await callers.probe(address, "writer") is None
            kept = [one for one in said if one["event"].startswith("the certificates stay")]
            assert len(kept) == 1
            assert "key.pem" in kept[0]["error"]
            # Then one that can be used, of somebody else: who trusts only the first is gone.
            callers.give(other.issue("pump"))
            assert isinstance(await callers.probe(address, "writer"), Untrusted)
            assert await callers.probe(address, "writer", other.ca) is None

    asyncio.run(main())


def test_an_address_that_another_process_has_is_a_matter_of_the_configuration() -> None:
    async def main(taken: str) -> None:
        edge = GrpcEdge(RealClock(), *(Mock() for _ in range(6)), cluster_id=7, addresses=[taken])
        with pytest.raises(ConfigError, match=taken) as refused:
            await edge.on_start()
        assert "grpc-addr" in refused.value.hint

    with socket.create_server((HOST, 0)) as listener:
        asyncio.run(main(f"{HOST}:{listener.getsockname()[1]}"))

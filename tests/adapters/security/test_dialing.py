"""A server that does not prove who it is gets nothing: 14 ways to fail x the four of our clients.

Each cell ends with one typed error, of the class that the table says.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from tests.adapters.security.fake_server import context, serving
from tests.adapters.security.pki import CLIENT, HOST, Authority, Pair
from tests.unit.pump_client.fakes import Dice, LoopClock, MemoryBus
from tidelog.ddl_history import open_history
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, TidelogError, Unavailable, Untrusted
from tidelog.ports import Bus
from tidelog.pump_client import PumpClient
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.pump_client.errors import NotSent
from tidelog.real.bus import NatsBus
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.security.access import NatsAccess
from tidelog.security.tls import TlsFiles
from tidelog.upstream.rpc import RpcFailed


class Files(NamedTuple):
    """What our client has: who vouches, and its own certificate, if any."""

    ca: str
    own: Pair | None


class Cell(NamedTuple):
    files: Files
    server: ssl.SSLContext | None


async def dial_grpc(port: int, files: Files) -> TidelogError | None:
    own = files.own or Pair("", "")
    tls = TlsFiles(ssl_ca=files.ca, ssl_cert=own.cert, ssl_key=own.key)
    PumpClient(cast(Bus, MemoryBus()), "c", 0, LoopClock(), Dice(), tls=tls)
    way = GrpcWay("pump-1", lambda: f"{HOST}:{port}", 0, tls)
    try:
        return (await way.write([b""], 5.0))[0]
    finally:
        await way.close()


async def dial_nats(port: int, files: Files) -> TidelogError | None:
    own = files.own or Pair("", "")
    access = NatsAccess(nats_ca=files.ca, nats_cert=own.cert, nats_key=own.key)
    bus = await NatsBus.connect(f"nats://{HOST}:{port}", timeout_s=5.0, access=access)
    await bus.close()
    return None


async def dial_mysql(port: int, files: Files) -> TidelogError | None:
    options = f"tls_ca={files.ca}"
    if files.own is not None:
        options += f"&tls_cert={files.own.cert}&tls_key={files.own.key}"
    session = await MysqlSession.connect(Target.parse(f"mysql://root@{HOST}:{port}/?{options}", ""))
    await session.close()
    return None


async def dial_https(port: int, files: Files) -> TidelogError | None:
    own = files.own or Pair("", "")
    tls = TlsFiles(ssl_ca=files.ca, ssl_cert=own.cert, ssl_key=own.key)
    async for _ in open_history(f"https://{HOST}:{port}", None, "", tls).jobs(0):
        pass
    return None


DIALS: dict[str, Callable[[int, Files], Awaitable[TidelogError | None]]] = {
    "grpc": dial_grpc,
    "nats": dial_nats,
    "mysql": dial_mysql,
    "https": dial_https,
}
REFUSED: dict[str, type[TidelogError]] = {
    "grpc": Untrusted,
    "nats": Untrusted,
    "mysql": ConfigError,
    "https": Unavailable,
}
"""What each client says of such a server; a TiDB's status address is asked again, with the files
anew."""


class Pki:
    def __init__(self, directory: Path) -> None:
        self.good = Authority(directory, "good")
        self.other = Authority(directory, "other")
        self.between = Authority(directory, "between", under=self.good)
        self.own = self.good.issue("writer", ["writer"], uses=[CLIENT])
        self.files = Files(self.good.ca, self.own)

    def cell(self, pair: Pair, *, files: Files | None = None) -> Cell:
        return Cell(files or self.files, context(pair))


def no_cert(pki: Pki) -> Cell:
    """Of ours, for a server that wants one."""
    asking = context(pki.good.issue("server"), ca=pki.good.ca, ask=True)
    return Cell(Files(pki.good.ca, None), asking)


def old_tls(version: ssl.TLSVersion) -> Callable[[Pki], Cell]:
    return lambda pki: Cell(pki.files, context(pki.good.issue("server"), version=version))


CASES: dict[str, Callable[[Pki], Cell]] = {
    "no certificate": no_cert,
    "wrong authority": lambda pki: pki.cell(pki.other.issue("server")),
    "expired": lambda pki: pki.cell(pki.good.issue("server", days=(-9, -1))),
    "not yet valid": lambda pki: pki.cell(pki.good.issue("server", days=(1, 9))),
    "wrong SAN": lambda pki: pki.cell(pki.good.issue("server", ["127.0.0.2", "localhost"])),
    "wrong CN: right there, wrong as a SAN": lambda pki: pki.cell(
        pki.good.issue(HOST, ["elsewhere"])
    ),
    "self-signed": lambda pki: pki.cell(pki.good.issue("server", itself=True)),
    "plaintext": lambda pki: Cell(pki.files, None),
    "TLS 1.0": old_tls(ssl.TLSVersion.TLSv1),
    "TLS 1.1": old_tls(ssl.TLSVersion.TLSv1_1),
    "rotated: ours is new, the server's old": lambda pki: pki.cell(
        pki.good.issue("server"), files=Files(pki.other.ca, pki.own)
    ),
    "key mismatch": lambda pki: pki.cell(
        pki.good.issue("server"),
        files=Files(pki.good.ca, Pair(pki.own.cert, pki.good.issue("writer").key)),
    ),
    "chain cut": lambda pki: pki.cell(pki.between.issue("server")),
    "a client's as a server's": lambda pki: pki.cell(pki.good.issue("server", uses=[CLIENT])),
}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


async def ended(protocol: str, cell: Cell) -> TidelogError | None:
    with serving(protocol, cell.server) as port:
        try:
            return await DIALS[protocol](port, cell.files)
        except TidelogError as error:
            return error


@pytest.mark.parametrize("protocol", DIALS)
@pytest.mark.parametrize("case", CASES)
def test_who_does_not_prove_it_is_refused(pki: Pki, case: str, protocol: str) -> None:
    error = asyncio.run(ended(protocol, CASES[case](pki)))
    assert error is not None
    if case == "no certificate" and isinstance(error, Unavailable):
        # The server says no after the handshake and hangs up, which may overtake what it said.
        assert protocol != "grpc" or error.hint
        return
    assert type(error) is (ConfigError if case == "key mismatch" else REFUSED[protocol]), repr(
        error
    )
    assert error.hint, repr(error)


def test_who_proves_it_is_not(pki: Pki) -> None:
    """Or all of the above could be refused for another reason; a Pump's and a database's own tests
    have it for the others."""
    good = pki.cell(pki.good.issue("server"))
    assert asyncio.run(ended("nats", good)) is None
    assert asyncio.run(ended("https", good)) is None


def test_without_files_the_machine_s_own_authorities_vouch_for_a_status_address(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = Cell(Files("", None), context(pki.good.issue("server")))
    assert isinstance(asyncio.run(ended("https", unknown)), Unavailable)
    monkeypatch.setenv("SSL_CERT_FILE", pki.good.ca)
    assert asyncio.run(ended("https", unknown)) is None


def test_a_status_address_may_prove_a_name_instead_of_its_address(pki: Pki) -> None:
    async def asked(name: str) -> None:
        tls = TlsFiles(
            ssl_ca=pki.good.ca,
            ssl_cert=pki.own.cert,
            ssl_key=pki.own.key,
            cert_allowed_cn=(name,),
        )
        with serving("https", context(pki.good.issue("tidb", ["tidb"]))) as port:
            async for _ in open_history(f"https://{HOST}:{port}", None, "", tls).jobs(0):
                pass

    asyncio.run(asked("tidb"))
    with pytest.raises(Unavailable, match="tikv"):
        asyncio.run(asked("tikv"))


def test_files_that_are_renewed_one_after_the_other_are_read_until_they_fit(
    pki: Pki, tmp_path: Path
) -> None:
    own = Pair(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    address = [""]

    def give(pair: Pair, *, whole: bool = True) -> None:
        Path(own.cert).write_bytes(Path(pair.cert).read_bytes())
        if whole:
            Path(own.key).write_bytes(Path(pair.key).read_bytes())

    async def scenario() -> None:
        tls = TlsFiles(ssl_ca=pki.good.ca, ssl_cert=own.cert, ssl_key=own.key)
        way = GrpcWay("pump-1", lambda: address[0], 0, tls)
        rpc = GrpcRpc(tls)
        with serving("grpc", pki.cell(pki.good.issue("server")).server) as port:
            address[0] = f"{HOST}:{port}"
            before = await way.write([b""], 5.0)
            give(pki.good.issue("writer"), whole=False)
            address[0] = f"localhost:{port}"
            for one in (way, GrpcWay("pump-2", lambda: address[0], 0, tls)):
                with pytest.raises(NotSent):
                    await one.write([b""], 5.0)
            with pytest.raises(RpcFailed):
                await rpc.call(address[0], "/s.Service/Call", b"", timeout_s=5)
            give(pki.good.issue("writer"))
            address[0] = f"{HOST}:{port}"
            assert [type(one) for one in await way.write([b""], 5.0)] == [type(before[0])]
        await way.close()
        await rpc.close()

    give(pki.good.issue("writer"))
    asyncio.run(scenario())

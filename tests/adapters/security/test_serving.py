"""Who does not prove who it is gets into no server of ours: 14 ways to fail x a Pump's gRPC, and
NATS with the configuration that our commands make.

NATS looks at who signed a certificate, not at the names in it: an identity is its key. So its cells
of wrong names are a good certificate with a key that nobody made, and with none.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import nkeys
import pytest

from tests.adapters.security.fake_server import only
from tests.adapters.security.pki import CLIENT, HOST, SERVER, Authority, Pair
from tests.processes import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import ConfigError, Forbidden, TidelogError, Unavailable, Untrusted
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.real.nats_server import server_binary
from tidelog.security.tls import TlsFiles
from tidelog_cli import keys
from tidelog_cli.cert_files import nats_block
from tidelog_proto.pump_pb2 import WriteBinlogResp
from tidelog_pump.edges.grpc_status import status_code, trailing
from tidelog_pump.edges.grpc_tls import check_caller, server_credentials

NAMES, VERSIONS = ("wrong SAN", "wrong CN"), ("TLS 1.0", "TLS 1.1")
CASES = (
    *("no certificate", "wrong authority", "expired", "not yet valid", *NAMES, "self-signed"),
    *("plaintext", *VERSIONS, "rotated", "key mismatch", "chain cut", "a server's as a client's"),
)
OLD = {"TLS 1.0": ssl.TLSVersion.TLSv1, "TLS 1.1": ssl.TLSVersion.TLSv1_1}
Context = grpc.aio.ServicerContext[bytes, bytes]


class Pki:
    """Of a server in `directory`, as `tidelog certs` lays it out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.good = Authority(directory, "good")
        self.other = Authority(directory, "other")
        self.between = Authority(directory, "between", under=self.good)
        self.trust(self.good)
        (directory / "nats").mkdir(exist_ok=True)
        server = self.good.issue("server", uses=[SERVER])
        shutil.copy(server.cert, directory / "nats" / "cert.pem")
        shutil.copy(server.key, directory / "nats" / "key.pem")

    def trust(self, authority: Authority) -> None:
        """The server does, from now on."""
        shutil.copy(authority.ca, self.directory / "ca.pem")

    def files(self, *allowed: str) -> TlsFiles:
        own = self.directory / "nats"
        return TlsFiles(
            ssl_ca=str(self.directory / "ca.pem"),
            ssl_cert=str(own / "cert.pem"),
            ssl_key=str(own / "key.pem"),
            cert_allowed_cn=allowed,
        )

    def caller(self, case: str) -> Pair | None:
        """Its certificate."""
        good, names = self.good, ["writer"]
        match case:
            case "no certificate":
                return None
            case "wrong authority":
                return self.other.issue("writer", names, uses=[CLIENT])
            case "expired":
                return good.issue("writer", names, uses=[CLIENT], days=(-9, -1))
            case "not yet valid":
                return good.issue("writer", names, uses=[CLIENT], days=(1, 9))
            case "wrong SAN":
                return good.issue("elsewhere", ["writer.example", "a.writer"], uses=[CLIENT])
            case "wrong CN":
                return good.issue("writer-2", ["elsewhere"], uses=[CLIENT])
            case "self-signed":
                return good.issue("writer", names, uses=[CLIENT], itself=True)
            case "chain cut":
                return self.between.issue("writer", names, uses=[CLIENT])
            case "a server's as a client's":
                return good.issue("writer", names, uses=[SERVER])
        return good.issue("writer", names, uses=[CLIENT])


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def client_context(pki: Pki, own: Pair | None, case: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pki.good.ca)
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    if case in OLD:
        only(context, OLD[case])
    return context


# -- a Pump's gRPC --------------------------------------------------------------------------------


@asynccontextmanager
async def pump(files: TlsFiles) -> AsyncIterator[int]:
    """Its port. The edge's credentials and its look at the caller, without what lies behind."""

    async def write(_: bytes, context: Context) -> bytes:
        try:
            check_caller(context.auth_context(), files.cert_allowed_cn)
        except Forbidden as error:
            context.set_code(status_code(error))
            context.set_details(str(error))
            context.set_trailing_metadata(trailing(error))
        return WriteBinlogResp().SerializeToString()

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(write)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("binlog.Pump", {"WriteBinlog": handler}),)
    )
    port = server.add_secure_port(f"{HOST}:0", server_credentials(files))
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def call(port: int, pki: Pki, own: Pair | None, *, plain: bool = False) -> object:
    """None: it was taken."""
    named = own or Pair("", "")
    tls = TlsFiles(ssl_ca=pki.good.ca, ssl_cert=named.cert, ssl_key=named.key)
    way = GrpcWay("pump-1", lambda: f"{HOST}:{port}", 0, TlsFiles() if plain else tls)
    try:
        return (await way.write([b""], 5.0))[0]
    finally:
        await way.close()


async def call_by(port: int, context: ssl.SSLContext) -> object:
    """Nothing but the handshake."""
    try:
        _, writer = await asyncio.open_connection(HOST, port, ssl=context)
    except OSError as error:  # an alert, or it hung up
        return error
    writer.close()
    return None


async def refused_by_pump(pki: Pki, case: str) -> object:
    async with pump(pki.files("writer")) as port:
        own = pki.caller(case)
        if case in OLD:
            return await call_by(port, client_context(pki, own, case))
        if case == "rotated":
            assert await call(port, pki, own) is None
            pki.trust(pki.other)
        try:
            return await call(port, pki, own, plain=case == "plaintext")
        finally:
            pki.trust(pki.good)


@pytest.mark.parametrize("case", CASES)
def test_a_pump_takes_nothing_from_who_does_not_prove_who_it_is(pki: Pki, case: str) -> None:
    if case == "key mismatch":
        wrong = pki.good.issue("server").key
        files = TlsFiles(ssl_cert=pki.files().ssl_cert, ssl_key=wrong)
        with pytest.raises(ConfigError, match="key values mismatch"):
            server_credentials(files)
        return
    refused = asyncio.run(refused_by_pump(pki, case))
    if case in NAMES:
        assert isinstance(refused, Forbidden)
        assert "cert-allowed-cn" in str(refused)
    elif case in OLD:
        assert isinstance(refused, OSError)
    elif case == "plaintext":
        assert isinstance(refused, TidelogError)
    else:
        # TLS 1.3: for the caller the handshake was over, and gRPC tells it no alert.
        assert isinstance(refused, Untrusted | Unavailable), refused
        assert "ssl-cert" in refused.hint


@pytest.mark.parametrize("by", ["CN", "SAN"])
def test_a_pump_takes_it_from_who_has_a_name_that_is_allowed(pki: Pki, by: str) -> None:
    cn, names = ("writer", ["elsewhere"]) if by == "CN" else ("elsewhere", ["writer"])

    async def called() -> object:
        async with pump(pki.files("another", "writer")) as port:
            return await call(port, pki, pki.good.issue(cn, names, uses=[CLIENT]))

    assert asyncio.run(called()) is None


def test_a_pump_goes_on_with_new_certificates(pki: Pki) -> None:
    """Server's and authority's are replaced under a server that runs."""

    async def called() -> object:
        async with pump(pki.files("writer")) as port:
            assert await call(port, pki, pki.caller("good")) is None
            pki.trust(pki.other)
            try:
                return await call(port, pki, pki.other.issue("writer", uses=[CLIENT]))
            finally:
                pki.trust(pki.good)

    assert asyncio.run(called()) is None


# -- NATS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nats(pki: Pki) -> Iterator[NatsServer]:
    asyncio.run(keys.make(pki.directory, "default"))
    more = keys.auth_file(pki.directory).read_text() + nats_block(pki.directory)
    with nats_server(pki.directory / "server", more=more) as running:
        yield running


async def connect(port: int, tls: ssl.SSLContext | None, seed: bytes | None) -> str:
    """`PONG` if it was let in; else what it was refused by."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        nonce = json.loads((await reader.readline())[5:])["nonce"]
        if tls is not None:
            await writer.start_tls(tls, server_hostname=HOST)
        about: dict[str, object] = {"verbose": False}
        if seed is not None:
            pair = nkeys.from_seed(bytearray(seed))
            about["nkey"] = pair.public_key.decode()
            about["sig"] = base64.b64encode(pair.sign(nonce.encode())).decode()
        writer.write(b"CONNECT " + json.dumps(about).encode() + b"\r\nPING\r\n")
        return (await reader.readline()).decode().strip() or "hung up"
    except OSError as error:
        return type(error).__name__
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def asked(nats: NatsServer, pki: Pki, case: str) -> str:
    seed: bytes | None = Path(keys.seed_file(pki.directory, "writer")).read_bytes().strip()
    own = pki.caller("good" if case in NAMES else case)
    if case == "wrong SAN":
        seed = nkeys.encode_seed(b"\2" * 32, nkeys.PREFIX_BYTE_USER)
    elif case == "wrong CN":
        seed = None
    tls = None if case == "plaintext" else client_context(pki, own, case)
    return asyncio.run(connect(nats.port, tls, seed))


def reload(nats: NatsServer) -> None:
    """Returns when it has: it says so in its log."""
    done = nats.log.read_text().count("Reloaded server configuration")
    os.kill(nats.pid, signal.SIGHUP)
    until(lambda: nats.log.read_text().count("Reloaded server configuration") > done, str, 10)


@pytest.mark.parametrize("case", CASES)
def test_nats_lets_nobody_in_who_does_not_prove_who_it_is(
    nats: NatsServer, pki: Pki, case: str
) -> None:
    assert asked(nats, pki, "good") == "PONG"
    if case == "key mismatch":
        broken = pki.directory / "broken.conf"
        wrong = nats_block(pki.directory).replace(
            "nats/key.pem", Path(pki.other.issue("x").key).name
        )
        broken.write_text(wrong)
        command = [server_binary(), "-t", "-c", str(broken)]
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
        assert done.returncode != 0
        assert b"private key does not match" in done.stderr
    elif case == "rotated":
        pki.trust(pki.other)
        reload(nats)
        try:
            assert asked(nats, pki, case) != "PONG"
        finally:
            pki.trust(pki.good)
            reload(nats)
    else:
        refused = asked(nats, pki, case)
        assert refused != "PONG"
        if case in NAMES:
            assert refused == "-ERR 'Authorization Violation'"

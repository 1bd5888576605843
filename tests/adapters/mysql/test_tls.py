"""TLS to a real MariaDB that wants it, with a private authority."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from tests.adapters.mysql.authority import Authority
from tests.conditions import until
from tests.servers import MariaDb, mariadb_server
from tidelog.downstreams.mysql_connection import MysqlConnection
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, Unavailable
from tidelog_cli.verify.mysql_side import MysqlSide
from tidelog_cli.verify.place import Place


class Secured:
    """A MariaDB with require_secure_transport, which its accounts reach at `127.0.0.1` only."""

    def __init__(self, directory: Path, server: MariaDb, authority: Authority) -> None:
        self.directory = directory
        self.server = server
        self.authority = authority

    def url(self, options: str = "", user: str = "plain:secret", host: str = "127.0.0.1") -> str:
        return f"mysql://{user}@{host}:{self.server.port}/?{options or 'tls=off'}"

    @property
    def ca(self) -> str:
        return f"tls-ca={self.authority.ca}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory / "ca")
    cert, key = authority.issue("server", "IP:127.0.0.1")
    options = (
        "--require-secure-transport=1",
        f"--ssl-ca={authority.ca}",
        f"--ssl-cert={cert}",
        f"--ssl-key={key}",
    )
    with mariadb_server(directory, *options) as server:
        connection = pymysql.connect(unix_socket=str(server.socket), user="root")
        with connection.cursor() as cursor:
            cursor.execute("CREATE USER plain@'%' IDENTIFIED BY 'secret'")
            cursor.execute("CREATE USER certain@'%' IDENTIFIED BY 'secret' REQUIRE X509")
            cursor.execute("CREATE USER accented@'%' IDENTIFIED BY 'sécrét'")
        connection.close()
        yield Secured(directory, server, authority)


async def cipher(url: str) -> str:
    session = await MysqlSession.connect(Target.parse(url))
    try:
        return str((await session.rows("SHOW STATUS LIKE 'Ssl_version'"))[0][1])
    finally:
        await session.close()


def refused(url: str) -> str:
    with pytest.raises(ConfigError) as caught:
        asyncio.run(cipher(url))
    assert caught.value.hint
    assert "secret" not in str(caught.value)
    return str(caught.value)


def test_the_server_is_checked_against_the_authority(secured: Secured) -> None:
    assert asyncio.run(cipher(secured.url(secured.ca))).startswith("TLSv1.")


def test_without_tls_the_operator_is_told_to_turn_it_on(secured: Secured) -> None:
    assert "add ?tls=on" in refused(secured.url())


def test_an_unknown_authority_and_another_host_name_are_refused(
    secured: Secured, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "others").ca
    assert "tls_ca" in refused(secured.url(f"tls-ca={other}"))
    assert "tls_ca" in refused(secured.url("tls=on"))
    assert "name" in refused(secured.url(secured.ca, host="localhost"))


def test_less_may_be_verified_if_the_url_says_so(secured: Secured) -> None:
    by_name = secured.url(f"{secured.ca}&tls-verify=ca", host="localhost")
    for url in (by_name, secured.url("tls-verify=none")):
        assert asyncio.run(cipher(url)).startswith("TLSv1.")


def test_an_account_that_wants_a_certificate_gets_ours(secured: Secured) -> None:
    cert, key = secured.authority.issue("client", "DNS:client")
    ours = f"{secured.ca}&tls-cert={cert}&tls-key={key}"
    url = secured.url(ours, user="certain:secret")
    assert asyncio.run(cipher(url)).startswith("TLSv1.")
    assert "certificate" in refused(secured.url(secured.ca, user="certain:secret"))


def test_a_server_that_stands_still_is_not_waited_for_at_the_end(secured: Secured) -> None:
    """It would have to say goodbye first."""

    async def main() -> None:
        session = await MysqlSession.connect(Target.parse(secured.url(secured.ca)))
        os.kill(secured.server.pid, signal.SIGSTOP)
        try:
            await session.close()
        finally:
            os.kill(secured.server.pid, signal.SIGCONT)
        assert session.closed

    asyncio.run(main())


def test_a_query_that_is_cancelled_leaves_no_socket(secured: Secured) -> None:
    """The server would say goodbye once it has answered."""

    async def main() -> None:
        session = await MysqlSession.connect(Target.parse(secured.url(secured.ca)))
        link = session._connection._writer.transport.get_extra_info("socket")
        asking = asyncio.create_task(session.run("SELECT SLEEP(60)"))
        await until(lambda: session._connection._reader._waiter is not None)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        await until(lambda: link.fileno() == -1)

    asyncio.run(main())


def test_a_password_beyond_latin1_is_sent_as_it_is(secured: Secured) -> None:
    url = secured.url(secured.ca, user="accented:s%C3%A9cr%C3%A9t")
    assert asyncio.run(cipher(url)).startswith("TLSv1.")


def test_a_comparison_asks_by_the_same_url(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sécrét\n")
    given = f"{secured.ca}&password_file={tmp_path / 'password'}"

    async def scenario(options: str) -> None:
        place = Place.parse(secured.url(options, user="accented"), "source")
        side = await MysqlSide.connect(place, "tidb_binlog.checkpoint")
        link = side._connection._writer.transport.get_extra_info("socket")
        await side.close()
        assert link.fileno() == -1, "the socket would outlive the loop"

    asyncio.run(scenario(given))
    with pytest.raises(ConfigError, match="does not let us in"):
        asyncio.run(scenario(f"password_file={tmp_path / 'password'}"))
    other = Authority(tmp_path / "other")
    with pytest.raises(ConfigError) as refused:
        asyncio.run(scenario(f"tls-ca={other.ca}&password_file={tmp_path / 'password'}"))
    assert "who signed" in refused.value.hint


def test_files_that_are_none_are_named(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    for name in ("text.pem", "missing.pem"):
        assert name in refused(secured.url(f"tls-ca={tmp_path / name}"))


def test_a_server_that_offers_no_tls_gets_nothing(tmp_path: Path) -> None:
    with mariadb_server(tmp_path, "--skip-ssl") as server:
        url = f"mysql://root:secret@127.0.0.1:{server.port}/?tls=on&tls-verify=none"
        assert "offers no TLS" in refused(url)


def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up() -> None:
    async def scenario() -> None:
        left = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            left.set()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(Unavailable, match="is the downstream running"):
                await cipher(f"mysql://root@127.0.0.1:{port}/?connect_timeout=1")
            await left.wait()

    asyncio.run(scenario())


def test_a_plugin_that_needs_tls_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL 8's caching_sha2_password in the clear, which the driver can't without a package."""

    async def connect(self: MysqlConnection) -> None:
        raise RuntimeError("'cryptography' package is required")

    monkeypatch.setattr(MysqlConnection, "_connect", connect)
    assert "add ?tls=on" in refused("mysql://root:secret@127.0.0.1:1/")

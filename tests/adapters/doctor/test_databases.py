"""What `tidelog doctor` says of a real MariaDB as downstream and as source."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import MariaDb, free_port, mariadb_server
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, Unavailable
from tidelog.real.clock import RealClock
from tidelog_cli.doctor import downstream, source
from tidelog_cli.doctor.finding import OK, UNKNOWN, WARNING, WRONG, Finding
from tidelog_cli.doctor.ring import Loop

OURS = [Loop("drainer", 1, "retl")]
SCHEMA = """
CREATE DATABASE shop;
CREATE TABLE shop.fine (id INT PRIMARY KEY, n INT NOT NULL UNIQUE);
CREATE TABLE shop.keyless (id INT);
CREATE TABLE shop.nullable (a INT, b INT NOT NULL, UNIQUE (a), UNIQUE (a, b));
CREATE TABLE shop.child (id INT PRIMARY KEY, f INT, FOREIGN KEY (f) REFERENCES shop.fine (id)
 ON DELETE CASCADE);
CREATE TABLE shop.other (id INT PRIMARY KEY, f INT, FOREIGN KEY (f) REFERENCES shop.fine (id));
CREATE TRIGGER shop.seen BEFORE INSERT ON shop.fine FOR EACH ROW SET NEW.n = 1;
CREATE SEQUENCE shop.numbers;
CREATE DATABASE retl;
CREATE TABLE retl._drainer_repl_mark (id BIGINT, channel_id BIGINT, PRIMARY KEY (id, channel_id));
CREATE USER little IDENTIFIED BY 'canary';
GRANT SELECT ON shop.* TO little;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("db"), "--max-allowed-packet=1M") as found:
        yield found


def sql(server: MariaDb, text: str) -> None:
    argv = ["mariadb", f"--socket={server.socket}", "--user=root", "--batch"]
    subprocess.run(argv, input=text, text=True, check=True, capture_output=True)


def url(server: MariaDb, user: str = "root") -> Target:
    return Target.parse(f"mysql://{user}@127.0.0.1:{server.port}/")


def below(server: MariaDb, user: str = "root") -> dict[str, Finding]:
    now_ms = RealClock().wall_ms()
    found = asyncio.run(downstream.check_downstream(url(server, user), now_ms, OURS))
    return {_place(f): f for f in reversed(found)}


def above(server: MariaDb) -> dict[str, Finding]:
    found = asyncio.run(source.check_source(url(server), RealClock().wall_ms(), OURS))
    return {_place(f): f for f in reversed(found)}


def _place(finding: Finding) -> str:
    return f"{finding.check} {finding.about.split(' ')[0].split(':')[0]}"


def test_an_empty_server_is_fine_but_for_its_small_packets(server: MariaDb) -> None:
    found = below(server)
    assert {place: f.verdict for place, f in found.items()} == {
        "downstream mysql": OK,
        "downstream max_allowed_packet": WARNING,
        "clock mysql": OK,
        "downstream rights": OK,
        "tables mysql": OK,
        "loopback mysql": OK,
    }
    sql(server, "SET GLOBAL max_allowed_packet = 64 * 1024 * 1024")
    assert below(server)["downstream max_allowed_packet"].verdict == OK


def test_tables_rights_and_marks_are_looked_at(server: MariaDb) -> None:
    sql(server, SCHEMA + "INSERT INTO retl._drainer_repl_mark VALUES (0, 1), (1, 1);")
    down, up = below(server), above(server)
    slow = down["tables mysql"]
    assert slow.verdict == WARNING
    assert "shop.fine, shop.child:" in slow.says  # the one has a trigger, the other a cascade
    assert "shop.keyless, shop.nullable;" in up["tables mysql"].says
    assert up["source mysql"].verdict == UNKNOWN  # it is no TiDB
    assert down["loopback mysql"].verdict == up["loopback mysql"].verdict == OK
    sql(server, "INSERT INTO retl._drainer_repl_mark VALUES (0, 2)")
    assert below(server)["loopback mysql"].verdict == WRONG
    assert above(server)["loopback mysql"].verdict == WRONG
    little = below(server, "little:canary")
    assert little["downstream rights"].verdict == WRONG
    assert little["loopback mysql"].verdict == UNKNOWN


def test_who_is_not_let_in_is_told_without_the_password(server: MariaDb) -> None:
    with pytest.raises(ConfigError) as refused:
        below(server, "nobody:canary")
    assert "canary" not in f"{refused.value} {refused.value.hint}"
    silent = Target.parse(f"mysql://root:canary@127.0.0.1:{free_port()}/")
    with pytest.raises(Unavailable) as absent:
        asyncio.run(downstream.check_downstream(silent, 0, []))
    assert "canary" not in str(absent.value)


def test_files_and_sqlite_are_looked_at_where_they_are(tmp_path: Path) -> None:
    def verdict(target: str) -> str:
        (finding,) = asyncio.run(downstream.check_downstream(Target.parse(target), 0, []))
        return finding.verdict

    assert verdict(f"sqlite:///{tmp_path}/copy.db") == OK
    assert verdict(f"sqlite:///{tmp_path}/not/there/copy.db") == WRONG
    assert verdict(f"file://{tmp_path}") == verdict("blackhole:") == OK
    with pytest.raises(ConfigError):
        asyncio.run(source.check_source(Target.parse("blackhole:"), 0, []))

"""Each check of `tidelog doctor` says ok where all is well, and what is wrong where it is not."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.errors import BadInput, Forbidden, Refused, TidelogError, Unavailable
from tidelog.messages import APPLIER, DRAINER, OFFLINE, PAUSED, PUMP, Consumer, Nodes, NodeStatus
from tidelog.timestamps import TS_MAX, compose
from tidelog_cli.doctor import (
    clocks,
    config_files,
    downstream,
    identity,
    nats_server,
    nodes,
    ring,
    services,
    source,
    streams,
)
from tidelog_cli.doctor.databases import Database, Tables
from tidelog_cli.doctor.finding import OK, UNKNOWN, WARNING, WRONG, Finding, found
from tidelog_cli.doctor.ring import Loop
from tidelog_cli.doctor.server_edge import Greeting, JetStream, monitoring_url
from tidelog_cli.doctor.services import Told
from tidelog_cli.doctor.streams import Stream

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
UP: dict[str, Any] = {"state": "online", "isAlive": True}
ALL = "GRANT ALL PRIVILEGES ON *.* TO `a`@`%`"
SOME = "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON {} TO `a`@`%`"


def worst(findings: list[Finding]) -> str:
    return found(findings).findings[0].verdict if findings else OK


def pump(**more: Any) -> NodeStatus:
    return NodeStatus(nodeId="p1", kind=PUMP, **(UP | more))


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("2.12.3", OK), ("2.15.1", OK), ("2.12.2", WRONG), ("2.9.10", WRONG), ("dev", UNKNOWN)],
)
def test_the_servers_version(version: str, verdict: str) -> None:
    assert nats_server.version(Greeting(version)).verdict == verdict


def test_jetstream_and_its_sync() -> None:
    assert nats_server.jetstream_on(Greeting("2.15.1", jetstream=True)).verdict == OK
    assert nats_server.jetstream_on(Greeting("2.15.1")).verdict == WRONG
    assert nats_server.sync(JetStream(sync_always=True)).verdict == OK
    lazy = nats_server.sync(JetStream(sync_interval=120_000_000_000))
    assert (lazy.verdict, "120 s" in lazy.says) == (WRONG, True)
    assert nats_server.sync(None).verdict == WRONG


@pytest.mark.parametrize(
    ("ahead_s", "verdict"), [(0, OK), (-4, OK), (6, WARNING), (61, WRONG), (-61, WRONG)]
)
def test_a_clock(ahead_s: int, verdict: str) -> None:
    assert clocks.skew("x", NOW_MS + 1000 * ahead_s, NOW_MS).verdict == verdict


@pytest.mark.parametrize(
    ("node", "verdict"),
    [
        (pump(), OK),
        (pump(state=PAUSED), WARNING),
        (pump(isAlive=False), WRONG),
        (pump(state=OFFLINE, isAlive=False), OK),
        (pump(detail={"error": "no way (mend it)"}), WRONG),
        (pump(detail={"missing": "Commit 7 is missing"}), WRONG),
        (pump(detail={"retention": "x is behind"}), WARNING),
        (pump(state=OFFLINE, detail={"error": "old"}), OK),
        (NodeStatus(nodeId="d", kind=DRAINER, detail={"standby": "for d1"}, **UP), OK),
    ],
)
def test_a_node(node: NodeStatus, verdict: str) -> None:
    assert worst(nodes.of_node(node, inf)) == verdict


@pytest.mark.parametrize(
    ("what", "age_s", "verdict"),
    [
        ("oracle", 3, OK),
        ("oracle", services.YOUNG_S, WARNING),
        ("oracle", inf, WARNING),
        ("waiting", 3, OK),
        ("error", 3, WRONG),
        ("retention", 3, WARNING),
    ],
)
def test_what_a_node_that_has_just_begun_waits_for(what: str, age_s: float, verdict: str) -> None:
    (one,) = nodes.of_node(pump(detail={what: "no answer"}), age_s)
    assert (one.verdict, "no answer" in one.says) == (verdict, True)
    assert ("it began 3 s ago" in one.says) == (verdict == OK)


def test_positions_that_are_not_known_yet_are_a_word_and_no_complaint() -> None:
    kinds = ((PUMP, ""), (DRAINER, "main"), (APPLIER, "main"), (APPLIER, "audit"))
    here = [
        NodeStatus(nodeId=f"{kind}-{feed}", kind=kind, feed=feed, http=f"{kind}{feed}:1", **UP)
        for kind, feed in kinds
    ]
    young = {node.http: 4.0 for node in here}
    (one,) = nodes.positions(Nodes(here), "main", young)
    says = "not known yet: resolved, published, applied; 4 s ago the nodes began that tell it"
    assert (one.verdict, one.says) == (OK, says)
    read = [*here[1:], msgspec.structs.replace(here[0], resolvedTS=7)]
    (one,) = nodes.positions(Nodes(read), "main", young)
    assert one.says.startswith("not known yet: published, applied;")
    assert nodes.positions(Nodes(here), "main", {}) == []
    assert nodes.positions(Nodes(here[:1]), "main", dict.fromkeys(young, 60.0)) == []
    assert nodes.positions(Nodes([]), "main", young) == []


def test_an_error_brings_its_own_hint() -> None:
    (one,) = nodes.of_node(pump(detail={"error": "no way (at all) (mend it)"}), inf)
    assert (one.says, one.hint) == ("no way (at all)", "mend it")


def test_who_takes_writes_and_who_publishes() -> None:
    drainer = NodeStatus(nodeId="d", kind=DRAINER, feed="main", **UP)
    assert worst(nodes.judge(Nodes([pump(), drainer]), "main", {})) == OK
    assert worst(nodes.judge(Nodes([pump()]), "main", {})) == WRONG
    assert worst(nodes.judge(Nodes([drainer]), "main", {})) == WRONG
    assert worst(nodes.judge(Nodes([pump(), drainer], settled=False), "main", {})) == WARNING
    assert nodes.unanswered(Unavailable("silence"), "c").verdict == WRONG
    applier = NodeStatus(nodeId="a", kind=APPLIER, feed="main", isAlive=True)
    assert [f.about for f in nodes.readers(Nodes([drainer, applier]), "main")] == [
        "drainers",
        "appliers",
    ]


@pytest.mark.parametrize(
    ("age_ms", "verdict"), [(60_000, OK), (2 * DAY_MS, OK), (4 * DAY_MS, WARNING)]
)
def test_who_holds_the_retention_back(age_ms: int, verdict: str) -> None:
    ts = compose(NOW_MS - age_ms)
    held = Nodes([], [Consumer("reports", "main", ts)], safe_point=ts)
    (one,) = nodes.retention(held, NOW_MS)
    assert one.verdict == verdict
    assert "reports of feed main" in one.says
    if verdict == WARNING:
        assert "tidelog feed unregister main reports" in one.hint
    assert worst(nodes.retention(Nodes([], safe_point=TS_MAX), NOW_MS)) == OK


def test_who_is_gone_is_let_go_by_a_command_that_does_so() -> None:
    """An Applier is no application: `feed unregister` refuses it, and so does the registry."""
    ts = compose(NOW_MS - 4 * DAY_MS)
    a1 = NodeStatus(nodeId="a1", kind=APPLIER, feed="main", isAlive=False)
    commands = {
        "a1": "`tidelog offline a1`",
        "drainer": "`tidelog offline NODE`",
        "reports": "`tidelog feed unregister main reports`",
    }
    for name, command in commands.items():
        held = Nodes([a1], [Consumer(name, "main", ts)], safe_point=ts)
        assert command in nodes.retention(held, NOW_MS)[0].hint
        if name != "drainer":
            assert command in streams.judge("main", Stream(first_ms=NOW_MS), held)[0].hint


@pytest.mark.parametrize(
    ("feed", "who", "ending"),
    [
        ("old", "for feed old", "`tidelog feed forget old`"),
        ("main=late", "for the replay of feed main for late", "by itself"),
    ],
)
def test_what_no_consumer_speaks_for_is_named_where_it_holds_the_retention_back(
    feed: str, who: str, ending: str
) -> None:
    """Whoever was named instead would be let go, and what it has not read deleted."""
    ts = compose(NOW_MS - 4 * DAY_MS)
    readers = [Consumer(name, "main", compose(NOW_MS)) for name in ("drainer", "billing")]
    held = Nodes([], readers, {feed: ts, "main": 7}, safe_point=ts)
    (one,) = nodes.retention(held, NOW_MS)
    assert (one.verdict, who in one.says, ending in one.hint) == (WARNING, True, True)
    assert not any(name in f"{one.says} {one.hint}" for name in ("billing", "offline"))


def test_what_this_identity_may_ask() -> None:
    def judged(error: TidelogError | None) -> str:
        return identity.judge(["JetStream"], {"JetStream": error} if error else {}).verdict

    assert judged(None) == OK
    assert judged(Refused("no")) == judged(Forbidden("no")) == WRONG
    assert judged(Unavailable("silence")) == judged(BadInput("a word of its own")) == UNKNOWN


def told(version: str = "1", **actors: Any) -> Told:
    return Told("p1", "http://p1", {"version": version, "ready": True, "actors": actors})


def test_versions_and_readiness() -> None:
    others = [told(), told()._replace(name="p2")]
    assert worst(services.versions(others)) == OK
    assert worst(services.versions([*others, told("2")._replace(name="p3")])) == WARNING
    assert worst(services.reached(told())) == OK
    assert worst(services.reached(Told("x", "u", {"ready": False, "why": "starting"}))) == WRONG
    assert worst(services.reached(Told("x", "u"))) == UNKNOWN


@pytest.mark.parametrize(
    ("began", "age_s"),
    [
        ("2027-01-15T08:00:00+00:00", 0),
        ("2027-01-15T07:59:51+00:00", 9),
        ("2027-01-15T08:00:04+00:00", 0),
        ("", inf),
        ("yesterday", inf),
        (None, inf),
    ],
)
def test_how_long_ago_a_service_began(began: str | None, age_s: float) -> None:
    status = {"ready": False, "why": "joining", "started": began}
    one = Told("p1", "http://p1:1", status, NOW_MS)
    assert services.ages_s([one]) == {"p1:1": age_s}
    (finding,) = services.reached(one)
    says = f"it is not ready: joining; it began {age_s:.0f} s ago"
    assert finding.verdict == WRONG
    assert (finding.says == says) == (age_s < inf)
    assert services.age_s(one._replace(date_ms=0)) == inf


@pytest.mark.parametrize(("free", "verdict"), [(201, OK), (199, WARNING), (99, WRONG)])
def test_space(free: int, verdict: str) -> None:
    assert worst(services.space(told(writer={"free": free, "kept_free": 100}))) == verdict


@pytest.mark.parametrize(("age_s", "verdict"), [(0, OK), (600, OK), (601, WRONG)])
def test_open_prewrites(age_s: float, verdict: str) -> None:
    oldest = {"start_ts": 77, "age_s": age_s}
    (one,) = services.open_prewrites(told(sorter={"open": 1, "oldest_open": oldest}))
    assert (one.verdict, "tidelog resolve 77" in one.hint) == (verdict, verdict == WRONG)
    assert worst(services.open_prewrites(told(sorter={"open": 0, "oldest_open": None}))) == OK


def test_readers_behind_are_named() -> None:
    assert services.purges(told(gc={"behind": {}})) == services.purges(told()) == []
    assert "consumer x" in services.purges(told(gc={"behind": {"consumer x": 5}}))[0].says


def test_where_services_are() -> None:
    known = {"drainer": "http://127.0.0.1:1"}
    here = [
        NodeStatus(nodeId="drainer-main", kind=DRAINER, http="127.0.0.1:1"),
        pump(http="10.0.0.2:8251"),
        NodeStatus(nodeId="p9", http="10.0.0.9:1", state=OFFLINE),
    ]
    at = services.addresses(Nodes(here), known)
    assert at == {"drainer": "http://127.0.0.1:1", "p1": "http://10.0.0.2:8251"}


@pytest.mark.parametrize(
    ("stream", "verdict"),
    [
        (Stream(), OK),
        (Stream(max_bytes=100, bytes=89), OK),
        (Stream(max_bytes=100, bytes=91), WARNING),
        (Stream(storage="memory"), WRONG),
        (Stream(first_ms=NOW_MS - 1), OK),
        (Stream(first_ms=NOW_MS + 1), WARNING),
    ],
)
def test_a_stream_and_its_readers(stream: Stream, verdict: str) -> None:
    readers = [Consumer("copy", "main", compose(NOW_MS)), Consumer("other", "b", compose(1))]
    findings = streams.judge(
        "main", stream, Nodes([], [*readers, Consumer("drainer", "main", compose(1))])
    )
    assert worst(findings) == verdict
    assert "not highly available" in findings[-1].says


@pytest.mark.parametrize(
    ("grants", "verdict"),
    [
        ([ALL], OK),
        ([SOME.format("*.*"), "GRANT CONNECTION ADMIN ON *.* TO `a`@`%`"], OK),
        ([SOME.format("*.*")], WARNING),
        ([SOME.format("`shop`.*"), "GRANT USAGE ON *.* TO `a`@`%`"], WARNING),
        (["GRANT SELECT ON *.* TO `a`@`%`"], WRONG),
        ([], WRONG),
    ],
)
def test_rights(grants: list[str], verdict: str) -> None:
    assert worst(downstream.rights("here", grants)) == verdict


def test_tables_that_are_slow_or_lack_something() -> None:
    assert worst(downstream.slow_tables("x", Tables())) == OK
    assert worst(source.eligible("x", Tables())) == OK
    for tables in (Tables(keyless=["a.b"]), Tables(cascades=["a.b"])):
        assert worst(downstream.slow_tables("x", tables)) == WARNING
        assert worst(source.eligible("x", tables)) == WARNING
    assert worst(downstream.slow_tables("x", Tables(triggers=["a.b"]))) == WARNING
    assert "a.s" in source.eligible("x", Tables(sequences=["a.s"]))[0].says


def test_what_the_server_does_not_tell_is_no_good_news() -> None:
    class Refusing:
        async def rows(self, sql: str) -> list[tuple[str, str]]:
            if "TRIGGERS" in sql:
                raise StatementRefused(1109, "Unknown table 'TRIGGERS'", sql)
            return []

    tables = asyncio.run(Database(cast(MysqlSession, Refusing()), "x").tables())
    for about in (downstream.slow_tables, source.eligible):
        (finding,) = about("x", tables)
        assert finding.verdict == UNKNOWN
        assert "triggers" in finding.says


def test_how_the_source_commits() -> None:
    tidb = "8.0.11-TiDB-v7.5.0"
    off = {source.ASYNC_COMMIT: 0, source.ONE_PHASE: "OFF"}
    assert worst(source.commits("x", tidb, off)) == OK
    (one,) = source.commits("x", tidb, off | {source.ASYNC_COMMIT: 1})
    assert (one.verdict, "SET GLOBAL tidb_enable_async_commit = OFF" in one.hint) == (WRONG, True)
    assert worst(source.commits("x", tidb, off | {source.ONE_PHASE: "ON"})) == WRONG
    assert worst(source.commits("x", "10.11-MariaDB", {})) == UNKNOWN
    assert worst(source.binlog("x", tidb, 1)) == OK
    assert worst(source.binlog("x", tidb, 0)) == WRONG
    assert source.binlog("x", "10.11-MariaDB", 0) == []


def test_a_ring_of_three_is_refused() -> None:
    ours = [Loop("drainer", 1, "retl")]
    assert worst(ring.marks("db", [], [], "retl")) == OK
    assert worst(ring.marks("db", [1], ours, "retl")) == OK
    assert worst(ring.marks("db", [1, 2], ours, "retl")) == WRONG
    assert worst(ring.marks("db", [2], ours, "retl")) == WRONG
    assert worst(ring.marks("db", [2], [], "retl")) == WARNING
    assert worst(ring.marks("db", None, ours, "retl")) == UNKNOWN


def test_both_sides_of_a_loop_have_one_channel() -> None:
    def service(name: str, **config: Any) -> Told:
        return Told(name, "u", {"config": config, "actors": {}})

    loop = {"loopback-control": True, "channel-id": 1}
    two = [service("drainer", **loop), service("applier", **loop), service("pump")]
    assert [one.service for one in ring.loops(two)] == ["drainer", "applier"]
    assert worst(ring.directions(ring.loops(two))) == OK
    other = service("applier", **loop | {"channel-id": 2})
    assert worst(ring.directions(ring.loops([two[0], other]))) == WRONG
    there = service("applier", **loop | {"mark-schema": "mine"})
    assert worst(ring.directions(ring.loops([two[0], there]))) == WRONG
    both = service("drainer", **loop | {"mark-schema": "Mine"})
    assert worst(ring.directions(ring.loops([both, there]))) == OK
    assert ring.directions([]) == []


@pytest.mark.parametrize(
    ("name", "text", "verdict"),
    [
        ("pump.toml", 'gc = "7"', OK),
        ("pump-1.toml", "gc_intervall = 7", WRONG),
        ("drainer.toml", "batch-messages = 0", WRONG),
        ("applier.toml", "no toml", WRONG),
        ("mine.toml", "", WRONG),
    ],
)
def test_a_configuration(tmp_path: Path, name: str, text: str, verdict: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert config_files.check(str(file)).verdict == verdict


def test_a_configuration_says_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('oracle = "follow"')
    assert config_files.check(f"registry={file}").verdict == OK

    def absent(service: str) -> Any:
        raise ModuleNotFoundError(f"no {service}", name=f"tidelog_{service}")

    monkeypatch.setattr(config_files, "class_of", absent)
    assert config_files.check(f"registry={file}").verdict == UNKNOWN


@pytest.mark.parametrize(
    ("given", "nats", "expected"),
    [
        ("h:1", "nats://a", "http://h:1"),
        ("https://h", "nats://a", "https://h"),
        ("", "nats://a:4222,nats://b", "http://a:8222"),
        ("", "a:4222", "http://a:8222"),
    ],
)
def test_where_the_server_is_watched(given: str, nats: str, expected: str, tmp_path: Path) -> None:
    assert monitoring_url(given, nats, tmp_path) == expected
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats/nats.conf").write_text('port: 1\nhttp: "127.0.0.1:77"\n')
    if not given:
        assert monitoring_url(given, nats, tmp_path) == "http://127.0.0.1:77"

"""Bad input where the user sees it: gRPC status, CLI, log with position (issue 3, "Bad input").

Each time: a clear typed error, everybody else is served, and nothing acked is lost."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.acceptance.status_api import status_api
from tests.acceptance.stream import commit_timestamps, read_stream
from tests.acceptance.writing import (
    CLUSTER_ID,
    Pump,
    Refusal,
    commit,
    now_ts,
    prewrite,
    pump_of,
    row,
)
from tests.fixtures.capture import ddl_history_json
from tests.processes import until
from tests.topology import Running, up
from tidelog import subjects
from tidelog.errors import TidelogError
from tidelog.messages import Empty, decode_reply
from tidelog.real.bus import NatsBus
from tidelog_proto.pump_pb2 import WriteBinlogReq
from tidelog_proto.transport_pb2 import PullFrame, PullRequest, WriteBatch, WriteBatchResult


@pytest.fixture(scope="module")
def history() -> Iterator[str]:
    with status_api(ddl_history_json("set-a")) as api:
        yield api


def options(history: str) -> tuple[str, ...]:
    return (
        *("--pumps", "2", "--oracle", "follow", "--ddl-history", history),
        *("--cluster-id", str(CLUSTER_ID)),
    )


@pytest.fixture(scope="module")
def town(history: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One topology for all that must not stop anybody; it ends with exit code 0."""
    home = tmp_path_factory.mktemp("town")
    with up(home / "top", f"sqlite:///{home / 'down.db'}", *options(history)) as running:
        yield running


def addresses(running: Running) -> dict[str, str]:
    found: dict[str, str] = json.loads((running.directory / "tidelog.json").read_text())["http"]
    return found


def service_status(running: Running, service: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{addresses(running)[service]}/status", timeout=5) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def told(running: Running) -> str:
    """What `up` has said on standard error."""
    return running.directory.with_suffix(".err").read_text()


def detail(running: Running, node: str) -> dict[str, str]:
    """What `tidelog status` says of a node."""
    nodes = {n["nodeId"]: n for n in running.status()["nodes"]}
    found: dict[str, str] = nodes[node]["detail"]
    return found


def arrives(running: Running, pump: Pump, number: int) -> None:
    """A right transaction goes all the way: the service goes on serving."""
    running.wait(pump.transaction(row(number)), 30)


def refused(pump: Pump, request: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        pump.raw(request)
    return caught.value


def test_a_foreign_cluster_id_is_refused_with_what_to_do(town: Running) -> None:
    with pump_of(town) as pump:
        foreign = WriteBinlogReq(clusterID=7, payload=prewrite(now_ts(), row(1)))
        refusal = refused(pump, foreign.SerializeToString())
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert f"cluster id 7, this Pump serves {CLUSTER_ID}" in refusal.details
        assert "Pumps of its own cluster" in refusal.details
        arrives(town, pump, 1)


START = 470615677666590734
UNPARSABLE = {
    "no protobuf": WriteBinlogReq(clusterID=CLUSTER_ID, payload=b"\xff\xfe garbage"),
    "cut": WriteBinlogReq(clusterID=CLUSTER_ID, payload=prewrite(START, row(1))[:-3]),
    "no timestamp": WriteBinlogReq(clusterID=CLUSTER_ID, payload=commit(0, 0)),
    "a commit_ts before its start_ts": WriteBinlogReq(
        clusterID=CLUSTER_ID, payload=commit(START, START - 1)
    ),
    "an obsolete type": WriteBinlogReq(clusterID=CLUSTER_ID, payload=b"\x08\x03\x10\x01"),
    "a fake of somebody else": WriteBinlogReq(
        clusterID=CLUSTER_ID, payload=b"\x08\x02\x10\x05\x18\x05"
    ),
}


@pytest.mark.parametrize("what", UNPARSABLE)
def test_an_unparsable_payload_is_refused(town: Running, what: str) -> None:
    with pump_of(town) as pump:
        refusal = refused(pump, UNPARSABLE[what].SerializeToString())
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.details
        arrives(town, pump, 2)


def test_a_request_that_is_none_is_refused(town: Running) -> None:
    with pump_of(town) as pump:
        for garbage in (b"\xff" * 40, b"\xff" * (100 << 10)):
            refusal = refused(pump, garbage)
            assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        arrives(town, pump, 3)


def test_a_commit_without_its_prewrite_is_counted_and_shown(town: Running) -> None:
    with pump_of(town, 1) as pump:
        start_ts, commit_ts = now_ts(), now_ts()
        pump.write(commit(start_ts, commit_ts))
        arrives(town, pump, 4)
        until(lambda: "unpaired" in detail(town, "pump-2"), "the Pump to tell", 15)
        said = detail(town, "pump-2")["unpaired"]
        assert str(start_ts) in said
        assert "segment" in said
        shown = service_status(town, "pump-2")["actors"]["indexer"]
        assert shown["unpaired"] == 1
        assert shown["unpaired_commits"][0]["commit_ts"] == commit_ts
        seen = commit_timestamps(read_stream(town.nats, "main", commit_ts))
        assert commit_ts not in seen


# Control subjects: anybody who reaches NATS can write to them.

REGISTRY = (
    ("register", b"\xff"),
    ("register", b"{}"),
    ("register", b'{"status":{"nodeId":""}}'),
    ("register", b'{"status":{"nodeId":"x","kind":"bogus"}}'),
    ("register", b'{"status":{"nodeId":"x"},"cluster_id":1}'),
    ("heartbeat", b'{"status":7}'),
    ("nodes", b"not json"),
    ("state", b'{"node":"nobody","action":"pause"}'),
    ("state", b'{"node":"pump-1","action":"explode"}'),
    ("safepoint", b'{"consumer":{"name":"x"}}'),
    ("ddl-append", b'{"job":{"id":"x"}}'),
    ("ddl-list", b'{"limit":"x"}'),
)


async def _ask(nats: str, subject: str, body: bytes) -> bytes:
    bus = await NatsBus.connect(nats, name="test", timeout_s=10)
    try:
        return bytes((await bus.request(subject, body, timeout_s=5)).data)
    finally:
        await bus.close()


def ask(running: Running, subject: str, body: bytes) -> bytes:
    return asyncio.run(_ask(running.nats, subject, body))


def restarts(running: Running) -> dict[str, int]:
    """Of actors within each process, and of the processes."""
    names = ("registry", "pump-1", "pump-2", "drainer", "applier")
    found = {name: service_status(running, name) for name in names}
    return {n: s["restarts"] for n, s in found.items()} | {n: s["pid"] for n, s in found.items()}


@pytest.mark.parametrize(("verb", "body"), REGISTRY)
def test_the_registry_answers_a_malformed_request_with_an_error(
    town: Running, verb: str, body: bytes
) -> None:
    before = restarts(town)
    answer = ask(town, subjects.registry("default", verb), body)
    with pytest.raises(TidelogError) as caught:
        decode_reply(answer, Empty)
    assert caught.value.message
    assert restarts(town) == before


PULLS = (
    b"\xff\xff",
    PullRequest(after_ts=5, commit_ts=7, offset=3, max_bytes=100).SerializeToString(),
)


def test_a_pump_answers_malformed_requests_with_errors(town: Running) -> None:
    before = restarts(town)
    write = WriteBatchResult.FromString(ask(town, "tidelog.default.pump.pump-1.write", b"\xff\xff"))
    assert [r.code for r in write.results] == ["UnparsablePayload"]
    assert write.results[0].definite
    batch = WriteBatch(cluster_id=CLUSTER_ID, payloads=[b"junk", b""]).SerializeToString()
    mixed = WriteBatchResult.FromString(ask(town, "tidelog.default.pump.pump-1.write", batch))
    assert [r.code for r in mixed.results] == ["UnparsablePayload", ""]
    for pull in PULLS:
        frame = PullFrame.FromString(ask(town, "tidelog.default.pump.pump-1.pull", pull))
        assert frame.code
        assert frame.message
    for control in (b"\xff", b'{"verb":"dance"}', b'{"verb":"inspect","ts":"x"}'):
        with pytest.raises(TidelogError):
            decode_reply(ask(town, "tidelog.default.pump.pump-1.control", control), Empty)
    assert restarts(town) == before
    with pump_of(town) as pump:
        arrives(town, pump, 5)


def test_a_drainer_answers_a_malformed_notification_with_an_error(town: Running) -> None:
    before = restarts(town)
    for body in (b"\xff", b"{}", b'{"node":7}', b'{"node":""}'):
        with pytest.raises(TidelogError):
            decode_reply(ask(town, "tidelog.default.drainer.drainer.pump-online", body), Empty)
    assert restarts(town) == before
    with pump_of(town) as pump:
        arrives(town, pump, 6)


# What is acked and can't be decoded stops the feed, with its position.

UNDECODABLE = {
    "a truncated row": (row(9)[:6], 92, "inserted_rows[0]"),
    "an unknown column flag": (row(9).replace(b"\x02\x08kept", b"\xee\x08kept"), 92, "table 92"),
    "an unknown table id": (row(9), 999_999, "no table has id 999999"),
}


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=() if what == "an unknown table id" else pytest.mark.full)
        for what in UNDECODABLE
    ],
)
def test_the_feed_stops_at_what_it_cant_decode(what: str, history: str, tmp_path: Path) -> None:
    inserted, table_id, reason = UNDECODABLE[what]
    with up(tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}", *options(history)) as running:
        before = restarts(running)
        with pump_of(running) as pump:
            good = [pump.transaction(row(n)) for n in range(1, 5)]
            bad = pump.transaction(inserted, table_id)
            until(lambda: "error" in detail(running, "drainer"), "the Drainer to stop", 60)
            after = pump.transaction(row(8))  # Pumps still ack
        said = detail(running, "drainer")["error"]
        assert f"transaction {bad}" in said
        assert reason in said
        assert "(" in said  # what to do
        shown = service_status(running, "drainer")["actors"]["publisher"]
        assert shown["error"] == said
        assert shown["published_ts"] < bad
        logged = (running.directory / "drainer" / "log").read_text()
        assert logged.count("the feed stops") == 1
        (line,) = [json.loads(one) for one in logged.splitlines() if "the feed stops" in one]
        assert line["commit_ts"] == bad
        assert good[-1] <= line["published_ts"] < bad
        # Whoever looks is told: a probe, and who sits before `up`.
        assert not service_status(running, "drainer")["ready"]
        until(lambda: f"drainer: transaction {bad}" in told(running), "`up` to tell")
        table = running.command("status").stdout
        assert "error" in table
        assert str(bad) in table.replace("\n", "").replace(" ", "").replace("│", "")
        # No crash loop, nothing before it lost, nothing past it published.
        assert restarts(running) == before
        seen = commit_timestamps(read_stream(running.nats, "main", good[-1]))
        assert seen == good  # the table's DDL rides with its first row (ADR 5)
        running.wait(good[-1], 30)
        late = running.command("wait", "--commit-ts", str(after), "--timeout", "1")
        assert late.returncode == 69


def test_an_applier_that_stops_stays_up_says_why_and_goes_on_when_started_again(
    history: str, tmp_path: Path
) -> None:
    database = tmp_path / "down.db"
    with up(tmp_path / "top", f"sqlite:///{database}", *options(history)) as running:
        with pump_of(running) as pump:
            running.wait(pump.transaction(row(1)), 30)
            sql(database, 'ALTER TABLE "app.t1" RENAME TO "hidden"')
            pid = running.pid("applier")
            last = pump.transaction(row(2))
        until(lambda: "error" in detail(running, "applier"), "the Applier to stop")
        assert not service_status(running, "applier")["ready"]
        until(lambda: "applier: " in told(running), "`up` to tell")
        assert "t1" in detail(running, "applier")["error"]
        assert "the applier stops" in (running.directory / "applier" / "log").read_text()
        sql(database, 'ALTER TABLE "hidden" RENAME TO "app.t1"')
        # No crash loop: it stays up, and goes on when somebody starts it again.
        assert running.pid("applier") == pid
        late = running.command("wait", "--commit-ts", str(last), "--timeout", "3")
        assert late.returncode == 69
        assert running.pid("applier") == pid
        running.kill("applier")
        running.wait(last, 60)
        until(lambda: "error" not in detail(running, "applier"), "the reason to go")
        until(lambda: "applier" in addresses(running), "its new address")
        assert service_status(running, "applier")["ready"]
        until(lambda: "applier: goes on" in told(running), "`up` to tell")
    assert sql(database, 'SELECT id FROM "app.t1" ORDER BY id') == [(1,), (2,)]


def sql(database: Path, statement: str) -> list[tuple[Any, ...]]:
    """Run one statement beside the Applier."""
    with closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as connection:
        return list(connection.execute(statement))

"""Bytes that are not what they should be, by the ways that msgspec and the parsers have to say so:
each is a typed error for whoever reads them. Found by tests/fuzz."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec
import pytest

from tidelog import changes, payload, subjects
from tidelog.bulk.jobs import read_job
from tidelog.change_bodies import Joiner, marker_of, number_of, rows_in, rows_of, watermark_of
from tidelog.changes import MarkedTxn, Marker, Watermark
from tidelog.config import ServiceConfig, load
from tidelog.errors import ConfigError, Corrupt, Stopped, UnparsablePayload
from tidelog.feeds import Feeds
from tidelog.kv import Bucket
from tidelog.lease_store import LeaseStore
from tidelog.messages import Heartbeat, Register, decode
from tidelog.orders import ORDER_FILE, read_order
from tidelog.pb_files import savepoint
from tidelog.ports import Message
from tidelog.real.disk import RealDisk
from tidelog.sim import World, run
from tidelog.subjects import unescape
from tidelog.workload import runs
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_registry.console import heard

ROOT = Path(__file__).parents[2]
DEEP = b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"
UNREADABLE = {
    "no JSON": b"{",
    "no UTF-8": b'{"status":{"nodeId":"\xff"}}',
    "too deep": DEEP,
}


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("kind", [Register, Heartbeat])
def test_a_control_message(what: str, kind: type[msgspec.Struct]) -> None:
    with pytest.raises(UnparsablePayload):
        decode(UNREADABLE[what], kind)


@pytest.mark.parametrize("what", ["no JSON", "no UTF-8", "too deep"])
def test_a_message_of_the_change_stream(what: str) -> None:
    for read in (rows_of, marker_of, watermark_of):
        with pytest.raises(UnparsablePayload):
            read(Message("changes.f.row.d.t", UNREADABLE[what], {}))
    assert heard.marker(UNREADABLE[what]) is None
    assert heard.watermark(UNREADABLE[what]) is None


@pytest.mark.parametrize("ts", [-1, 1 << 63, 10**40])
def test_a_position_that_is_no_timestamp(ts: int) -> None:
    txns = f'{{"commit_ts":{ts},"start_ts":1,"rows":0}}'
    marker = f'{{"attempt":"a","messages":0,"prev_commit_ts":0,"txns":[{txns}]}}'
    mark = f'{{"resolved_ts":{ts},"prev_commit_ts":0}}'
    with pytest.raises(UnparsablePayload):
        marker_of(Message("changes.f.txn", marker.encode()))
    with pytest.raises(UnparsablePayload):
        watermark_of(Message("changes.f.watermark", mark.encode()))
    whole = Marker("a", 0, 0, [MarkedTxn(5, 1, 0)])
    assert marker_of(Message("changes.f.txn", msgspec.json.encode(whole))) == whole
    right = Watermark(5, 0)
    assert watermark_of(Message("changes.f.watermark", msgspec.json.encode(right))) == right


@pytest.mark.parametrize("text", ["", "x", "-1", "²", " 1", "1_0", "9" * 5000])
def test_a_header_that_is_no_number(text: str) -> None:
    with pytest.raises(UnparsablePayload):
        number_of(Message("s", b"", {changes.H_LAST_TS: text}), changes.H_LAST_TS)
    with pytest.raises(UnparsablePayload):
        Joiner().whole(Message("s", b"", {changes.H_FRAGMENT: f"0/{text}"}))
    if text:
        with pytest.raises(UnparsablePayload):
            rows_in(Message("s", b"", {changes.H_OPS: f"c={text}"}))
    assert rows_in(Message("s", b"", {changes.H_OPS: "c=3,u=1,d=0"})) == 4
    assert number_of(Message("s", b"", {}), changes.H_LAST_TS) == 0


@pytest.mark.parametrize(
    "subject", ["changes.f.ddl.d", "changes.f.ddl.d.t.x", "changes.f.ddl.=FF.é"]
)
def test_the_console_passes_a_strange_subject_over(subject: str) -> None:
    heard.ddl(subject, b"x", {changes.H_FIRST_TS: "5"})
    assert unescape("=FF…") == "\ufffd?"


@pytest.mark.parametrize("field", ["tp", "start_ts", "commit_ts"])
def test_a_binlog_whose_fields_are_out_of_order_and_none(field: str) -> None:
    """Out of order it is written anew: only what a Binlog can say."""
    numbers = {"tp": 1, "start_ts": 5, "commit_ts": 9}
    binlog = Binlog(prewrite_key=b"k").SerializeToString()
    for at, (name, number) in enumerate(numbers.items(), 1):
        value = b"\xff" * 9 + b"\x01" if name == field else bytes([number])
        binlog = bytes([at << 3]) + value + binlog if at < 3 else binlog + bytes([at << 3]) + value
    with pytest.raises(UnparsablePayload):
        payload.classify(binlog)


@pytest.mark.parametrize("what", ["no JSON", "too deep"])
def test_a_small_file_of_a_node(tmp_path: Path, what: str) -> None:
    data = UNREADABLE[what]
    (tmp_path / ORDER_FILE).write_bytes(data)
    with pytest.raises(Corrupt, match=ORDER_FILE) as stop:
        read_order(RealDisk(tmp_path))
    assert stop.value.hint
    (tmp_path / runs.RECORD_FILE).write_bytes(data)
    with pytest.raises(Corrupt, match=runs.RECORD_FILE) as stop:
        asyncio.run(runs.first_of_all(RealDisk(tmp_path), 5))
    assert "remove it" in stop.value.hint


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_a_record_in_a_bucket(data: bytes) -> None:
    async def main(world: World) -> None:
        bus = world.ports("n").bus
        feeds, leases = Bucket(bus, subjects.feeds_bucket("c")), Bucket(bus, "leases")
        await feeds.create()
        await feeds.put("feed.f", data)
        with pytest.raises(Corrupt, match="a feed's record"):
            await Feeds(bus, "c").get("f")
        await leases.create()
        await leases.put("leader", data)
        with pytest.raises(Corrupt, match="the lease leader"):
            await LeaseStore(world.ports("n"), "leases", "leader").read()

    run(main, 1)


def test_a_file_of_brackets(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text("a = " + "[" * 3000)
    with pytest.raises(ConfigError):
        read_job(path)
    with pytest.raises(ConfigError):
        load(ServiceConfig, "pump", ["--config", str(path)], {})
    with pytest.raises(Stopped):
        savepoint.load(path.read_bytes())


def test_nobody_catches_a_part_of_what_msgspec_raises() -> None:
    """DecodeError alone lets bad UTF-8 and deep nesting through: `tidelog.unreadable` has all."""
    part = re.compile(r"except[^:]*msgspec\.DecodeError")
    found = [
        str(path.relative_to(ROOT))
        for room in ("shared", "services", "cli")
        for path in sorted((ROOT / room).rglob("*.py"))
        if part.search(path.read_text())
    ]
    assert found == []

"""`tidelog inspect` on an Applier's relay."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner

from tests.unit.relay.relay_rig import STRUCTURES, piece, rows, whole
from tidelog import record
from tidelog.real.disk import RealDisk
from tidelog.relay import RelayLog
from tidelog_cli.app import app
from tidelog_cli.inspect_relay import inspect, relay_files
from tidelog_proto.relay_pb2 import RelayRecord


def made(root: Path) -> Path:
    """Two files; the last one has a piece of a batch that is not whole."""

    async def main() -> None:
        log = RelayLog(RealDisk(root), "relay", feed="shop", cluster_id=7, max_file_bytes=1000)
        await log.open(4)
        await log.append([whole(5, 4, rows(5), rows(5, 20, 1))], STRUCTURES)
        await log.append([piece(0, rows(6, 400)), whole(6, 5, pieces=1)], STRUCTURES)
        await log.append([whole(7, 6, rows(7))], STRUCTURES)
        await log.append([piece(0, rows(9, 400))], STRUCTURES)
        log.close()

    asyncio.run(main())
    return root / "relay"


def test_each_record_is_a_line(tmp_path: Path) -> None:
    relay = made(tmp_path)
    for place in (relay, tmp_path):
        assert [path.name for path in relay_files(place)] == ["relay-000000", "relay-000001"]
    first, second = inspect(relay_files(relay)).files
    assert (first.feed, first.cluster_id, first.prev_commit_ts) == ("shop", 7, 4)
    assert (first.first_ts, first.last_ts, second.first_ts, second.last_ts) == (5, 6, 7, 7)
    assert [line.kind for line in first.records] == ["header", "batch", "piece", "batch"]
    assert [line.kind for line in second.records] == ["header", "batch", "piece"]
    batch, large = first.records[1], first.records[3]
    assert (batch.after, batch.commit_ts, batch.txns, batch.rows) == (4, 5, [5], 2)
    assert (batch.messages, batch.tables) == (2, ["d.t1@1", "d.t2@1"])
    assert (large.messages, large.pieces, large.tables) == (0, 1, [])
    assert sum(line.bytes for line in first.records) == first.bytes
    assert [line.commit_ts for line in inspect(relay_files(relay), 6).files[0].records] == [6]


def test_as_a_command(tmp_path: Path) -> None:
    relay = made(tmp_path)
    shown = CliRunner().invoke(app, ["inspect", str(relay)])
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert "feed shop of cluster 7" in lines[0]
    assert "batch at 5 after 4: 1 transactions, 2 rows in 2 messages" in lines[2]
    told = json.loads(CliRunner().invoke(app, ["inspect", "--json", str(relay)]).output)
    assert [len(file["records"]) for file in told["files"]] == [4, 3]


def test_damage_is_told_and_a_torn_end_is_none(tmp_path: Path) -> None:
    relay = made(tmp_path)
    newest = relay / "relay-000001"
    newest.write_bytes(newest.read_bytes()[:-9])
    (_, report) = inspect(relay_files(relay)).files
    assert report.torn > 0
    assert not report.bad
    oldest = relay / "relay-000000"
    data = bytearray(oldest.read_bytes())
    data[-9] ^= 1
    oldest.write_bytes(data)
    (report, _) = inspect(relay_files(relay)).files
    assert report.bad == "its checksum does not match"
    assert report.bad_offset == sum(line.bytes for line in report.records)
    assert CliRunner().invoke(app, ["inspect", str(relay)]).exit_code == 70


def test_a_batch_that_is_not_what_it_says_is_where_reading_ends(tmp_path: Path) -> None:
    """Its checksum is right: somebody wrote it so."""
    relay = made(tmp_path)
    first = relay / "relay-000000"
    data = first.read_bytes()
    _, batch, *_ = inspect(relay_files(relay)).files[0].records
    body = data[batch.offset + record.HEADER_BYTES : batch.offset + batch.bytes]
    one = RelayRecord.FromString(body)
    one.batch.marker = b"[1]"
    other = RelayRecord.FromString(body)
    other.batch.tables[0].structure = b'{"name":7}'
    for wrong, said in ((one, "its marker can't be read"), (other, "a table's structure can't be")):
        framed = record.frame(wrong.SerializeToString())
        first.write_bytes(data[: batch.offset] + framed + data[batch.offset + batch.bytes :])
        (report, _) = inspect(relay_files(relay)).files
        assert said in report.bad
        assert [line.kind for line in report.records] == ["header"]
        assert report.bad_offset == batch.offset

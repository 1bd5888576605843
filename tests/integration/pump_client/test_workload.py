"""The workload against real Pumps; what they give back by PullBinlogs is the source."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import grpc.aio
import msgspec

from tests.conditions import until
from tests.integration.pump_client.cluster import Cluster, cluster, summary
from tests.unit.workload.replay import Replay, told_by
from tidelog.ddl_history import EmbeddedHistory
from tidelog.messages import Empty, Nodes, decode_reply, encode
from tidelog.real.bus import NatsBus
from tidelog.subjects import pump as pump_subject
from tidelog.subjects import registry
from tidelog.workload import Committed, compare
from tidelog.workload.source import Contents
from tidelog_proto.binlog_pb2 import Binlog, Commit
from tidelog_proto.pump_pb2 import Pos, PullBinlogReq, PullBinlogResp
from tidelog_proto.transport_pb2 import PullFrame, PullRequest

PULL_S = 20.0
LARGE = 3 << 20
"""A text above the bus limit of 1 MiB."""


def read_ledger(path: Path) -> list[Committed]:
    return [msgspec.json.decode(line, type=Committed) for line in path.read_bytes().splitlines()]


async def pulled(made: Cluster, upto: int) -> tuple[dict[int, Binlog], list[bytes]]:
    """All transactions up to a commit_ts, from both Pumps, and the DDL jobs."""
    bus = await NatsBus.connect(made.nats.url, timeout_s=10)
    try:
        answer = await bus.request(registry("default", "nodes"), encode(Empty()), timeout_s=5)
        nodes = decode_reply(answer.data, Nodes).nodes
        hosts = [node.host for node in nodes]
        for node in nodes:
            await nudge(bus, node.nodeId, upto)
        jobs = [
            msgspec.json.encode(job)
            async for page in EmbeddedHistory(bus, "default").jobs(0)
            for job in page
        ]
    finally:
        await bus.close()
    found: dict[int, Binlog] = {}
    async with asyncio.timeout(PULL_S):
        for host in hosts:
            await pull_one(host, upto, found)
    return found, jobs


async def nudge(bus: NatsBus, node: str, upto: int) -> None:
    """Wait until the Pump's watermark has passed a commit_ts, as a Drainer does."""
    wanted = PullRequest(after_ts=upto, want_ts=upto + 1, wait_ms=500).SerializeToString()
    resolved = 0
    async with asyncio.timeout(PULL_S):
        while resolved <= upto:
            answer = await bus.request(pump_subject("default", node, "pull"), wanted, timeout_s=5)
            resolved = PullFrame.FromString(answer.data).resolved_ts


async def pull_one(host: str, upto: int, found: dict[int, Binlog]) -> None:
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(host, options=options) as channel:
        request = PullBinlogReq(clusterID=0, startFrom=Pos(offset=0)).SerializeToString()
        call = channel.unary_stream("/binlog.Pump/PullBinlogs", None, None)(request)
        last = 0
        async for data in call:
            binlog = Binlog.FromString(PullBinlogResp.FromString(data).entity.payload)
            assert binlog.commit_ts > last
            last = binlog.commit_ts
            if binlog.start_ts != binlog.commit_ts:  # not a fake
                twin = found.setdefault(binlog.commit_ts, binlog)
                assert twin.start_ts == binlog.start_ts
            if last >= upto:
                return


def replayed(found: dict[int, Binlog], jobs: list[bytes]) -> Replay:
    replay = Replay(jobs)
    for commit_ts, binlog in sorted(found.items()):
        assert binlog.tp == Commit
        replay.apply(commit_ts, binlog)
    return replay


def check(made: Cluster, directory: Path) -> None:
    """Dump, ledger and Pumps agree."""
    contents = msgspec.json.decode((directory / "dump.json").read_bytes(), type=Contents)
    found, jobs = asyncio.run(pulled(made, contents.commit_ts))
    replay = replayed(found, jobs)
    assert asyncio.run(compare(contents, replay.fetch)).differences == []
    assert replay.told == told_by(read_ledger(directory / "ledger"))


def test_what_pumps_give_back_is_the_source_large_rows_too(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        flags = ["--transactions", "500", "--seconds", "60", "--rate", "150"]
        flags += ["--seed", "5", "--ddl-share", "0.04"]
        large = ["--large-row-bytes", str(LARGE), "--large-share", "0.05"]
        told = summary(made.workload(tmp_path, *flags, *large), 90)
        assert told["committed"] > 200
        assert told["died"] > 5
        assert told["unasked"] == told["unacked"] == told["failed"] == 0
        check(made, tmp_path)


def test_a_pump_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        load = made.workload(tmp_path, "--seconds", "0", "--rate", "150", "--seed", "6")
        asyncio.run(_kill_twice(made, tmp_path / "ledger"))
        load.send_signal(signal.SIGTERM)
        told = summary(load, 90)
        assert told["committed"] > 300
        assert told["unasked"] == told["unacked"] == 0
        check(made, tmp_path)


async def _kill_twice(made: Cluster, ledger: Path) -> None:
    """Each time in the middle of the load, which goes on behind it: it writes its ledger each
    second."""

    def committed() -> int:
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0

    async def more(count: int) -> None:
        wanted = committed() + count
        await until(lambda: committed() >= wanted, 60)

    for pump in made.pumps:
        await more(100)
        pump.kill()
        pump.start()
        await asyncio.to_thread(pump.wait)
    await more(150)

"""What two Pumps hold arrives in the stream: each transaction once, in commit order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tests.fixtures import capture
from tests.integration.drainer.fakes import FEED
from tests.integration.drainer.rig import Rig, commit_times, run, until
from tests.servers import nats_server
from tidelog import messages, subjects
from tidelog.messages import Consumer, PumpOnline
from tidelog.schema.model import DdlJob
from tidelog_drainer.merge.merger import Txn


class Recorded:
    """The DDL history of the recording."""

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        yield [job for job in capture.ddl_history("set-a") if job.id > after_job_id]


def recorded() -> list[Txn]:
    """Every transaction of set-a, fakes left out as a Pump leaves them out."""
    return [
        (binlog.commit_ts, binlog.start_ts, binlog.SerializeToString())
        for binlog in capture.pulled("set-a")
        if binlog.commit_ts != binlog.start_ts
    ]


def golden() -> list[int]:
    return sorted(txn.commit_ts for txn in capture.published())


async def split(rig: Rig, txns: list[Txn]) -> None:
    """Two Pumps, one transaction here, one there, a few on both."""
    first, second = await rig.registry.pump("pump-1"), await rig.registry.pump("pump-2")
    last = txns[-1][0]
    first.commit([t for i, t in enumerate(txns) if i % 2 == 0 or i % 7 == 0], last)
    second.commit([t for i, t in enumerate(txns) if i % 2 == 1 or i % 7 == 0], last)


def test_every_golden_transaction_arrives_once(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        await split(rig, recorded())
        async with rig.drainer() as status:
            found = await rig.read(len(golden()))
            assert commit_times(found) == golden()
            publisher = status()["publisher"]
            assert publisher["dropped"] == {  # type: ignore[index]
                "drop_column_first": 3,
                "nothing_left": 1,
                "placement": 3,
                "rolled_back": 2,
                "setval": 6,
                "system": 40,
                "truncated": 1,
            }
            assert status()["collector"]["duplicates"] > 100  # type: ignore[index]

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)


def test_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        txns = recorded()
        pump = await rig.registry.pump("pump-1")
        half = len(txns) // 2
        pump.commit(txns[:half], txns[half - 1][0])
        first = [ts for ts in golden() if ts <= txns[half - 1][0]]
        async with rig.drainer():
            assert commit_times(await rig.read(len(first))) == first
        pump.commit(txns[half:], txns[-1][0])
        async with rig.drainer() as status:
            assert commit_times(await rig.read(len(golden()))) == golden()
            assert status()["publisher"]["epoch"].split(":")[0] == "2"  # type: ignore[index]

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)


def test_stream_deleted_in_mid_run_is_filled_again(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        txns = recorded()
        pump = await rig.registry.pump("pump-1")
        half = len(txns) // 2
        pump.commit(txns[:half], txns[half - 1][0])
        async with rig.drainer():
            await rig.read(half - 60)
            rig.registry.consumers = [Consumer("a1", FEED, golden()[10])]
            await rig.bus.stream_delete(subjects.changes_stream(FEED))
            pump.commit(txns[half:], txns[-1][0])
            wanted = golden()[11:]
            assert commit_times(await rig.read(len(wanted), golden()[10])) == wanted

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)


def test_a_stream_nobody_can_place_stops_typed(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        pump = await rig.registry.pump("pump-1")
        pump.after_ts[FEED] = 77
        async with rig.drainer() as status:
            await until(lambda: bool(status()["publisher"]["error"]), "a typed stop")  # type: ignore[index]
            assert "--start-ts" in status()["publisher"]["error"]  # type: ignore[index]
        txns = recorded()
        pump.commit(txns, txns[-1][0])
        async with rig.drainer(start_ts=golden()[4]):
            found = await rig.read(len(golden()) - 5, golden()[4])
            assert commit_times(found) == golden()[5:]

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)


def test_a_joining_pump_is_a_source_before_it_is_acked(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        txns = recorded()
        cut = 1000
        pump = await rig.registry.pump("pump-1")
        pump.commit(txns[:cut], txns[cut - 1][0])
        before = [ts for ts in golden() if ts <= txns[cut - 1][0]]
        async with rig.drainer() as status:
            await rig.read(len(before))
            joining = "pump.2"
            await rig.registry.record(joining, "joining")
            await rig.bus.request(
                subjects.drainer("rig", "d1", "pump-online"),
                messages.encode(PumpOnline(joining)),
                timeout_s=5,
            )
            assert joining in status()["collector"]["sources"]  # type: ignore[index]
            pump.commit(txns[cut::2], txns[-1][0])
            late = await rig.registry.pump(joining)
            late.commit(txns[cut + 1 :: 2], txns[-1][0])
            assert commit_times(await rig.read(len(golden()))) == golden()

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)


def test_server_killed_in_mid_run(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:

        async def body(rig: Rig) -> None:
            txns = recorded()
            pump = await rig.registry.pump("pump-1")
            async with rig.drainer(batch_messages=10):
                for at in range(0, len(txns), 300):
                    pump.commit(txns[at : at + 300], txns[min(at + 299, len(txns) - 1)][0])
                    if at in (600, 1200):
                        await rig.read(at // 2)
                        server.kill()
                        server.start()
                assert commit_times(await rig.read(len(golden()))) == golden()

        run(server.url, tmp_path / "drainer", Recorded(), body)


def test_of_two_drainers_one_stands_by_and_goes_on_where_the_other_stopped(tmp_path: Path) -> None:
    async def body(rig: Rig) -> None:
        txns = recorded()
        pump = await rig.registry.pump("pump-1")
        half = len(txns) // 2
        async with rig.drainer(node_id="d2") as second, rig.drainer(node_id="d1") as first:

            def leads() -> list[bool]:
                return [bool(status()["lease"]["leads"]) for status in (first, second)]  # type: ignore[index]

            for at in range(0, half, 100):
                pump.commit(txns[at : min(at + 100, half)], txns[min(at + 99, half - 1)][0])
                await asyncio.sleep(0.005)
            before = [ts for ts in golden() if ts <= txns[half - 1][0]]
            assert commit_times(await rig.read(len(before))) == before
            assert leads() == [False, True]
            assert first()["lease"]["standby"].startswith("d2 at ")  # type: ignore[index]
        async with rig.drainer(node_id="d1"):
            pump.commit(txns[half:], txns[-1][0])
            assert commit_times(await rig.read(len(golden()))) == golden()

    with nats_server(tmp_path) as server:
        run(server.url, tmp_path / "drainer", Recorded(), body)
